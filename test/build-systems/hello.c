/* What the build systems of this folder compile: exits with 0 when two ranks of this MPI run it. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int size, sum, one = 1;
    MPIX_Bitmap group[MPIX_BITMAP_WORDS(2)] = { 0 };
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPIX_Bitmap_set(group, 1);
    MPI_Finalize();
    return size != 2 || sum != 2 || MPIX_Bitmap_count(group, 2) != 1;
}
