//! Transfers of any size and place among atomics, compared with a model of the window.

use super::*;

/// One thread's operations: puts, gets and additions on its own part of the window, compared with a
/// model.
pub(crate) fn matches_the_model(
    there: There<'_>,
    (first, bytes): (usize, usize),
    seed: u64,
    rounds: usize,
) -> u64 {
    let mut numbers = Numbers(seed);
    let mut model = vec![0u8; bytes];
    let told = Seen::default();
    let (mut due, mut added) = (0, 0);
    for _ in 0..rounds {
        // Parts of the window that no other operation of the round accesses.
        let mut at = 0;
        let mut puts: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut gets: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut sums = Vec::new();
        while puts.len() + gets.len() < 150 {
            let size = match numbers.below(12) {
                0..4 => 8,
                4..7 => 1 + numbers.below(16),
                7..10 => 1 + numbers.below(200),
                10 => 1 + numbers.below(1400),
                _ => 1 + numbers.below(20_000),
            };
            at += numbers.below(9);
            if at + size > bytes {
                break;
            }
            if numbers.below(2) == 0 {
                let data = (0..size).map(|_| numbers.below(256) as u8).collect();
                puts.push((at, data));
            } else {
                gets.push((at, vec![0xee; size]));
            }
            at += size;
        }
        let mut completion = || {
            let with = numbers.below(2) == 0;
            due += u32::from(with);
            with.then(|| told.completion()).flatten()
        };
        for (at, data) in &puts {
            let with = completion();
            there.insist(|there| there.put(first + at, data, with));
        }
        for (at, data) in &mut gets {
            let with = completion();
            there.insist(|there| there.get(first + *at, data, with));
        }
        sums.resize(numbers.below(4), 0u64);
        for out in &mut sums {
            there.insist(|there| there.fetch_add(0, out, None));
            added += 1;
        }
        assert_eq!(there.flush(), Status::SUCCESS);
        assert_eq!(told.all(), due, "seed {seed}: each told once");
        assert_eq!(told.status(), Status::SUCCESS);
        for (at, data) in gets {
            assert!(data == model[at..at + data.len()], "seed {seed}: a get");
        }
        for (at, data) in puts {
            model[at..at + data.len()].copy_from_slice(&data);
        }
    }
    let mut all = vec![0u8; bytes];
    there.insist(|there| there.get(first, &mut all, None));
    assert_eq!(there.t.flush(None), Status::SUCCESS);
    assert!(all == model, "seed {seed}: what is there in the end");
    added
}

/// Transfers of all sizes and alignments, with and without callbacks, among atomics: to a target that
/// makes progress, to a target that pauses repeatedly, and to the process itself.
#[test]
fn random_transfers() {
    for (seed, pausing) in [
        (1, Some(false)),
        (2, Some(true)),
        (3, Some(true)),
        (4, Some(true)),
        (5, None),
    ] {
        let pair = Pair::new(4096, single);
        let own = pausing.is_none().then(|| {
            let own = &pair.b;
            own.connect(own.address(), 0).unwrap()
        });
        let there = match own {
            Some(peer) => There {
                t: &pair.b,
                peer,
                ..pair.there()
            },
            None => pair.there(),
        };
        let work = || matches_the_model(there, (8, 32 * 1024 - 8), seed, 100);
        let added = match pausing {
            Some(true) => attended_at_times(&pair.b, work),
            Some(false) => attended(&pair.b, work),
            None => work(),
        };
        assert_eq!(pair.word(0), added);
        assert_eq!(there.t.stats().posted, there.t.stats().completed);
        pair.close();
    }
}

/// Threads share a context at one end, and make progress together at the other end.
#[test]
fn threads() {
    const EACH: usize = 16 * 1024;
    let pair = Pair::new(1 + 3 * EACH / 8, || {
        open(near(), ThreadLevel::Multiple, &[])
    });
    let (b, there) = (&pair.b, pair.there());
    let added = AtomicU64::new(0);
    attended_at_times(b, || {
        attended(b, || {
            thread::scope(|s| {
                for thread in 0..3 {
                    let added = &added;
                    s.spawn(move || {
                        let share = (8 + thread * EACH, EACH);
                        let n = matches_the_model(there, share, thread as u64, 60);
                        added.fetch_add(n, Ordering::Relaxed);
                    });
                }
            });
        });
    });
    assert_eq!(pair.word(0), added.load(Ordering::Relaxed));
    assert_eq!(pair.a.stats().posted, pair.a.stats().completed);
    pair.close();
}

/// The ways of one node are the same under a provider between nodes, and without one. `counters.rs` and `mixed_routes.rs` show
/// which way is taken there.
#[test]
fn the_same_over_other_providers() {
    again_over(module_path!(), "tcp;ofi_rxm");
    again_over(module_path!(), "memory");
}
