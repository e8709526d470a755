//! What is particular to devices: where memory is, mistakes about it, copies that fail, large
//! transfers, mixed runs, and operations that a device starts.

use std::sync::atomic::{AtomicBool, Ordering};

use plugin_api::{Datatype, HmemInfo, IoVec, hmem_iface};

use super::{DEVICE, DeviceBuffer};
use crate::command::check::case::{Case, Context, Outcome, ensure, same};
use crate::device::{
    Command, CommandKind, DeviceBuffer as _, HOST, Level, PretendedMemory, Proxy, Ring,
    decode_location,
};
use crate::win::{Assertion, Info, Layout, Target, WinError, Window};

type Test = fn(&Context<'_>) -> Outcome;

pub(super) fn cases() -> Vec<Case> {
    let all: [(&str, Test); 11] = [
        ("device/locations", locations),
        ("device/level", level),
        ("device/paths", paths),
        ("device/mixed-iovecs", mixed),
        ("device/large", large),
        ("device/overlapping-windows", overlapping),
        ("device/numbers-that-do-not-match", mismatched),
        ("device/straddling-buffers", straddling),
        ("device/copies-that-fail", failing),
        ("device/memory-freed-under-a-window", freed),
        ("device/started-by-the-device", started),
    ];
    let cases = all.into_iter();
    cases.map(|(name, run)| Case::new(name, run)).collect()
}

fn bytes(len: usize) -> Layout {
    Layout::contiguous(Datatype::Uint8, len)
}

fn target(rank: usize, displacement: u64, layout: &Layout) -> Target<'_> {
    Target {
        rank,
        displacement,
        layout,
    }
}

/// A pointer that no call may follow.
fn at(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// The three ways of saying where memory is agree.
fn locations(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let host = [0u64; 8];
    let pointer = host.as_ptr().cast::<u8>();
    let memory = PretendedMemory::new(4096)?;
    devices.add_memory(DEVICE, memory.base(), memory.len())?;
    let found = devices.target_location(at(memory.base() + 5));
    ensure(
        (found.device, found.address) == (DEVICE, memory.base() + 5),
        || format!("device memory was found at {found:?}"),
    )?;
    let found = devices.target_location(pointer);
    ensure(
        (found.device, found.address) == (HOST, pointer as u64),
        || format!("host memory was found at {found:?}"),
    )?;
    ensure(devices.target_pointer(pointer, DEVICE).is_err(), || {
        String::from("host memory has a place on the device")
    })?;
    devices.associate(pointer as u64, 64, DEVICE, memory.base() + 128)?;
    let inside = pointer.wrapping_add(9);
    let mapped = devices.target_pointer(inside, DEVICE)?;
    ensure(mapped == memory.base() + 137, || {
        format!("mapped at {mapped:#x}")
    })?;
    for (pointer, device) in [
        (inside, DEVICE),
        (inside, HOST),
        (at(memory.base()), DEVICE),
    ] {
        let encoded = devices.encode_location(pointer, device)?;
        let wanted = devices.target_pointer(pointer, device)?;
        let found = decode_location(encoded);
        ensure(
            found.is_some_and(|l| (l.device, l.address) == (device, wanted)),
            || format!("{encoded:#x} decodes to {found:?}"),
        )?;
    }
    devices.disassociate(pointer as u64);
    devices.forget_memory(memory.base());
    ensure(devices.encode_location(inside, DEVICE).is_err(), || {
        String::from("a mapping outlived its end")
    })
}

fn level(context: &Context<'_>) -> Outcome {
    let support = context.job.device_support();
    ensure(support.level == Level::DeviceOnBoth, || {
        format!("level {}: {}", support.level, support.why)
    })
}

/// Registrations go the way that the provider allows.
fn paths(context: &Context<'_>) -> Outcome {
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    let Some(info) = info else {
        return ensure(false, || {
            String::from("the plugin knows of no device memory")
        });
    };
    ensure(info.overrides != HmemInfo::NONE, || {
        String::from("the copy functions are not in force")
    })?;
    // The window of this pass is one.
    let (wanted, other) = match (info.provider, info.overrides) {
        (1, HmemInfo::PROVIDER) => ("direct", info.staged),
        (0, _) => ("staged", info.direct),
        // A provider may still refuse a registration.
        _ => return Ok(()),
    };
    ensure(other == 0 && info.direct + info.staged > 0, || {
        format!("wanted {wanted} registrations, found {info:?}")
    })
}

/// One copy over host and device memory together, from an offset.
fn mixed(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let memory = PretendedMemory::new(100)?;
    let (mut a, mut b) = ([1u8; 10], [2u8; 7]);
    let kinds = [hmem_iface::SYSTEM, hmem_iface::CUDA, hmem_iface::SYSTEM];
    let runs = [
        IoVec {
            base: a.as_mut_ptr().cast(),
            len: 10,
        },
        IoVec {
            base: at(memory.base() + 3).cast(),
            len: 20,
        },
        IoVec {
            base: b.as_mut_ptr().cast(),
            len: 7,
        },
    ];
    let wanted = context.of_rank(context.rank).bytes(37);
    let mut found = vec![0; 37];
    // SAFETY: the runs are arrays that live and memory of the device.
    let copied = unsafe {
        devices
            .write(&runs, &kinds, &wanted)
            .and_then(|()| devices.read(&runs, &kinds, &mut found))
    };
    ensure(copied.is_ok(), || format!("a copy answered {copied:?}"))?;
    same("mixed runs", &found, &wanted)?;
    same("the first run", &a, &wanted[..10])?;
    let transport = context.job.transport();
    let mut part = vec![0; 20];
    // SAFETY: as above.
    let n = unsafe { transport.copy_from_hmem(&mut part, &runs, &kinds, 5) };
    ensure(n == 20, || format!("a copy from an offset answered {n}"))?;
    same("from an offset", &part, &wanted[5..25])?;
    // SAFETY: as above; the kind is refused.
    let n = unsafe { transport.copy_from_hmem(&mut part, &runs[1..2], &[hmem_iface::ZE], 0) };
    ensure(n == i64::from(-libc::ENOSYS), || {
        format!("an unknown interface answered {n}")
    })
}

/// Many pieces, all overlapping, there and back.
fn large(context: &Context<'_>) -> Outcome {
    const LEN: usize = 3 << 20 | 123;
    let window = context.allocate(LEN, 1)?;
    let devices = context.job.devices();
    let wanted = context.of_rank(context.rank).bytes(LEN);
    let (from, into) = (
        DeviceBuffer::new(devices, LEN, 0)?,
        DeviceBuffer::new(devices, LEN, 1)?,
    );
    from.write(0, &wanted)?;
    let next = (context.rank + 1) % context.size;
    let layout = bytes(LEN);
    window.fence(Assertion::empty())?;
    // SAFETY: both buffers live until after the epoch.
    unsafe {
        window.put(from.pointer(0)?, &layout, target(next, 0, &layout))?;
        window.fence(Assertion::empty())?;
        window.get(into.pointer(0)?, &layout, target(next, 0, &layout))?;
    }
    window.fence(Assertion::empty())?;
    let mut found = vec![0; LEN];
    into.read(0, &mut found)?;
    same("what came back", &found, &wanted)?;
    let before = (context.rank + context.size - 1) % context.size;
    let wanted = context.of_rank(before).bytes(LEN);
    window.read_local(0, &mut found)?;
    same("what was put here", &found, &wanted)?;
    context.meet()?;
    Ok(window.free()?)
}

/// One variable with a host and a device mapping, a window over each.
fn overlapping(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let mut host = vec![0u64; 64];
    let base: *mut u8 = host.as_mut_ptr().cast();
    let memory = PretendedMemory::new(512)?;
    devices.add_memory(DEVICE, memory.base(), memory.len())?;
    devices.associate(base as u64, 512, DEVICE, memory.base())?;
    // Ranks of odd numbers have the second window on the host too: it need not be the same on all.
    let place = if context.rank.is_multiple_of(2) {
        DEVICE
    } else {
        HOST
    };
    // SAFETY: the memory lives until the windows were freed.
    let (first, second) = unsafe {
        (
            Window::create_with(context.job, base, 512, 1, &Info::new().with_device(HOST))?,
            Window::create_with(context.job, base, 512, 1, &Info::new().with_device(place))?,
        )
    };
    let next = (context.rank + 1) % context.size;
    let layout = bytes(8);
    let (ones, twos) = ([1u8; 8], [2u8; 8]);
    first.fence(Assertion::empty())?;
    second.fence(Assertion::empty())?;
    // SAFETY: the buffers live until after the epochs.
    unsafe {
        first.put(ones.as_ptr(), &layout, target(next, 0, &layout))?;
        second.put(twos.as_ptr(), &layout, target(next, 8, &layout))?;
    }
    first.fence(Assertion::empty())?;
    second.fence(Assertion::empty())?;
    let mut found = [0u8; 16];
    second.read_local(0, &mut found)?;
    let (low, high) = if place == DEVICE { (0, 2) } else { (1, 2) };
    same("the second window", &found, &[[low; 8], [high; 8]].concat())?;
    first.read_local(0, &mut found)?;
    let high = if place == DEVICE { 0 } else { 2 };
    same("the first window", &found, &[[1; 8], [high; 8]].concat())?;
    context.meet()?;
    first.free()?;
    second.free()?;
    devices.disassociate(base as u64);
    devices.forget_memory(memory.base());
    Ok(())
}

/// Windows whose info says something else than their memory is.
fn mismatched(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let mut host = vec![0u64; 8];
    let base: *mut u8 = host.as_mut_ptr().cast();
    let memory = PretendedMemory::new(64)?;
    devices.add_memory(DEVICE, memory.base(), memory.len())?;
    for (base, device) in [(base, DEVICE), (at(memory.base()), HOST), (base, 99)] {
        let info = Info::new().with_device(device);
        // SAFETY: the memory lives; the window is refused.
        let made = unsafe { Window::create_with(context.job, base, 64, 1, &info) };
        let refused =
            matches!(&made, Err(WinError::Creation { reason, .. }) if reason.contains("device"));
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

/// Buffers that run out of the device's memory, or into it.
fn straddling(context: &Context<'_>) -> Outcome {
    let buffer = DeviceBuffer::new(context.job.devices(), 4096, 0)?;
    let window = context.window;
    let layout = bytes(64);
    window.fence(Assertion::empty())?;
    for offset in [4096 - 63, -63i64 as usize] {
        let pointer = buffer.pointer(0)?.wrapping_add(offset);
        // SAFETY: refused before anything is touched.
        let put = unsafe { window.put(pointer, &layout, target(context.rank, 0, &layout)) };
        ensure(matches!(put, Err(WinError::BadArgument { .. })), || {
            format!("a buffer that straddles was taken: {put:?}")
        })?;
    }
    Ok(window.fence(Assertion::empty())?)
}

/// A copy function that answers fewer bytes, more bytes or an error fails its operation alone.
fn failing(context: &Context<'_>) -> Outcome {
    let window = context.allocate(256, 1)?;
    let buffer = DeviceBuffer::new(context.job.devices(), 256, 0)?;
    let layout = bytes(64);
    let own = target(context.rank, 0, &layout);
    buffer.write(0, &[7; 64])?;
    window.lock_all(Assertion::empty())?;
    for lie in [1, -1, i64::from(-libc::EIO), i64::from(-libc::ENOSYS)] {
        PretendedMemory::misbehave(lie);
        // SAFETY: the buffer lives until the flush.
        let put = unsafe { window.put(buffer.pointer(0)?, &layout, own) };
        let done = put.and_then(|()| window.flush(context.rank));
        PretendedMemory::misbehave(0);
        ensure(done.is_err(), || {
            format!("a put succeeded with a copy function that answers {lie} off")
        })?;
        // SAFETY: likewise.
        unsafe { window.put(buffer.pointer(0)?, &layout, own) }?;
        window.flush(context.rank)?;
    }
    window.unlock_all()?;
    let mut found = [0; 64];
    window.read_local(0, &mut found)?;
    same("after the failures", &found, &[7; 64])?;
    context.meet()?;
    Ok(window.free()?)
}

/// Memory that went while a window had it: operations on it fail, others go on.
fn freed(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let memory = PretendedMemory::new(4096)?;
    let base = memory.base();
    devices.add_memory(DEVICE, base, memory.len())?;
    let info = Info::new().with_device(DEVICE);
    // SAFETY: the memory goes before the window, which is what is tried: only copy functions, which
    // find it gone, reach for it.
    let window = unsafe { Window::create_with(context.job, at(base), 4096, 1, &info) }?;
    let next = (context.rank + 1) % context.size;
    context.meet()?;
    drop(memory);
    context.meet()?;
    window.lock_all(Assertion::empty())?;
    let (source, layout) = ([1u8; 8], bytes(8));
    // SAFETY: the buffer lives until the flush.
    let put = unsafe { window.put(source.as_ptr(), &layout, target(next, 0, &layout)) };
    let done = put.and_then(|()| window.flush(next));
    ensure(done.is_err(), || {
        String::from("a put to memory that is gone succeeded")
    })?;
    window.unlock_all()?;
    context.meet()?;
    window.free()?;
    devices.forget_memory(base);
    context.window.lock_all(Assertion::empty())?;
    let place = context.region(context.rank) as u64;
    // SAFETY: likewise.
    unsafe {
        let own = target(next, place, &layout);
        context.window.put(source.as_ptr(), &layout, own)?;
    }
    context.window.unlock_all()?;
    context.meet()
}

/// A thread in the place of a device writes commands, which the host does.
fn started(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let window = context.allocate(256, 8)?;
    window.write_local(0, &[0; 256])?;
    let buffer = DeviceBuffer::new(devices, 64, 0)?;
    let next = (context.rank + 1) % context.size;
    buffer.write(
        0,
        &(10..18u64).flat_map(u64::to_ne_bytes).collect::<Vec<u8>>(),
    )?;
    let words = [5u64; 4];
    let host_words = words.as_ptr() as u64;
    let device_words = buffer.pointer(0)? as u64;
    let ring = Ring::new(8);
    let level = context.job.device_support().level;
    context.meet()?;
    window.lock_all(Assertion::empty())?;
    let command = |kind: CommandKind, displacement: u64, local: u64, count: u64| Command {
        kind: kind as u32,
        target: next as u32,
        datatype: Datatype::Uint64 as u32,
        displacement,
        local,
        count,
        ..Command::default()
    };
    let over = AtomicBool::new(false);
    let windows = [&window];
    let mut proxy = Proxy::new(&ring, devices, &windows, level)?;
    let answers = std::thread::scope(|scope| {
        let device = scope.spawn(|| {
            let run = |command: &Command| ring.wait(ring.submit(command));
            let fetch = Command {
                operand: 7,
                op: 0,
                ..command(CommandKind::FetchOp, 0, 0, 1)
            };
            let swap = Command {
                operand: 99,
                compare: 17,
                ..command(CommandKind::CompareSwap, 0, 0, 1)
            };
            let answers = [
                run(&command(CommandKind::Put, 0, device_words, 4)),
                run(&command(CommandKind::Put, 8, host_words, 4)),
                run(&command(CommandKind::Flush, 0, 0, 0)),
                run(&fetch),
                run(&swap),
                run(&command(CommandKind::Accumulate, 2, device_words, 1)),
                run(&command(CommandKind::Get, 0, device_words + 32, 2)),
                run(&command(CommandKind::Flush, 0, 0, 0)),
                run(&Command {
                    window: 3,
                    ..command(CommandKind::Flush, 0, 0, 0)
                }),
            ];
            over.store(true, Ordering::Release);
            answers
        });
        while !over.load(Ordering::Acquire) {
            if proxy.serve() == 0 {
                context.job.transport().progress();
                std::thread::yield_now();
            }
        }
        device.join()
    });
    let answers = answers
        .map_err(|_| crate::command::check::case::Failure::new("the device's thread panicked"))?;
    let seen: Vec<(i32, u64)> = answers.iter().map(|a| (a.status, a.result)).collect();
    let wanted = [
        (0, 0),
        (0, 0),
        (0, 0),
        (0, 10),
        (0, 17),
        (0, 0),
        (0, 0),
        (0, 0),
    ];
    ensure(seen[..8] == wanted, || format!("answers {seen:?}"))?;
    ensure(seen[8].0 < 0, || {
        String::from("a window that is none was flushed")
    })?;
    window.unlock_all()?;
    context.meet()?;
    let mut found = [0; 96];
    window.read_local(0, &mut found)?;
    let words: Vec<u64> = found
        .as_chunks::<8>()
        .0
        .iter()
        .map(|b| u64::from_ne_bytes(*b))
        .collect();
    ensure(words == [99, 11, 22, 13, 0, 0, 0, 0, 5, 5, 5, 5], || {
        format!("the window holds {words:?}")
    })?;
    let mut got = [0; 16];
    buffer.read(32, &mut got)?;
    same(
        "what was got",
        &got,
        &[99u64.to_ne_bytes(), 11u64.to_ne_bytes()].concat(),
    )?;
    // Level 3 keeps devices from host memory, and below it they start nothing.
    let mut proxy = Proxy::new(&ring, devices, &windows, Level::DeviceOnDevice)?;
    proxy.skip(9);
    let ticket = ring.submit(&command(CommandKind::Put, 0, host_words, 1));
    proxy.serve();
    ensure(ring.wait(ticket).status < 0, || {
        String::from("host memory was used at level 3")
    })?;
    let low = Proxy::new(&ring, devices, &windows, Level::HostOnBoth);
    ensure(low.is_err(), || String::from("a device started at level 2"))?;
    context.meet()?;
    Ok(window.free()?)
}
