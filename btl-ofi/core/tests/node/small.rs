//! Small puts and gets over shm. The target executes these transfers while it makes progress, otherwise
//! the kernel executes them; each is executed once and reported.

mod model;
mod stopped;

use std::slice;

use crate::common::prelude::*;

fn single() -> Transport {
    open(near(), ThreadLevel::Single, &[])
}

fn put_word(there: There<'_>, word: &u64) -> Status {
    there.put(0, slice::from_ref(word), None)
}

/// Checks step by step which side executes a transfer.
#[test]
fn the_target_makes_it_or_the_kernel() {
    let pair = Pair::new(4, single);
    let (a, b, there) = (&pair.a, &pair.b, pair.there());
    let words: Vec<u64> = (0..64).collect();
    // The first put finds the ring, and is executed immediately.
    assert_eq!(put_word(there, &words[1]), Status::SUCCESS);
    assert_eq!(pair.word(0), 1);
    // The next put waits for the target ...
    assert_eq!(put_word(there, &words[2]), Status::SUCCESS);
    assert_eq!(pair.word(0), 1);
    b.progress();
    assert_eq!(pair.word(0), 2);
    assert_eq!(a.flush(None), Status::SUCCESS);
    // ... but not forever.
    assert_eq!(put_word(there, &words[3]), Status::SUCCESS);
    assert_eq!(pair.word(0), 2);
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!(pair.word(0), 3);
    // The following puts do not wait for a while.
    for word in &words[4..20] {
        assert_eq!(put_word(there, word), Status::SUCCESS);
        assert_eq!(pair.word(0), *word);
    }
    // A revoked put is not executed again, but the put behind it is.
    assert_eq!(put_word(there, &words[20]), Status::SUCCESS);
    assert_eq!(pair.word(0), 19);
    b.progress();
    assert_eq!(pair.word(0), 20);
    assert_eq!(a.flush(None), Status::SUCCESS);
    // The same holds for gets.
    let mut got = [u64::MAX; 4];
    let first = &raw const got[0];
    assert_eq!(there.get(0, &mut got[..1], None), Status::SUCCESS);
    // SAFETY: the word belongs to the test.
    assert_eq!(unsafe { first.read_volatile() }, u64::MAX);
    b.progress();
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!(got[0], 20);
    assert_eq!(there.get(0, &mut got, None), Status::SUCCESS);
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!(got, [20, 0, 0, 0]);
    assert_eq!(a.stats().posted, a.stats().completed);
    pair.close();
}

/// The target does not answer a put in time, so the kernel makes the next puts. The number of these puts is the same
/// without a callback and with one, although the fast path then leaves the put to the slow path. Words and longer
/// puts use different functions of the fast path.
#[test]
fn each_put_counts_once_in_the_backoff() {
    let told = Seen::default();
    for words in [1, 4] {
        for completion in [None, told.completion()] {
            let pair = Pair::new(4, single);
            let values: Vec<[u64; 4]> = (0..64).map(|value| [value; 4]).collect();
            let put = |value: usize| {
                let status = pair.there().put(0, &values[value][..words], completion);
                assert_eq!(status, Status::SUCCESS);
                pair.word(0) == value as u64
            };
            // This put finds the ring.
            assert_eq!(put_word(pair.there(), &values[1][0]), Status::SUCCESS);
            assert_eq!(pair.word(0), 1);
            assert!(!put(2), "it waits for the target");
            assert_eq!(pair.a.flush(None), Status::SUCCESS);
            let by_kernel = (3..64).take_while(|value| put(*value)).count();
            assert_eq!(by_kernel, 16, "{words} words, {completion:?}");
            pair.b.progress();
            assert_eq!(pair.a.flush(None), Status::SUCCESS);
            pair.close();
        }
    }
    assert_eq!(told.failed(), 0);
}

/// A process executes the commands of its peers in the transfers that the kernel makes for it: it may make no other progress.
#[test]
fn a_transfer_by_the_kernel_serves_peers() {
    for words in [1, 4] {
        let pair = Pair::new(4, single);
        let (a, b, there) = (&pair.a, &pair.b, pair.there());
        let mut of_a = [0u64; 4];
        let region = register(a, &mut of_a, Access::all());
        let back = There::of(b, 0, a, &region);
        // The first puts find the rings. The target does not answer the second put of `b`, so the kernel makes the next puts.
        for put in [there, back, back] {
            assert_eq!(put_word(put, &1), Status::SUCCESS);
        }
        assert_eq!(b.flush(None), Status::SUCCESS);
        assert_eq!(put_word(there, &2), Status::SUCCESS);
        assert_eq!(pair.word(0), 1, "it waits for the target");
        assert_eq!(back.put(0, &[3u64; 4][..words], None), Status::SUCCESS);
        assert_eq!(pair.word(0), 2, "{words} words");
        assert_eq!(a.flush(None), Status::SUCCESS);
        region.close().unwrap();
        pair.close();
        assert_eq!(of_a[0], 3);
    }
}

/// A full ring makes no transfer wait. More transfers than its entries are posted to a target that does
/// nothing, with atomics among them that only the target can execute.
#[test]
fn a_full_ring_leaves_them_to_the_kernel() {
    let pair = Pair::new(512, single);
    let (a, b, there) = (&pair.a, &pair.b, pair.there());
    let told = Seen::default();
    let data: Vec<u64> = (1..=512).collect();
    let mut old = [u64::MAX; 2];
    there.insist(|there| there.fetch_add(0, &mut old[0], None));
    for (i, word) in data.iter().enumerate().skip(1) {
        let status = there.put(8 * i, slice::from_ref(word), told.completion());
        assert_eq!(status, Status::SUCCESS);
    }
    there.insist(|there| {
        b.progress();
        there.fetch_add(0, &mut old[1], None)
    });
    until(&[a], "a put waits for the target", || told.all() >= 511);
    attended(b, || assert_eq!(a.flush(None), Status::SUCCESS));
    assert_eq!((told.all(), old), (511, [0, 1]));
    let window = pair.close();
    assert_eq!((window[0], &window[1..]), (2, &data[1..]));
}

/// Large gets, which the target makes in part: of any size and place, from a target that makes progress, pauses,
/// or does nothing.
#[test]
fn large_gets() {
    const WORDS: usize = 128 * 1024;
    for (seed, pausing) in [(1, Some(false)), (2, Some(true)), (3, None)] {
        let window: Vec<u64> = (0..WORDS as u64).map(|i| i * 0x9e37_79b9).collect();
        let bytes: Vec<u8> = window.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let pair = Pair::of(single(), single(), window);
        let there = pair.there();
        let mut got = vec![0u8; 8 * WORDS];
        let mut gets = || {
            let mut numbers = Numbers(seed);
            // The first get finds the ring.
            for round in 0..300 {
                let size = match round {
                    0 => 8,
                    // These sizes leave a last fragment of few bytes.
                    1..100 => 8192 * (1 + round % 9) + round / 9,
                    _ => 1 + numbers.below([20_000, 100_000, 8 * WORDS][round % 3]),
                };
                let at = numbers.below(8 * WORDS - size + 1);
                let guard = numbers.below(8 * WORDS - size + 1);
                got.fill(0xee);
                there.insist(|there| there.get(at, &mut got[guard..guard + size], None));
                // An atomic and a small get follow among the remaining fragments.
                let mut old = [0u64];
                there.insist(|there| there.get(0, &mut old, None));
                assert_eq!(there.t.flush(None), Status::SUCCESS);
                assert_eq!(old, [0]);
                assert!(
                    got[guard..guard + size] == bytes[at..at + size],
                    "seed {seed}"
                );
                assert!(got[..guard].iter().all(|b| *b == 0xee));
                assert!(got[guard + size..].iter().all(|b| *b == 0xee));
            }
        };
        match pausing {
            Some(true) => attended_at_times(&pair.b, gets),
            Some(false) => attended(&pair.b, gets),
            None => gets(),
        }
        pair.close();
    }
}

/// Two processes get from each other at the same time, and make progress only in these gets.
#[test]
fn gets_both_ways() {
    let pair = Pair::of(single(), single(), vec![2; 32 * 1024]);
    let mut of_a = vec![1u64; 32 * 1024];
    let (a, b) = (&pair.a, &pair.b);
    let region = register(a, &mut of_a, Access::all());
    let back = There::of(b, 0, a, &region);
    let (ends, barrier) = (AtomicU32::new(0), std::sync::Barrier::new(2));
    let run = |there: There<'_>, what: u64| {
        let mut got = vec![0u64; 32 * 1024];
        barrier.wait();
        for _ in 0..200 {
            got.fill(0);
            there.insist(|there| there.get(0, &mut got, None));
            assert_eq!(there.t.flush(None), Status::SUCCESS);
            assert!(got.iter().all(|w| *w == what));
        }
        ends.fetch_add(1, Ordering::Relaxed);
        while ends.load(Ordering::Relaxed) < 2 {
            there.t.progress();
        }
    };
    let there = pair.there();
    thread::scope(|s| {
        s.spawn(|| run(there, 2));
        run(back, 1);
    });
    region.close().unwrap();
    pair.close();
}
