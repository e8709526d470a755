//! Puts with notification that fail: a counter is not raised for a put that failed, and each failure is reported once.

use crate::common::prelude::*;

fn outcomes(n: usize) -> Vec<Seen> {
    (0..n).map(|_| Seen::default()).collect()
}

/// The status of an operation that was reported once.
fn status(outcome: &Seen) -> Status {
    assert_eq!(outcome.all(), 1, "told once");
    outcome.status()
}

/// The target has deregistered the window of some puts, and the counter of others. The refused puts travel in the same
/// messages as puts that are executed.
#[test]
fn deregistered_memory() {
    const MANY: usize = 120;
    for provider in ["tcp;ofi_rxm", "net"] {
        let level = ThreadLevel::Single;
        let [a, b] = [(); 2].map(|()| open(provider, level, &[]));
        let peer = a.connect(b.address(), 1).unwrap();
        let mut memory = [vec![0u64; 512], vec![0u64; 512], vec![0u64; MANY]];
        let [window, gone, counters] = memory.each_mut();
        let region = register(&b, window, Access::all());
        let counting = register(&b, counters, Access::all());
        let stale = register(&b, gone, Access::all());
        let [h, c, old] = [region.handle(), counting.handle(), stale.handle()];
        drop(stale);
        let from = [3u8; 4096];
        let outcomes = outcomes(MANY);
        attended(&b, || {
            for (i, outcome) in outcomes.iter().enumerate() {
                let size = [8, 100, 4096][i / 3 % 3];
                let (to, counter, word) = [(h, &c, i), (old, &c, i), (h, &old, 0)][i % 3];
                let done = (i % 4 != 0).then(|| outcome.completion()).flatten();
                let to = There::new(&a, peer, to);
                to.insist(|to| to.put_notify(0, &from[..size], (counter, 8 * word, 1), done));
            }
            assert_eq!(
                a.flush(None),
                Status::ERROR,
                "{provider}: those without callback"
            );
            assert_eq!(a.flush(None), Status::SUCCESS, "{provider}: said once");
        });
        for (i, outcome) in outcomes.iter().enumerate().filter(|(i, _)| i % 4 != 0) {
            let expected = [Status::SUCCESS, Status::PERM, Status::PERM][i % 3];
            assert_eq!(status(outcome), expected, "{provider}: {i}");
        }
        let stats = a.stats();
        assert_eq!(stats.posted, MANY as u64, "{stats:?}");
        assert_eq!(stats.failed, 2 * MANY as u64 / 3, "{stats:?}");
        assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
        drop((region, counting));
        let [window, gone, counters] = &memory;
        let raised = |(i, n): (usize, &u64)| *n == u64::from(i % 3 == 0);
        assert!(
            counters.iter().enumerate().all(raised),
            "{provider}: {counters:?}"
        );
        assert!(window.iter().all(|w| *w == 0x0303_0303_0303_0303));
        assert!(gone.iter().all(|w| *w == 0), "{provider}");
        close([], [a, b]);
    }
}

/// The provider refuses the put at the target, so the counter is not raised. The provider shm never answers
/// such a put.
#[test]
fn a_put_that_the_provider_fails() {
    let provider = "sockets";
    let level = ThreadLevel::Single;
    let [a, b] = [(); 2].map(|()| open(provider, level, &[SAME_NODE_OFF]));
    let mut memory = [vec![0u64; 512], vec![0u64; 512]];
    let [gone, counters] = memory.each_mut();
    let counting = register(&b, counters, Access::all());
    let stale = register(&b, gone, Access::all());
    let (c, old) = (counting.handle(), There::of(&a, 1, &b, &stale));
    let from = [3u8; 1000];
    let outcomes = outcomes(2);
    attended(&b, || {
        let put = |word: usize| {
            let done = outcomes[word].completion();
            old.insist(|old| old.put_notify(0, &from, (&c, 8 * word, 1), done));
        };
        put(0);
        assert_eq!(a.flush(None), Status::SUCCESS);
        assert_eq!(status(&outcomes[0]), Status::SUCCESS);
        stale.close().unwrap();
        put(1);
        a.flush(None);
    });
    assert!(!status(&outcomes[1]).is_ok(), "{provider}");
    drop(counting);
    assert_eq!(memory[1][..2], [1, 0], "{provider}");
    drop(a.close());
    drop(b.close());
}

fn killed(provider: &str, same_node: (&'static str, Value), stopped: bool) {
    const MANY: usize = 60;
    let t = open(provider, ThreadLevel::Single, &[same_node]);
    let mut target = Target::start(&t, provider, false);
    let there = target.there();
    let from = vec![1u8; 64 * 1024];
    let most = t.capabilities().put_limit;
    let outcomes = outcomes(MANY);
    let notify = |i: usize| {
        let size = [8, 4096, 5000, 64 * 1024][i % 4].min(most);
        let done = outcomes[i].completion();
        there.put_notify(0, &from[..size], (&there.h, 80_000, 1), done)
    };
    for i in 0..8 {
        insist(&t, || notify(i));
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    if stopped {
        // The signal keeps the puts below outstanding.
        signal(target.child.id(), libc::SIGSTOP);
    }
    let mut posted = vec![true; 8];
    for i in 8..MANY {
        if i == MANY / 2 || i == 8 && !stopped {
            target.kill();
        }
        let status = notify(i);
        let refused = status.is_again() || status == Status::UNREACH || status == Status::FATAL;
        assert!(status.is_ok() || refused, "{provider}: {status}");
        posted.push(!refused);
    }
    t.flush(None);
    let deadline = Patience::new();
    let over = |i: usize| outcomes[i].all() > 0 || !posted[i];
    while !(0..MANY).all(over) {
        t.progress();
        assert!(deadline.lasts(), "{provider}: never reported");
    }
    (0..1000).for_each(|_| {
        t.progress();
    });
    for (outcome, posted) in outcomes.iter().zip(&posted) {
        assert_eq!(outcome.all(), u32::from(*posted), "{provider}");
    }
    let failed = (8..MANY)
        .filter(|i| posted[*i] && !status(&outcomes[*i]).is_ok())
        .count();
    let refused = posted.iter().filter(|p| !**p).count();
    assert!(
        failed + refused >= MANY / 2,
        "{provider}: {failed}, {refused}"
    );
    drop(target);
    drop(t.close());
}

/// A target is killed while puts are outstanding and before others are posted: each put is reported
/// once or refused.
#[test]
fn killed_targets() {
    for provider in ["tcp;ofi_rxm", "net", "sockets", "shm"] {
        for same_node in [SAME_NODE, SAME_NODE_OFF] {
            for stopped in [false, true] {
                killed(provider, same_node.clone(), stopped);
            }
        }
    }
}
