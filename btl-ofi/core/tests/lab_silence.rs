//! Peers and providers that fall silent. With `btl_ofi_peer_timeout` set, each operation is reported once and flush
//! returns; a peer that answers again in time loses nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(
    clippy::redundant_closure,
    reason = "closures name the tests that processes run"
)]

mod common;
mod lab;

use lab::prelude::*;

/// The number of operations of a run.
const COUNT: usize = 120;
/// The peer timeout, milliseconds.
const TIME: u64 = 300;

/// Makes operations to two processes, while the provider follows the script. `lost` says whether
/// some never complete.
fn run(faults: &str, contexts: &str, mode: &str, lost: bool) {
    println!("@at {faults} {contexts} {mode}");
    shape(&[
        ("TX_CTX", contexts),
        ("MODE", mode),
        // These regions must be closed before the endpoint.
        ("MR_MODE", if lost { "ENDPOINT" } else { "" }),
        ("FAULTS", faults),
    ]);
    let n = Value::Int(contexts.parse().unwrap());
    let t = open(
        "lab",
        ThreadLevel::Single,
        &[
            ("btl_ofi_num_contexts_per_module", n),
            ("btl_ofi_peer_check_interval", Value::Unsigned(20)),
            ("btl_ofi_peer_timeout", Value::Unsigned(TIME)),
        ],
    );
    let mut memory = [0u64; 8];
    // SAFETY: the memory outlives the region.
    let region = unsafe { t.register(memory.as_mut_ptr().cast(), 64, Access::all()) };
    // The targets make no faults themselves.
    let targets = [0, 1].map(|proc| Target::start_as(proc, &t, "lab", true));
    let seen: Vec<Seen> = (0..COUNT).map(|_| Seen::default()).collect();
    let mut words = vec![0u64; COUNT];
    let mut refused = 0;
    for (i, word) in words.iter_mut().enumerate() {
        if !targets[i % 2].there().accepts(i, word, &seen[i]) {
            refused += 1;
        }
    }
    let before = worked();
    let status = t.flush(None);
    let spent = worked() - before;
    assert!(spent < Duration::from_secs(5), "flush worked for {spent:?}");
    assert_eq!(status != Status::SUCCESS, lost, "{status}");
    let sum = |of: fn(&Seen) -> u32| seen.iter().map(|s| of(s) as usize).sum::<usize>();
    let (good, bad) = (sum(Seen::succeeded), sum(Seen::failed));
    let once = seen.iter().filter(|s| s.all() == 1).count();
    assert_eq!(
        once + refused,
        COUNT,
        "{good} good, {bad} bad, {refused} refused"
    );
    assert_eq!(bad + refused > 0, lost);
    // No report comes later.
    for _ in 0..5000 {
        t.progress();
    }
    assert_eq!((sum(Seen::succeeded), sum(Seen::failed)), (good, bad));
    drop(targets);
    region.unwrap().close().unwrap();
    t.close().unwrap();
}

fn scripts(contexts: &str) {
    let mode = if contexts == "1" { "" } else { "CONTEXT2" };
    for (script, lost) in [
        // A peer stops answering, at its first operation or at a later one.
        ("silent=1", true),
        ("silent=20", true),
        ("silent=7,delay=20,reorder=1,again=100,burst=3", true),
        // The peer comes back in time.
        ("silent=1,back=300", false),
        ("silent=20,back=1000,delay=20,reorder=1", false),
        // Completions without a name do not identify their operation.
        ("nullok=1000", true),
        ("nullok=100,delay=5", true),
        // Completions that belong to no operation do no harm.
        ("stray=1000", false),
        ("stray=300,delay=9,reorder=1", false),
        // The provider accepts no operation, from the beginning or after a while.
        ("againfrom=1", true),
        ("againfrom=15,delay=10", true),
    ] {
        run(&format!("seed=9,{script}"), contexts, mode, lost);
    }
}

#[test]
fn silence_ends() {
    if let Some(tally) = isolated_as(&["1", "4"], |contexts| scripts(contexts)) {
        tally.insist("silent peers and providers");
    }
}

/// Without a timeout, a peer that comes back late causes only a longer wait.
#[test]
fn a_late_peer_is_waited_for() {
    alone(|| {
        shape(&[("FAULTS", "seed=3,silent=5,back=200000")]);
        let t = open("lab", ThreadLevel::Single, &[]);
        let target = Target::start(&t, "lab", true);
        let seen: Vec<Seen> = (0..40).map(|_| Seen::default()).collect();
        let mut words = [0u64; 40];
        for (i, word) in words.iter_mut().enumerate() {
            assert!(target.there().accepts(i, word, &seen[i]));
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert!(seen.iter().all(|s| s.succeeded() == 1));
        target.end();
        t.close().unwrap();
    });
}

/// The user keeps a region longer than the transport. The transport still closes its endpoints, because outstanding
/// operations use memory of the transport.
#[test]
fn a_region_that_is_kept() {
    alone(|| {
        // Closing the endpoint closes the region too, so there is room for another region.
        shape(&[("MR_MODE", "ENDPOINT"), ("REGIONS", "1")]);
        let [one, other] = [(); 2].map(|()| open("lab", ThreadLevel::Single, &[]));
        let mut memory = [0u64; 8];
        let base = memory.as_mut_ptr().cast();
        // SAFETY: the memory outlives the regions.
        let register = |t: &Transport| unsafe { t.register(base, 64, Access::all()) };
        let region = register(&one).unwrap();
        assert!(register(&other).is_err());
        one.close().unwrap();
        register(&other).unwrap().close().unwrap();
        drop(region);
        other.close().unwrap();
    });
}
