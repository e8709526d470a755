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

use std::process::{Command, Stdio};

use btl_ofi::Transport;
use plugin_api::{ModuleFlags, ThreadLevel};

use common::open;
use common::pair::{DeviceWay, Target, serve_as_target};

#[test]
#[ignore = "a child process of other tests, which start it"]
fn target_process() {
    serve_as_target();
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
    let base = target.handle.base();
    common::shows::shows(&t, &mut target, base, !passive, provider);
    leave(&t, target);
    t.close().unwrap();
}

/// The same with the target's window on a device that the provider does not reach.
fn shows_on_device(provider: &str, way: DeviceWay) {
    let t = open(provider, ThreadLevel::Single, &way.parameters());
    let mut target = Target::start_on_device(&t, provider, way);
    let base = target.window;
    common::shows::shows(&t, &mut target, base, true, provider);
    leave(&t, target);
    t.close().unwrap();
}

fn leave(t: &Transport, target: Target<'_>) {
    let peer = target.peer;
    target.end();
    // SAFETY: connected once.
    unsafe { t.disconnect(peer) };
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

#[test]
fn shm_on_a_device() {
    shows_on_device("shm", DeviceWay::Progress);
}

#[test]
fn tcp_rxm_on_a_device() {
    shows_on_device("tcp;ofi_rxm", DeviceWay::Progress);
}

#[test]
fn udp_rxd_on_a_device() {
    shows_on_device("udp;ofi_rxd", DeviceWay::Progress);
}

/// The target makes no progress at all once the two have met: the provider does, and the thread.
#[test]
fn sockets_on_a_device_that_a_thread_serves() {
    shows_on_device("sockets", DeviceWay::Thread);
}
