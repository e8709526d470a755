//! Jobs whose processes are on several hosts, made of Linux namespaces: routes by message and by memory in one job, peers
//! that die on another host, links that fail, and equal process ids. Skipped where hosts cannot be made.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
#[path = "hosts/driver.rs"]
mod driver;
#[path = "hosts/namespaces.rs"]
mod namespaces;
#[path = "hosts/rank.rs"]
mod rank;

use plugin_api::Status;

use common::tally::{Tally, check};
use driver::Rank;
use namespaces::{Host, available, serve_as_host};
use rank::serve_as_rank;

/// Operations of an origin on the other host; the others go on for as long.
const OPERATIONS: u32 = 300;

#[test]
#[ignore = "a child process of other tests, which start it"]
fn host_process() {
    serve_as_host();
}

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

/// Origins of one window, some of which are on its owner's host. Returns what all have done.
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

/// While the owner is stopped, a put of a neighbour completes, and one by message does not.
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

/// One window, whose owner and a neighbour are on one host, and two more origins on another.
fn mixed(provider: &str) {
    if !available() {
        return;
    }
    let (a, b) = two_hosts();
    let owner = Rank::start(&a, 1, provider, 0);
    let near = Rank::start(&a, 2, provider, 0);
    let far = [1, 2].map(|number| Rank::start(&b, number, provider, 0));
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
