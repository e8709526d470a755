//! Ranks that serve other ranks while they wait for nothing themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::case::{Case, Context, Outcome, say};
use super::Open;
use host_stub::win::Op;
use plugin_api::Datatype;

/// Updates that other ranks request of a rank, one after the other.
const ASKED: u64 = 3;
/// The time for which the progress thread has nothing to do before: enough for it to sleep.
const QUIET: Duration = Duration::from_millis(20);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("crt/serving/while_polling_by_wait", |context| {
            while_polling(context, false)
        }),
        Case::new("crt/serving/while_polling_by_test", |context| {
            while_polling(context, true)
        }),
        Case::new("crt/serving/while_computing", while_computing),
    ]
}

/// Adds one to the first word of a rank's window, and waits for the completion.
fn add(window: &Open, rank: usize) -> Outcome {
    let (one, mut old) = (1u64, 0u64);
    let (from, into) = (&raw const one, &raw mut old);
    // SAFETY: both words live until the flush has ended.
    unsafe {
        let word = Datatype::Uint64;
        window
            .0
            .fetch_and_op(from.cast(), into.cast(), word, rank, 0, Op::Sum)?;
    }
    Ok(window.0.flush(rank)?)
}

/// A rank polls its own word by requests that end at once, until others have changed it. If the rank
/// executes the atomics of others, they need its progress.
fn while_polling(context: &Context<'_>, by_test: bool) -> Outcome {
    let window = Open::new(context, size_of::<u64>())?;
    if context.rank == 0 {
        for _ in 0..ASKED {
            add(&window, 1 % context.size)?;
        }
    } else if context.rank == 1 {
        let mut seen = [0u8; size_of::<u64>()];
        while u64::from_ne_bytes(seen) < ASKED {
            let mut request = window.get(seen.as_mut_ptr(), seen.len(), context.rank, 0)?;
            if by_test {
                while !request.test()? {}
            } else {
                request.wait()?;
            }
            std::thread::yield_now();
        }
    }
    window.close(context)
}

/// A rank with a progress thread makes no calls of the library until others have changed its
/// memory.
fn while_computing(context: &Context<'_>) -> Outcome {
    if !context.job.runtime().engine().has_progress_thread() {
        return say(context, "there is no progress thread");
    }
    let window = Open::new(context, size_of::<u64>())?;
    // All ranks have opened their epochs, so only the progress thread serves the following
    // requests.
    context.meet()?;
    std::thread::sleep(QUIET);
    if context.rank == 0 {
        for _ in 0..ASKED {
            add(&window, 1 % context.size)?;
        }
    } else if context.rank == 1 {
        // SAFETY: the pointer is to an aligned word of the window's memory, which others change by
        // atomics.
        let word = unsafe { AtomicU64::from_ptr(window.0.base().cast()) };
        while word.load(Ordering::Acquire) < ASKED {
            std::thread::yield_now();
        }
    }
    window.close(context)
}
