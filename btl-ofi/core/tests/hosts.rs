//! Jobs whose processes run on several hosts, which are made of Linux namespaces. The tests are
//! skipped if hosts cannot be made.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "hosts/bytes.rs"]
mod bytes;
#[path = "hosts/clones.rs"]
mod clones;
mod common;
#[path = "hosts/counters.rs"]
mod counters;
#[path = "hosts/driver.rs"]
mod driver;
#[path = "hosts/heartbeats.rs"]
mod heartbeats;
#[path = "hosts/interfaces.rs"]
mod interfaces;
#[path = "hosts/namespaces.rs"]
mod namespaces;
#[path = "hosts/pids.rs"]
mod pids;
#[path = "hosts/rails.rs"]
mod rails;
#[path = "hosts/rank.rs"]
mod rank;

use plugin_api::Status;

use common::Patience;
use common::tally::{Tally, check};
use driver::{Posted, Rank, Seen};
use namespaces::{Host, available, over};
use rank::serve_as_rank;

/// The number of operations of an origin on the other host; the other origins continue until it has
/// ended.
const OPERATIONS: u32 = 60;

#[test]
#[ignore = "a child process of other tests, which start it"]
fn rank_process() {
    serve_as_rank();
}

/// Two hosts with a link between them.
fn two_hosts() -> (Host, Host) {
    let (a, b) = (Host::new("a"), Host::new("b"));
    a.join(&b);
    (a, b)
}

/// Runs the origins of one window, some of which are on its owner's host. Returns the counts of all
/// origins.
fn mix(owner: &Rank<'_>, near: &[&Rank<'_>], far: &[&Rank<'_>], seed: u64) -> Vec<Tally> {
    println!("seed {seed}");
    let mut number = seed * 10;
    let mut begin = |rank: &Rank<'_>, operations| {
        rank.mix(owner, number, operations);
        number += 1;
    };
    begin(owner, 0);
    near.iter().for_each(|rank| begin(rank, 0));
    far.iter().for_each(|rank| begin(rank, OPERATIONS));
    let mut tallies: Vec<_> = far.iter().map(|rank| rank.tally()).collect();
    for rank in near.iter().chain([&owner]) {
        rank.begin_to("enough");
        tallies.push(rank.tally());
    }
    tallies
}

/// While the owner is stopped, a put of a peer on its host completes, and a put by message does
/// not.
fn routes(owner: &Rank<'_>, near: &Rank<'_>, far: &Rank<'_>) {
    owner.signal(libc::SIGSTOP);
    let before = (near.seen(), far.seen());
    assert_eq!(far.put(0, 1).last, Status::SUCCESS);
    far.ask("progress 100");
    assert_eq!(near.put(0, 1).last, Status::SUCCESS);
    assert_eq!(near.flush(), Status::SUCCESS);
    far.ask("progress 100");
    let after = (near.seen(), far.seen());
    assert_eq!(after.0.succeeded, before.0.succeeded + 1);
    assert_eq!(
        (after.1.succeeded, after.1.pending),
        (before.1.succeeded, 1)
    );
    owner.signal(libc::SIGCONT);
    assert_eq!(far.flush(), Status::SUCCESS);
    assert_eq!(far.seen().pending, 0);
}

/// One window: its owner and a peer are on one host, and two more origins on another host.
fn mixed(provider: &str) {
    if !available() {
        return;
    }
    let (a, b) = two_hosts();
    let owner = Rank::start(&a, provider, 0);
    let near = Rank::start(&a, provider, 0);
    let far = [(); 2].map(|()| Rank::start(&b, provider, 0));
    for origin in [&near, &far[0], &far[1], &owner] {
        origin.connect(0, &owner);
    }
    let (local, linked) = (owner.packets("lo"), owner.packets("veth0"));
    let mut tallies = Vec::new();
    for seed in 1..=2 {
        tallies.extend(mix(&owner, &[&near], &[&far[0], &far[1]], seed));
        check(owner.counted(), &tallies, seed);
    }
    assert_eq!(owner.packets("lo"), local, "the neighbour used memory");
    assert!(owner.packets("veth0") > linked + i64::from(OPERATIONS));
    routes(&owner, &near, &far[0]);
}

#[test]
fn mixed_over_rxm() {
    mixed("tcp;ofi_rxm");
}

#[test]
fn mixed_over_net() {
    mixed("net");
}

/// The time at which a peer on another host is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    /// The peer is stopped, with operations sent and gathered.
    Met,
    /// The peer is stopped before its first answer to this process.
    Unmet,
    /// The peer is killed before the operations are posted.
    Before,
}

/// Each operation is reported once, and flushes end, without a process id to check and without a
/// timeout.
fn killed(provider: &str, when: Killed) {
    if !available() {
        return;
    }
    let (a, b) = two_hosts();
    let origin = Rank::start(&a, provider, 0);
    let (dead, living) = (Rank::start(&b, provider, 0), Rank::start(&b, provider, 0));
    origin.connect(1, &dead);
    origin.connect(2, &living);
    let mut met = origin.post(2, 40);
    if when != Killed::Unmet {
        let first = origin.post(1, 40);
        met.tracked += first.tracked;
    }
    assert_eq!(origin.flush(), Status::SUCCESS, "{}", origin.ask("reports"));
    assert_eq!(origin.seen().succeeded, met.tracked);

    dead.signal(libc::SIGSTOP);
    if when == Killed::Before {
        dead.signal(libc::SIGKILL);
    }
    let lost = origin.post(1, 2000);
    assert!(
        when == Killed::Before || lost.tracked + lost.untracked > 100,
        "{lost:?}"
    );
    let other = origin.post(2, 40);
    if when != Killed::Before {
        dead.signal(libc::SIGKILL);
    }
    let flushed = origin.flush();
    assert_eq!(flushed, Status::UNREACH, "{}", origin.ask("reports"));
    assert_eq!(origin.flush(), Status::SUCCESS, "it was reported once");
    let seen = Seen {
        succeeded: met.tracked + other.tracked,
        failed: lost.tracked,
        pending: 0,
        twice: 0,
        lost: lost.untracked,
    };
    assert_eq!(origin.seen(), seen, "{provider} {when:?}");
    assert_eq!(origin.post(1, 1).last, Status::UNREACH);
    let last = origin.post(2, 40);
    assert_eq!((last.tracked, last.untracked), (20, 20));
    assert_eq!(origin.flush(), Status::SUCCESS);
    assert_eq!(living.received().0, 3 * 20);
}

/// The providers that use messages for peers on other hosts.
const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];

#[test]
fn killed_with_operations_outstanding() {
    for provider in PROVIDERS {
        killed(provider, Killed::Met);
    }
}

#[test]
fn killed_before_the_first_answer() {
    for provider in PROVIDERS {
        killed(provider, Killed::Unmet);
    }
}

#[test]
fn killed_before_the_operations() {
    for provider in PROVIDERS {
        killed(provider, Killed::Before);
    }
}

/// A link that is cut with operations outstanding, at the origin's end or at the target's.
struct Cut<'a> {
    end: &'a Host,
    origin: Rank<'a>,
    target: Rank<'a>,
    met: Posted,
    posted: Posted,
}

impl<'a> Cut<'a> {
    fn new(
        (a, b): &'a (Host, Host),
        provider: &str,
        at_origin: bool,
        timeout: u32,
        load: Load,
    ) -> Cut<'a> {
        let origin = Rank::start(a, provider, timeout);
        let target = Rank::start(b, provider, 0);
        origin.connect(1, &target);
        let met = origin.post(1, FIRST);
        assert_eq!(origin.flush(), Status::SUCCESS);
        let end = if at_origin { a } else { b };
        end.link(false);
        let posted = match load {
            Load::Messages => origin.post_small(1, THEN),
            Load::Both => origin.post(1, THEN),
            Load::Provider => origin.post_large(1, LARGE_PUTS),
        };
        assert_eq!(posted.last, Status::SUCCESS, "{provider}: {posted:?}");
        let all = posted.tracked + posted.untracked;
        let fits = match load {
            Load::Messages => posted.large == 0,
            Load::Both => posted.large > 0 && posted.large < all,
            Load::Provider => posted.large == all,
        };
        assert!(fits, "{provider}: {load:?}: {posted:?}");
        let deadline = Patience::new();
        while !origin.repeats() {
            assert!(deadline.lasts(), "{provider}: nothing is sent");
        }
        Cut {
            end,
            origin,
            target,
            met,
            posted,
        }
    }
}

/// The number of operations before and after the cut.
const FIRST: u32 = 40;
const THEN: u32 = 1000;
const LARGE_PUTS: u32 = 4;

/// The carriers of the operations that are outstanding at the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Messages,
    Both,
    Provider,
}

/// Each operation is reported once, after the peer timeout. The provider may still read the data of its own puts. The
/// transport therefore closes its endpoints, and can no longer be used.
fn stays_down(provider: &str, at_origin: bool, load: Load) {
    let hosts = two_hosts();
    let cut = Cut::new(&hosts, provider, at_origin, 2000, load);
    let flushed = cut.origin.flush();
    let expected = match load {
        Load::Messages => Status::UNREACH,
        Load::Both | Load::Provider => Status::FATAL,
    };
    assert_eq!(
        flushed,
        expected,
        "{provider}: {}",
        cut.origin.ask("reports")
    );
    let seen = Seen {
        succeeded: cut.met.tracked,
        failed: cut.posted.tracked,
        lost: cut.posted.untracked,
        ..Seen::default()
    };
    assert_eq!(cut.origin.seen(), seen, "{provider}");
    assert_eq!(cut.origin.post(1, 1).last, Status::UNREACH, "{provider}");
}

/// If the link comes back before the peer timeout, no operation is lost.
fn comes_back(provider: &str, at_origin: bool) {
    let hosts = two_hosts();
    let cut = Cut::new(&hosts, provider, at_origin, 15_000, Load::Both);
    cut.end.link(true);
    assert_eq!(
        cut.origin.flush(),
        Status::SUCCESS,
        "{provider}: {}",
        cut.origin.ask("reports")
    );
    let (met, posted) = (cut.met, cut.posted);
    let seen = Seen {
        succeeded: met.tracked + posted.tracked,
        ..Seen::default()
    };
    assert_eq!(cut.origin.seen(), seen, "{provider}");
    // Half of the operations add.
    let sum = (FIRST + THEN) / 2;
    let all = met.tracked + met.untracked + posted.tracked + posted.untracked;
    let puts = all - sum - met.large - posted.large;
    assert_eq!(
        cut.target.received(),
        (u64::from(sum), puts as usize),
        "{provider}"
    );
}

#[test]
fn link_that_stays_down() {
    for provider in over(PROVIDERS) {
        stays_down(provider, provider == "net", Load::Messages);
    }
}

#[test]
fn link_that_stays_down_under_large_puts() {
    for provider in over(PROVIDERS) {
        stays_down(provider, provider != "net", Load::Both);
    }
}

/// In this case no missing answer to a message shows the peer's silence.
#[test]
fn link_that_stays_down_under_the_providers_puts_alone() {
    for provider in over(PROVIDERS) {
        stays_down(provider, provider == "net", Load::Provider);
    }
}

#[test]
fn link_that_comes_back() {
    for provider in over(PROVIDERS) {
        for at_origin in [true, false] {
            comes_back(provider, at_origin);
        }
    }
}
