/* What devices have carried so far, by the performance variables. MPI_T_init_thread comes first. */
#ifndef COUNTERS_H_INCLUDED
#define COUNTERS_H_INCLUDED

#include <mpi.h>
#include <stdio.h>

static inline unsigned long long read_counter(MPI_T_pvar_session session, const char *name)
{
    int number, count;
    MPI_T_pvar_handle handle;
    unsigned long long value = 0;

    if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &number) != MPI_SUCCESS) {
        printf("there is no performance variable %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_T_pvar_handle_alloc(session, number, NULL, &handle, &count);
    MPI_T_pvar_read(session, handle, &value);
    MPI_T_pvar_handle_free(session, &handle);
    return value;
}

#define DEVICES 3
static const char *const device_names[DEVICES] = { "shmem", "ucx", "udp" };

/* `kind` as in composite_DEVICE_KIND. */
static inline unsigned long long carried(MPI_T_pvar_session session, int device, const char *kind)
{
    char name[64];

    snprintf(name, sizeof name, "composite_%s_%s", device_names[device], kind);
    return read_counter(session, name);
}

#endif
