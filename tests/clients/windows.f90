! Windows through Fortran's own module: put, get, accumulate, fetch-and-op and compare-and-swap, in every kind of epoch.
! Prints "windows: ok, N ranks in X us an operation".
program windows
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
    use mpi_f08
    implicit none
    integer, parameter :: cells = 1000, rounds = 2000
    integer :: rank, ranks, next, before
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    next = modulo(rank + 1, ranks)
    before = modulo(rank - 1, ranks)
    call between_fences()
    call under_locks()
    call with_groups()
    call timed()
    call MPI_Finalize()

contains

    subroutine expect(what, wanted)
        logical, intent(in) :: wanted
        character(*), intent(in) :: what
        if (wanted) return
        write (error_unit, '(a, i0, 2a)') 'windows: rank ', rank, ': not so: ', what
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine

    ! A window over an array of the program: real numbers, whole and with gaps.
    subroutine between_fences()
        real(real64), asynchronous, allocatable :: memory(:), mine(:)
        type(MPI_Win) :: win
        type(MPI_Datatype) :: every_second
        integer :: i
        allocate (memory(cells), mine(cells))
        memory = -1
        mine = [(1000.0_real64 * rank + i, i = 1, cells)]
        call MPI_Win_create(memory, int(cells, MPI_ADDRESS_KIND) * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win)
        call MPI_Win_fence(0, win)
        call MPI_Put(mine, cells, MPI_REAL8, next, 0_MPI_ADDRESS_KIND, cells, MPI_REAL8, win)
        call MPI_Win_fence(0, win)
        call expect('a put between fences', all(memory == [(1000.0_real64 * before + i, i = 1, cells)]))
        call MPI_Type_vector(cells / 2, 1, 2, MPI_REAL8, every_second)
        call MPI_Type_commit(every_second)
        mine = 0
        call MPI_Win_fence(0, win)
        call MPI_Get(mine, cells / 2, MPI_REAL8, next, 0_MPI_ADDRESS_KIND, 1, every_second, win)
        call MPI_Win_fence(0, win)
        call expect('a get with gaps', all(mine(:cells / 2) == [(1000.0_real64 * rank + i, i = 1, cells, 2)]))
        call MPI_Type_free(every_second)
        call MPI_Win_free(win)
    end subroutine

    ! A window of memory that MPI allocates, with counters at rank 0.
    subroutine under_locks()
        type(c_ptr) :: base
        integer(int64), pointer, asynchronous :: memory(:)
        integer(int64), asynchronous :: one, old, swap, compare
        integer(int64), asynchronous, allocatable :: many(:)
        type(MPI_Win) :: win
        integer :: i
        call MPI_Win_allocate(int(cells, MPI_ADDRESS_KIND) * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
        call c_f_pointer(base, memory, [cells])
        memory = 0
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Win_lock_all(0, win)
        one = 1
        do i = 1, 100
            call MPI_Fetch_and_op(one, old, MPI_INTEGER8, 0, 0_MPI_ADDRESS_KIND, MPI_SUM, win)
            call MPI_Win_flush(0, win)
            call expect('a counter goes up', old >= 0 .and. old < 100_int64 * ranks)
        end do
        allocate (many(cells - 2))
        many = rank + 1
        call MPI_Accumulate(many, cells - 2, MPI_INTEGER8, next, 2_MPI_ADDRESS_KIND, cells - 2, MPI_INTEGER8, MPI_SUM, win)
        call MPI_Win_flush_all(win)
        ! Whoever finds zero leaves its rank, once.
        compare = 0
        swap = rank + 1
        call MPI_Compare_and_swap(swap, compare, old, MPI_INTEGER8, 0, 1_MPI_ADDRESS_KIND, win)
        call MPI_Win_flush(0, win)
        call expect('a swap finds zero or a rank', old >= 0 .and. old <= ranks)
        call MPI_Win_unlock_all(win)
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win)
        call MPI_Get(old, 1, MPI_INTEGER8, 0, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, win)
        call MPI_Get(swap, 1, MPI_INTEGER8, 0, 1_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, win)
        call MPI_Win_unlock(0, win)
        call expect('a counter has every step', old == 100_int64 * ranks)
        call expect('one swap has won', swap >= 1 .and. swap <= ranks)
        call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)
        call expect('an accumulate', all(memory(3:) == before + 1))
        call MPI_Win_unlock(rank, win)
        call MPI_Win_free(win)
    end subroutine

    ! Post, start, complete and wait with the neighbours.
    subroutine with_groups()
        integer, asynchronous :: memory(2), mine
        type(MPI_Win) :: win
        type(MPI_Group) :: world, to, from
        memory = -1
        mine = rank
        call MPI_Win_create(memory, 8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
        call MPI_Comm_group(MPI_COMM_WORLD, world)
        call MPI_Group_incl(world, 1, [next], to)
        call MPI_Group_incl(world, 1, [before], from)
        call MPI_Win_post(from, 0, win)
        call MPI_Win_start(to, 0, win)
        call MPI_Put(mine, 1, MPI_INTEGER, next, 1_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
        call MPI_Win_complete(win)
        call MPI_Win_wait(win)
        call expect('a put to a group', memory(2) == before .and. memory(1) == -1)
        call MPI_Group_free(to)
        call MPI_Group_free(from)
        call MPI_Group_free(world)
        call MPI_Win_free(win)
    end subroutine

    subroutine timed()
        integer(int64), asynchronous :: memory(8), one, old
        type(MPI_Win) :: win
        integer :: i
        real(real64) :: start
        memory = 0
        one = 1
        call MPI_Win_create(memory, 64_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win)
        call MPI_Win_lock_all(0, win)
        start = MPI_Wtime()
        do i = 1, rounds
            call MPI_Put(one, 1, MPI_INTEGER8, next, 1_MPI_ADDRESS_KIND, 1, MPI_INTEGER8, win)
            call MPI_Win_flush(next, win)
            call MPI_Fetch_and_op(one, old, MPI_INTEGER8, next, 0_MPI_ADDRESS_KIND, MPI_SUM, win)
            call MPI_Win_flush(next, win)
        end do
        start = (MPI_Wtime() - start) / (2 * rounds) * 1e6_real64
        call MPI_Win_unlock_all(win)
        call MPI_Barrier(MPI_COMM_WORLD)
        call expect('every step was counted', memory(1) == rounds .and. memory(2) == 1)
        call MPI_Win_free(win)
        if (rank == 0) print '(a, i0, a, f0.2, a)', 'windows: ok, ', ranks, ' ranks in ', start, ' us an operation'
    end subroutine
end program
