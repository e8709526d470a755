//! "Complete" means visible at the target, shown over each real provider between two processes.
//!
//! The target stops making progress before it is told that an operation completed, and looks at its
//! memory then: what it sees must be there already. Over shm with cross-memory attach the target
//! makes no progress at all once the two have met.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::ffi::c_void;
use std::process::{Command, Stdio};
use std::ptr;

use plugin_api::{BtlAtomicOp, ModuleFlags, OpFlags, Status, ThreadLevel};

use common::pair::{Target, serve_if_target};
use common::{insist, open};

const ROUNDS: u64 = 200;

#[test]
fn target_process() {
    serve_if_target();
}

fn shows(provider: &str, passive: bool) {
    let t = open(provider, ThreadLevel::Single, &[]);
    if passive {
        let flags = t.capabilities().flags;
        assert!(
            flags.contains(ModuleFlags::RDMA_PASSIVE_TARGET),
            "{provider} says it needs the target"
        );
    }
    let mut target = Target::start(&t, provider, passive);
    let (peer, h) = (target.peer, target.handle);
    let base = h.base();
    let none = ptr::null_mut();
    let f = OpFlags::empty();
    let mut data = vec![0u64; (8 * 1024).min(t.capabilities().put_limit / 8)];
    for round in 1..=ROUNDS {
        let words = if round % 20 == 0 { data.len() } else { 1 };
        data[0] = round;
        data[words - 1] = round;
        let source = data.as_mut_ptr().cast::<c_void>();
        // SAFETY: buffers live to the end of the test.
        insist(&t, || unsafe {
            t.put(peer, source, base, none, &h, words * 8, None)
        });
        assert_eq!(t.flush(None), Status::SUCCESS);
        let seen = target.sees(0, words - 1);
        assert_eq!(seen, (round, round), "{provider}: a put of {words} words");
        if !passive {
            let counter = base + 8 * 10_000;
            // SAFETY: as above.
            insist(&t, || unsafe {
                t.atomic_op(peer, counter, &h, BtlAtomicOp::Add, 3, f, None)
            });
            assert_eq!(t.flush(None), Status::SUCCESS);
            assert_eq!(
                target.sees(10_000, 10_000).0,
                3 * round,
                "{provider}: an update"
            );
        }
    }
    if !passive {
        // Many at once, of every kind.
        let burst = base + 8 * 10_001;
        let mut old = [0u64; 256];
        let source = data.as_mut_ptr().cast::<c_void>();
        for result in &mut old {
            let out = (&raw mut *result).cast::<c_void>();
            let (add, high) = (BtlAtomicOp::Add, 1 << 32);
            // SAFETY: as above; each operation has its own place for its result.
            unsafe {
                insist(&t, || {
                    t.atomic_fop(peer, out, burst, none, &h, add, 1, f, None)
                });
                insist(&t, || t.atomic_op(peer, burst, &h, add, high, f, None));
                insist(&t, || t.put(peer, source, base, none, &h, 8, None));
            }
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
        let mut seen: Vec<u32> = old.iter().map(|&v| v as u32).collect();
        seen.sort_unstable();
        let each = (0..256).collect::<Vec<u32>>();
        assert_eq!(seen, each, "{provider}: each fetch saw its own value");
        assert_eq!(target.sees(10_001, 10_001).0, 256 << 32 | 256);
    }
    target.end();
    // SAFETY: connected once.
    unsafe { t.disconnect(peer) };
    t.close().unwrap();
}

#[test]
fn shm() {
    shows("shm", false);
}

#[test]
fn shm_without_any_progress_of_the_target() {
    shows("shm", true);
}

/// libfabric reads its variables once, so this runs in a process of its own.
#[test]
fn shm_without_cross_memory_attach() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shm", "--test-threads", "1"])
        .env("FI_SHM_DISABLE_CMA", "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn tcp_rxm() {
    shows("tcp;ofi_rxm", false);
}

#[test]
fn sockets() {
    shows("sockets", false);
}

#[test]
fn udp_rxd() {
    shows("udp;ofi_rxd", false);
}
