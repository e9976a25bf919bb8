/* What MPICH's own code calls where it is mended (maint/graft-mpich, doc/differences.md). */
#ifndef COMPOSITE_MENDED_H_INCLUDED
#define COMPOSITE_MENDED_H_INCLUDED

#include <stdbool.h>
#include <stdint.h>

struct MPIR_Comm;
struct MPIR_Group;
struct MPIR_Request;
struct MPIR_Win;

/* The MPI_Win_post (`posts`) or MPI_Win_complete calls of other ranks that have not met a call of this one: how many, of each. */
typedef struct {
    unsigned *of_rank;          /* NULL before the first */
    unsigned total;
    unsigned since_look;        /* that have come since they were looked at in vain */
} MPIDI_COMPOSITE_epochs_t;

/* composite_mended.c. With the lock of the window's VCI: one has come; those of the whole group are there; they are used up. */
void MPIDI_COMPOSITE_epoch_came(struct MPIR_Win *win, bool posts, int rank);
bool MPIDI_COMPOSITE_epochs_there(struct MPIR_Win *win, bool posts, struct MPIR_Group *group);
void MPIDI_COMPOSITE_epochs_used(struct MPIR_Win *win, bool posts, struct MPIR_Group *group);

/* Collective: `mpi_errno` is what came of allocating this rank's memory, at `*base`; a failure of one is one of all. */
int MPIDI_COMPOSITE_agree_on_memory(struct MPIR_Win *win, void **base, int mpi_errno);

/* Starts a persistent send to MPI_PROC_NULL or receive from it; false when it is none. */
bool MPIDI_COMPOSITE_start_nothing(struct MPIR_Request *request);

/* composite_partitioned.c. The user frees a request of MPI_Psend_init or MPI_Precv_init. */
void MPIDI_COMPOSITE_partitions_free(struct MPIR_Request *request);

/* What `print` writes, as far as there is `room`, which it does not keep to. */
void MPIDI_COMPOSITE_print_error_stack(void (*print)(int, char *, int), int errorcode, char *text, int room);

/* composite_spawn.c. The cards of all ranks of the local group, whole, as MPIDI_COMPOSITE_get_local_upids() returns its own. */
int MPIDI_COMPOSITE_get_cards(struct MPIR_Comm *comm, int **sizes, char **cards);

/* composite_ids.h. Whether this process has a communicator of this context id, or is making one that may get it. */
int MPIDI_COMPOSITE_may_have_id(uint32_t id);

/* ch4/mpix/composite_persistent.c. The tag of a schedule that is built: false when it should be the `next` of the communicator. */
bool MPIDI_COMPOSITE_tag_again(int next, int *tag);
/* The schedule that is built will not run, and must not touch data. */
bool MPIDI_COMPOSITE_only_counting_tags(void);
int MPIDI_COMPOSITE_persistent_start(struct MPIR_Request *request);
void MPIDI_COMPOSITE_persistent_free(struct MPIR_Request *request);

/* composite_matching.c. What the generic layer queues and looks for, with the lock of the VCI. A receive that is taken has all that
 * the generic layer needs. */
void MPIDI_COMPOSITE_queue(struct MPIR_Request *request, bool posted);
struct MPIR_Request *MPIDI_COMPOSITE_match_posted(int source, int tag, int context);
struct MPIR_Request *MPIDI_COMPOSITE_match_unexpected(int source, int tag, int context);
bool MPIDI_COMPOSITE_unpost(struct MPIR_Request *request);
/* MPI_Recv, except from oneself in a communicator of one: `*request` is NULL when all is done. */
int MPIDI_COMPOSITE_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, struct MPIR_Comm *comm, int context_offset,
                         MPI_Status * status, struct MPIR_Request **request);

#endif
