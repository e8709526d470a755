//! Puts, gets and atomics that travel as messages: order, many in one message, refusals in their midst, room, targets
//! that do not know their origin, and peers that come and go.

use crate::common::prelude::*;

/// Providers whose small transfers and atomics travel as messages: one with atomics of its own, and one without.
const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];

fn single(provider: &str) -> Transport {
    open(provider, ThreadLevel::Single, &[])
}

/// Two transports; the first can access the second's window.
struct Pair {
    a: Transport,
    b: Transport,
    peer: NonNull<Endpoint>,
}

impl Pair {
    fn new(provider: &str) -> Pair {
        let [a, b] = [(); 2].map(|()| single(provider));
        let peer = a.connect(b.address(), 1).unwrap();
        Pair { a, b, peer }
    }
}

fn put(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    at: u64,
    from: &[u8],
    done: Option<Completion>,
) {
    let local = from.as_ptr().cast_mut().cast::<c_void>();
    insist(t, || t.put(peer, local, h.base() + at, h, from.len(), done));
}

fn get(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    at: u64,
    to: &mut [u8],
    done: Option<Completion>,
) {
    let local = to.as_mut_ptr().cast::<c_void>();
    insist(t, || t.get(peer, local, h.base() + at, h, to.len(), done));
}

fn fetch_add(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, at: u64, old: &mut u64) {
    let out = ptr::from_mut(old).cast();
    let op = BtlAtomicOp::Add;
    insist(t, || t.atomic_fop(peer, out, h.base() + at, h, op, 1, None));
}

/// Random puts and gets of all sizes around the limit, some with callbacks, against a copy of the window.
fn transfers(provider: &str, seed: u64) {
    const BYTES: usize = 64 * 1024;
    let Pair { a, b, peer } = Pair::new(provider);
    let mut window = vec![0u64; BYTES / 8];
    let region = register(&b, &mut window, Access::all());
    let h = region.handle();
    let seen = Seen::default();
    attended(&b, || {
        let mut numbers = Numbers(seed);
        let mut model = vec![0u8; BYTES];
        let mut asked = 0;
        for round in 0..60u32 {
            let sizes: Vec<usize> = (0..numbers.below(40) + 1)
                .map(|_| [1, 7, 8, 64, 1000, 4095, 4096, 4097, 9000][numbers.below(9)])
                .collect();
            let mut at = 0;
            let mut sent = Vec::new();
            for size in sizes {
                if at + size > BYTES {
                    break;
                }
                let data: Vec<u8> = (0..size).map(|i| (round as usize + i * 7) as u8).collect();
                sent.push((at, data));
                at += size;
            }
            for (at, data) in &sent {
                let done = (numbers.below(3) == 0).then(|| seen.completion()).flatten();
                asked += u32::from(done.is_some());
                put(&a, peer, &h, *at as u64, data, done);
                model[*at..*at + data.len()].copy_from_slice(data);
            }
            assert_eq!(a.flush(None), Status::SUCCESS, "seed {seed}");
            let mut got: Vec<(usize, Vec<u8>)> = sent
                .iter()
                .map(|(at, data)| (*at, vec![0; data.len()]))
                .collect();
            for (at, data) in &mut got {
                get(&a, peer, &h, *at as u64, data, None);
            }
            // SAFETY: the endpoint is connected.
            assert_eq!(a.flush(Some(unsafe { peer.as_ref() })), Status::SUCCESS);
            for (at, data) in got {
                assert!(
                    data == model[at..at + data.len()],
                    "seed {seed}, round {round}"
                );
            }
        }
        assert_eq!(seen.both(), (asked, 0));
    });
    close([region], [a, b]);
}

#[test]
fn transfers_of_all_sizes() {
    for provider in PROVIDERS {
        (1..=3).for_each(|seed| transfers(provider, seed));
    }
}

/// Atomics are executed in the order of issue, also across messages; each is executed once.
#[test]
fn atomics_keep_their_order() {
    const MANY: usize = 5000;
    for provider in PROVIDERS {
        let Pair { a, b, peer } = Pair::new(provider);
        let mut window = vec![0u64; 2];
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        let mut seen = vec![u64::MAX; MANY];
        attended(&b, || {
            for old in &mut seen {
                fetch_add(&a, peer, &h, 8, old);
            }
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        assert!(
            seen.iter().enumerate().all(|(i, old)| *old == i as u64),
            "{provider}"
        );
        close([region], [a, b]);
    }
}

/// The target refuses operations between others in the same message: each operation is reported once, and the others
/// are executed.
#[test]
fn refusals_among_others() {
    for provider in PROVIDERS {
        let Pair { a, b, peer } = Pair::new(provider);
        let (mut window, mut gone) = (vec![0u64; 100], vec![0u64; 100]);
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        let closed = register(&b, &mut gone, Access::all());
        let stale = closed.handle();
        drop(closed);
        let (good, bad) = (Seen::default(), Seen::default());
        let value = 7u64.to_ne_bytes();
        attended(&b, || {
            for i in 0..100 {
                match i % 4 {
                    0 => put(&a, peer, &h, 8 * i, &value, good.completion()),
                    1 => put(&a, peer, &stale, 8 * i, &value, bad.completion()),
                    2 => put(&a, peer, &h, 8 * i, &value, None),
                    _ => put(&a, peer, &stale, 8 * i, &value, None),
                }
            }
            assert_eq!(
                a.flush(None),
                Status::ERROR,
                "{provider}: untracked ones failed"
            );
            assert_eq!(a.flush(None), Status::SUCCESS, "and that was said once");
        });
        let stats = a.stats();
        assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
        assert_eq!((good.both(), bad.both()), ((25, 0), (0, 25)), "{provider}");
        assert_eq!(bad.status(), Status::PERM);
        let written = window
            .iter()
            .enumerate()
            .all(|(i, w)| *w == if i % 2 == 0 { 7 } else { 0 });
        assert!(written, "{provider}");
        assert!(gone.iter().all(|w| *w == 0), "{provider}");
        close([region], [a, b]);
    }
}

/// More operations than there is room for: the transport refuses some with OUT_OF_RESOURCE, but all are executed in the
/// end, and many share a message.
#[test]
fn room_comes_back() {
    const MANY: u32 = 20_000;
    for provider in PROVIDERS {
        let Pair { a, b, peer } = Pair::new(provider);
        let mut window = vec![0u64; 1024];
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        let mut refused = 0u32;
        let values: Vec<u64> = (0..MANY.into()).collect();
        for (i, value) in values.iter().enumerate() {
            let (at, local) = (
                h.base() + 8 * (i as u64 % 1024),
                ptr::from_ref(value).cast_mut().cast(),
            );
            let deadline = Patience::new();
            loop {
                let status = a.put(peer, local, at, &h, 8, None);
                if status.is_ok() {
                    break;
                }
                assert!(status.is_again(), "{provider}: {status}");
                assert!(deadline.lasts(), "{provider}: no room");
                refused += 1;
                // The target makes progress only now.
                b.progress();
                a.progress();
            }
        }
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        assert!(refused > 0, "{provider}: the target was not waited for");
        let last = |i: usize| ((MANY as usize - 1 - i) / 1024 * 1024 + i) as u64;
        assert!(
            window.iter().enumerate().all(|(i, w)| *w == last(i)),
            "{provider}"
        );
        close([region], [a, b]);
    }
}

/// A released peer is connected again, and a new process is connected in the place of an old one.
#[test]
fn peers_come_and_go() {
    for provider in PROVIDERS {
        let a = single(provider);
        for round in 0..5u64 {
            let b = single(provider);
            let mut window = vec![0u64; 4];
            let region = register(&b, &mut window, Access::all());
            let h = region.handle();
            attended(&b, || {
                for again in 0..3 {
                    let peer = a.connect(b.address(), 1).unwrap();
                    let mut old = 0;
                    fetch_add(&a, peer, &h, 0, &mut old);
                    assert_eq!(a.flush(None), Status::SUCCESS);
                    assert_eq!(old, again, "{provider}, round {round}");
                    // SAFETY: connected once.
                    assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
                }
            });
            drop(region);
            b.close().unwrap();
        }
        a.close().unwrap();
    }
}

/// A pair with messages off at only one side is refused. With messages off at both sides, the
/// provider serves the pair if it can.
#[test]
fn both_sides_agree() {
    const OFF: (&str, Value) = ("btl_ofi_message_limit", Value::Unsigned(0));
    let a = single("tcp;ofi_rxm");
    let b = open("tcp;ofi_rxm", ThreadLevel::Single, &[OFF]);
    let said = a.connect(b.address(), 1).unwrap_err().to_string();
    assert!(said.contains("btl_ofi_message_limit"), "{said}");
    // A provider without atomics has messages nevertheless.
    let pair = Pair {
        a: open("net", ThreadLevel::Single, &[OFF]),
        ..Pair::new("net")
    };
    let peer = pair.a.connect(pair.b.address(), 1).unwrap();
    let mut window = vec![3u64; 1];
    let region = register(&pair.b, &mut window, Access::all());
    let h = region.handle();
    let (mut old, mut word) = (0, [0u8; 8]);
    attended(&pair.b, || {
        fetch_add(&pair.a, peer, &h, 0, &mut old);
        assert_eq!(pair.a.flush(None), Status::SUCCESS);
        get(&pair.a, peer, &h, 0, &mut word, None);
        assert_eq!(pair.a.flush(None), Status::SUCCESS);
    });
    assert_eq!((old, u64::from_ne_bytes(word)), (3, 4));
    drop(region);
}

/// Two transports know each other. One releases the other, and forgets an address that is also its own peer's.
#[test]
fn one_side_leaves() {
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| single(provider));
        let back = b.connect(a.address(), 0).unwrap();
        let (mut of_a, mut of_b) = (vec![0u64; 1], vec![0u64; 1]);
        let regions = [
            register(&a, &mut of_a, Access::all()),
            register(&b, &mut of_b, Access::all()),
        ];
        let [to_a, to_b] = [regions[0].handle(), regions[1].handle()];
        let mut old = u64::MAX;
        for round in 0..3 {
            attended(&b, || {
                let peer = a.connect(b.address(), 1).unwrap();
                fetch_add(&a, peer, &to_b, 0, &mut old);
                assert_eq!(a.flush(None), Status::SUCCESS, "{provider}");
                assert_eq!(old, round, "{provider}");
                // SAFETY: connected once.
                assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
            });
            attended(&a, || {
                fetch_add(&b, back, &to_a, 0, &mut old);
                assert_eq!(b.flush(None), Status::SUCCESS, "{provider}");
                assert_eq!(old, round, "{provider}");
            });
        }
        close(regions, [a, b]);
    }
}
