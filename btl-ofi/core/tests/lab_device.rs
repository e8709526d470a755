//! Windows on a device over the lab provider: reached by it directly, and by copies when a transfer
//! fails; and copy functions of which one is absent.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use btl_ofi::Completion;
use plugin_api::{HmemInfo, IoVec, Module, OverrideOps, ThreadLevel, hmem_iface};

use common::Calls as _;
use common::pair::{DeviceWay, Target, serve_as_target};
use common::shows::shows;
use common::{device, insist, open};
use lab::{Tally, child, role, shape};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
#[ignore = "a child process of other tests, which start it"]
fn target_process() {
    serve_as_target();
}

/// The provider takes the registration and the copy functions: what is complete is there.
#[test]
fn direct() {
    if role().is_none() {
        return child("direct", "direct", LIMIT).insist("direct device windows");
    }
    shape(&[("HMEM", "1"), ("HMEM_OVERRIDE", "1")]);
    let way = DeviceWay::Direct;
    let t = open("lab", ThreadLevel::Single, &way.parameters());
    let mut target = Target::start_on_device(&t, "lab", way);
    let base = target.window;
    shows(&t, &mut target, base, true, "lab");
    end(&t, target);
    t.close().unwrap();
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

/// A put of which the transfer of its data fails: it fails, and the next one does not.
#[test]
fn failing() {
    if role().is_none() {
        return child("failing", "failing", LIMIT).insist("a transfer that fails");
    }
    // After the header and the lane.
    shape(&[("FAULTS", "seed=1,nth=3")]);
    let way = DeviceWay::Progress;
    let t = open("lab", ThreadLevel::Single, &way.parameters());
    let mut target = Target::start_on_device(&t, "lab", way);
    let (peer, h, at) = (target.peer, target.handle, target.window);
    let mut source = vec![0u64; 512];
    let none = ptr::null_mut();
    for (value, fails) in [(5, true), (6, false)] {
        source.fill(value);
        let from = source.as_mut_ptr().cast();
        // SAFETY: the buffer lives until the flush.
        insist(&t, || unsafe {
            t.put(peer, from, at, none, &h, 4096, None)
        });
        let flushed = t.flush(None);
        assert_eq!(flushed.is_ok(), !fails, "the put of {value}: {flushed}");
    }
    assert_eq!(target.sees(0, 511), (6, 6));
    end(&t, target);
    t.close().unwrap();
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

/// What a failed get leaves in its buffer, written by its callback.
const POISON: u64 = 0xeeee;

/// The end of a get: poisons its buffer if it failed, and counts.
unsafe extern "C" fn ended(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    buffer: *mut c_void,
    _: *mut plugin_api::Handle,
    count: *mut c_void,
    failed: *mut c_void,
    status: i32,
) {
    // SAFETY: the counters and the buffer of `WORDS` words outlive the gets that name them.
    unsafe {
        if status != 0 {
            buffer.cast::<[u64; WORDS]>().write([POISON; WORDS]);
            (*failed.cast::<AtomicU32>()).fetch_add(1, Ordering::Relaxed);
        }
        (*count.cast::<AtomicU32>()).fetch_add(1, Ordering::Relaxed);
    }
}

/// Words of a get.
const WORDS: usize = 64;
const GETS: usize = 12;

/// One of the transport's own transfers fails while others take long: the gets that fail with it are reported after the
/// last write to their buffers.
#[test]
fn reported_last() {
    if role().is_none() {
        return child("reported_last", "reported last", LIMIT).insist("gets that end together");
    }
    let mut all_failed = 0;
    for nth in (3..40).step_by(2) {
        shape(&[(
            "FAULTS",
            &format!("seed={nth},nth={nth},delay=60,reorder=1"),
        )]);
        let way = DeviceWay::Progress;
        let t = open("lab", ThreadLevel::Single, &way.parameters());
        let target = Target::start_on_device(&t, "lab", way);
        let (peer, h, at) = (target.peer, target.handle, target.window);
        let mut buffers = vec![[0u64; WORDS]; GETS];
        let (count, failed) = (AtomicU32::new(0), AtomicU32::new(0));
        let done = Some(Completion {
            function: ended,
            context: (&raw const count).cast_mut().cast(),
            data: (&raw const failed).cast_mut().cast(),
        });
        for buffer in &mut buffers {
            let into = buffer.as_mut_ptr().cast();
            // SAFETY: the buffers and the counters live to the end of the transport.
            insist(&t, || unsafe {
                t.get(peer, into, at, ptr::null_mut(), &h, WORDS * 8, done)
            });
        }
        while count.load(Ordering::Relaxed) < GETS as u32 {
            t.progress();
        }
        // Longer than any transfer takes.
        for _ in 0..1000 {
            t.progress();
        }
        let poisoned = buffers.iter().filter(|b| b[0] == POISON);
        for buffer in poisoned.clone() {
            assert_eq!(*buffer, [POISON; WORDS], "written after the report, {nth}");
        }
        assert_eq!(
            poisoned.count() as u32,
            failed.load(Ordering::Relaxed),
            "{nth}"
        );
        all_failed += failed.load(Ordering::Relaxed);
        end(&t, target);
        t.close().unwrap();
    }
    assert!(all_failed > 0);
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

/// Tables of copy functions with one absent: never offered to the provider, which has functions of its
/// own; in the absent one's place comes ours, which knows nothing of this memory. A provider that has
/// the pair keeps it.
#[test]
fn one_function() {
    if role().is_none() {
        return child("one_function", "one", LIMIT).insist("tables of one function");
    }
    for taken in ["1", "0"] {
        shape(&[("HMEM", "1"), ("HMEM_OVERRIDE", taken)]);
        let t = open("lab", ThreadLevel::Single, &DeviceWay::Direct.parameters());
        let both = match taken {
            "1" => HmemInfo::PROVIDER,
            _ => HmemInfo::TRANSPORT,
        };
        let (from, to) = (Some(device::copy_from as _), Some(device::copy_to as _));
        for (from, to, overrides) in [
            (None, None, HmemInfo::NONE),
            (from, None, HmemInfo::TRANSPORT),
            (None, to, HmemInfo::TRANSPORT),
            (from, to, both),
            (from, None, both),
            (None, to, both),
            (None, None, HmemInfo::NONE),
        ] {
            t.set_overrides(Some(&OverrideOps::new(from, to)));
            let info = t.hmem_info(hmem_iface::CUDA);
            let what = (taken, from.is_some(), to.is_some());
            assert_eq!(info.overrides, overrides, "{what:?}");
            copies(&t, (from.is_some(), to.is_some()));
        }
        t.set_overrides(None);
        assert_eq!(t.hmem_info(hmem_iface::CUDA).overrides, HmemInfo::NONE);
        t.close().unwrap();
    }
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

/// Copies with what is in force, of which the user's functions alone reach the device.
fn copies(t: &btl_ofi::Transport, (from, to): (bool, bool)) {
    let (mut memory, mut flat) = ([1u64, 2], [0u64, 0]);
    let runs = [IoVec {
        base: device::address(memory.as_mut_ptr().cast()),
        len: 16,
    }];
    let (kind, at) = (&hmem_iface::CUDA, flat.as_mut_ptr().cast());
    // SAFETY: one run, 16 bytes on each side.
    let read = unsafe { t.copy_from_hmem(at, 16, runs.as_ptr(), kind, 1, 0) };
    assert_eq!((read == 16, flat == [1, 2]), (from, from), "{read}");
    let new = [8u64, 9];
    // SAFETY: the one run is of 16 bytes, and so is `new`.
    let written = unsafe { t.copy_to_hmem(runs.as_ptr(), kind, 1, 0, new.as_ptr().cast(), 16) };
    assert_eq!((written == 16, memory == new), (to, to), "{written}");
    assert!((from || read < 0) && (to || written < 0));
}

fn end(t: &btl_ofi::Transport, target: Target<'_>) {
    let peer = target.peer;
    target.end();
    // SAFETY: connected once.
    unsafe { t.disconnect(peer) };
}
