//! Processes with equal process ids in two pid namespaces that share one network and one `/dev/shm`. A peer counts as
//! local only if it was proved to be local.

use plugin_api::Status;
use test_skips::{Lacking, skipped};

use crate::common::tally::check;
use crate::driver::{Rank, Seen};
use crate::namespaces::{Host, over};
use crate::{PROVIDERS, mix, routes};

/// Two ranks in each namespace; the process ids are the same in both namespaces. `None` if this kernel does not
/// support chosen process ids.
fn twins<'a>(hosts: &'a [Host; 2], provider: &str) -> Option<[[Rank<'a>; 2]; 2]> {
    let ranks = [0, 1].map(|host: usize| {
        [500, 1000].map(|before| Rank::start_after(&hosts[host], before, provider))
    });
    let ids = ranks
        .each_ref()
        .map(|pair| pair.each_ref().map(|rank| rank.pid));
    if ids[0] != ids[1] {
        skipped(
            Lacking::Namespaces,
            format!("process ids cannot be chosen: {ids:?}"),
        );
        return None;
    }
    Some(ranks)
}

fn two_namespaces() -> [Host; 2] {
    let first = Host::new("a");
    let second = first.beside();
    [first, second]
}

#[test]
fn equal_process_ids() {
    for provider in over(PROVIDERS) {
        let hosts = two_namespaces();
        let Some([[owner, near], [far, other]]) = twins(&hosts, provider) else {
            return;
        };
        for origin in [&near, &far, &other, &owner] {
            origin.connect(0, &owner);
        }
        let tallies = mix(&owner, &[&near], &[&far, &other], 1);
        check(owner.counted(), &tallies, 1);
        routes(&owner, &near, &far);

        // Two processes have the same process id, and one dies. The peers lose the dead process and
        // keep the other process.
        near.connect(1, &far);
        let met = near.post(1, 40);
        assert_eq!(near.flush(), Status::SUCCESS);
        far.signal(libc::SIGSTOP);
        let lost = near.post(1, 400);
        far.signal(libc::SIGKILL);
        assert_eq!(near.flush(), Status::UNREACH, "{provider}");
        let before = near.seen();
        assert_eq!((before.failed, before.lost), (lost.tracked, lost.untracked));
        assert_eq!((before.pending, before.twice), (0, 0));
        assert!(before.succeeded >= met.tracked);
        for origin in [&near, &other] {
            assert_eq!(origin.post(0, 40).last, Status::SUCCESS, "{provider}");
            assert_eq!(
                origin.flush(),
                Status::SUCCESS,
                "{provider}: {}",
                origin.ask("reports")
            );
        }
    }
}

/// A process announces the node of another process, as in a clone of a virtual machine. The announced process id belongs to
/// another process on that node, or to no process. The origin uses messages for this peer, and does not infer the
/// peer's death from that process id.
#[test]
fn equal_nodes() {
    for provider in over(PROVIDERS) {
        let hosts = two_namespaces();
        let Some([[origin, _alive], [twin, other]]) = twins(&hosts, provider) else {
            return;
        };
        let nobody = Rank::start_after(&hosts[1], 2000, provider);
        let mut succeeded = 0;
        for (proc, target) in [(1, &twin), (2, &other), (3, &nobody)] {
            // Bytes 8 to 16 of an address name the node.
            let (own, rest) = (&origin.address[16..32], &target.address[32..]);
            let claims = format!("{}{own}{rest}", &target.address[..16]);
            origin.connect_to(proc, &claims, &target.handle);
            let posted = origin.post(proc, 400);
            assert_eq!(posted.last, Status::SUCCESS, "{provider}");
            target.signal(libc::SIGSTOP);
            // The checks of the peers read the state of the process id.
            origin.wait_for_checks();
            target.signal(libc::SIGCONT);
            assert_eq!(
                origin.flush(),
                Status::SUCCESS,
                "{provider}: {}",
                origin.ask("reports")
            );
            succeeded += posted.tracked;
            let seen = Seen {
                succeeded,
                ..Seen::default()
            };
            assert_eq!(origin.seen(), seen, "{provider}");
            assert_eq!(target.received().0, 200, "{provider}");
        }
    }
}
