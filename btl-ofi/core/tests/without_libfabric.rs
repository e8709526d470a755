//! The provider `memory`: two processes of one node need no libfabric, and the transport refuses a peer that it
//! cannot reach by memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use btl_ofi::{Error, Transport};
use common::Calls as _;
use common::pair::{Target, WORDS};
use common::{SAME_NODE, SAME_NODE_OFF, insist, open, options, try_open};
use mca_params::Value;
use plugin_api::{BtlAtomicOp, ModuleFlags, Status, ThreadLevel};

const MEMORY: &str = "memory";

fn is_loaded() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains("libfabric.so")
}

#[test]
fn processes_of_one_node_need_no_libfabric() {
    let t = open(MEMORY, ThreadLevel::Single, &[]);
    let promised = ModuleFlags::APPLIES | ModuleFlags::ATOMICS_ORDERED;
    assert!(t.capabilities().flags.contains(promised));
    let mut target = Target::start(&t, MEMORY, false);
    let (peer, h) = (target.peer, target.handle);
    let mut words: Vec<u64> = (1..=WORDS as u64).collect();
    let size = WORDS * 8;
    // The loop covers a small transfer, and a transfer that the kernel copies.
    for size in [8, size] {
        let from = words.as_mut_ptr().cast();
        insist(&t, || t.put(peer, from, h.base(), &h, size, None));
        // SAFETY: the target is connected.
        assert_eq!(t.flush(Some(unsafe { peer.as_ref() })), Status::SUCCESS);
    }
    let mut old = 0u64;
    let op = BtlAtomicOp::Add;
    insist(&t, || {
        t.atomic_fop(peer, (&raw mut old).cast(), h.base(), &h, op, 41, None)
    });
    // SAFETY: the target is connected.
    assert_eq!(t.flush(Some(unsafe { peer.as_ref() })), Status::SUCCESS);
    assert_eq!(old, 1);
    assert_eq!(target.sees(0, WORDS - 1), (42, WORDS as u64));
    let address = target.address.clone();
    target.end();
    assert!(!is_loaded(), "libfabric is loaded");
    // The target's process is dead, so its memory cannot be accessed.
    let refused = t.connect(&address, 7).unwrap_err();
    assert!(matches!(refused, Error::Modex { proc: 7, .. }), "{refused}");
    t.close().unwrap();
}

#[test]
fn it_is_refused_where_memory_may_not_be_used() {
    let named = ("btl_ofi_provider_include", Value::str(MEMORY));
    let level = ThreadLevel::Single;
    let survey = |same_node| {
        let found = Transport::survey(&options(&[named.clone(), same_node]), level).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].chosen, found[0].refusal.is_none());
        found[0].chosen
    };
    assert!(survey(SAME_NODE) && !survey(SAME_NODE_OFF));
    let refused = try_open(&options(&[named.clone(), SAME_NODE_OFF]), level);
    let said = refused.err().unwrap().to_string();
    assert!(said.contains("memory: btl_ofi_same_node is off"), "{said}");
    assert!(!is_loaded(), "libfabric is loaded");
}
