//! Peers that live, and take longer than `btl_ofi_peer_timeout` for one operation: those behind a slow link, and those that are slow
//! to copy what comes for their device memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use btl_ofi::{Endpoint, Handle, Transport};
use mca_params::Value;
use plugin_api::{Access, OverrideOps, Status, ThreadLevel, hmem_iface};

use common::Calls as _;
use common::pair::DeviceWay;
use common::seen::Seen;
use common::{Patience, device, insist, register};
use lab::group::{Shape, opened};
use lab::{Tally, child, child_role};

const LIMIT: Duration = Duration::from_secs(120);
/// The peer timeout, milliseconds.
const TIME: u64 = 100;

fn single(faults: &str, timeout: u64) -> Transport {
    let shape: Shape = vec![
        ("MAX_MSG", (32 << 20).to_string()),
        ("FAULTS", faults.to_owned()),
    ];
    let mut settings = DeviceWay::Progress.parameters();
    settings.extend([
        ("btl_ofi_peer_check_interval", Value::Unsigned(10)),
        ("btl_ofi_peer_timeout", Value::Unsigned(timeout)),
    ]);
    opened(&shape, ThreadLevel::Single, &settings)
}

fn failure(peer: NonNull<Endpoint>) -> Option<Status> {
    // SAFETY: connected until the transport closes.
    unsafe { peer.as_ref() }.failure()
}

fn put(
    t: &Transport,
    peer: NonNull<Endpoint>,
    (h, at): (&Handle, u64),
    from: &mut [u64],
    seen: &Seen,
) {
    let (local, size) = (from.as_mut_ptr().cast(), size_of_val(from));
    // SAFETY: the buffers and the counters outlive the transport.
    insist(t, || unsafe {
        t.put(peer, local, at, ptr::null_mut(), h, size, seen.completion())
    });
}

fn tell_one() {
    let run = 1;
    Tally {
        run,
        ..Tally::default()
    }
    .tell();
}

/// A peer that answers nothing is given up after the time, and after as much more as a long put takes over a slow link.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn long_put() {
    child_role();
    for (bytes, least) in [(8, TIME), (4 << 20, 10 * TIME)] {
        let t = single("seed=1,silent=1", TIME);
        let target = single("", 0);
        let mut window = vec![0u64; (4 << 20) / 8];
        let region = register(&target, &mut window, Access::all());
        let h = region.handle();
        let peer = t.connect(target.address(), 1).unwrap();
        let mut source = vec![1u64; bytes / 8];
        let seen = Seen::default();
        let (begun, patience) = (Instant::now(), Patience::new());
        put(&t, peer, (&h, h.base()), &mut source, &seen);
        while failure(peer).is_none() {
            t.progress();
            assert!(patience.lasts(), "it is not noticed");
        }
        // Less than an interval may be missing, which began before the put.
        let lasted = begun.elapsed().as_millis() as u64;
        assert!(lasted + 10 >= least, "{bytes} bytes after {lasted} ms");
        assert_eq!((seen.both(), seen.status()), ((0, 1), Status::UNREACH));
        drop(region);
        t.close().unwrap();
        target.close().unwrap();
    }
    tell_one();
}

#[test]
fn a_long_put_has_more_time() {
    child("long_put", "long put", LIMIT).insist("a long put to a silent peer");
}

/// A put to device memory whose owner makes some fragments now and then: each in time, all of them not.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn fragments() {
    const BYTES: usize = 16 << 20;
    child_role();
    let t = single("", TIME);
    let target = single("", 0);
    let copies = OverrideOps::new(Some(device::copy_from), Some(device::copy_to));
    target.set_overrides(Some(&copies));
    let mut window = vec![0u64; BYTES / 8];
    let base = device::address(window.as_mut_ptr().cast());
    // SAFETY: the window outlives the region.
    let region = unsafe { target.register_hmem(base, BYTES, Access::all(), hmem_iface::CUDA, 0) };
    let region = region.unwrap();
    let (h, at) = (region.handle(), base as u64);
    let peer = t.connect(target.address(), 1).unwrap();
    let mut source = vec![7u64; BYTES / 8];
    let seen = Seen::default();
    let begun = Instant::now();
    put(&t, peer, (&h, at), &mut source, &seen);
    let mut served = begun;
    while seen.all() == 0 {
        t.progress();
        if served.elapsed().as_millis() as u64 >= TIME * 2 / 5 {
            served = Instant::now();
            target.progress();
        }
        assert!(begun.elapsed() < LIMIT, "it does not end");
    }
    assert_eq!((seen.succeeded(), failure(peer)), (1, None));
    assert!(begun.elapsed().as_millis() as u64 > 2 * TIME);
    assert!(window.iter().all(|word| *word == 7));
    // Some checks find nothing outstanding. Then the owner makes no further progress.
    let begun = Instant::now();
    while begun.elapsed().as_millis() < 50 {
        t.progress();
    }
    put(&t, peer, (&h, at), &mut source, &seen);
    let patience = Patience::new();
    while seen.all() == 1 {
        t.progress();
        assert!(patience.lasts(), "it is not noticed");
    }
    assert_eq!((seen.failed(), seen.status()), (1, Status::UNREACH));
    t.close().unwrap();
    drop(region);
    target.close().unwrap();
    tell_one();
}

#[test]
fn fragments_prove_life() {
    child("fragments", "fragments", LIMIT).insist("a put in fragments to a slow owner");
}
