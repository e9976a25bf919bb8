/* What MPICH's own structures hold for us. */
#ifndef COMPOSITE_PRE_H_INCLUDED
#define COMPOSITE_PRE_H_INCLUDED

#include "base/match_entry.h"
#include "netmod/core/core.h"
#include "composite_mended.h"
#include "composite_wait.h"

/* Our core, and our own handlers: the same numbers in every process. */
typedef struct {
    pm_core *core;              /* of the process, from MPI_Init to MPI_Finalize; NULL when no device could be opened */
    int handler_short;          /* a message to be matched, with a header of ours */
    int handler_pulled;         /* the receiver has read a message from our memory */
    int handler_help;           /* it copies one, and we may copy parts of it, too */
    int handler_dynamic;        /* greetings between processes that meet at run time */
    int handler_report;         /* what a rank has to say at the end */
} MPIDI_COMPOSITE_global_t;
extern MPIDI_COMPOSITE_global_t MPIDI_COMPOSITE_global;

/* A send that is waiting in the core: where its payload is. Or a receive. */
typedef struct {
    const void *buffer;
    MPI_Aint count;
    MPI_Datatype datatype;
    int handler_id;
    /* Of a receive that is posted, or a message that nobody has asked for (composite_matching.c). */
    pm_match_entry entry;
    void *place;                /* of a receive into memory in one piece; NULL: it is not, or the generic code received it */
    size_t room;
    uint64_t announced[2];      /* of a message that nobody has asked for: where it is */
    unsigned in_element;        /* no message for `place` has one of these bits in its size: it would end within an element */
} MPIDI_COMPOSITE_am_request_t;

typedef struct {
    pm_peer *peer;
} MPIDI_COMPOSITE_addr_t;

typedef struct {
    int unused;
} MPIDI_COMPOSITE_request_t;

typedef struct {
    struct pm_group *group;     /* what the engines of src/coll know it as (composite_group.c); NULL: they do not */
    unsigned long collectives;  /* begun on it by this rank (composite_calls.h) */
    struct MPIDI_COMPOSITE_team *team;  /* composite_team.c */
    unsigned team_calls;        /* collectives before it had one */
    bool team_is_known;         /* it has one, or will never have one */
} MPIDI_COMPOSITE_comm_t;

typedef struct {
    int unused;
} MPIDI_COMPOSITE_dt_t;

typedef struct {
    int unused;
} MPIDI_COMPOSITE_op_t;

typedef struct {
    struct pm_window *window;   /* of every one (composite_win.c) */
    struct pm_direct *direct;   /* of those whose parts are all in memory that every rank sees; NULL: of others */
    struct MPIDI_COMPOSITE_ranks *access, *exposure;    /* of the last groups of MPI_Win_start and MPI_Win_post on a direct one */
    bool one_sided;             /* some target's memory may be reached without the target */
    MPIDI_COMPOSITE_epochs_t posts, completes;
} MPIDI_COMPOSITE_win_t;

typedef struct {
    struct MPIDI_COMPOSITE_partitions *partitions;      /* composite_partitioned.c */
} MPIDI_COMPOSITE_part_t;

#endif
