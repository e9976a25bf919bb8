/* What messages of our own say, and whether they can say that: plain functions without MPICH, which test/fuzz plays with. A message
 * that is refused is dropped by whoever asked. */
#ifndef COMPOSITE_DECODE_H_INCLUDED
#define COMPOSITE_DECODE_H_INCLUDED

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages to be matched (composite_matching.c, composite_upcalls.c) ---- */

/* The header of a message that leaves at once. Its size is that of the payload; what else the generic header could say is not so. With the
 * word of a cell in shared memory it leaves 40 bytes for the payload in one cache line. */
typedef struct {
    int32_t source;
    int32_t tag;
    uint32_t context;
    uint32_t unused;            /* 0 */
} MPIDI_COMPOSITE_short_header_t;

/* `limit`: of its bytes; ids of communicators have so many bits. */
static inline bool MPIDI_COMPOSITE_may_be_short(const MPIDI_COMPOSITE_short_header_t * header, size_t size, size_t limit, int bits)
{
    return size <= limit && header->unused == 0 && header->context >> bits == 0;
}

/* What follows the generic header in the announcement of a long one: where the bytes are, and the number that the receiver says when it has
 * them. At the receiver the address may be that of an offer of its core; no address of a program has this bit. */
typedef struct {
    uint64_t address;
    uint64_t number;
} MPIDI_COMPOSITE_announced_t;
#define MPIDI_COMPOSITE_IS_OFFER ((uint64_t) 1 << 63)

static inline bool MPIDI_COMPOSITE_may_be_announced(const void *behind, size_t size)
{
    MPIDI_COMPOSITE_announced_t announced;

    if (size != sizeof announced)
        return false;
    memcpy(&announced, behind, sizeof announced);
    return !(announced.address & MPIDI_COMPOSITE_IS_OFFER);
}

/* Of a message of the generic layer, without its types: `whole` comes with it, no more than `limit` bytes; or it is announced, by the
 * generic layer or by us, and `behind` has so many bytes. */
typedef struct {
    bool is_announced, is_generic, is_pulled;
    int64_t data_size, behind_size;     /* as the header has them */
} MPIDI_COMPOSITE_generic_t;

static inline bool MPIDI_COMPOSITE_may_be_generic(const MPIDI_COMPOSITE_generic_t * header, size_t whole, size_t limit, const void *behind, size_t size)
{
    if (!header->is_announced)
        return header->data_size >= 0 && (uint64_t) header->data_size == whole && whole <= limit;
    if (whole != 0 || header->data_size < 0 || header->behind_size < 0 || (uint64_t) header->behind_size != size)
        return false;
    return header->is_pulled ? MPIDI_COMPOSITE_may_be_announced(behind, size) : header->is_generic && size == 0;
}

/* What the sender of an announced message is told when it may copy a part of it. */
typedef struct {
    uint64_t number;            /* of the announcement */
    uint64_t place, size;       /* at the receiver */
    uint32_t joint, unused;     /* the number of the copy that both make; 0 */
} MPIDI_COMPOSITE_help_t;

/* Of a message of `most` bytes. */
static inline bool MPIDI_COMPOSITE_may_be_helped(const MPIDI_COMPOSITE_help_t * help, size_t most)
{
    return help->joint != 0 && help->unused == 0 && help->size <= most;
}

/* ---- partitions (composite_partitioned.c) ---- */

/* MPI_Psend_init was called. */
typedef struct {
    uint64_t number;            /* of the request, at its sender */
    uint64_t size;              /* of all partitions */
    int32_t source, tag;
    uint32_t context, unused;   /* ids of communicators have so many bits; 0 */
} MPIDI_COMPOSITE_part_init_t;

static inline bool MPIDI_COMPOSITE_may_be_part_init(const MPIDI_COMPOSITE_part_init_t * init, int bits)
{
    return init->number != 0 && init->size <= INT64_MAX && init->source >= 0 && init->tag >= 0 && init->context >> bits == 0 && init->unused == 0;
}

/* A request that was matched with it has been started, for one round. */
typedef struct {
    uint64_t number, from;      /* of the sender's request; of the receiver's */
} MPIDI_COMPOSITE_part_open_t;

/* Its size is another one, instead. */
typedef struct {
    uint64_t number, size;      /* of the sender's request; of all partitions of the receiver's */
} MPIDI_COMPOSITE_part_refused_t;

/* Before the bytes of some partitions: where they begin in all. */
typedef struct {
    uint64_t number, offset;    /* of the receiver's request */
} MPIDI_COMPOSITE_part_data_t;

/* Instead of them: where they are. And what the receiver says when it has pulled them, or could not. */
typedef struct {
    uint64_t number, offset, size, address;
} MPIDI_COMPOSITE_part_pull_t;

typedef struct {
    uint64_t number, offset, size;      /* of the sender's request */
    uint32_t pulled, unused;    /* 0 or 1; 0 */
} MPIDI_COMPOSITE_part_pulled_t;

/* Of `total` bytes. */
static inline bool MPIDI_COMPOSITE_may_be_part(uint64_t offset, uint64_t size, uint64_t total)
{
    return offset <= total && size <= total - offset;
}

/* ---- greetings (composite_spawn.c) ---- */

typedef struct {
    int tag;
    int size;                   /* of what follows */
    uint64_t number;            /* another one for each MPI_Comm_connect, which repeats it until it is answered; 0: an answer */
} MPIDI_COMPOSITE_greeting_t;

static inline bool MPIDI_COMPOSITE_read_greeting(const void *message, size_t size, MPIDI_COMPOSITE_greeting_t * greeting)
{
    if (size < sizeof *greeting)
        return false;
    memcpy(greeting, message, sizeof *greeting);
    return greeting->size >= 0 && (size_t) greeting->size == size - sizeof *greeting;
}

/* Greetings that arrived and were not asked for yet, oldest first. Strangers send them, so there are not more than a limit. */
#define MPIDI_COMPOSITE_MOST_GREETINGS 4096

typedef struct MPIDI_COMPOSITE_waiting {
    struct MPIDI_COMPOSITE_waiting *next;
    MPIDI_COMPOSITE_greeting_t header;
    /* and its bytes */
} MPIDI_COMPOSITE_waiting_t;

typedef struct {
    MPIDI_COMPOSITE_waiting_t *first;
    uint64_t taken[MPIDI_COMPOSITE_MOST_GREETINGS];     /* the last ones: they may be repeated once more */
    unsigned takes;
} MPIDI_COMPOSITE_greetings_t;

/* False: there is no room, and it will come again. One that is there, or was, is not added again. */
static inline bool MPIDI_COMPOSITE_add_greeting(MPIDI_COMPOSITE_greetings_t * greetings, const MPIDI_COMPOSITE_greeting_t * header,
                                                const void *bytes)
{
    MPIDI_COMPOSITE_waiting_t **last = &greetings->first, *added;
    int count = 0;

    for (int i = 0; header->number != 0 && i < MPIDI_COMPOSITE_MOST_GREETINGS; i++)
        if (greetings->taken[i] == header->number)
            return true;
    for (; *last; last = &(*last)->next, count++)
        if (header->number != 0 && (*last)->header.number == header->number)
            return true;
    if (count >= MPIDI_COMPOSITE_MOST_GREETINGS)
        return false;
    added = (MPIDI_COMPOSITE_waiting_t *) malloc(sizeof *added + (size_t) header->size);
    if (added == NULL)
        return false;
    added->next = NULL;
    added->header = *header;
    memcpy(added + 1, bytes, (size_t) header->size);
    *last = added;
    return true;
}

/* The first one with this tag, as much of it as there is room for. */
static inline bool MPIDI_COMPOSITE_take_greeting(MPIDI_COMPOSITE_greetings_t * greetings, int tag, void *bytes, int room)
{
    for (MPIDI_COMPOSITE_waiting_t ** place = &greetings->first; *place; place = &(*place)->next) {
        MPIDI_COMPOSITE_waiting_t *found = *place;
        if (found->header.tag != tag)
            continue;
        memcpy(bytes, found + 1, (size_t) (room < found->header.size ? room : found->header.size));
        greetings->taken[greetings->takes++ % MPIDI_COMPOSITE_MOST_GREETINGS] = found->header.number;
        *place = found->next;
        free(found);
        return true;
    }
    return false;
}

static inline void MPIDI_COMPOSITE_forget_greetings(MPIDI_COMPOSITE_greetings_t * greetings)
{
    while (greetings->first) {
        MPIDI_COMPOSITE_waiting_t *first = greetings->first;
        greetings->first = first->next;
        free(first);
    }
}

/* ---- what ranks have to say at the end, in pieces that come in order (composite_report.c) ---- */

typedef struct {
    int rank;
    int whole;                  /* bytes that this rank will have sent */
    int size;                   /* of this piece, which follows */
} MPIDI_COMPOSITE_piece_t;

typedef struct {
    char *bytes;
    int received;
    int whole;
} MPIDI_COMPOSITE_description_t;

static inline bool MPIDI_COMPOSITE_read_piece(const void *message, size_t size, int ranks, MPIDI_COMPOSITE_piece_t * piece)
{
    if (size < sizeof *piece)
        return false;
    memcpy(piece, message, sizeof *piece);
    return piece->rank >= 0 && piece->rank < ranks && piece->whole > 0 && piece->size > 0 && piece->size <= piece->whole &&
        (size_t) piece->size == size - sizeof *piece;
}

/* False also when there is no memory: then the description stays as it is. */
static inline bool MPIDI_COMPOSITE_add_piece(MPIDI_COMPOSITE_description_t * description, const MPIDI_COMPOSITE_piece_t * piece,
                                             const void *bytes)
{
    if (description->bytes == NULL) {
        description->bytes = (char *) malloc((size_t) piece->whole);
        if (description->bytes == NULL)
            return false;
        description->whole = piece->whole;
    }
    if (piece->whole != description->whole || piece->size > description->whole - description->received)
        return false;
    memcpy(description->bytes + description->received, bytes, (size_t) piece->size);
    description->received += piece->size;
    return true;
}

#endif
