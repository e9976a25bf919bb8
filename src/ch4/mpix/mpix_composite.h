/* Types, constants and small functions of the MPIX_ calls; part of mpi.h. See man 3 MPIX_Bitmap. */
#ifndef MPIX_COMPOSITE_H_INCLUDED
#define MPIX_COMPOSITE_H_INCLUDED

#include <stdint.h>

/* A set of ranks: 64 a word, rank 0 is the lowest bit of the first. */
typedef uint64_t MPIX_Bitmap;
#define MPIX_BITMAP_WORDS(nranks) (((nranks) + 63) / 64)

/* For MPIX_Imcast: the request is complete when every member has the data. */
#define MPIX_MCAST_DELIVERED 1

/* Notifications and counters of a window are numbered from 0. */
#define MPIX_MAX_NOTIFICATIONS 1024
#define MPIX_MAX_COUNTERS 256

/* Active messages: see man 3 MPIX_Am_register. */
#define MPIX_AM_MAX_HEADER 256  /* bytes of a message's header */
#define MPIX_AM_MAX_NAME 64     /* of a handler, with the zero at its end */

/* What a handler sees. All of it is gone when the handler returns. */
typedef struct MPIX_Am_message {
    MPI_Comm comm;
    int source;                 /* its rank in comm */
    int handler;                /* the number of the handler */
    int header_size;
    const void *header;         /* aligned to 8 bytes */
    MPI_Count size;             /* of the payload */
    void *data;                 /* the payload, where `place` said or aligned to 8 bytes; NULL when size is 0, and in `place` itself */
} MPIX_Am_message;

typedef void (MPIX_Am_function) (const MPIX_Am_message * message, void *state);
/* Where the payload shall be put; NULL: it is dropped, and the other function is not called. */
typedef void *(MPIX_Am_place_function) (const MPIX_Am_message * message, void *state);

/* Every window has notifications; elsewhere those that have them are made by these. */
#define MPIX_Win_create_notify MPI_Win_create
#define MPIX_Win_allocate_notify MPI_Win_allocate

static inline void MPIX_Bitmap_set(MPIX_Bitmap * members, int rank)
{
    members[rank / 64] |= (MPIX_Bitmap) 1 << rank % 64;
}

static inline void MPIX_Bitmap_clear(MPIX_Bitmap * members, int rank)
{
    members[rank / 64] &= ~((MPIX_Bitmap) 1 << rank % 64);
}

static inline int MPIX_Bitmap_test(const MPIX_Bitmap * members, int rank)
{
    return (int) (members[rank / 64] >> rank % 64 & 1);
}

static inline void MPIX_Bitmap_zero(MPIX_Bitmap * members, int nranks)
{
    int word;

    for (word = 0; word < MPIX_BITMAP_WORDS(nranks); word++)
        members[word] = 0;
}

static inline int MPIX_Bitmap_count(const MPIX_Bitmap * members, int nranks)
{
    int count = 0, word;
    MPIX_Bitmap rest;

    for (word = 0; word < MPIX_BITMAP_WORDS(nranks); word++)
        for (rest = members[word]; rest != 0; rest &= rest - 1)
            count++;
    return count;
}

/* The lowest member above `after`, or -1: for (r = MPIX_Bitmap_next(m, n, -1); r >= 0; r = MPIX_Bitmap_next(m, n, r)) */
static inline int MPIX_Bitmap_next(const MPIX_Bitmap * members, int nranks, int after)
{
    int rank = after + 1;

    while (rank < nranks) {
        MPIX_Bitmap rest = members[rank / 64] >> rank % 64;
        if (rest == 0) {
            rank = (rank / 64 + 1) * 64;
            continue;
        }
        while (!(rest & 1)) {
            rest >>= 1;
            rank++;
        }
        return rank < nranks ? rank : -1;
    }
    return -1;
}

#endif
