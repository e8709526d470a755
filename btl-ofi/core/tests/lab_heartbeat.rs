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

use lab::prelude::*;

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

/// A peer of this process with a window.
struct Peer {
    transport: Transport,
    region: Region,
}

impl Peer {
    fn new() -> Peer {
        let transport = single("", 0);
        let region = register(&transport, vec![0; 8].leak(), Access::all());
        Peer { transport, region }
    }

    /// Its window, as `t` reaches it.
    fn there<'a>(&self, t: &'a Transport, proc: u64) -> There<'a> {
        There::of(t, proc, &self.transport, &self.region)
    }

    fn close(self) {
        close([self.region], [self.transport]);
    }
}

/// A put and a flush, while the target makes progress.
fn put(there: There<'_>, target: &Transport) {
    attended(target, || {
        there.insist(|there| there.put(0, &[7u64], None));
        assert_eq!(there.t.flush(None), Status::SUCCESS);
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
fn wait_for_failure(peer: There<'_>) -> Option<Status> {
    until(&[peer.t], "the silent peer is not noticed", || {
        peer.failure().is_some()
    });
    peer.failure()
}

/// Some peers have answered an operation before, some have put to this process, and one has sent
/// nothing.
#[test]
fn silent_peers_are_noticed_while_a_process_waits() {
    alone(|| {
        let t = single("", TIME);
        let own = register(&t, vec![0; 8].leak(), Access::all());
        let peers = [(); 3].map(|()| Peer::new());
        let [target, origin, stranger] = [0, 1, 2].map(|i: usize| peers[i].there(&t, 1 + i as u64));
        put(target, &peers[0].transport);
        put(There::of(&peers[1].transport, 1, &t, &own), &t);
        // The peers make progress, so they answer, however long this process waits.
        attended(&peers[0].transport, || {
            attended(&peers[1].transport, || wait(&t, 4 * TIME));
        });
        assert_eq!((target.failure(), origin.failure()), (None, None));
        put(target, &peers[0].transport);
        // One of the peers continues.
        attended(&peers[1].transport, || {
            assert_eq!(wait_for_failure(target), Some(Status::UNREACH));
            wait(&t, 2 * TIME);
            assert_eq!(origin.failure(), None);
        });
        assert_eq!(wait_for_failure(origin), Some(Status::UNREACH));
        assert_eq!(t.flush(None), Status::UNREACH, "told by one flush");
        wait(&t, 2 * TIME);
        assert_eq!(stranger.failure(), None, "it was never asked");
        t.close().unwrap();
        drop(own);
        peers.into_iter().for_each(Peer::close);
    });
}

/// Flushes and closing do not wait for the answer to a heartbeat, and later operations are counted as before.
#[test]
fn nothing_waits_for_heartbeats() {
    alone(|| {
        let t = single("", 0);
        let peers = [(); 2].map(|()| Peer::new());
        let [busy, other] = [0, 1].map(|i: usize| peers[i].there(&t, 1 + i as u64));
        put(busy, &peers[0].transport);
        put(other, &peers[1].transport);
        attended(&peers[1].transport, || wait(&t, 2500));
        // The heartbeat to the first peer is not answered.
        put(other, &peers[1].transport);
        put(busy, &peers[0].transport);
        assert_eq!((busy.failure(), other.failure()), (None, None));
        attended(&peers[1].transport, || wait(&t, 2500));
        t.close().unwrap();
        assert_eq!(peers[0].transport.stats().failed, 0);
        peers.into_iter().for_each(Peer::close);
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
            let peer = Peer::new();
            let there = peer.there(&t, 1);
            put(there, &peer.transport);
            attended(&peer.transport, || match lost {
                true => assert_eq!(wait_for_failure(there), Some(Status::UNREACH)),
                false => {
                    wait(&t, 4 * TIME);
                    assert_eq!(there.failure(), None);
                }
            });
            t.close().unwrap();
            peer.close();
        }
    });
}
