//! "Complete" means visible at the target, shown over each real provider between two processes.
//!
//! The target stops making progress before it learns that an operation completed. Then the target checks its
//! memory: the data must already be there. Over shm with cross-memory attach the target makes no progress at
//! all once the two have met.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::process::{Command, Stdio};

use plugin_api::{ModuleFlags, Status, ThreadLevel};

use common::open;
use common::pair::{DeviceWay, Target};
use lab::{alone, shape};

/// The description of a transport whose provider confirms puts at the target, as every available
/// provider does, ...
const BY_TARGET: &str = "puts are confirmed by the target (FI_DELIVERY_COMPLETE)";
/// ... or confirms puts by a read behind them, as over verbs;ofi_rxm; the lab provider imitates
/// this.
const BY_READ: &str = "puts are confirmed by a read behind them (read-after-write order)";

fn shows(provider: &str, passive: bool, way: &str) {
    let t = open(provider, ThreadLevel::Single, &[]);
    let said = t.capabilities().completion.to_string_lossy();
    assert!(said.contains(way), "{provider}: {said}");
    if passive {
        let flags = t.capabilities().flags;
        assert!(
            flags.contains(ModuleFlags::RDMA_PASSIVE_TARGET),
            "{provider} says it needs the target"
        );
    }
    let mut target = Target::start(&t, provider, passive);
    let base = target.handle.base();
    common::shows::shows(&t, &mut target, base, !passive, provider);
    leave(target);
    t.close().unwrap();
}

/// The same test with the target's window on a device that the provider cannot access.
fn shows_on_device(provider: &str, way: DeviceWay) {
    let t = open(provider, ThreadLevel::Single, &way.parameters());
    let mut target = Target::start_on_device(&t, provider, way);
    let base = target.window;
    common::shows::shows(&t, &mut target, base, true, provider);
    leave(target);
    t.close().unwrap();
}

fn leave(target: Target<'_>) {
    let t = target.there().t;
    // The lane of a device's mailbox is returned behind the last operation; its target must not end before.
    for _ in 0..100 {
        t.progress();
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    target.end_and_release();
}

#[test]
fn shm() {
    shows("shm", false, BY_TARGET);
}

#[test]
fn shm_without_any_progress_of_the_target() {
    shows("shm", true, BY_TARGET);
}

/// libfabric reads its variables once, so this test runs in a separate process.
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
    shows("tcp;ofi_rxm", false, BY_TARGET);
}

#[test]
fn sockets() {
    shows("sockets", false, BY_TARGET);
}

#[test]
fn shm_on_a_device() {
    shows_on_device("shm", DeviceWay::Progress);
}

#[test]
fn tcp_rxm_on_a_device() {
    shows_on_device("tcp;ofi_rxm", DeviceWay::Progress);
}

/// The provider makes progress by itself and advertises atomics, but refuses them, so lanes are
/// taken by message.
#[test]
fn net_on_a_device() {
    shows_on_device("net", DeviceWay::Progress);
}

/// The target makes no progress after the first contact; the provider and the thread make progress.
#[test]
fn sockets_on_a_device_that_a_thread_serves() {
    shows_on_device("sockets", DeviceWay::Thread);
}

/// Makes the lab provider deliver bytes after their completion.
fn late(pairs: &[(&str, &str)]) {
    shape(&[&[("CONFIRMS", "0"), ("READ_ORDER", "1")], pairs].concat());
}

#[test]
fn lab_by_order() {
    alone(|| {
        late(&[]);
        shows("lab", false, BY_READ);
    });
}

/// Order confirms larger puts; the other operations go by message.
#[test]
fn lab_by_order_beside_messages() {
    alone(|| {
        late(&[("ATOMICS", "0")]);
        shows("lab", false, BY_READ);
    });
}

#[test]
fn lab_by_order_on_a_device() {
    alone(|| {
        late(&[]);
        shows_on_device("lab", DeviceWay::Progress);
    });
}

/// A read of host memory does not confirm a put to a device, so the provider makes no transfers to devices,
/// although it could.
#[test]
fn lab_by_order_leaves_devices_to_copies() {
    alone(|| {
        late(&[("HMEM", "1"), ("HMEM_OVERRIDE", "1")]);
        shows_on_device("lab", DeviceWay::Direct);
    });
}
