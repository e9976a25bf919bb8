! Every function of MPIX_ that Fortran has, from mpi_f08 (-DWITH_F08), from the module mpi (-DWITH_MPI) and from mpif.h. What arrives
! is compared; fails when anything is wrong. Two ranks or more.
program mpix
#if defined(WITH_F08)
    use mpi_f08
#define REQUEST_TYPE type(MPI_Request)
#define WIN_TYPE type(MPI_Win)
#define STATUS_TYPE type(MPI_Status)
#elif defined(WITH_MPI)
    use mpi
#endif
    implicit none
#if !defined(WITH_F08)
#if !defined(WITH_MPI)
    include 'mpif.h'
#endif
#define REQUEST_TYPE integer
#define WIN_TYPE integer
#endif
    integer, parameter :: elements = 500, tag = 7, most = 64
    integer(kind=MPI_COUNT_KIND), parameter :: count = elements
    integer(kind=MPI_COUNT_KIND) :: members(1), got_members(1)
    integer, asynchronous, save :: out(elements * most), in(elements * most), memory(elements * 4)
    integer :: one(1), sum_of_all(1)
    integer :: rank, ranks, next, before, root, i, ierr, which
    integer :: wrong = 0
    integer(kind=MPI_ADDRESS_KIND) :: bytes, here, flag_here
    logical :: there
    REQUEST_TYPE :: request
    WIN_TYPE :: win
#if defined(STATUS_TYPE)
    STATUS_TYPE :: status
#else
    integer :: status(MPI_STATUS_SIZE)
#endif

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    members = 0
    do i = 0, ranks - 1
        members(1) = ibset(members(1), i)
    end do
    root = ranks - 1

    call multicasts()
    call collectives()
    call windows()

    one(1) = wrong
    call MPI_Allreduce(one, sum_of_all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (rank == 0) print '(a, i0, a, i0, a)', 'mpix: ', ranks, ' ranks, ', sum_of_all(1), ' wrong'
    call MPI_Finalize(ierr)
    if (sum_of_all(1) /= 0) stop 1

contains

    subroutine fill(place, key)
        integer, intent(in) :: place, key
        out(place + 1:place + elements) = [(key * 1000 + i, i = 1, elements)]
    end subroutine

    subroutine expect(what, fine)
        character(len=*), intent(in) :: what
        logical, intent(in) :: fine
        if (.not. fine .or. ierr /= MPI_SUCCESS) then
            wrong = wrong + 1
            print '(a, i0, 3a, i0)', 'rank ', rank, ': ', what, ' is wrong, error ', ierr
        end if
    end subroutine

    logical function is_filled(place, key)
        integer, intent(in) :: place, key
        is_filled = all(in(place + 1:place + elements) == [(key * 1000 + i, i = 1, elements)])
    end function

    subroutine multicasts()
        if (rank == root) then
            call fill(0, 1)
            call MPIX_Mcast(out, count, MPI_INTEGER, members, tag, MPI_COMM_WORLD, ierr)
        end if
        in = 0
        got_members = 0
        call MPIX_Mcast_recv(in, count, MPI_INTEGER, root, tag, MPI_COMM_WORLD, got_members, status, ierr)
        call expect('Mcast_recv', is_filled(0, 1) .and. got_members(1) == members(1))

        if (rank == root) then
            call fill(0, 2)
            call MPIX_Imcast(out, count, MPI_INTEGER, members, tag, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, request, ierr)
        end if
        there = .false.
        do while (.not. there)
            call MPIX_Mcast_iprobe(root, tag, MPI_COMM_WORLD, there, status, ierr)
        end do
        in = 0
        block
            REQUEST_TYPE :: receiving
            call MPIX_Mcast_irecv(in, count, MPI_INTEGER, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, got_members, receiving, ierr)
            call MPI_Wait(receiving, status, ierr)
        end block
        call expect('Mcast_irecv', is_filled(0, 2))
        if (rank == root) call MPI_Wait(request, status, ierr)
    end subroutine

    subroutine collectives()
        integer :: r
        call MPIX_Bitmap_barrier(members, MPI_COMM_WORLD, ierr)
        call expect('Bitmap_barrier', .true.)
        call MPIX_Barrier_istart(MPI_COMM_WORLD, request, ierr)
        call MPI_Wait(request, status, ierr)
        call expect('Barrier_istart', .true.)

        in(1:elements) = merge([(5000 + i, i = 1, elements)], 0, rank == root)
        call MPIX_Bitmap_bcast(in, count, MPI_INTEGER, root, members, MPI_COMM_WORLD, ierr)
        call expect('Bitmap_bcast', is_filled(0, 5))

        out(1:elements) = rank + 1
        in = 0
        call MPIX_Bitmap_allreduce(out, in, count, MPI_INTEGER, MPI_SUM, members, MPI_COMM_WORLD, ierr)
        call expect('Bitmap_allreduce', all(in(1:elements) == ranks * (ranks + 1) / 2))
        in = 0
        call MPIX_Bitmap_reduce(out, in, count, MPI_INTEGER, MPI_SUM, root, members, MPI_COMM_WORLD, ierr)
        call expect('Bitmap_reduce', rank /= root .or. all(in(1:elements) == ranks * (ranks + 1) / 2))

        call fill(0, rank)
        in = 0
        call MPIX_Bitmap_gather(out, count, MPI_INTEGER, in, count, MPI_INTEGER, root, members, MPI_COMM_WORLD, ierr)
        do r = 0, ranks - 1
            if (rank == root) call expect('Bitmap_gather', is_filled(r * elements, r))
        end do
        in = 0
        call MPIX_Bitmap_allgather(out, count, MPI_INTEGER, in, count, MPI_INTEGER, members, MPI_COMM_WORLD, ierr)
        do r = 0, ranks - 1
            call expect('Bitmap_allgather', is_filled(r * elements, r))
        end do

        do r = 0, ranks - 1
            call fill(r * elements, rank * 100 + r)
        end do
        in = 0
        call MPIX_Bitmap_alltoall(out, count, MPI_INTEGER, in, count, MPI_INTEGER, members, MPI_COMM_WORLD, ierr)
        do r = 0, ranks - 1
            call expect('Bitmap_alltoall', is_filled(r * elements, r * 100 + rank))
        end do
        in = 0
        call MPIX_Bitmap_scatter(out, count, MPI_INTEGER, in, count, MPI_INTEGER, root, members, MPI_COMM_WORLD, ierr)
        call expect('Bitmap_scatter', is_filled(0, root * 100 + rank))
    end subroutine

    ! The compiler must not believe that it knows what is in there. (MPI_F_sync_reg of MPICH's mpif.h wants an error that the standard
    ! does not give it.)
    subroutine look_again(buffer)
        integer, asynchronous, intent(inout) :: buffer(:)
        integer(kind=MPI_ADDRESS_KIND) :: address
        call MPI_Get_address(buffer, address, ierr)
    end subroutine

    ! Until a word of our memory has this value; a call lets all go on, and may change the memory.
    subroutine wait_for_word(place, value)
        integer, intent(in) :: place, value
        do while (memory(place) /= value)
            call MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, there, status, ierr)
            call look_again(memory)
        end do
    end subroutine

    logical function came(place, key)
        integer, intent(in) :: place, key
        came = all(memory(place + 1:place + elements) == [(key * 1000 + i, i = 1, elements)])
    end function

    subroutine windows()
        memory = 0
        bytes = 4 * elements * 4
        call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
        call MPI_Win_lock_all(0, win, ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)
        here = 0
        flag_here = 3 * elements

        call fill(0, rank)
        call MPIX_Put_notify(out, elements, MPI_INTEGER, next, here, elements, MPI_INTEGER, win, 3, ierr)
        call MPIX_Win_wait_notify(win, 3, ierr)
        call look_again(memory)
        call expect('Put_notify', came(0, before))
        call MPI_Barrier(MPI_COMM_WORLD, ierr)

        in = 0
        call MPIX_Get_notify(in, elements, MPI_INTEGER, next, here, elements, MPI_INTEGER, win, 4, ierr)
        call MPI_Win_flush(next, win, ierr)
        call look_again(in)
        call expect('Get_notify', is_filled(0, rank))
        there = .false.
        do while (.not. there)
            call MPIX_Win_test_notify(win, 4, there, ierr)
        end do
        call MPI_Barrier(MPI_COMM_WORLD, ierr)

        call fill(0, rank + 10)
        call MPIX_Put_flag(out, elements, MPI_INTEGER, next, here, elements, MPI_INTEGER, win, flag_here, 77, ierr)
        call wait_for_word(3 * elements + 1, 77)
        call expect('Put_flag', came(0, before + 10))
        call MPI_Win_flush(next, win, ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)

        call fill(0, rank + 20)
        call MPIX_Put_countup(out, elements, MPI_INTEGER, next, here, elements, MPI_INTEGER, win, 6, ierr)
        call MPIX_Win_wait_counter(win, 6, 1, ierr)
        call look_again(memory)
        call expect('Put_countup', came(0, before + 20))
        call MPI_Win_flush(next, win, ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)

        call MPIX_Write1(next, flag_here, 88, win, ierr)
        call wait_for_word(3 * elements + 1, 88)
        call expect('Write1', .true.)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)

        here = elements
        call MPIX_Win_copy(next, 0_MPI_ADDRESS_KIND, before, here, elements, MPI_INTEGER, win, 8, ierr)
        call MPIX_Win_waitany_notify(win, 5, 10, which, ierr)
        call look_again(memory)
        ! What comes to us is of the one after the one after us.
        call expect('Win_copy', which == 8 .and. came(elements, next_but_one_has()))
        call MPIX_Win_testany_notify(win, 0, 20, which, there, ierr)
        call expect('Win_testany_notify', .not. there)
        call MPI_Win_flush_all(win, ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)

        call MPIX_Win_bcast_discard(win, .false., ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)
        if (rank == root) then
            call fill(0, 30)
            call MPIX_Win_bcast(out, elements, MPI_INTEGER, here, flag_here, 99, win, ierr)
        end if
        call wait_for_word(3 * elements + 1, 99)
        call expect('Win_bcast', came(elements, 30))
        call MPI_Win_flush_all(win, ierr)
        call MPI_Barrier(MPI_COMM_WORLD, ierr)
        call MPI_Win_unlock_all(win, ierr)
        call MPI_Win_free(win, ierr)
    end subroutine

    ! The rank for which we are `before` copied from its `next`, where the one before that had put.
    integer function next_but_one_has()
        next_but_one_has = mod(rank + 1, ranks) + 20
    end function
end program
