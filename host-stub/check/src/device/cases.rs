//! Tests that only devices need, apart from calls that must fail (`mistakes`) and operations that a device
//! starts (`started`).

use std::time::{Duration, Instant};

use plugin_api::{Datatype, HmemInfo, IoVec, hmem_iface};

use super::{attached, collectives, garbage, mistakes, one_rank, scattered, started, under_way};
use crate::buffer::{DEVICE, DeviceBuffer};
use crate::case::{Case, Context, Outcome, ensure, same, say, verify_at};
use host_stub::device::{HOST, decode_location};
use host_stub::win::{Assertion, Info, Layout, Window};

pub(super) type Test = fn(&Context<'_>) -> Outcome;

pub(super) fn cases() -> Vec<Case> {
    let all: &[(&str, Test)] = &[
        ("device/locations", locations),
        ("device/level", started::level),
        ("device/paths", paths),
        ("device/mixed-iovecs", mixed),
        ("device/mixed-layouts", scattered::transfers),
        ("device/large", large),
        ("device/overlapping-windows", overlapping),
        ("device/every-device", every_device),
        ("device/memory-nobody-told-of", untold),
        ("device/who-serves", who_serves),
        ("device/numbers-that-do-not-match", mistakes::mismatched),
        ("device/straddling-buffers", mistakes::straddling),
        ("device/copies-that-fail", mistakes::failing),
        ("device/one-rank-on-a-device", one_rank::one_rank),
        ("device/attached-without-a-number", one_rank::attached),
        ("device/calls-that-return", under_way::returns),
        ("device/copies-that-fail-later", under_way::fails_later),
        ("device/memory-freed-under-a-window", mistakes::freed),
        ("device/collectives-under-way", collectives::under_way),
        ("device/collectives-refused", collectives::mistakes),
        (
            "device/collectives-whose-copies-fail-at-one-rank",
            collectives::failing_at_one,
        ),
        ("device/started-by-the-device", started::started),
        ("device/started-at-level-3", started::at_level_3),
        ("device/started-in-several-rings", started::several_rings),
        ("device/started-on-attached-memory", attached::attached),
        ("device/garbage-commands", garbage::commands),
        ("device/garbage-rings", garbage::rings),
        #[cfg(feature = "cuda")]
        ("device/started-by-a-kernel", super::kernel::by_a_kernel),
        #[cfg(feature = "cuda")]
        (
            "device/started-by-many-threads",
            super::kernel::by_many_threads,
        ),
    ];
    let cases = all.iter();
    cases.map(|(name, run)| Case::new(*name, *run)).collect()
}

pub(super) fn bytes(len: usize) -> Layout {
    Layout::contiguous(Datatype::Uint8, len)
}

/// A pointer that no call may dereference.
pub(super) fn at(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// The three names of a place in memory agree.
fn locations(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let host = [0u64; 8];
    let pointer = host.as_ptr().cast::<u8>();
    let memory = devices.allocate(DEVICE, 4096)?;
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
    // SAFETY: the range lies in the memory, which outlives the mapping.
    unsafe { devices.associate(pointer as u64, 64, DEVICE, memory.base() + 128) }?;
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
    devices.disassociate(pointer as u64, DEVICE);
    devices.forget_memory(memory.base());
    ensure(devices.encode_location(inside, DEVICE).is_err(), || {
        String::from("a mapping outlived its end")
    })
}

/// Registrations take the path that the provider allows.
fn paths(context: &Context<'_>) -> Outcome {
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    let Some(info) = info else {
        return ensure(false, || {
            String::from("the plugin knows of no device memory")
        });
    };
    ensure(info.overrides != HmemInfo::NONE || info.devices > 0, || {
        String::from("nothing reaches the device")
    })?;
    // The window of this pass is a registration.
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
    let memory = devices.allocate(DEVICE, 100)?;
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
    // SAFETY: the runs are live arrays and memory of the device.
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
    // SAFETY: the runs are live arrays and memory of the device.
    let n = unsafe { transport.copy_from_hmem(&mut part, &runs, &kinds, 5) };
    ensure(n == 20, || format!("a copy from an offset answered {n}"))?;
    same("from an offset", &part, &wanted[5..25])?;
    // SAFETY: the runs are live arrays and memory of the device; the kind is refused.
    let n = unsafe { transport.copy_from_hmem(&mut part, &runs[1..2], &[hmem_iface::ZE], 0) };
    ensure(n == i64::from(-libc::ENOSYS), || {
        format!("an unknown interface answered {n}")
    })
}

/// Many fragments, all overlapping, there and back.
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
    let next = context.next();
    let layout = bytes(LEN);
    window.fence(Assertion::empty())?;
    // SAFETY: both buffers live until after the epoch.
    unsafe {
        window.put(from.pointer(0)?, &layout, layout.at(next, 0))?;
        window.fence(Assertion::empty())?;
        window.get(into.pointer(0)?, &layout, layout.at(next, 0))?;
    }
    window.fence(Assertion::empty())?;
    let mut found = vec![0; LEN];
    into.read(0, &mut found)?;
    same("what came back", &found, &wanted)?;
    let before = context.previous();
    let wanted = context.of_rank(before).bytes(LEN);
    window.read_local(0, &mut found)?;
    same("what was put here", &found, &wanted)?;
    context.meet()?;
    Ok(window.free()?)
}

/// One variable with memory on the host and on a device, and a window over each.
fn overlapping(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let mut host = vec![0u64; 64];
    let base: *mut u8 = host.as_mut_ptr().cast();
    let memory = devices.allocate(DEVICE, 512)?;
    // SAFETY: the range is the memory, which outlives the mapping.
    unsafe { devices.associate(base as u64, 512, DEVICE, memory.base()) }?;
    // Ranks with odd numbers have the second window on the host, too: the place may differ between
    // ranks.
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
    let next = context.next();
    let layout = bytes(8);
    let (ones, twos) = ([1u8; 8], [2u8; 8]);
    first.fence(Assertion::empty())?;
    second.fence(Assertion::empty())?;
    // SAFETY: the buffers live until after the epochs.
    unsafe {
        first.put(ones.as_ptr(), &layout, layout.at(next, 0))?;
        second.put(twos.as_ptr(), &layout, layout.at(next, 8))?;
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
    devices.disassociate(base as u64, DEVICE);
    devices.forget_memory(memory.base());
    Ok(())
}

/// Windows on each device, not only on the suite's.
fn every_device(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    for device in 0..devices.all().len() as i32 {
        let info = Info::new().with_device(device);
        let window = Window::allocate_with(context.job, 4096, 1, &info)?;
        let next = context.next();
        let layout = bytes(4096);
        let wanted = context.of_rank(context.rank).bytes(4096);
        let mut found = vec![0; 4096];
        window.fence(Assertion::empty())?;
        // SAFETY: the buffer lives until after the epoch.
        unsafe { window.put(wanted.as_ptr(), &layout, layout.at(next, 0)) }?;
        window.fence(Assertion::empty())?;
        let before = context.previous();
        window.read_local(0, &mut found)?;
        let wanted = context.of_rank(before).bytes(4096);
        same(&format!("device {device}"), &found, &wanted)?;
        context.meet()?;
        window.free()?;
    }
    Ok(())
}

/// Calls may use device memory that only a lookup knows, and other memory in its place.
fn untold(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let window = context.allocate(256, 1)?;
    let layout = bytes(256);
    let own = layout.at(context.rank, 0);
    for turn in 0..3u8 {
        let memory = devices.allocate(DEVICE, 256)?;
        devices.forget_memory(memory.base());
        if devices.target_location(at(memory.base())).device != DEVICE {
            say(context, "nobody looks up memory of this device")?;
            break;
        }
        let run = [IoVec {
            base: at(memory.base()).cast(),
            len: 256,
        }];
        // SAFETY: the run is the memory just allocated.
        let written = unsafe { devices.write(&run, &[hmem_iface::CUDA], &[turn + 1; 256]) };
        ensure(written.is_ok(), || format!("a copy answered {written:?}"))?;
        window.lock_all(Assertion::empty())?;
        // SAFETY: the memory lives until the epoch ends.
        let put = unsafe { window.put(at(memory.base()), &layout, own) };
        window.unlock_all()?;
        put?;
        verify_at(&window, 0, "memory nobody told of", &[turn + 1; 256])?;
        // SAFETY: the call is refused before it accesses any memory.
        let straddles = unsafe { window.put(at(memory.base() + 1), &layout, own) };
        ensure(straddles.is_err(), || {
            String::from("a buffer beyond its allocation was taken")
        })?;
    }
    context.meet()?;
    Ok(window.free()?)
}

/// The process that executes commands of peers on staged windows: an owner with a thread for them need not enter the
/// library while its peers wait; without the thread, the owner's progress executes them. If the driver opened the
/// window's memory, no process executes commands.
fn who_serves(context: &Context<'_>) -> Outcome {
    let threaded = context.job.params().value("btl_ofi_hmem_thread");
    let threaded = threaded.and_then(|value| value.as_bool());
    let transport = context.job.transport();
    let provider = transport.attributes().provider.clone();
    let Some(first) = transport.query_hmem(hmem_iface::CUDA) else {
        return Ok(());
    };
    if first.staged == 0 || context.size < 2 {
        return say(
            context,
            "the provider reaches the device itself, or there is one rank",
        );
    }
    if threaded == Some(true) && provider != "sockets" {
        let why = format!("{provider} makes progress only when it is asked to");
        return say(context, &why);
    }
    let devices = context.job.devices();
    let window = context.allocate(64, 1)?;
    let layout = bytes(8);
    window.lock_all(Assertion::empty())?;
    context.meet()?;
    // The memory of both ranks is opened, or the memory of no rank.
    let unaided = threaded == Some(true) || window.is_opened(1 - context.rank.min(1));
    // Reported by a file, because the second rank no longer calls the library.
    let left = std::env::temp_dir().join(format!("who-serves-{:016x}", context.seed));
    if context.rank == 0 {
        while !left.exists() {
            std::thread::yield_now();
        }
        let first = [7u8; 8];
        // SAFETY: the buffer lives until the flush.
        unsafe { window.put(first.as_ptr(), &layout, layout.at(1, 0)) }?;
        window.flush(1)?;
    } else if context.rank == 1 {
        let base = window.base();
        let run = [IoVec {
            base: base.cast(),
            len: 8,
        }];
        let mut found = [0; 8];
        std::fs::write(&left, "")?;
        let since = Instant::now();
        let long = match unaided {
            true => Duration::from_secs(20),
            false => Duration::from_millis(200),
        };
        // This function calls only copy functions, which make no progress.
        while found != [7; 8] && since.elapsed() < long {
            std::thread::yield_now();
            // SAFETY: the run is this rank's part of the window.
            let read = unsafe { devices.read(&run, &[hmem_iface::CUDA], &mut found) };
            ensure(read.is_ok(), || format!("a copy answered {read:?}"))?;
        }
        let there = found == [7; 8];
        ensure(there == unaided, || {
            format!("with btl_ofi_hmem_thread {threaded:?}, served without progress: {there}")
        })?;
    }
    window.unlock_all()?;
    context.meet()?;
    let mut found = [0; 8];
    window.read_local(0, &mut found)?;
    let wanted = if context.rank == 1 { [7; 8] } else { [0; 8] };
    same("what was written", &found, &wanted)?;
    context.meet()?;
    if context.rank == 1 {
        std::fs::remove_file(&left)?;
    }
    Ok(window.free()?)
}
