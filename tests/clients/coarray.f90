! Coarrays over OpenCoarrays: remote assignment whole and by sections, atomics, locks, events and collectives.
! Prints "coarray: ok, N images in X us an operation".
program coarray
    use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit, atomic_int_kind, lock_type, event_type
    implicit none
    integer, parameter :: cells = 1000, rounds = 1000
    integer :: me, images, next, before, i, old
    real(real64), allocatable :: field(:, :)[:]
    integer :: mine[*]
    integer(atomic_int_kind) :: counter[*]
    type(lock_type) :: guard[*]
    integer :: guarded[*]
    type(event_type) :: arrived[*]
    integer :: total
    integer(int64) :: begin, end_, ticks
    me = this_image()
    images = num_images()
    next = modulo(me, images) + 1
    before = modulo(me - 2, images) + 1
    mine = -1
    counter = 0
    guarded = 0
    allocate (field(10, cells / 10)[*])
    field = me
    sync all

    mine[next] = me
    sync all
    call expect('an assignment to a neighbour', mine == before)

    ! A row of the neighbour, with gaps.
    field(3, :) = field(5, :)[next]
    sync all
    call expect('a row of a neighbour', all(field(3, :) == next) .and. all(field(4, :) == me))
    field(7, 2:100:2)[next] = -me
    sync all
    call expect('a part of a row at a neighbour', all(field(7, 2:100:2) == -before) .and. all(field(7, 1:99:2) == me))

    do i = 1, 50
        call atomic_add(counter[1], 1)
    end do
    sync all
    call atomic_ref(old, counter[1])
    call expect('a counter has every step', old == 50 * images)

    ! Read and written apart, so that only the lock keeps them together.
    do i = 1, 20
        lock (guard[1])
        guarded[1] = guarded[1] + 1
        unlock (guard[1])
    end do
    sync all
    call expect('a lock keeps others out', guarded[1] == 20 * images)

    event post (arrived[next])
    event wait (arrived)

    total = me
    call co_sum(total)
    call expect('a sum', total == images * (images + 1) / 2)
    total = merge(77, 0, me == images)
    call co_broadcast(total, source_image=images)
    call expect('a broadcast', total == 77)

    sync all
    call system_clock(begin, ticks)
    do i = 1, rounds
        mine[next] = i
        old = mine[next]
    end do
    call system_clock(end_)
    call expect('the last value', old == rounds)
    sync all
    if (me == 1) print '(a, i0, a, f0.2, a)', 'coarray: ok, ', images, ' images in ', &
        real(end_ - begin, real64) / ticks / (2 * rounds) * 1e6_real64, ' us an operation'

contains

    subroutine expect(what, wanted)
        logical, intent(in) :: wanted
        character(*), intent(in) :: what
        if (wanted) return
        write (error_unit, '(a, i0, 2a)') 'coarray: image ', me, ': not so: ', what
        error stop 1
    end subroutine
end program
