/* Layouts that are regular: blocks of one size at one distance, rows of them at another, and so on, as vectors, parts of arrays and the columns
 * of a matrix are. They are packed and unpacked from any byte on, where MPICH's engine goes through all that is before it. Plain functions
 * without MPICH, which a unit test compares with a model; composite_vectors.h finds the layout of a datatype. */
#ifndef COMPOSITE_REGULAR_H_INCLUDED
#define COMPOSITE_REGULAR_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MPIDI_COMPOSITE_MOST_LEVELS 4

typedef struct {
    ptrdiff_t begin;            /* of the first block, from where the buffer is */
    size_t block;               /* bytes */
    int levels;                 /* at least one */
    struct {
        size_t count;
        ptrdiff_t stride;       /* from one to the next */
    } level[MPIDI_COMPOSITE_MOST_LEVELS];       /* outermost first, of which there are as many as one likes: its count is SIZE_MAX */
} MPIDI_COMPOSITE_regular_t;

/* Adds a level inside the others. False: there are too many, or it has nothing. */
static inline bool MPIDI_COMPOSITE_add_level(MPIDI_COMPOSITE_regular_t * regular, ptrdiff_t count, ptrdiff_t stride)
{
    if (count == 1)
        return true;
    if (count <= 0 || regular->levels >= MPIDI_COMPOSITE_MOST_LEVELS)
        return false;
    regular->level[regular->levels].count = (size_t) count;
    regular->level[regular->levels].stride = stride;
    regular->levels++;
    return true;
}

/* After the last level: what it consists of. Blocks that touch are one. */
static inline void MPIDI_COMPOSITE_set_block(MPIDI_COMPOSITE_regular_t * regular, size_t block)
{
    while (regular->levels > 1 && regular->level[regular->levels - 1].stride == (ptrdiff_t) block)
        block *= regular->level[--regular->levels].count;
    regular->block = block;
}

/* Blocks of a size that the compiler knows need no call. */
static inline __attribute__((always_inline)) void MPIDI_COMPOSITE_copy_known(char *to, ptrdiff_t to_stride, const char *from,
                                                                             ptrdiff_t from_stride, size_t block, size_t count)
{
    for (; count > 0; count--, to += to_stride, from += from_stride)
        memcpy(to, from, block);
}

/* Nor do those of up to twice a size that it knows: the two halves may have some bytes in common. */
static inline __attribute__((always_inline)) void MPIDI_COMPOSITE_copy_halves(char *to, ptrdiff_t to_stride, const char *from,
                                                                              ptrdiff_t from_stride, size_t block, size_t count, size_t half)
{
    for (; count > 0; count--, to += to_stride, from += from_stride) {
        memcpy(to, from, half);
        memcpy(to + block - half, from + block - half, half);
    }
}

static inline void MPIDI_COMPOSITE_copy_blocks(char *to, ptrdiff_t to_stride, const char *from, ptrdiff_t from_stride, size_t block, size_t count)
{
#define KNOWN(size) \
    else if (block == (size)) MPIDI_COMPOSITE_copy_known(to, to_stride, from, from_stride, size, count)
#define HALVES(size) \
    else if (block > (size) && block < 2 * (size)) MPIDI_COMPOSITE_copy_halves(to, to_stride, from, from_stride, block, count, size)

    if (block > 128)
        MPIDI_COMPOSITE_copy_known(to, to_stride, from, from_stride, block, count);
    KNOWN(1);
    KNOWN(2);
    KNOWN(4);
    KNOWN(8);
    KNOWN(16);
    KNOWN(32);
    KNOWN(64);
    KNOWN(128);
    HALVES(2);
    HALVES(4);
    HALVES(8);
    HALVES(16);
    HALVES(32);
    HALVES(64);
#undef KNOWN
#undef HALVES
}

/* `size` bytes of the packed form from `offset` on, which are at `packed`: from there to their places, or from those. */
static inline void MPIDI_COMPOSITE_copy_regular(const MPIDI_COMPOSITE_regular_t * regular, char *buffer, size_t offset, char *packed, size_t size,
                                                bool pack)
{
    const size_t block = regular->block;
    const int inner = regular->levels - 1;
    size_t within = offset % block, number = offset / block, at[MPIDI_COMPOSITE_MOST_LEVELS];
    char *place = buffer + regular->begin;

    for (int i = inner; i >= 0; i--) {
        at[i] = number % regular->level[i].count;
        number /= regular->level[i].count;
        place += (ptrdiff_t) at[i] * regular->level[i].stride;
    }
    while (size > 0) {
        size_t blocks = 1, bytes = block - within;

        if (bytes > size)
            bytes = size;
        if (bytes < block) {
            memcpy(pack ? packed : place + within, pack ? place + within : packed, bytes);
            within = 0;
        } else {
            blocks = size / block;
            if (blocks > regular->level[inner].count - at[inner])
                blocks = regular->level[inner].count - at[inner];
            bytes = blocks * block;
            if (pack)
                MPIDI_COMPOSITE_copy_blocks(packed, (ptrdiff_t) block, place, regular->level[inner].stride, block, blocks);
            else
                MPIDI_COMPOSITE_copy_blocks(place, regular->level[inner].stride, packed, (ptrdiff_t) block, block, blocks);
        }
        packed += bytes;
        size -= bytes;
        at[inner] += blocks;
        place += (ptrdiff_t) blocks * regular->level[inner].stride;
        for (int i = inner; i > 0 && at[i] == regular->level[i].count; i--) {
            place += regular->level[i - 1].stride - (ptrdiff_t) at[i] * regular->level[i].stride;
            at[i] = 0;
            at[i - 1]++;
        }
    }
}

#endif
