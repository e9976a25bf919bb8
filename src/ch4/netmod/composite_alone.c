/* A job of one rank that was probably meant to be part of a larger one. */
#include "mpidimpl.h"
#include "composite_impl.h"

static int number(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? atoi(value) : -1;
}

/* A launcher that does not speak PMI-1 starts N processes, and each of them is a job of one rank. Its own variables tell how many
 * there are, and which of them says it for all. Not meant are processes that a batch script or a shell in an allocation starts
 * itself: of those Slurm tells no tasks of a step. */
void MPIDI_COMPOSITE_warn_if_alone(void)
{
    const char *launcher, *instead;
    int processes;

    if (MPIR_Process.size > 1 || getenv("PMI_FD") || getenv("PMI_PORT"))
        return;
    if ((processes = number("OMPI_COMM_WORLD_SIZE")) > 1 && number("OMPI_COMM_WORLD_RANK") == 0) {
        launcher = "Open MPI's mpiexec";
        instead = "start it with the mpiexec of MPICH-Composite.";
    } else if (processes <= 1 && (processes = number("SLURM_STEP_NUM_TASKS")) > 1 && number("SLURM_PROCID") == 0) {
        launcher = "srun";
        instead = "use srun --mpi=pmi2, or in the allocation the mpiexec of MPICH-Composite.";
    } else if (processes <= 1 && number("PMIX_RANK") == 1) {
        processes = 2;          /* or more: PMIx does not say, and so it is not the first who knows */
        launcher = "a launcher that speaks only PMIx";
        instead = "start it with the mpiexec of MPICH-Composite.";
    } else
        return;
    fprintf(stderr, "composite: %s has started at least %d processes, and each is an MPI job of its own with one rank, because it does "
            "not speak PMI with them. If that is a mistake: %s\n", launcher, processes, instead);
}
