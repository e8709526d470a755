//! Several threads of every rank on one window at once. With one thread, this thread does the same
//! work.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, same};
use super::random::Random;
use host_stub::win::{Assertion, Layout, Op, Request};

const ROUNDS: usize = 20;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("threads/put_get", put_get),
        Case::new("threads/fetch_and_op", fetch_and_op),
        Case::new("threads/accumulate", accumulate),
        Case::new("threads/requests", requests),
        Case::new("threads/windows", windows),
    ]
}

/// Runs a function on every thread at once; the first failure counts.
fn on_threads(count: usize, work: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    let work = &work;
    if count <= 1 {
        // Below the thread level Multiple no other thread may call.
        return work(0);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
            })
            .fold(Ok(()), Result::and)
    })
}

/// A buffer of a thread; leaked when the thread fails with operations under way.
fn buffer(len: usize) -> &'static mut [u8] {
    Box::leak(vec![0; len].into_boxed_slice())
}

/// Frees a buffer on which nothing is under way.
fn release(buffer: *mut [u8]) {
    // SAFETY: the callers pass slices that `buffer` leaked, once, after the last flush.
    drop(unsafe { Box::from_raw(buffer) });
}

/// Bytes that one thread of one rank uses at a target.
const SHARE: usize = 512;
const LEN: usize = 200;

fn put_get(context: &Context<'_>) -> Outcome {
    let threads = context.threads;
    let window = context.allocate(context.size * threads * SHARE, 1)?;
    context.meet()?;
    window.lock_all(Assertion::empty())?;
    on_threads(threads, |thread| {
        let row = Layout::contiguous(Datatype::Uint8, LEN);
        let target = row.at(
            context.next(),
            ((context.rank * threads + thread) * SHARE) as u64,
        );
        let (from, into) = (buffer(LEN), buffer(LEN));
        let mut random = Random::new(
            context.seed,
            context.name,
            (context.rank << 8 | thread) as u64,
        );
        for _ in 0..ROUNDS {
            from.copy_from_slice(&random.bytes(LEN));
            // SAFETY: the buffers live, and are not touched, until after the flush.
            unsafe { window.put(from.as_ptr(), &row, target) }?;
            window.flush(target.rank)?;
            // SAFETY: the buffers live, and are not touched, until after the flush.
            unsafe { window.get(into.as_mut_ptr(), &row, target) }?;
            window.flush(target.rank)?;
            same("read back", into, from)?;
        }
        release(from);
        release(into);
        Ok(())
    })?;
    window.unlock_all()?;
    window.free()?;
    Ok(())
}

fn fetch_and_op(context: &Context<'_>) -> Outcome {
    let threads = context.threads;
    let window = context.allocate(8, 8)?;
    window.lock_all(Assertion::empty())?;
    let tickets = std::sync::Mutex::new(Vec::new());
    on_threads(threads, |_| {
        let (from, into) = (buffer(8), buffer(8));
        from.copy_from_slice(&1i64.to_ne_bytes());
        let mut mine = Vec::new();
        for _ in 0..ROUNDS {
            // SAFETY: the buffers live, and are not touched, until after the flush.
            unsafe {
                window.fetch_and_op(
                    from.as_ptr(),
                    into.as_mut_ptr(),
                    Datatype::Int64,
                    0,
                    0,
                    Op::Sum,
                )
            }?;
            window.flush(0)?;
            let mut ticket = [0; 8];
            ticket.copy_from_slice(into);
            mine.push(i64::from_ne_bytes(ticket));
        }
        release(from);
        release(into);
        if !mine.is_sorted() {
            return Err(Failure::new(format!("out of order: {mine:?}")));
        }
        match tickets.lock() {
            Ok(mut tickets) => tickets.extend(mine),
            Err(_) => return Err(Failure::new("a thread panicked")),
        }
        Ok(())
    })?;
    window.unlock_all()?;
    let mine = tickets.into_inner().unwrap_or_default();
    let mut all = context.gather(&mine)?;
    all.sort_unstable();
    let count = (ROUNDS * threads * context.size) as i64;
    window.free()?;
    if all != (0..count).collect::<Vec<_>>() {
        return Err(Failure::new(format!(
            "{} tickets, wanted each of 0 to {count} once",
            all.len()
        )));
    }
    Ok(())
}

fn accumulate(context: &Context<'_>) -> Outcome {
    const COUNT: usize = 32;
    let threads = context.threads;
    let window = context.allocate(COUNT * 8, 8)?;
    window.lock_all(Assertion::empty())?;
    on_threads(threads, |thread| {
        let row = Layout::contiguous(Datatype::Int64, COUNT);
        let from = buffer(COUNT * 8);
        for chunk in from.chunks_mut(8) {
            chunk.copy_from_slice(&(thread as i64 + 1).to_ne_bytes());
        }
        for _ in 0..ROUNDS {
            for rank in [0, context.next()] {
                let target = row.at(rank, 0);
                // SAFETY: the buffer lives unchanged until after the flush.
                unsafe { window.accumulate(from.as_ptr(), &row, target, Op::Sum) }?;
            }
        }
        window.flush_all()?;
        release(from);
        Ok(())
    })?;
    window.unlock_all()?;
    context.meet()?;
    let once = (ROUNDS * threads * (threads + 1) / 2) as i64;
    // One from each rank whose next rank is this one, and one from each rank to rank 0.
    let times = 1 + if context.rank == 0 {
        context.size as i64
    } else {
        0
    };
    let mut found = vec![0; COUNT * 8];
    window.read_local(0, &mut found)?;
    let wanted = vec![once * times; COUNT];
    let wanted: Vec<u8> = wanted.iter().flat_map(|sum| sum.to_ne_bytes()).collect();
    let outcome = same("sums", &found, &wanted);
    context.meet()?;
    window.free()?;
    outcome
}

fn requests(context: &Context<'_>) -> Outcome {
    let threads = context.threads;
    let window = context.allocate(context.size * threads * SHARE, 1)?;
    context.meet()?;
    window.lock_all(Assertion::empty())?;
    on_threads(threads, |thread| {
        let row = Layout::contiguous(Datatype::Uint8, 8);
        let place = (context.rank * threads + thread) * SHARE;
        let from = buffer(ROUNDS * 8);
        let data = Random::new(context.seed, "requests", place as u64).bytes(ROUNDS * 8);
        from.copy_from_slice(&data);
        let into = buffer(ROUNDS * 8);
        let target = |index: usize| row.at(context.next(), (place + index * 8) as u64);
        let puts = (0..ROUNDS)
            .map(|index| {
                // SAFETY: the buffer lives unchanged until the requests are complete.
                unsafe { window.rput(from[index * 8..].as_ptr(), &row, target(index)) }
            })
            .collect::<Result<Vec<_>, _>>()?;
        Request::wait_all(puts)?;
        let gets = (0..ROUNDS)
            .map(|index| {
                // SAFETY: the buffer lives untouched until the requests are complete.
                unsafe { window.rget(into[index * 8..].as_mut_ptr(), &row, target(index)) }
            })
            .collect::<Result<Vec<_>, _>>()?;
        Request::wait_all(gets)?;
        same("read back", into, from)?;
        release(from);
        release(into);
        Ok(())
    })?;
    window.unlock_all()?;
    window.free()?;
    Ok(())
}

/// Every thread has its own window, with its own epochs.
fn windows(context: &Context<'_>) -> Outcome {
    let windows = (0..context.threads)
        .map(|_| context.allocate(context.size * 8, 8))
        .collect::<Result<Vec<_>, _>>()?;
    on_threads(context.threads, |thread| {
        let window = &windows[thread];
        let row = Layout::contiguous(Datatype::Int64, 1);
        let from = buffer(8);
        for round in 0..10i64 {
            window.fence(Assertion::empty())?;
            from.copy_from_slice(&(round + thread as i64).to_ne_bytes());
            for rank in 0..context.size {
                let target = row.at(rank, context.rank as u64);
                // SAFETY: the buffer lives unchanged until after the fence.
                unsafe { window.put(from.as_ptr(), &row, target) }?;
            }
            window.fence(Assertion::empty())?;
            let mut found = vec![0; context.size * 8];
            window.read_local(0, &mut found)?;
            let wanted = (round + thread as i64).to_ne_bytes().repeat(context.size);
            same("put", &found, &wanted)?;
        }
        window.fence(Assertion::NOSUCCEED)?;
        release(from);
        Ok(())
    })?;
    for window in windows {
        window.free()?;
    }
    Ok(())
}
