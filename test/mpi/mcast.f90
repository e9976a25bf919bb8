! Multicasts on bitmaps from Fortran: every rank in turn sends to all ranks, then to every other one, with and without requests, and
! what arrives is compared. Fails when anything is wrong.
program mcast
    use mpi_f08
    implicit none
    integer, parameter :: elements = 20000, tag = 7
    integer(kind=MPI_COUNT_KIND), parameter :: count = elements
    integer(kind=MPI_COUNT_KIND), allocatable :: members(:)
    integer(kind=MPI_COUNT_KIND), allocatable, asynchronous :: got_members(:)
    integer :: rank, ranks, master, step, r, i, size, wrong = 0, all_wrong
    double precision :: sent(elements)
    double precision, asynchronous :: got(elements), sent_later(elements)
    type(MPI_Status) :: status
    type(MPI_Request) :: sending, receiving
    logical :: there

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    allocate(members((ranks + 63) / 64), got_members((ranks + 63) / 64))
    do master = 0, ranks - 1
        do step = 1, 2
            members = 0
            do r = 0, ranks - 1, step
                members(r / 64 + 1) = ibset(members(r / 64 + 1), mod(r, 64))
            end do

            ! with calls that wait
            if (rank == master) then
                sent = [(value_of(i), i = 1, elements)]
                call MPIX_Mcast(sent, count, MPI_DOUBLE_PRECISION, members, tag, MPI_COMM_WORLD)
                sent = -1
            end if
            if (mod(rank, step) == 0) then
                got = 0
                got_members = -1
                call MPIX_Mcast_recv(got, count, MPI_DOUBLE_PRECISION, master, tag, MPI_COMM_WORLD, got_members, status)
                call compare()
            end if

            ! with requests; the receiver asks for any, and has seen it before
            if (rank == master) then
                sent_later = [(value_of(i), i = 1, elements)]
                call MPIX_Imcast(sent_later, count, MPI_DOUBLE_PRECISION, members, tag, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, &
                                 sending)
            end if
            if (mod(rank, step) == 0) then
                there = .false.
                do while (.not. there)
                    call MPIX_Mcast_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, there, status)
                end do
                if (status%MPI_SOURCE /= master .or. status%MPI_TAG /= tag) wrong = wrong + 1
                got = 0
                got_members = -1
                call MPIX_Mcast_irecv(got, count, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &
                    got_members, receiving)
                call MPI_Wait(receiving, status)
                call compare()
            end if
            if (rank == master) call MPI_Wait(sending, MPI_STATUS_IGNORE)
            call MPI_Barrier(MPI_COMM_WORLD)
        end do
    end do
    call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) print '(a, i0, a, i0, a)', 'mcast_f08: ', ranks, ' ranks, ', all_wrong, ' wrong'
    call MPI_Finalize()
    if (all_wrong /= 0) error stop 1

contains

    pure function value_of(position)
        integer, intent(in) :: position
        double precision :: value_of
        value_of = 1000000d0 * master + 500000d0 * step + position
    end function value_of

    subroutine compare()
        call MPI_Get_count(status, MPI_DOUBLE_PRECISION, size)
        if (size /= elements .or. status%MPI_SOURCE /= master .or. status%MPI_TAG /= tag) wrong = wrong + 1
        if (any(got_members /= members)) wrong = wrong + 1
        do i = 1, elements
            if (got(i) /= value_of(i)) wrong = wrong + 1
        end do
    end subroutine compare
end program mcast
