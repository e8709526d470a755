//! Commands of a device to memory that the program has attached, while the program attaches more memory and
//! puts there itself.

use std::sync::Arc;

use plugin_api::Datatype;

use super::started::{To, free, one_by_one, served};
use crate::case::{Context, Failure, Outcome, ensure};
use host_stub::device::{CommandKind, Level, Ring};
use host_stub::win::{Assertion, Layout, Proxy, Window};

/// Number of puts of the program, and of the device.
const PUTS: u64 = 50;

/// Program and device read the regions of the next rank, on one thread if there is no progress
/// thread.
pub(super) fn attached(context: &Context<'_>) -> Outcome {
    let window = Arc::new(context.dynamic()?);
    let (mut memory, mut more) = ([0u64; 2], [0u64; 2]);
    let (base, more) = (memory.as_mut_ptr(), more.as_mut_ptr());
    // SAFETY: the memory is detached before it is freed, and not accessed until then.
    unsafe { window.attach(base.cast(), 16) }?;
    let bases = context.job.allgather(&(base as u64).to_ne_bytes())?;
    let rank = context.next();
    let there = u64::from_ne_bytes(bases[rank].as_slice().try_into()?);
    window.lock_all(Assertion::empty())?;
    let ring = Arc::new(Ring::new(8));
    let proxy = Proxy::new(context.job, &ring, Level::DeviceOnBoth)?;
    let to = To {
        window: proxy.add_window(Arc::clone(&window))?,
        rank,
    };
    let seven = 7u64;
    let put = to.command(CommandKind::Put, there + 8, &raw const seven as u64, 1);
    let commands = vec![put; PUTS as usize];
    let answers = std::thread::scope(|scope| {
        let device = scope.spawn(|| one_by_one(&ring, &commands));
        let done = puts(&window, (rank, there), more.cast());
        let answers = served(context, vec![device])?;
        done?;
        Ok::<_, Failure>(answers)
    })?;
    let failed = answers.iter().flatten().find(|answer| answer.status != 0);
    ensure(failed.is_none(), || format!("answered {failed:?}"))?;
    drop(proxy);
    window.unlock_all()?;
    context.meet()?;
    window.detach(base.cast())?;
    ensure(memory == [PUTS, 7], || {
        format!("the memory holds {memory:?}")
    })?;
    free(window)
}

/// Puts to the other rank, each after a change of this rank's attached memory.
fn puts(window: &Window, (rank, displacement): (usize, u64), more: *mut u8) -> Outcome {
    let word = Layout::contiguous(Datatype::Uint64, 1);
    for number in 1..=PUTS {
        // SAFETY: the memory is detached below, and no code uses it.
        unsafe { window.attach(more, 16) }?;
        let target = word.at(rank, displacement);
        // SAFETY: the number outlives the flush.
        unsafe { window.put((&raw const number).cast(), &word, target) }?;
        window.flush(rank)?;
        window.detach(more)?;
    }
    Ok(())
}
