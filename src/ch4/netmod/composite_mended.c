/* What MPICH's own code calls where it is mended. */
#include "mpidimpl.h"
#include "composite_impl.h"

/* ---- Post, start, complete, wait: MPICH counts whoever calls, we look who it was ---- */

static MPIDI_COMPOSITE_epochs_t *epochs_of(MPIR_Win * win, bool posts)
{
    return posts ? &MPIDI_COMPOSITE_WIN(win).posts : &MPIDI_COMPOSITE_WIN(win).completes;
}

void MPIDI_COMPOSITE_epoch_came(MPIR_Win * win, bool posts, int rank)
{
    MPIDI_COMPOSITE_epochs_t *epochs = epochs_of(win, posts);

    if (epochs->of_rank == NULL)
        epochs->of_rank = MPL_calloc(win->comm_ptr->local_size, sizeof *epochs->of_rank, MPL_MEM_RMA);
    MPIR_Assert(epochs->of_rank);
    epochs->of_rank[rank]++;
    epochs->total++;
    epochs->since_look++;
}

/* The group's ranks in the window, to be freed. */
static int *ranks_of(MPIR_Win * win, MPIR_Group * group)
{
    int *ranks = MPL_malloc((group->size + 1) * sizeof *ranks, MPL_MEM_RMA);
    int mpi_errno;

    MPIR_Assert(ranks);
    mpi_errno = MPIDIG_fill_ranks_in_win_grp(win, group, ranks);
    MPIR_Assert(mpi_errno == MPI_SUCCESS);
    return ranks;
}

bool MPIDI_COMPOSITE_epochs_there(MPIR_Win * win, bool posts, MPIR_Group * group)
{
    MPIDI_COMPOSITE_epochs_t *epochs = epochs_of(win, posts);
    bool there = true;
    int *ranks;

    if (group->size == 0)
        return true;
    if (epochs->total < (unsigned) group->size || epochs->since_look == 0)
        return false;
    ranks = ranks_of(win, group);
    for (int i = 0; i < group->size && there; i++)
        there = ranks[i] >= 0 && epochs->of_rank[ranks[i]] > 0;
    MPL_free(ranks);
    if (!there)
        epochs->since_look = 0;
    return there;
}

void MPIDI_COMPOSITE_epochs_used(MPIR_Win * win, bool posts, MPIR_Group * group)
{
    MPIDI_COMPOSITE_epochs_t *epochs = epochs_of(win, posts);
    int *ranks;

    if (epochs->total == 0)
        return;                 /* nothing was said, or MPI_MODE_NOCHECK */
    ranks = ranks_of(win, group);
    for (int i = 0; i < group->size; i++)
        if (ranks[i] >= 0 && epochs->of_rank[ranks[i]] > 0) {
            epochs->of_rank[ranks[i]]--;
            epochs->total--;
        }
    MPL_free(ranks);
    epochs->since_look = epochs->total; /* the next group is another one */
}

/* ---- Memory of windows ---- */

int MPIDI_COMPOSITE_agree_on_memory(MPIR_Win * win, void **base, int mpi_errno)
{
    int failed = mpi_errno != MPI_SUCCESS, any = 0, other;
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;

    other = MPIR_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, win->comm_ptr, &errflag);
    if (other)
        return other;
    if (!any)
        return MPI_SUCCESS;
    if (!failed)
        win->base = *base;      /* is freed with the window */
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, MPI_ERR_NO_MEM, "**window_memory",
                                "**window_memory %L", (long long) win->size);
}

/* ---- Requests ---- */

bool MPIDI_COMPOSITE_start_nothing(MPIR_Request * request)
{
    MPIR_Request *real;

    if (request->kind == MPIR_REQUEST_KIND__PREQUEST_RECV)
        real = MPIR_Request_create_null_recv();
    else if (request->kind == MPIR_REQUEST_KIND__PREQUEST_SEND)
        real = MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND);
    else
        return false;           /* has no such rank */
    request->u.persist.real_request = real;
    request->status.MPI_ERROR = MPI_SUCCESS;
    request->cc_ptr = &real->cc;
    return true;
}

/* ---- Texts of errors: MPICH writes beyond a text that is shorter than the list of where an error was ---- */

void MPIDI_COMPOSITE_print_error_stack(void (*print)(int, char *, int), int errorcode, char *text, int room)
{
    /* More than as many entries as MPICH keeps. */
    const int enough = 1 << 17;
    char *whole = MPL_malloc(enough, MPL_MEM_OTHER);

    if (room <= 0)
        goto fn_exit;
    text[0] = '\0';
    if (whole == NULL)
        goto fn_exit;
    whole[0] = '\0';
    print(errorcode, whole, enough);
    MPL_strncpy(text, whole, room);
    text[room - 1] = '\0';

  fn_exit:
    MPL_free(whole);
}
