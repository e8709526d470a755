//! Windows in one segment, over the ranks of each node: direct pointers, memory that cannot be shared or allocated, and fair
//! locks.

use plugin_api::Datatype;

use super::super::case::{Case, Context, Failure, Outcome, ensure, same};
use super::limits::{limited, without_descriptors};
use super::neighbours::Neighbours;
use host_stub::win::{
    Assertion, Info, Layout, Members, Op, SharedPart, TableChoice, WinError, Window, unboxed,
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("shared/query", |context| query(context, true)),
        Case::new("shared/query_noncontiguous", |context| {
            query(context, false)
        }),
        Case::new("shared/first_with_memory", first_with_memory),
        Case::new("shared/table_of_each_choice", each_choice),
        Case::new("shared/puts_by_the_transport", by_transport),
        Case::new("shared/refused_across_nodes", across_nodes),
        Case::new("shared/refused_without_memory", without_memory),
        Case::new("shared/refused_beyond_a_limit", beyond_limit),
        Case::new("shared/given_up_together", given_up),
        Case::new("shared/huge_pages", huge_pages),
        Case::new("shared/unaligned_updates", unaligned),
    ]
}

/// Bytes of a rank's part in these tests: none at one rank, and no multiple of a word.
fn length(rank: usize) -> usize {
    [1003, 0, 4096, 77][rank % 4]
}

/// Reads a part directly.
fn read(part: &SharedPart) -> Vec<u8> {
    let mut bytes = vec![0; part.len];
    // SAFETY: the window maps the part, and ranks write between barriers only.
    unsafe { std::ptr::copy_nonoverlapping(part.base, bytes.as_mut_ptr(), part.len) };
    bytes
}

/// Each rank's part is at the reported place, and has the bytes that its owner stored and other
/// ranks put.
fn query(context: &Context<'_>, contiguous: bool) -> Outcome {
    let near = Neighbours::of(context)?;
    let text = if contiguous { "false" } else { "true" };
    let info = Info::new().with("alloc_shared_noncontig", text)?;
    let unit = near.rank as u32 + 1;
    let window = Window::allocate_shared(&near.comm, length(near.rank), unit, &info)?;
    let parts = (0..near.size)
        .map(|rank| window.shared_query(Some(rank)))
        .collect::<Result<Vec<_>, _>>()?;
    for (rank, part) in parts.iter().enumerate() {
        ensure(
            part.len == length(rank) && part.unit == rank as u32 + 1,
            || format!("rank {rank} has {part:?}"),
        )?;
        let begins = part.base as usize;
        let fits = match rank.checked_sub(1) {
            Some(before) if contiguous => begins == parts[before].base as usize + length(before),
            _ => begins.is_multiple_of(4096),
        };
        ensure(fits, || format!("rank {rank} has {part:?} of {parts:?}"))?;
    }
    ensure(parts[near.rank].base == window.base(), || {
        "the own part is elsewhere".to_owned()
    })?;
    let mine = context.initial(near.rank, length(near.rank));
    same(
        "fresh memory",
        &read(&parts[near.rank]),
        &vec![0; mine.len()],
    )?;
    window.fence(Assertion::empty())?;
    // SAFETY: between two fences, in which no operation is begun; one thread calls.
    unsafe { window.write_local(0, &mine) }?;
    window.fence(Assertion::empty())?;
    for (rank, part) in parts.iter().enumerate() {
        same("stored", &read(part), &context.initial(rank, length(rank)))?;
    }
    window.fence(Assertion::empty())?;
    // Puts a byte to each rank that has memory, and stores it again by a pointer.
    let row = Layout::contiguous(Datatype::Uint8, 1);
    let byte = [near.rank as u8 + 100];
    for (rank, part) in parts.iter().enumerate().filter(|(_, part)| part.len > 0) {
        let target = row.at(rank, (near.rank / part.unit as usize) as u64);
        if near.rank.is_multiple_of(part.unit as usize) {
            // SAFETY: the byte lives until after the fence.
            unsafe { window.put(byte.as_ptr(), &row, target) }?;
        } else {
            // SAFETY: the byte is inside the part, which is longer than there are ranks, and
            // belongs to this rank.
            unsafe { part.base.add(near.rank).write(byte[0]) };
        }
    }
    window.fence(Assertion::NOSUCCEED)?;
    let mut wanted = mine;
    for (rank, at) in wanted.iter_mut().enumerate().take(near.size) {
        *at = rank as u8 + 100;
    }
    let outcome = same("put", &read(&parts[near.rank]), &wanted);
    window.free()?;
    outcome
}

fn first_with_memory(context: &Context<'_>) -> Outcome {
    let near = Neighbours::of(context)?;
    let last = near.size - 1;
    let len = if near.rank == last { 64 } else { 0 };
    let window = Window::allocate_shared(&near.comm, len, 1, &Info::new())?;
    let found = window.shared_query(None)?;
    let wanted = window.shared_query(Some(last))?;
    let refused = window.shared_query(Some(near.size));
    window.free()?;
    ensure(found == wanted && found.len == 64, || format!("{found:?}"))?;
    ensure(
        matches!(unboxed(&refused), Err(WinError::NoSuchRank { .. })),
        || format!("a rank too many gave {refused:?}"),
    )
}

/// Shared windows work with each table; their memory is shared and found with any carrier of the
/// operations.
fn each_choice(context: &Context<'_>) -> Outcome {
    let near = Neighbours::of(context)?;
    for choice in TableChoice::ALL {
        let info = Info::new().with_table(choice);
        let window = Window::allocate_shared(&near.comm, 8, 8, &info)?;
        let one = 1i64.to_ne_bytes();
        let row = Layout::contiguous(Datatype::Int64, 1);
        window.fence(Assertion::NOPRECEDE)?;
        for rank in 0..near.size {
            let target = row.at(rank, 0);
            // SAFETY: the operand lives until after the fence.
            unsafe { window.accumulate(one.as_ptr(), &row, target, Op::Sum) }?;
        }
        window.fence(Assertion::NOSUCCEED)?;
        let mut found = [0; 8];
        window.read_local(0, &mut found)?;
        let wanted = (near.size as i64).to_ne_bytes();
        same(&format!("{choice}: the own sum"), &found, &wanted)?;
        for rank in 0..near.size {
            let part = window.shared_query(Some(rank))?;
            same(
                &format!("{choice}: rank {rank}'s sum"),
                &read(&part),
                &wanted,
            )?;
        }
        near.comm.barrier()?;
        window.free()?;
    }
    Ok(())
}

/// Rounds of [`by_transport`].
const ROUNDS: u64 = 10;

/// Bytes that the transport puts are visible after the flush. Each rank puts to the next one, whose memory may be mapped. No
/// operation is outstanding between two puts.
fn by_transport(context: &Context<'_>) -> Outcome {
    let near = Neighbours::of(context)?;
    let info = Info::new().with_table(TableChoice::Btl);
    let window = Window::allocate_shared(&near.comm, 8, 8, &info)?;
    let next = (near.rank + 1) % near.size;
    let row = Layout::contiguous(Datatype::Uint64, 1);
    let name = window.table_name();
    ensure(name == "btl", || format!("the window has table {name}"))?;
    window.lock_all(Assertion::empty())?;
    for round in 1..=ROUNDS {
        let value = (near.rank as u64) << 32 | round;
        let target = row.at(next, 0);
        // SAFETY: the value lives until after the flush.
        unsafe { window.put((&raw const value).cast(), &row, target) }?;
        window.flush(next)?;
        let part = window.shared_query(Some(next))?;
        same("the next rank's word", &read(&part), &value.to_ne_bytes())?;
    }
    window.unlock_all()?;
    near.comm.barrier()?;
    window.free()?;
    Ok(())
}

/// Checks that a creation over `members` fails on every rank for the same reason.
fn refused(
    members: impl Into<Members>,
    made: Result<Window, Box<WinError>>,
    wanted: &str,
) -> Result<(), Failure> {
    let reason = match made {
        Err(error) if matches!(*error, WinError::Creation { .. }) => error.to_string(),
        Err(other) => return Err(other.into()),
        Ok(window) => {
            window.free()?;
            "none: it was made".to_owned()
        }
    };
    let all = members
        .into()
        .allgather(reason.as_bytes())
        .map_err(|detail| Failure {
            detail,
            reported: true,
        })?;
    ensure(all.iter().all(|other| *other == all[0]), || {
        format!("this rank failed with: {reason}; another not so")
    })?;
    ensure(reason.contains(wanted), || format!("failed with: {reason}"))
}

fn across_nodes(context: &Context<'_>) -> Outcome {
    if context.size == 1 {
        return Ok(());
    }
    let apart = Info::new().with_ranks_per_node(1);
    let made = Window::allocate_shared(context.job, 64, 1, &apart);
    refused(context.job, made, "shares no memory")?;
    let made = Window::allocate_with(context.job, 64, 1, &apart.with_table(TableChoice::Shm));
    refused(context.job, made, "shares no memory")?;
    let info = Info::new().with_table(TableChoice::Shm);
    if Neighbours::of(context)?.size < context.size {
        let made = Window::allocate_with(context.job, 64, 1, &info);
        return refused(context.job, made, "shares no memory");
    }
    let made = Window::dynamic_with(context.job, &info);
    refused(context.job, made, "cannot be put into one segment")
}

/// The numbers of this process's open files and mappings of segments.
fn holdings() -> Result<(usize, usize), Failure> {
    let files = std::fs::read_dir("/proc/self/fd")?.count();
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let segments = maps.lines().filter(|line| line.contains("host-window"));
    Ok((files, segments.count()))
}

/// Checks that no file or mapping was left. The numbers may fall: the transport may have closed connections to other nodes
/// meanwhile, and unmapped windows that ended before.
fn no_more(before: (usize, usize), after: (usize, usize)) -> Outcome {
    ensure(after.0 <= before.0 && after.1 <= before.1, || {
        format!("{before:?}, then {after:?}")
    })
}

/// More memory than the machine has: every rank gets an error that says so, and no file or mapping
/// is left.
fn without_memory(context: &Context<'_>) -> Outcome {
    let before = holdings()?;
    let last = context.size - 1;
    for len in [1usize << 44, usize::MAX / 2, usize::MAX] {
        let len = if context.rank == last { len } else { 64 };
        let made = Window::allocate_with(context.job, len, 1, &Info::new());
        // Shared memory, unless the rank is alone on its node.
        refused(context.job, made, "memory")?;
    }
    let after = holdings()?;
    no_more(before, after)
}

/// A limit of the rank that makes the segment, and one of a rank that maps it.
fn beyond_limit(context: &Context<'_>) -> Outcome {
    const LEN: usize = 8 << 20;
    let before = holdings()?;
    let make = || Window::allocate_with(context.job, LEN, 1, &Info::new());
    let made = if context.rank == 0 {
        limited(libc::RLIMIT_FSIZE, 1 << 20, make)?
    } else {
        make()
    };
    refused(context.job, made, "ulimit -f")?;
    let after = holdings()?;
    no_more(before, after)
}

/// One rank cannot open the segment: all ranks use no segment, and the window works.
fn given_up(context: &Context<'_>) -> Outcome {
    let near = Neighbours::of(context)?;
    if near.size == 1 {
        return Ok(());
    }
    let make = || Window::allocate_with(&near.comm, 8, 8, &Info::new());
    let window = if near.rank == near.size - 1 {
        without_descriptors(make)?
    } else {
        make()
    }?;
    let name = window.table_name();
    let row = Layout::contiguous(Datatype::Int64, 1);
    let one = 1i64.to_ne_bytes();
    window.fence(Assertion::NOPRECEDE)?;
    for rank in 0..near.size {
        let target = row.at(rank, 0);
        // SAFETY: the operand lives until after the fence.
        unsafe { window.accumulate(one.as_ptr(), &row, target, Op::Sum) }?;
    }
    window.fence(Assertion::NOSUCCEED)?;
    let mut sum = [0; 8];
    window.read_local(0, &mut sum)?;
    window.free()?;
    ensure(i64::from_ne_bytes(sum) == near.size as i64, || {
        format!("sum {sum:?}")
    })?;
    ensure(name != "shm", || "the segment was kept".to_owned())?;
    let make = || Window::allocate_shared(&near.comm, 8, 8, &Info::new());
    let made = if near.rank == near.size - 1 {
        without_descriptors(make)?
    } else {
        make()
    };
    refused(&near.comm, made, "the segment at /proc/")
}

/// Windows use huge pages if the machine has any, otherwise ordinary ones.
fn huge_pages(context: &Context<'_>) -> Outcome {
    const LEN: usize = 3 << 20;
    let info = Info::new().with("host_win_huge_pages", "true")?;
    let window = Window::allocate_with(context.job, LEN, 1, &info)?;
    let wanted = context.fill(&window)?;
    window.fence(Assertion::empty())?;
    let next = context.next();
    let mut found = vec![0u8; LEN];
    let row = Layout::contiguous(Datatype::Uint8, LEN);
    let target = row.at(next, 0);
    // SAFETY: the buffer lives and is not accessed until after the fence.
    unsafe { window.get(found.as_mut_ptr(), &row, target) }?;
    window.fence(Assertion::NOSUCCEED)?;
    let outcome = same("got", &found, &context.initial(next, LEN))
        .and_then(|()| context.verify(&window, &wanted));
    window.free()?;
    outcome
}

/// Every rank updates the same unaligned elements, by each call: none is lost.
fn unaligned(context: &Context<'_>) -> Outcome {
    const ROUNDS: usize = 50;
    let window = Window::allocate_with(context.job, 64, 1, &Info::new())?;
    let row = Layout::contiguous(Datatype::Int32, 3);
    let ones = [1i32; 3];
    let mut old = [0i32; 3];
    context.meet()?;
    window.lock_all(Assertion::empty())?;
    for _ in 0..ROUNDS {
        let target = row.at(0, 5);
        let (from, into) = (ones.as_ptr().cast(), old.as_mut_ptr().cast());
        // SAFETY: the buffers live until after the flush, and are not read before.
        unsafe {
            window.accumulate(from, &row, target, Op::Sum)?;
            window.fetch_and_op(from, into, Datatype::Int32, 0, 9, Op::Sum)?;
            window.get_accumulate(from, &row, into, &row, target, Op::Sum)?;
        }
        window.flush(0)?;
    }
    window.unlock_all()?;
    context.meet()?;
    if context.rank == 0 {
        let mut found = [0; 12];
        window.read_local(5, &mut found)?;
        let once = (ROUNDS * context.size) as i32;
        let wanted: Vec<u8> = [2 * once, 3 * once, 2 * once]
            .iter()
            .flat_map(|sum| sum.to_ne_bytes())
            .collect();
        same("sums", &found, &wanted)?;
    }
    context.meet()?;
    window.free()?;
    Ok(())
}
