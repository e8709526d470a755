//! Puts with notification: the counter never rises before the bytes arrive, over each provider and by each route; flushes
//! wait for both parts; a refused put has no effect.

mod threads;

use crate::common::prelude::*;

const PROVIDERS: [&str; 4] = ["tcp;ofi_rxm", "net", "sockets", "shm"];
const SIZES: [usize; 7] = [0, 1, 8, 40, 4096, 4097, 65536];
const LARGEST: usize = 65536;
/// The number of puts of one round, each with its own place.
const PUTS: usize = 24;

/// Providers without the ways of one node, and these, which are the same under every provider.
fn ways() -> impl Iterator<Item = (&'static str, (&'static str, Value))> {
    let far = PROVIDERS.into_iter().map(|p| (p, SAME_NODE_OFF));
    far.chain([("shm", SAME_NODE)])
}

/// An origin with a thread level, and a target that it has connected.
fn pair(
    provider: &str,
    same_node: (&'static str, Value),
    level: ThreadLevel,
) -> (Transport, Transport, NonNull<Endpoint>) {
    let a = open(provider, level, std::slice::from_ref(&same_node));
    let b = open(provider, ThreadLevel::Single, &[same_node]);
    let peer = a.connect(b.address(), 1).unwrap();
    (a, b, peer)
}

/// `size`, or the provider's largest put if that is smaller.
fn fit(t: &Transport, size: usize) -> usize {
    size.min(t.capabilities().put_limit / 8 * 8)
}

fn content(seed: u64, i: usize, size: usize) -> Vec<u8> {
    let first = seed as usize + 31 * i;
    // No byte is 0, the initial content of the window.
    (0..size)
        .map(|at| ((first + 7 * at) % 255 + 1) as u8)
        .collect()
}

/// The target's memory, which others change.
struct Looked(*const u8, *const AtomicU64);

// SAFETY: the memory is read only, by volatile and atomic reads.
unsafe impl Sync for Looked {}

impl Looked {
    /// Polls the counters until all are raised; the bytes of a put must be there when its counter is
    /// first seen raised.
    fn watch(&self, adds: &[u64], sent: &[Vec<u8>], provider: &str) {
        let deadline = Patience::new();
        let mut left: Vec<usize> = (0..adds.len()).collect();
        while !left.is_empty() {
            left.retain(|&i| {
                // SAFETY: the counters live to the end of the test.
                let count = unsafe { &*self.1.add(i) }.load(Ordering::Acquire);
                if count == 0 {
                    return true;
                }
                assert_eq!(count, adds[i], "{provider}: counter {i}");
                for (at, byte) in sent[i].iter().enumerate() {
                    // SAFETY: the word is inside the window, which lives to the end of the test.
                    let now = unsafe { self.0.add(i * LARGEST + at).read_volatile() };
                    let size = sent[i].len();
                    assert_eq!(
                        now, *byte,
                        "{provider}: byte {at} of {size}, counted before"
                    );
                }
                false
            });
            assert!(deadline.lasts(), "{provider}: {left:?} not counted");
            std::hint::spin_loop();
        }
    }
}

fn bytes_come_first(provider: &str, same_node: (&'static str, Value), seed: u64) {
    let (a, b, peer) = pair(provider, same_node, ThreadLevel::Single);
    let mut numbers = Numbers(seed);
    for round in 0..3 {
        let mut window = vec![0u64; PUTS * LARGEST / 8];
        let mut counters = vec![0u64; PUTS];
        let regions = [
            register(&b, &mut window, Access::all()),
            register(&b, &mut counters, Access::all()),
        ];
        let (there, c) = (
            There::new(&a, peer, regions[0].handle()),
            regions[1].handle(),
        );
        let memory = Looked(window.as_ptr().cast(), counters.as_ptr().cast());
        let sent: Vec<_> = (0..PUTS)
            .map(|i| {
                let size = SIZES[numbers.below(SIZES.len())];
                content(seed + round, i, fit(&a, size))
            })
            .collect();
        let adds: Vec<_> = (0..PUTS).map(|_| numbers.below(1000) as u64 + 1).collect();
        let seen = Seen::default();
        let mut asked = 0;
        let run = || {
            std::thread::scope(|s| {
                s.spawn(|| memory.watch(&adds, &sent, provider));
                for (i, from) in sent.iter().enumerate() {
                    let done = (numbers.below(2) == 0).then(|| seen.completion());
                    asked += u32::from(done.is_some());
                    let (at, counter) = (i * LARGEST, (&c, 8 * i, adds[i]));
                    there.insist(|to| to.put_notify(at, from, counter, done.flatten()));
                    if numbers.below(6) == 0 {
                        a.progress();
                    }
                }
                assert_eq!(a.flush(None), Status::SUCCESS, "{provider}");
            });
        };
        match round {
            0 => attended(&b, run),
            _ => attended_at_times(&b, run),
        }
        assert_eq!(seen.both(), (asked, 0), "{provider}");
        drop(regions);
    }
    let stats = a.stats();
    assert_eq!(stats.posted, stats.completed, "{stats:?}");
    close([], [a, b]);
}

#[test]
fn the_count_never_comes_before_the_bytes() {
    for (provider, same_node) in ways() {
        (1..=2).for_each(|seed| bytes_come_first(provider, same_node.clone(), seed));
    }
}

/// After a flush, the target sees bytes and counter without further progress.
#[test]
fn a_flush_waits_for_both() {
    const COUNTER: usize = 10_000;
    for (provider, same_node) in ways() {
        let t = open(provider, ThreadLevel::Single, &[same_node]);
        let mut target = Target::start(&t, provider, false);
        let (there, mut sum) = (target.there(), 0);
        for round in 1..=40u64 {
            let size = fit(&t, SIZES[1 + round as usize % 6]).max(8);
            let mut from = vec![1u8; size];
            from[..8].copy_from_slice(&round.to_ne_bytes());
            from[size - 8..].copy_from_slice(&round.to_ne_bytes());
            sum += round;
            let counter = (&there.h, 8 * COUNTER, round);
            there.insist(|to| to.put_notify(0, &from, counter, None));
            let flushed = match round % 2 {
                0 => there.flush(),
                _ => t.flush(None),
            };
            assert_eq!(flushed, Status::SUCCESS, "{provider}");
            assert_eq!(target.sees(COUNTER, 0), (sum, round), "{provider}, {size}");
            let last = size / 8 - 1;
            let whole = size.is_multiple_of(8);
            assert!(!whole || target.sees(last, last).0 == round, "{provider}");
        }
        target.end_and_release();
        t.close().unwrap();
    }
}

/// A transport puts with notification to itself.
#[test]
fn to_oneself() {
    for (provider, same_node) in ways() {
        let t = open(provider, ThreadLevel::Single, &[same_node]);
        let own = Own::new(t, LARGEST / 8 + 1);
        let (there, seen) = (own.there(), Seen::default());
        for (i, size) in SIZES.into_iter().enumerate() {
            let size = fit(&own.t, size);
            let from = content(3, i, size);
            let counter = (&there.h, 0, 1);
            there.insist(|to| to.put_notify(8, &from, counter, seen.completion()));
            assert_eq!(own.t.flush(None), Status::SUCCESS);
            let words = (0..size.div_ceil(8)).map(|at| own.word(1 + at).to_ne_bytes());
            let there: Vec<u8> = words.flatten().collect();
            assert!(there.starts_with(&from), "{provider}: {size}");
            assert_eq!(own.word(0), i as u64 + 1);
        }
        let all = SIZES.len() as u32;
        assert_eq!(seen.both(), (all, 0), "{provider}");
        own.close();
    }
}

/// An invalid put or counter is refused without any effect.
#[test]
fn refusals_have_no_effect() {
    for (provider, same_node) in ways() {
        let (a, b, peer) = pair(provider, same_node, ThreadLevel::Single);
        let (mut window, mut counters) = (vec![0u64; 16], vec![0u64; 4]);
        let (mut fixed, mut old) = (vec![0u64; 16], vec![0u64; 4]);
        let regions = [
            register(&b, &mut window, Access::all()),
            register(&b, &mut counters, Access::all()),
            register(&b, &mut fixed, Access::REMOTE_READ),
            register(&b, &mut old, Access::all()),
        ];
        let [h, c, read_only, mut retired] = [0, 1, 2, 3].map(|i: usize| regions[i].handle());
        retired.retire();
        let from = [9u8; 64];
        let seen = Seen::default();
        let (bounds, param, perm) = (Status::VALUE_OUT_OF_BOUNDS, Status::BAD_PARAM, Status::PERM);
        let before = a.stats().posted;
        for ((to, at), (counter, word), size, status, why) in [
            ((h, 0), (&c, 4), 8, param, "not aligned"),
            ((h, 0), (&c, 32), 8, bounds, "behind the counters"),
            ((h, 0), (&read_only, 0), 8, perm, "no rights to count"),
            ((h, 0), (&retired, 0), 8, param, "no counter's handle"),
            ((h, 120), (&c, 0), 9, bounds, "behind the window"),
            ((h, 129), (&c, 0), 0, bounds, "nothing, but outside"),
            ((read_only, 0), (&c, 0), 8, perm, "no rights to put"),
            ((retired, 0), (&c, 0), 8, param, "no window's handle"),
        ] {
            let to = There::new(&a, peer, to);
            let put = to.put_notify(at, &from[..size], (counter, word, 1), seen.completion());
            assert_eq!(put, status, "{why}");
        }
        let notice = Notice {
            counter: &c,
            address: c.base(),
            add: 1,
        };
        let ops = [
            Op::put(&h, h.base(), (ptr::null_mut(), ptr::null_mut()), 8),
            Op::get(
                &h,
                h.base(),
                (from.as_ptr().cast_mut().cast(), ptr::null_mut()),
                8,
            ),
        ];
        for op in &ops {
            // SAFETY: the endpoint is connected; the buffer lives to the end of the test.
            assert_eq!(unsafe { a.put_notify(peer, op, &notice) }, param);
        }
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        (0..100).for_each(|_| {
            b.progress();
        });
        assert_eq!(a.stats().posted, before, "{provider}");
        assert_eq!(seen.all(), 0, "{provider}");
        drop(regions);
        let all = [window, counters, fixed, old].concat();
        assert!(all.iter().all(|w| *w == 0), "{provider}");
        close([], [a, b]);
    }
}
