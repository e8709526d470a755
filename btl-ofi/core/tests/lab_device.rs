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

use std::ptr;
use std::time::Duration;

use plugin_api::{HmemInfo, IoVec, OverrideOps, ThreadLevel, hmem_iface};

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
