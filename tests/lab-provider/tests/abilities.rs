//! What the provider can do that the transport makes no use of, or not in every process: counters,
//! selective completion, and memory of devices with and without its user's copy functions.

#![allow(
    clippy::useless_conversion,
    reason = "libfabric's flags have other integer types in other releases of its headers"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod bench;
#[path = "abilities/device.rs"]
mod device;

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use libfabric_sys as ffi;

use bench::{Bench, expect_provider, good, in_process, in_process_with_counts};

fn close<T>(object: *mut T) {
    // SAFETY: a live object of libfabric's, closed once.
    good(unsafe { ffi::fi_close(object.cast()) });
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn count() {
    expect_provider();
    let memory = [0u64; 8];
    let source = 7u64;
    let mut context = ffi::fi_context2::default();
    let c = (&raw mut context).cast::<c_void>();
    let (writes, reads) = (Cell::new(ptr::null_mut()), Cell::new(ptr::null_mut()));
    let counters = [(&writes, ffi::FI_WRITE), (&reads, ffi::FI_READ)];
    let b = Bench::open_bound(
        &[("LAB_FAULTS", "delay=4,nth=6,errno=22")],
        ffi::FI_SELECTIVE_COMPLETION,
        &counters,
    );
    let mr = b.register(&memory, 5);
    let (writes, reads) = (writes.get(), reads.get());
    // SAFETY: live counters.
    let call = |counter: *mut ffi::fid_cntr| unsafe { &*(*counter).ops };
    // SAFETY: as above.
    let read = |counter| unsafe {
        (
            call(counter).read.unwrap()(counter),
            call(counter).readerr.unwrap()(counter),
        )
    };
    for _ in 0..5 {
        // Without FI_COMPLETION nothing is left in the queue.
        assert_eq!(b.write(&source, 0, 5, c), 0);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { call(writes).wait.unwrap()(writes, 5, 5000) }, 0);
    assert_eq!(read(writes), (5, 0));
    assert!(b.is_quiet());
    // The sixth fails: counted as such, and always in the queue.
    assert_eq!(b.write(&source, 0, 5, c), 0);
    // SAFETY: as above.
    let waited = unsafe { call(writes).wait.unwrap()(writes, 6, 5000) };
    assert_eq!(waited, -(ffi::FI_EAVAIL as i32));
    assert!(!b.ends());
    let asked = u64::from(ffi::FI_DELIVERY_COMPLETE | ffi::FI_COMPLETION);
    assert_eq!(b.write_with(&source, ptr::null_mut(), 0, 5, c, asked), 0);
    assert!(b.ends());
    assert_eq!((read(writes), read(reads)), ((6, 1), (0, 0)));
    // SAFETY: as above.
    unsafe {
        assert_eq!(
            call(writes).wait.unwrap()(writes, 7, 10),
            -(ffi::FI_ETIMEDOUT as i32)
        );
        good(call(reads).add.unwrap()(reads, 3));
        good(call(reads).adderr.unwrap()(reads, 2));
        assert_eq!(read(reads), (3, 2));
        good(call(reads).set.unwrap()(reads, 0));
        good(call(reads).seterr.unwrap()(reads, 0));
        assert_eq!(read(reads), (0, 0));
    }
    close(mr);
    close(b.ep);
    close(writes);
    close(reads);
    close(b.cq);
    close(b.av);
    close(b.domain);
    close(b.fabric);
    // SAFETY: made by fi_getinfo, and freed once.
    unsafe { ffi::fi_freeinfo(b.info) };
}

/// Every end of an operation is counted once, whether it leaves a completion or none, and what belongs to
/// no operation is counted apart.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn end_in_every_way() {
    expect_provider();
    let (memory, source) = ([0u64; 8], 7u64);
    let mut context = ffi::fi_context2::default();
    let c = (&raw mut context).cast::<c_void>();
    let b = Bench::open_bound(
        &[("LAB_FAULTS", "nth=3,stray=1000")],
        ffi::FI_SELECTIVE_COMPLETION,
        &[],
    );
    let mr = b.register(&memory, 5);
    // Two that leave nothing, one that fails.
    for _ in 0..3 {
        assert_eq!(b.write(&source, 0, 5, c), 0);
    }
    assert!(!b.ends());
    // Two with a completion, and a stray behind each.
    let asked = u64::from(ffi::FI_DELIVERY_COMPLETE | ffi::FI_COMPLETION);
    for _ in 0..2 {
        assert_eq!(b.write_with(&source, ptr::null_mut(), 0, 5, c, asked), 0);
        assert!(b.ends() && b.ends());
    }
    assert!(b.is_quiet());
    close(mr);
    b.close();
}

#[test]
fn every_end_is_counted_once() {
    let (report, counts) = in_process_with_counts("end_in_every_way");
    assert_eq!(report, "");
    for count in [
        "posted=5",
        "completed=4",
        "strays=2",
        "failed=1",
        "discarded=0",
    ] {
        assert!(counts.contains(&format!(" {count} ")), "{count}: {counts}");
    }
}

#[test]
fn counters_and_selective_completion() {
    assert_eq!(in_process("count"), "");
}
