/* Partitioned communication: MPICH's, with the checks it lacks (composite_mended.c). */
#ifndef COMPOSITE_PART_H_INCLUDED
#define COMPOSITE_PART_H_INCLUDED

/* To or from MPI_PROC_NULL. */
MPL_STATIC_INLINE_PREFIX bool MPIDI_COMPOSITE_partitions_of_nobody(MPIR_Request * request)
{
    return (request->kind == MPIR_REQUEST_KIND__PART_SEND ? MPIDI_PART_REQUEST(request, u.send.dest)
            : MPIDI_PART_REQUEST(request, u.recv.source)) == MPI_PROC_NULL;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_part_start(MPIR_Request * request)
{
    int mpi_errno = MPIDI_COMPOSITE_partitions_start(request);

    return mpi_errno || MPIDI_COMPOSITE_partitions_of_nobody(request) ? mpi_errno : MPIDIG_part_start(request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_pready_range(int partition_low, int partition_high, MPIR_Request * request)
{
    int mpi_errno = MPIDI_COMPOSITE_partitions_ready(request, partition_high - partition_low + 1, NULL, partition_low);

    return mpi_errno || MPIDI_COMPOSITE_partitions_of_nobody(request) ? mpi_errno : MPIDIG_mpi_pready_range(partition_low, partition_high, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_pready_list(int length, int array_of_partitions[], MPIR_Request * request)
{
    int mpi_errno = MPIDI_COMPOSITE_partitions_ready(request, length, array_of_partitions, 0);

    return mpi_errno || MPIDI_COMPOSITE_partitions_of_nobody(request) ? mpi_errno : MPIDIG_mpi_pready_list(length, array_of_partitions, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_parrived(MPIR_Request * request, int partition, int *flag)
{
    int mpi_errno = MPIDI_COMPOSITE_partition_asked(request, partition);

    return mpi_errno ? mpi_errno : MPIDIG_mpi_parrived(request, partition, flag);
}

#endif
