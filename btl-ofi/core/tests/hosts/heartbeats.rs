//! Ranks that wait while a link goes down, while a peer is killed with nothing outstanding, or while a peer is
//! stopped.

use plugin_api::Status;

use crate::PROVIDERS;
use crate::common::Patience;
use crate::driver::{Rank, Seen};
use crate::namespaces::{Host, available, over};
use crate::two_hosts;

/// The peer timeout in milliseconds.
const TIME: u32 = 2000;

/// A rank that waits, and a peer on another host. The waiting rank has put to the peer, or the peer
/// has put to the waiting rank.
fn pair<'a>(
    (a, b): &'a (Host, Host),
    provider: &str,
    timeout: u32,
    has_put: bool,
) -> (Rank<'a>, Rank<'a>) {
    let waits = Rank::start(a, provider, timeout);
    let peer = Rank::start(b, provider, 0);
    waits.connect(1, &peer);
    peer.connect(1, &waits);
    let origin = if has_put { &waits } else { &peer };
    origin.post_small(1, 40);
    assert_eq!(origin.flush(), Status::SUCCESS);
    (waits, peer)
}

/// Waits until the rank has reported a failure; the rank receives no other requests meanwhile.
fn reported(rank: &Rank<'_>) -> String {
    let deadline = Patience::new();
    loop {
        rank.wait_for_checks();
        let reports = rank.ask("reports");
        if !reports.is_empty() {
            return reports;
        }
        assert!(deadline.lasts(), "nothing is reported");
    }
}

#[test]
fn link_that_goes_down_while_a_rank_waits() {
    if !available() {
        return;
    }
    for (provider, has_put) in PROVIDERS.into_iter().zip([true, false]) {
        let hosts = two_hosts();
        let (waits, _peer) = pair(&hosts, provider, TIME, has_put);
        for _ in 0..8 {
            waits.wait_for_checks();
        }
        assert_eq!(waits.ask("reports"), "", "{provider}: the peer answers");
        hosts.1.link(false);
        let reports = reported(&waits);
        assert!(reports.contains("heartbeat"), "{provider}: {reports}");
        assert_eq!(waits.post_small(1, 1).last, Status::UNREACH, "{provider}");
    }
}

/// A process that ends without outstanding operations may have left normally, unless the host says that no process
/// leaves.
#[test]
fn peer_that_is_killed_while_a_rank_waits() {
    for provider in over(PROVIDERS) {
        for watch in [false, true] {
            let hosts = two_hosts();
            let (waits, peer) = pair(&hosts, provider, 0, true);
            if watch {
                waits.ask("watch");
            }
            peer.signal(libc::SIGKILL);
            if watch {
                let reports = reported(&waits);
                assert!(reports.contains("process 1 is gone"), "{reports}");
                continue;
            }
            for _ in 0..12 {
                waits.wait_for_checks();
            }
            assert_eq!(waits.ask("reports"), "", "{provider}");
            waits.post_small(1, 40);
            assert_eq!(waits.flush(), Status::UNREACH, "{provider}");
        }
    }
}

/// The rank tries another connection to a peer that is stopped before its first answer; the peer works when it
/// continues.
#[test]
fn stopped_before_the_first_answer() {
    for provider in over(PROVIDERS) {
        let (a, b) = two_hosts();
        let origin = Rank::start(&a, provider, 0);
        let target = Rank::start(&b, provider, 0);
        origin.connect(1, &target);
        target.signal(libc::SIGSTOP);
        let posted = origin.post(1, 400);
        let deadline = Patience::new();
        while origin.connections() < 2 {
            assert!(deadline.lasts(), "{provider}: no trial");
            origin.wait_for_checks();
        }
        target.signal(libc::SIGCONT);
        assert_eq!(origin.flush(), Status::SUCCESS, "{}", origin.ask("reports"));
        let seen = Seen {
            succeeded: posted.tracked,
            ..Seen::default()
        };
        assert_eq!(origin.seen(), seen, "{provider}");
    }
}
