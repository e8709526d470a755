//! Connections are made on first use: peers over TCP that were only connected by `connect` cost no descriptor and no
//! network traffic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::prelude::*;

const PEERS: u32 = 500;
/// The maximum number of descriptors of one connection within this process: both ends, and the descriptors
/// that a provider opens with its first connection.
const MOST: usize = 8;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The address that a process of another node would publish; the endpoint's address is 10.0.0.0 plus a number.
fn pretended(blob: &[u8], number: u32) -> Vec<u8> {
    let mut blob = blob.to_vec();
    // The endpoint's address follows a head of 52 bytes and the provider's name. The head contains the
    // node and the length of the name (`core/src/peer/address.rs`).
    blob[8..16].iter_mut().for_each(|byte| *byte = !*byte);
    let at = 52 + usize::from(u16::from_le_bytes([blob[44], blob[45]]));
    blob[at + 4..at + 8].copy_from_slice(&(0x0a00_0000 + number).to_be_bytes());
    blob
}

fn connects_on_first_use(provider: &str) {
    let [t, target] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[]));
    let mut window = vec![0u64; 1];
    let region = register(&target, &mut window, Access::all());
    let before = descriptors();
    for number in 1..=PEERS {
        let blob = pretended(target.address(), number);
        t.connect(&blob, u64::from(number)).unwrap();
    }
    let there = There::of(&t, 0, &target, &region);
    (0..100).for_each(|_| {
        t.progress();
        target.progress();
    });
    assert_eq!(descriptors(), before, "{provider}: connected");
    let value = 7u64;
    let deadline = Patience::new();
    while there.put(0, &[value], None) != Status::SUCCESS {
        assert!(deadline.lasts(), "{provider}: not taken");
        t.progress();
        target.progress();
    }
    // SAFETY: the window lives, and the provider may change the window meanwhile.
    while unsafe { (&raw const window[0]).read_volatile() } != value {
        assert!(deadline.lasts(), "{provider}: not there");
        t.progress();
        target.progress();
    }
    let more = descriptors() - before;
    assert!(
        (1..=MOST).contains(&more),
        "{provider}: {more} descriptors for a put to one of {PEERS} peers"
    );
    std::thread::scope(|s| {
        let ended = s.spawn(|| t.flush(None));
        while !ended.is_finished() {
            target.progress();
        }
        assert_eq!(ended.join().unwrap(), Status::SUCCESS);
    });
    t.close().unwrap();
    region.close().unwrap();
    target.close().unwrap();
}

#[test]
fn connections_are_made_on_first_use() {
    for provider in ["tcp;ofi_rxm", "net", "sockets"] {
        connects_on_first_use(provider);
    }
}
