/* What messages of our own say, and whether they can say that: plain functions without MPICH, which test/fuzz plays with. A message
 * that is refused is dropped by whoever asked. */
#ifndef COMPOSITE_DECODE_H_INCLUDED
#define COMPOSITE_DECODE_H_INCLUDED

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- greetings (composite_spawn.c) ---- */

typedef struct {
    int tag;
    int size;                   /* of what follows */
} MPIDI_COMPOSITE_greeting_t;

static inline bool MPIDI_COMPOSITE_read_greeting(const void *message, size_t size, MPIDI_COMPOSITE_greeting_t * greeting)
{
    if (size < sizeof *greeting)
        return false;
    memcpy(greeting, message, sizeof *greeting);
    return greeting->size >= 0 && (size_t) greeting->size == size - sizeof *greeting;
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
