//! Collectives with buffers on the device, in addition to their own suite: requests that are
//! tested, dropped or awaited out of order, and mistakes.

use plugin_api::{Datatype, HmemInfo, hmem_iface};

use super::cases::at;
use crate::buffer::DeviceBuffer;
use crate::case::{Context, Outcome, ensure, same, say};
use host_stub::coll::{CollArgs, Collective};
use host_stub::comm::{Comm, CommError};
use host_stub::device::PretendedMemory;
use host_stub::win::Op;

const LEN: usize = 1000;

/// Several collectives under way, each with its own copies, ended in every possible way.
pub(super) fn under_way(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let comm = Comm::world(context.job)?.dup()?;
    let root_bytes = |index: usize| context.of_rank(index).bytes(LEN);
    let mut running = Vec::new();
    for index in 0..6 {
        let buffer = DeviceBuffer::new(devices, LEN, index)?;
        let root = index % context.size;
        if context.rank == root {
            buffer.write(0, &root_bytes(index))?;
        }
        let args = CollArgs {
            recv: buffer.pointer(0)?,
            count: LEN,
            root,
            on_device: buffer.is_marked(),
            ..CollArgs::default()
        };
        // SAFETY: the buffer lives until its request has ended: below, or in the request's drop.
        let request = unsafe { comm.start_collective(Collective::Bcast, &args) }?;
        running.push((index, request, buffer));
    }
    running.reverse();
    for (index, mut request, buffer) in running {
        match index % 3 {
            0 => while !request.test()? {},
            1 => request.wait()?,
            _ => drop(request),
        }
        let mut found = vec![0; LEN];
        buffer.read(0, &mut found)?;
        same(&format!("broadcast {index}"), &found, &root_bytes(index))?;
    }
    Ok(comm.free()?)
}

/// Each mistake is refused at every rank before anything is sent, and the next collective works.
pub(super) fn mistakes(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let comm = Comm::world(context.job)?.dup()?;
    let buffer = DeviceBuffer::new(devices, 4096, 0)?;
    let mut host = [1u64; 8];
    let here: *mut u8 = host.as_mut_ptr().cast();
    let nowhere = at(1 << 63 | 99 << 56 | 4096);
    let wrong = [
        ("host memory as device memory", here, 8, true),
        ("more than the memory", buffer.pointer(8)?, 4096, false),
        ("no such device", nowhere, 8, false),
    ];
    for (what, recv, count, on_device) in wrong {
        let args = CollArgs {
            recv,
            count,
            on_device,
            ..CollArgs::default()
        };
        // SAFETY: the call is refused before it accesses any memory.
        let (done, started) = unsafe {
            (
                comm.collective(Collective::Bcast, &args),
                comm.start_collective(Collective::Bcast, &args),
            )
        };
        let refused = matches!(&done, Err(CommError::BadArgument { .. }));
        ensure(
            refused && matches!(&started, Err(CommError::BadArgument { .. })),
            || format!("{what} gave {done:?}"),
        )?;
    }
    sum(context, &comm, &buffer)?;
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    if info.is_some_and(|info| info.overrides == HmemInfo::NONE) {
        say(
            context,
            "the device's own copy functions do not answer wrongly",
        )?;
        return Ok(comm.free()?);
    }
    for lie in [-1, i64::from(-libc::EIO)] {
        PretendedMemory::misbehave(lie);
        let done = reduce(&comm, &buffer);
        PretendedMemory::misbehave(0);
        let failed = matches!(&done, Err(CommError::DeviceCopy { answer, .. })
            if *answer == if lie == -1 { 63 } else { lie });
        ensure(failed, || {
            format!("a copy that answers {lie} off gave {done:?}")
        })?;
        sum(context, &comm, &buffer)?;
    }
    Ok(comm.free()?)
}

/// Copies that fail at one rank: no rank waits for it, each rank gets its failure, and the communicator
/// can still be used.
pub(super) fn failing_at_one(context: &Context<'_>) -> Outcome {
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    if context.size < 2 || info.is_some_and(|info| info.overrides == HmemInfo::NONE) {
        return say(
            context,
            "there is one rank, or the device's own copy functions do not answer wrongly",
        );
    }
    // More than a message holds.
    const LARGEST: usize = 128 << 10;
    let comm = Comm::world(context.job)?.dup()?;
    let buffer = DeviceBuffer::new(context.job.devices(), 16 * LARGEST, 0)?;
    for (count, at) in [(8, 0), (LARGEST, 0), (LARGEST, context.size - 1)] {
        let words = |value: usize| (value as u64).to_ne_bytes().repeat(count);
        let args = CollArgs {
            send: buffer.pointer(0)?,
            recv: buffer.pointer(8 * LARGEST)?,
            count,
            datatype: Datatype::Uint64,
            op: Op::Sum,
            ..CollArgs::default()
        };
        // The nonblocking form has the default schedule, with any layers.
        // SAFETY: the buffer lives until the wait is over.
        let sum = || unsafe { comm.start_collective(Collective::Allreduce, &args) }?.wait();
        buffer.write(0, &words(context.rank + 1))?;
        buffer.write(8 * LARGEST, &words(0))?;
        let fails = context.rank == at;
        PretendedMemory::misbehave(if fails { (-libc::EIO).into() } else { 0 });
        let done = sum();
        PretendedMemory::misbehave(0);
        let told = match &done {
            Err(CommError::DeviceCopy { .. }) => fails,
            Err(CommError::Elsewhere { .. }) => !fails,
            _ => false,
        };
        ensure(told, || {
            format!("{count} elements, which fail at rank {at}: {done:?}")
        })?;
        let mut found = vec![0; 8 * count];
        buffer.read(8 * LARGEST, &mut found)?;
        same("what no copy may reach", &found, &words(0))?;
        sum()?;
        buffer.read(8 * LARGEST, &mut found)?;
        let n = context.size;
        same("the sum", &found, &words(n * (n + 1) / 2))?;
    }
    Ok(comm.free()?)
}

/// Adds up eight words of the device, in place.
fn reduce(comm: &Comm, buffer: &DeviceBuffer) -> Result<(), CommError> {
    let recv = buffer.pointer(0).map_err(|error| CommError::BadArgument {
        call: "allreduce",
        reason: error.to_string(),
    })?;
    // SAFETY: the buffer has eight words, and lives until the call returns.
    unsafe { comm.allreduce(std::ptr::null(), recv, 8, Datatype::Uint64, Op::Sum) }
}

fn sum(context: &Context<'_>, comm: &Comm, buffer: &DeviceBuffer) -> Outcome {
    let words = |word: usize| (word as u64).to_ne_bytes().repeat(8);
    buffer.write(0, &words(context.rank + 1))?;
    reduce(comm, buffer)?;
    let mut found = [0; 64];
    buffer.read(0, &mut found)?;
    let n = context.size;
    same("the sum", &found, &words(n * (n + 1) / 2))
}
