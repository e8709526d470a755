//! Peers that fall silent while this process only waits: no operation is outstanding, and heartbeats detect the
//! silence. The provider has no atomics, so messages carry the operations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use btl_ofi::{Endpoint, Handle, Region, Transport};
use mca_params::Value;
use plugin_api::{Access, Status, ThreadLevel};

use common::attending::attended;
use common::{Calls as _, Patience, insist, register};
use lab::alone;
use lab::group::{Shape, opened};

/// The peer timeout, milliseconds.
const TIME: u64 = 500;

fn single(faults: &str, timeout: u64) -> Transport {
    let shape: Shape = vec![
        ("ATOMICS", "0".to_owned()),
        ("FAULTS", faults.to_owned()),
        ("SEND_ORDER", "0".to_owned()),
    ];
    let settings = [
        ("btl_ofi_peer_check_interval", Value::Unsigned(10)),
        ("btl_ofi_peer_timeout", Value::Unsigned(timeout)),
    ];
    opened(&shape, ThreadLevel::Single, &settings)
}

/// The transport of a peer, the peer's window, and the peer's endpoint at `t`.
struct Peer {
    transport: Transport,
    region: Region,
    endpoint: NonNull<Endpoint>,
}

impl Peer {
    fn new(t: &Transport, proc: u64, window: &'static mut [u64]) -> Peer {
        let transport = single("", 0);
        let region = register(&transport, window, Access::all());
        let endpoint = t.connect(transport.address(), proc).unwrap();
        Peer {
            transport,
            region,
            endpoint,
        }
    }

    fn failure(&self) -> Option<Status> {
        // SAFETY: the peer is connected until the transport closes.
        unsafe { self.endpoint.as_ref() }.failure()
    }

    fn close(self) {
        drop(self.region);
        self.transport.close().unwrap();
    }
}

fn window() -> &'static mut [u64] {
    vec![0; 8].leak()
}

/// A put and a flush from `t`, while the target makes progress.
fn put(t: &Transport, to: NonNull<Endpoint>, handle: Handle, target: &Transport) {
    let mut word = 7u64;
    let local = (&raw mut word).cast();
    attended(target, || {
        insist(t, || t.put(to, local, handle.base(), &handle, 8, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
    });
}

/// Makes progress for `milliseconds` milliseconds.
fn wait(t: &Transport, milliseconds: u64) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        t.progress();
    }
}

/// Makes progress until a peer has failed.
fn wait_for_failure(t: &Transport, peer: &Peer) -> Status {
    let deadline = Patience::new();
    loop {
        t.progress();
        if let Some(failure) = peer.failure() {
            return failure;
        }
        assert!(deadline.lasts(), "the silent peer is not noticed");
    }
}

/// Some peers have answered an operation before, some have put to this process, and one has sent
/// nothing.
#[test]
fn silent_peers_are_noticed_while_a_process_waits() {
    alone(|| {
        let t = single("", TIME);
        let own = register(&t, window(), Access::all());
        let [target, origin, stranger] = [1, 2, 3].map(|proc| Peer::new(&t, proc, window()));
        put(
            &t,
            target.endpoint,
            target.region.handle(),
            &target.transport,
        );
        let here = origin.transport.connect(t.address(), 1).unwrap();
        put(&origin.transport, here, own.handle(), &t);
        // The peers make progress, so they answer, however long this process waits.
        attended(&target.transport, || {
            attended(&origin.transport, || wait(&t, 4 * TIME));
        });
        assert_eq!((target.failure(), origin.failure()), (None, None));
        put(
            &t,
            target.endpoint,
            target.region.handle(),
            &target.transport,
        );
        // One of the peers continues.
        attended(&origin.transport, || {
            assert_eq!(wait_for_failure(&t, &target), Status::UNREACH);
            wait(&t, 2 * TIME);
            assert_eq!(origin.failure(), None);
        });
        assert_eq!(wait_for_failure(&t, &origin), Status::UNREACH);
        assert_eq!(t.flush(None), Status::UNREACH, "told by one flush");
        wait(&t, 2 * TIME);
        assert_eq!(stranger.failure(), None, "it was never asked");
        t.close().unwrap();
        drop(own);
        for peer in [target, origin, stranger] {
            peer.close();
        }
    });
}

/// Flushes and closing do not wait for the answer to a heartbeat, and later operations are counted as before.
#[test]
fn nothing_waits_for_heartbeats() {
    alone(|| {
        let t = single("", 0);
        let [busy, other] = [1, 2].map(|proc| Peer::new(&t, proc, window()));
        put(&t, busy.endpoint, busy.region.handle(), &busy.transport);
        put(&t, other.endpoint, other.region.handle(), &other.transport);
        attended(&other.transport, || wait(&t, 2500));
        // The heartbeat to the first peer is not answered.
        put(&t, other.endpoint, other.region.handle(), &other.transport);
        put(&t, busy.endpoint, busy.region.handle(), &busy.transport);
        assert_eq!((busy.failure(), other.failure()), (None, None));
        attended(&other.transport, || wait(&t, 2500));
        t.close().unwrap();
        let stats = busy.transport.stats();
        assert_eq!(stats.failed, 0);
        busy.close();
        other.close();
    });
}

/// The provider loses or delays messages.
#[test]
fn heartbeats_bear_faults() {
    alone(|| {
        for (script, lost) in [
            ("silent=2", true),
            ("silent=2,back=3000", false),
            ("delay=20,reorder=1,again=300,burst=3", false),
        ] {
            println!("@at {script}");
            let t = single(&format!("seed=5,{script}"), TIME);
            let peer = Peer::new(&t, 1, window());
            put(&t, peer.endpoint, peer.region.handle(), &peer.transport);
            attended(&peer.transport, || match lost {
                true => assert_eq!(wait_for_failure(&t, &peer), Status::UNREACH),
                false => {
                    wait(&t, 4 * TIME);
                    assert_eq!(peer.failure(), None);
                }
            });
            t.close().unwrap();
            peer.close();
        }
    });
}
