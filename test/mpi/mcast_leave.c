/* A member that has received leaves at once, for MPI_Finalize, while the acknowledgement of another one has still to pass it: the
 * master must learn that all have it. The last one receives when the others are in MPI_Finalize: that calls for an attribute of theirs, whose
 * end leaves a file. Until then it makes no call, so that nothing is delivered to it, and the master may not believe so. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static char names[64][64];
static int rank;

static int leave_a_file(MPI_Comm comm, int key, void *value, void *state)
{
    FILE *file = fopen(names[rank], "w");

    (void) comm, (void) key, (void) value, (void) state;
    return file && fclose(file) == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/* Whether the file of this rank comes within a minute. */
static int has_come(int member)
{
    for (int turns = 0; turns < 60000 && access(names[member], F_OK) != 0; turns++)
        usleep(1000);
    return unlink(names[member]) == 0;
}

static int all_have_left(int ranks)
{
    int left = 0;

    for (int member = 1; member < ranks - 1; member++)
        left += has_come(member);
    return left == ranks - 2;
}

int main(int argc, char **argv)
{
    MPIX_Bitmap members[1] = { 0 };
    MPI_Request request;
    int ranks, value, key, wrong = 0, job = getpid();

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Bcast(&job, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int member = 0; member < ranks; member++)
        snprintf(names[member], sizeof names[member], "mcast_leave.%d.%d", job, member);
    value = rank == 0 ? 7 : 0;
    for (int member = 1; member < ranks; member++)
        MPIX_Bitmap_set(members, member);
    if (rank == ranks - 1)
        leave_a_file(MPI_COMM_SELF, 0, NULL, NULL);
    if (rank == 0) {
        if (!has_come(ranks - 1)) {
            printf("mcast_leave: the last member does not wait\n");
            wrong = 1;
        }
        MPIX_Imcast(&value, 1, MPI_INT, members, 0, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        leave_a_file(MPI_COMM_SELF, 0, NULL, NULL);
        printf("mcast_leave: %d ranks\n", ranks);
    } else {
        if (rank == ranks - 1 && !all_have_left(ranks)) {
            printf("mcast_leave: the other members are not in MPI_Finalize\n");
            wrong = 1;
        }
        if (rank == ranks - 1 && access(names[0], F_OK) == 0) {
            printf("mcast_leave: delivered, before the last member had made a call\n");
            wrong = 1;
        }
        MPIX_Mcast_recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
        if (value != 7) {
            printf("mcast_leave: rank %d got %d\n", rank, value);
            wrong = 1;
        }
        if (rank != ranks - 1) {
            MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_a_file, &key, NULL);
            MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
        }
    }
    MPI_Finalize();
    if (rank == 0 && unlink(names[0]) != 0)
        wrong = 1;
    return wrong;
}
