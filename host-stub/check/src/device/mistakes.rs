//! Mistakes about device memory, and copies that fail: only the call itself fails.

use plugin_api::{Datatype, HmemInfo, Status, hmem_iface};

use super::cases::{at, bytes};
use crate::buffer::{DEVICE, DeviceBuffer};
use crate::case::{Context, Outcome, ensure, same, say, verify_at};
use host_stub::device::{HOST, PretendedMemory};
use host_stub::win::{Assertion, Info, Layout, Op, WinError, Window, unboxed};

/// Windows whose info contradicts their memory.
pub(super) fn mismatched(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let mut host = vec![0u64; 8];
    let base: *mut u8 = host.as_mut_ptr().cast();
    let memory = devices.allocate(DEVICE, 64)?;
    for (base, device) in [(base, DEVICE), (at(memory.base()), HOST), (base, 99)] {
        let info = Info::new().with_device(device);
        // SAFETY: the memory lives; the window is refused.
        let made = unsafe { Window::create_with(context.job, base, 64, 1, &info) };
        let refused = matches!(unboxed(&made), Err(WinError::Creation { reason, .. }) if reason.contains("device"));
        ensure(refused, || format!("device_num {device} gave {made:?}"))?;
    }
    let info = Info::new().with_device(99);
    let made = Window::allocate_with(context.job, 64, 1, &info);
    ensure(made.is_err(), || String::from("device 99 gave memory"))?;
    let made = Window::allocate_shared(context.job, 64, 1, &Info::new().with_device(DEVICE));
    ensure(made.is_err(), || {
        String::from("device memory was shared between processes")
    })?;
    devices.forget_memory(memory.base());
    Ok(())
}

/// Buffers that begin or end outside of the device's memory.
pub(super) fn straddling(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let buffer = DeviceBuffer::new(devices, 4096, 0)?;
    let window = context.window;
    let place = context.region(context.rank) as u64;
    let layout = bytes(64);
    window.fence(Assertion::empty())?;
    for offset in [4096 - 63, -63i64 as usize] {
        let pointer = buffer.pointer(0)?.wrapping_add(offset);
        // SAFETY: the call is refused before it accesses any memory.
        let put = unsafe { window.put(pointer, &layout, layout.at(context.rank, place)) };
        ensure(
            matches!(unboxed(&put), Err(WinError::BadArgument { .. })),
            || format!("a buffer that straddles was taken: {put:?}"),
        )?;
    }
    // A variable with a mapped part: the device's memory continues behind the part, the mapping
    // does not.
    let mut host = vec![0u64; 32];
    let variable: *mut u8 = host.as_mut_ptr().cast();
    let mapped = variable.wrapping_add(64);
    let memory = devices.allocate(DEVICE, 256)?;
    // SAFETY: the range lies in the memory, which outlives the mapping.
    unsafe { devices.associate(mapped as u64, 64, DEVICE, memory.base()) }?;
    for (pointer, len, fits) in [
        (mapped, 64, true),
        (mapped, 65, false),
        (variable, 64, true),
        (variable, 65, false),
    ] {
        let layout = bytes(len);
        // SAFETY: the memory lives until the epoch ends.
        let put = unsafe { window.put(pointer, &layout, layout.at(context.rank, place)) };
        let refused = matches!(unboxed(&put), Err(WinError::BadArgument { .. }));
        ensure(refused != fits && (refused || put.is_ok()), || {
            format!("{len} B at {pointer:p} of a variable mapped at {mapped:p}: {put:?}")
        })?;
    }
    window.fence(Assertion::empty())?;
    let info = Info::new().with_device(DEVICE);
    // SAFETY: the call is refused, and the memory lives.
    let made = unsafe { Window::create_with(context.job, mapped, 128, 1, &info) };
    ensure(made.is_err(), || {
        String::from("a window reaches beyond what is mapped")
    })?;
    devices.disassociate(mapped as u64, DEVICE);
    Ok(())
}

/// The calls of a copy function that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
}

impl Call {
    const ALL: [(Call, &'static str); 5] = [
        (Call::Put, "put"),
        (Call::Get, "get"),
        (Call::Accumulate, "accumulate"),
        (Call::GetAccumulate, "get_accumulate"),
        (Call::FetchAndOp, "fetch_and_op"),
    ];

    /// Makes the call with one buffer on the device as source and another as destination, and
    /// completes it.
    ///
    /// # Safety
    /// Each buffer has 64 bytes, and lives.
    unsafe fn run(
        self,
        window: &Window,
        (from, into): (*mut u8, *mut u8),
        rank: usize,
    ) -> Result<(), Box<WinError>> {
        let layout = Layout::contiguous(Datatype::Uint64, 8);
        let to = layout.at(rank, 0);
        // SAFETY: the buffers live until the flush.
        unsafe {
            match self {
                Call::Put => window.put(from, &layout, to),
                Call::Get => window.get(into, &layout, to),
                Call::Accumulate => window.accumulate(from, &layout, to, Op::Replace),
                Call::GetAccumulate => {
                    window.get_accumulate(from, &layout, into, &layout, to, Op::Replace)
                }
                Call::FetchAndOp => {
                    window.fetch_and_op(from, into, Datatype::Uint64, rank, 0, Op::Replace)
                }
            }
        }?;
        window.flush(rank)
    }
}

/// Whether an error is the expected one for a copy function's answer, on the path that the call
/// took.
fn tells(error: &WinError, name: &str, rank: usize, lie: i64, size: i64) -> bool {
    let text = error.to_string();
    match error {
        // Copied by the host: the call, the function and its answer.
        WinError::DeviceCopy { call, answer, .. } => {
            let wanted = if lie < -1 { lie } else { size + lie };
            *call == name && *answer == wanted && text.contains("_hmem_iov")
        }
        // Copied by the transport, reported at completion: its log has the operation and the
        // reason.
        WinError::Transport {
            call,
            rank: at,
            status,
        } => {
            let unknown = lie == -i64::from(libc::ENOSYS);
            let wanted = (*status == Status::NOT_SUPPORTED) == unknown;
            let named = text.contains(&format!("{call} to rank {rank}"));
            [name, "flush"].contains(call) && *at == rank && wanted && named
        }
        _ => false,
    }
}

/// A copy function that answers fewer bytes, more bytes or an error fails its operation alone: other
/// operations under way, and later ones, succeed.
pub(super) fn failing(context: &Context<'_>) -> Outcome {
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    if info.is_some_and(|info| info.overrides == HmemInfo::NONE) {
        return say(
            context,
            "the device's own copy functions do not answer wrongly",
        );
    }
    let window = context.allocate(512, 1)?;
    let buffer = DeviceBuffer::new(context.job.devices(), 256, 0)?;
    buffer.write(0, &[7; 64])?;
    context.meet()?;
    // The ranks take turns, because a rank with failing copies cannot serve other ranks.
    for turn in 0..context.size {
        if turn == context.rank {
            window.lock_all(Assertion::empty())?;
            for rank in [context.rank, context.next()] {
                for (call, name) in Call::ALL {
                    fails(&window, &buffer, rank, call, name)?;
                }
            }
            window.unlock_all()?;
        }
        context.meet()?;
    }
    verify_at(&window, 0, "after the failures", &[7; 64])?;
    context.meet()?;
    Ok(window.free()?)
}

/// One call, with each wrong answer and then without.
fn fails(window: &Window, buffer: &DeviceBuffer, rank: usize, call: Call, name: &str) -> Outcome {
    let size = if call == Call::FetchAndOp { 8 } else { 64 };
    let layout = bytes(64);
    let buffers = (buffer.pointer(0)?, buffer.pointer(128)?);
    for (turn, lie) in [1, -1, -i64::from(libc::EIO), -i64::from(libc::ENOSYS)]
        .into_iter()
        .enumerate()
    {
        let other = [turn as u8 + 1; 64];
        // A put from host memory to a rank whose copies succeed.
        let beside = if rank == window.rank() {
            None
        } else {
            // SAFETY: the buffer lives until the wait.
            Some(unsafe { window.rput(other.as_ptr(), &layout, layout.at(rank, 128)) }?)
        };
        PretendedMemory::misbehave(lie);
        // SAFETY: the buffer lives.
        let done = unsafe { call.run(window, buffers, rank) };
        PretendedMemory::misbehave(0);
        let told = matches!(&done, Err(error) if tells(error, name, rank, lie, size));
        ensure(told, || {
            format!("{name} to rank {rank} with a copy function that answers {lie}: {done:?}")
        })?;
        if let Some(beside) = beside {
            beside.wait()?;
            let mut found = [0; 64];
            // SAFETY: the buffer lives until the flush.
            unsafe { window.get(found.as_mut_ptr(), &layout, layout.at(rank, 128)) }?;
            window.flush(rank)?;
            same("put while another failed", &found, &other)?;
        }
    }
    // SAFETY: the buffer lives.
    unsafe { call.run(window, buffers, rank) }?;
    Ok(())
}

/// Memory freed while a window had it: operations on it fail, others succeed.
pub(super) fn freed(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let memory = devices.allocate(DEVICE, 4096)?;
    let base = memory.base();
    let info = Info::new().with_device(DEVICE);
    // SAFETY: the test frees the memory before the window. Only copy functions access it, and they
    // refuse freed memory.
    let window = unsafe { Window::create_with(context.job, at(base), 4096, 1, &info) }?;
    let next = context.next();
    context.meet()?;
    drop(memory);
    context.meet()?;
    // The driver may keep a block that has other memory too: then the freed memory cannot be
    // recognised.
    let is_kept = window.is_opened(next);
    window.lock_all(Assertion::empty())?;
    let (source, layout) = ([1u8; 8], bytes(8));
    // SAFETY: the buffer lives until the flush.
    let put = unsafe { window.put(source.as_ptr(), &layout, layout.at(next, 0)) };
    let done = put.and_then(|()| window.flush(next));
    ensure(done.is_err() || is_kept, || {
        String::from("a put to memory that is gone succeeded")
    })?;
    window.unlock_all()?;
    context.meet()?;
    window.free()?;
    devices.forget_memory(base);
    context.window.lock_all(Assertion::empty())?;
    let place = context.region(context.rank) as u64;
    // SAFETY: the same buffers, which live until the unlock.
    unsafe {
        let own = layout.at(next, place);
        context.window.put(source.as_ptr(), &layout, own)?;
    }
    context.window.unlock_all()?;
    context.meet()
}
