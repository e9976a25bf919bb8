program hello
  use mpi_f08
  implicit none
  integer :: size
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  if (size /= 2) error stop 1
  call MPI_Finalize()
end program
