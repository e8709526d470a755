//! Windows on a device over the lab provider: reached by it directly, and by copies when a transfer
//! fails.

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

use plugin_api::ThreadLevel;

use common::pair::{DeviceWay, Target, serve_if_target};
use common::shows::shows;
use common::{insist, open};
use lab::{Tally, child, role, shape};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn target_process() {
    serve_if_target();
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

fn end(t: &btl_ofi::Transport, target: Target<'_>) {
    let peer = target.peer;
    target.end();
    // SAFETY: connected once.
    unsafe { t.disconnect(peer) };
}
