//! A window with one rank's memory on a device: the other ranks still access each other's memory as before.

use plugin_api::Datatype;

use super::cases::bytes;
use crate::buffer::DEVICE;
use crate::case::{Context, Outcome, ensure, same};
use host_stub::device::HOST;
use host_stub::win::{Assertion, Info, Op, Window};

const LEN: usize = 256;
/// Updates of each kind that each rank makes at each target.
const UPDATES: u64 = 100;

fn info(context: &Context<'_>, on_device: usize) -> Info {
    Info::new().with_device(match context.rank == on_device {
        true => DEVICE,
        false => HOST,
    })
}

pub(super) fn one_rank(context: &Context<'_>) -> Outcome {
    for on_device in [0, context.size - 1] {
        let window = Window::allocate_with(context.job, LEN, 1, &info(context, on_device))?;
        ways(context, &window, on_device)?;
        updates(context, &window)?;
        window.free()?;
        if context.size == 1 {
            break;
        }
    }
    // The transport reaches memory of the caller.
    let mut memory = vec![0u64; LEN / 8];
    let base = memory.as_mut_ptr().cast::<u8>();
    let device = context.job.devices().allocate(DEVICE, LEN)?;
    let base = match context.rank {
        0 => super::cases::at(device.base()),
        _ => base,
    };
    // SAFETY: the memory lives until the window was freed.
    let window = unsafe { Window::create_with(context.job, base, LEN, 1, &info(context, 0)) }?;
    puts(context, &window)?;
    updates(context, &window)?;
    window.free()?;
    context.job.devices().forget_memory(device.base());
    // The table that has no transport is refused on all ranks.
    let shm = info(context, 0).with_table(host_stub::win::TableChoice::Shm);
    let made = Window::allocate_with(context.job, LEN, 1, &shm);
    ensure(made.is_err(), || {
        String::from("memory of a device was put into a segment")
    })
}

/// A dynamic window that was made without a number takes memory of a device and of the host.
pub(super) fn attached(context: &Context<'_>) -> Outcome {
    let window = Window::dynamic_with(context.job, &Info::new())?;
    let memory = context.job.devices().allocate(DEVICE, LEN)?;
    let mut host = vec![0u64; LEN / 8];
    let base = match context.rank % 2 {
        0 => super::cases::at(memory.base()),
        _ => host.as_mut_ptr().cast(),
    };
    // SAFETY: the memory lives until it was detached.
    unsafe { window.attach(base, LEN) }?;
    let bases = context.job.allgather(&(base as u64).to_ne_bytes())?;
    let layout = bytes(8);
    let sent = context.of_rank(context.rank).bytes(8);
    window.lock_all(Assertion::empty())?;
    for (rank, base) in bases.iter().enumerate() {
        let place = u64::from_ne_bytes(base.as_slice().try_into()?) + 8 * context.rank as u64;
        let mut found = [0u8; 8];
        // SAFETY: the buffers live until the flush.
        unsafe {
            window.put(sent.as_ptr(), &layout, layout.at(rank, place))?;
            window.flush(rank)?;
            window.get(found.as_mut_ptr(), &layout, layout.at(rank, place))?;
        }
        window.flush(rank)?;
        same(&format!("what was put to rank {rank}"), &found, &sent)?;
    }
    window.unlock_all()?;
    context.meet()?;
    window.detach(base)?;
    window.free()?;
    context.job.devices().forget_memory(memory.base());
    Ok(())
}

/// Memory of the host is mapped on this node; memory of the device is mapped nowhere.
fn ways(context: &Context<'_>, window: &Window, on_device: usize) -> Outcome {
    let node = context.job.node(context.rank as u32);
    for rank in 0..context.size {
        let beside = context.job.node(rank as u32) == node;
        let mapped = window.shared_query(Some(rank)).is_ok();
        ensure(mapped == (rank != on_device && beside), || {
            format!(
                "table {}: with rank {on_device} on a device, memory of rank {rank} is mapped: {mapped}",
                window.table_name()
            )
        })?;
    }
    puts(context, window)
}

/// Every rank puts to every rank, and gets it back.
fn puts(context: &Context<'_>, window: &Window) -> Outcome {
    let layout = bytes(8);
    let place = 128 + 8 * (context.rank as u64 % 16);
    let sent = context.of_rank(context.rank).bytes(8);
    window.lock_all(Assertion::empty())?;
    for rank in 0..context.size {
        let mut found = [0u8; 8];
        // SAFETY: the buffers live until the flush.
        unsafe {
            window.put(sent.as_ptr(), &layout, layout.at(rank, place))?;
            window.flush(rank)?;
            window.get(found.as_mut_ptr(), &layout, layout.at(rank, place))?;
        }
        window.flush(rank)?;
        same(&format!("what was put to rank {rank}"), &found, &sent)?;
    }
    window.unlock_all()?;
    context.meet()
}

/// All ranks update a word of each rank at the same time. No update is lost, because one executor makes all atomics of a target.
fn updates(context: &Context<'_>, window: &Window) -> Outcome {
    let one = 1u64.to_ne_bytes();
    let layout = host_stub::win::Layout::contiguous(Datatype::Uint64, 1);
    let mut old = [0u8; 8];
    window.lock_all(Assertion::empty())?;
    for _ in 0..UPDATES {
        for rank in 0..context.size {
            let word = Datatype::Uint64;
            // SAFETY: the buffers live until the flush.
            unsafe {
                window.accumulate(one.as_ptr(), &layout, layout.at(rank, 0), Op::Sum)?;
                window.fetch_and_op(one.as_ptr(), old.as_mut_ptr(), word, rank, 0, Op::Sum)?;
            }
        }
        window.flush_all()?;
    }
    window.unlock_all()?;
    context.meet()?;
    let mut found = [0u8; 8];
    window.read_local(0, &mut found)?;
    let wanted = 2 * UPDATES * context.size as u64;
    same("the updates", &found, &wanted.to_ne_bytes())?;
    context.meet()
}
