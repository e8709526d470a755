//! NULL through every pointer of every function, and invalid codes: each call returns a status and
//! never crashes, and the plugin still works afterwards.

mod codes;
mod memory;
mod nulls;
mod operations;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use integration_tests::fixtures::{c_plugin, ofi_plugin};
use integration_tests::host::TestHost;
use integration_tests::session::Session;
use plugin_api::{AtomicOp, BtlAtomicOp, Datatype};

use codes::{codes, handles};
use memory::{component_functions, memory_functions};
use operations::{apply_functions, copy_functions, typed_functions, word_functions};

pub(crate) const NO_ORDER: i32 = 255;
pub(crate) const SUM: u32 = AtomicOp::Sum as u32;
pub(crate) const U64: u32 = Datatype::Uint64 as u32;
pub(crate) const ADD: u32 = BtlAtomicOp::Add as u32;

fn plugin_and_host(name: &str) -> (PathBuf, TestHost) {
    match name {
        "cma" => (c_plugin(""), TestHost::new(&[])),
        provider => (ofi_plugin().to_owned(), TestHost::with_provider(provider)),
    }
}

fn everything(name: &str) {
    let (path, host) = plugin_and_host(name);
    component_functions(&path, &host);
    let mut session = Session::new(&path, &host);
    let calls = AtomicUsize::new(0);
    memory_functions(&mut session);
    copy_functions(&mut session, &calls);
    word_functions(&mut session, &calls);
    typed_functions(&mut session, &calls);
    apply_functions(&mut session, &calls);
    // The transport's operations on its own memory are complete when they return; the C plugin uses
    // callbacks.
    assert_eq!(calls.load(Ordering::Relaxed) > 0, name == "cma");
    codes(&mut session);
    handles(&mut session);
    // The plugin still works.
    session.memory[0] = 0x5eed;
    copy_functions(&mut session, &calls);
    assert!(session.flush().is_ok());
}

#[test]
fn cma() {
    everything("cma");
}

#[test]
fn shm() {
    everything("shm");
}

#[test]
fn sockets() {
    everything("sockets");
}
