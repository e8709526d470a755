//! Small puts and gets over shm. The target executes them while it makes progress, otherwise the kernel
//! does; each is executed once and reported.

mod model;
mod stopped;

use crate::common::prelude::*;

/// Puts `size` bytes at `from`, `at` bytes into the region.
fn put(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    at: u64,
    from: *const u8,
    size: usize,
    completion: Option<Completion>,
) -> Status {
    let local = from.cast_mut().cast();
    t.put(peer, local, h.base() + at, h, size, completion)
}

/// Gets `size` bytes to `to`, from `at` bytes into the region.
fn get(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    at: u64,
    to: *mut u8,
    size: usize,
    completion: Option<Completion>,
) -> Status {
    t.get(peer, to.cast(), h.base() + at, h, size, completion)
}

fn put_word(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, word: &u64) -> Status {
    put(t, peer, h, 0, ptr::from_ref(word).cast(), 8, None)
}

/// Fetch-adds 1 to the first word.
fn add(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, out: *mut u64) -> Status {
    let op = BtlAtomicOp::Add;
    t.atomic_fop(peer, out.cast(), h.base(), h, op, 1, None)
}

/// The first word, which the transports of this process change too.
fn seen(window: &[u64]) -> u64 {
    // SAFETY: the word belongs to the test.
    unsafe { window.as_ptr().read_volatile() }
}

fn pair() -> (Transport, Transport) {
    let open = || open(near(), ThreadLevel::Single, &[]);
    (open(), open())
}

/// Checks step by step which side executes a transfer.
#[test]
fn the_target_makes_it_or_the_kernel() {
    let (a, b, peer, window, region, h) = linked(4, || open(near(), ThreadLevel::Single, &[]));
    let words: Vec<u64> = (0..64).collect();
    // The first put finds the ring, and is executed immediately.
    assert_eq!(put_word(&a, peer, &h, &words[1]), Status::SUCCESS);
    assert_eq!(seen(&window), 1);
    // The next put waits for the target ...
    assert_eq!(put_word(&a, peer, &h, &words[2]), Status::SUCCESS);
    assert_eq!(seen(&window), 1);
    b.progress();
    assert_eq!(seen(&window), 2);
    assert_eq!(a.flush(None), Status::SUCCESS);
    // ... but not forever.
    assert_eq!(put_word(&a, peer, &h, &words[3]), Status::SUCCESS);
    assert_eq!(seen(&window), 2);
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!(seen(&window), 3);
    // The following puts do not wait for a while.
    for word in &words[4..20] {
        assert_eq!(put_word(&a, peer, &h, word), Status::SUCCESS);
        assert_eq!(seen(&window), *word);
    }
    // A revoked put is not executed again, but the put behind it is.
    assert_eq!(put_word(&a, peer, &h, &words[20]), Status::SUCCESS);
    assert_eq!(seen(&window), 19);
    b.progress();
    assert_eq!(seen(&window), 20);
    assert_eq!(a.flush(None), Status::SUCCESS);
    // The same holds for gets.
    let mut got = [u64::MAX; 4];
    let out: *mut u8 = got.as_mut_ptr().cast();
    assert_eq!(get(&a, peer, &h, 0, out, 8, None), Status::SUCCESS);
    assert_eq!(seen(&got), u64::MAX);
    b.progress();
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!(seen(&got), 20);
    assert_eq!(get(&a, peer, &h, 0, out, 32, None), Status::SUCCESS);
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!(got, [20, 0, 0, 0]);
    assert_eq!(a.stats().posted, a.stats().completed);
    close([region], [a, b]);
}

/// The target does not answer a put in time, so the kernel makes the next puts. Their number is the same with a callback,
/// where the fast path leaves the put to the slow path, and without. Words and longer puts use different functions of the
/// fast path.
#[test]
fn each_put_counts_once_in_the_backoff() {
    let told = Seen::default();
    for size in [8, 32] {
        for completion in [None, told.completion()] {
            let (a, b, peer, window, region, h) =
                linked(4, || open(near(), ThreadLevel::Single, &[]));
            let words: Vec<[u64; 4]> = (0..64).map(|value| [value; 4]).collect();
            let put = |value: usize| {
                let from = words[value].as_ptr().cast();
                let status = put(&a, peer, &h, 0, from, size, completion);
                assert_eq!(status, Status::SUCCESS);
                seen(&window) == value as u64
            };
            // This put finds the ring.
            assert_eq!(put_word(&a, peer, &h, &words[1][0]), Status::SUCCESS);
            assert_eq!(seen(&window), 1);
            assert!(!put(2), "it waits for the target");
            assert_eq!(a.flush(None), Status::SUCCESS);
            let by_kernel = (3..64).take_while(|value| put(*value)).count();
            assert_eq!(by_kernel, 16, "{size} bytes, {completion:?}");
            b.progress();
            assert_eq!(a.flush(None), Status::SUCCESS);
            close([region], [a, b]);
        }
    }
    assert_eq!(told.failed(), 0);
}

/// A full ring makes no transfer wait. More transfers than its entries are posted to a target that does
/// nothing, with atomics among them that only the target can execute.
#[test]
fn a_full_ring_leaves_them_to_the_kernel() {
    let (a, b, peer, window, region, h) = linked(512, || open(near(), ThreadLevel::Single, &[]));
    let told = Seen::default();
    let data: Vec<u64> = (1..=512).collect();
    let mut old = [u64::MAX; 2];
    insist(&a, || add(&a, peer, &h, &raw mut old[0]));
    for (i, word) in data.iter().enumerate().skip(1) {
        let (at, from) = (8 * i as u64, ptr::from_ref(word).cast());
        let status = put(&a, peer, &h, at, from, 8, told.completion());
        assert_eq!(status, Status::SUCCESS);
    }
    insist(&a, || {
        b.progress();
        add(&a, peer, &h, &raw mut old[1])
    });
    until(&[&a], "a put waits for the target", || told.all() >= 511);
    attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
    assert_eq!((told.all(), old), (511, [0, 1]));
    assert_eq!((window[0], &window[1..]), (2, &data[1..]));
    close([region], [a, b]);
}

/// A ring that is returned with revoked commands in it works for the next process that claims it.
#[test]
fn a_ring_with_revoked_commands_is_given_back() {
    let b = open(near(), ThreadLevel::Single, &[]);
    let mut window = vec![0u64; 1];
    let region = register(&b, &mut window, Access::all());
    let h = region.handle();
    let word = 7u64;
    // The test uses every ring at least once, and the target never checks them.
    for _ in 0..200 {
        let a = open(near(), ThreadLevel::Single, &[]);
        let peer = a.connect(b.address(), 0).unwrap();
        for _ in 0..2 {
            assert_eq!(put_word(&a, peer, &h, &word), Status::SUCCESS);
            assert_eq!(a.flush(None), Status::SUCCESS);
        }
        // SAFETY: connected once.
        assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
        a.close().unwrap();
    }
    let a = open(near(), ThreadLevel::Single, &[]);
    let peer = a.connect(b.address(), 0).unwrap();
    let mut old = vec![0u64; 300];
    attended(&b, || {
        for out in &mut old {
            insist(&a, || add(&a, peer, &h, out));
        }
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    assert_eq!(old, (7..307).collect::<Vec<_>>());
    close([region], [a, b]);
}

/// The target's refusals are reported, and no memory changes.
#[test]
fn refusals_are_told() {
    let (a, b) = pair();
    let (mut gone, mut readable, mut writable) = ([0u64; 2], [5u64; 2], [6u64; 2]);
    let closed = register(&b, &mut gone, Access::all());
    let stale = closed.handle();
    let reads = register(&b, &mut readable, Access::REMOTE_READ);
    let writes = register(&b, &mut writable, Access::REMOTE_WRITE);
    let peer = a.connect(b.address(), 0).unwrap();
    let (word, mut out) = (9u64, 1u64);
    let from = ptr::from_ref(&word).cast::<u8>();
    attended(&b, || {
        // From this put on, the origin asks the target.
        assert_eq!(put_word(&a, peer, &writes.handle(), &6), Status::SUCCESS);
    });
    closed.close().unwrap();
    let told = Seen::default();
    let h = stale;
    assert_eq!(
        put(&a, peer, &h, 8, from, 8, told.completion()),
        Status::SUCCESS
    );
    b.progress();
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!(told.all(), 1);
    assert_eq!(told.status(), Status::PERM);
    assert_eq!(put(&a, peer, &h, 0, from, 8, None), Status::SUCCESS);
    b.progress();
    assert_eq!(a.flush(None), Status::ERROR, "something was lost");
    // The call refuses an access that the handle does not permit.
    let not_writable = put(&a, peer, &reads.handle(), 8, from, 8, told.completion());
    assert_eq!(not_writable, Status::PERM);
    let (h, to) = (writes.handle(), (&raw mut out).cast());
    let not_readable = get(&a, peer, &h, 8, to, 8, told.completion());
    assert_eq!(not_readable, Status::PERM);
    b.progress();
    assert_eq!(a.flush(None), Status::SUCCESS);
    assert_eq!((told.all(), out), (1, 1));
    // The call also refuses an access beyond the region.
    let beyond = put(&a, peer, &h, 12, from, 8, None);
    assert_eq!(beyond, Status::VALUE_OUT_OF_BOUNDS);
    assert_eq!((gone, readable, writable), ([0; 2], [5; 2], [6; 2]));
    reads.close().unwrap();
    writes.close().unwrap();
    close([], [a, b]);
}

/// Large gets, which the target makes in part: of any size and place, from a target that makes progress, pauses,
/// or does nothing, and by two processes that get from each other.
#[test]
fn large_gets() {
    const WORDS: usize = 128 * 1024;
    for (seed, pausing) in [(1, Some(false)), (2, Some(true)), (3, None)] {
        let (a, b) = pair();
        let mut window: Vec<u64> = (0..WORDS as u64).map(|i| i * 0x9e37_79b9).collect();
        let bytes: Vec<u8> = window.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        let peer = a.connect(b.address(), 0).unwrap();
        let mut got = vec![0u8; 8 * WORDS];
        let mut gets = || {
            let mut numbers = Numbers(seed);
            // The first get finds the ring.
            for round in 0..300 {
                let size = match round {
                    0 => 8,
                    // These sizes leave a last piece of few bytes.
                    1..100 => 8192 * (1 + round % 9) + round / 9,
                    _ => 1 + numbers.below([20_000, 100_000, 8 * WORDS][round % 3]),
                };
                let at = numbers.below(8 * WORDS - size + 1);
                let guard = numbers.below(8 * WORDS - size + 1);
                got.fill(0xee);
                let to = got[guard..].as_mut_ptr();
                insist(&a, || get(&a, peer, &h, at as u64, to, size, None));
                // An atomic and a small get follow among the remaining pieces.
                let mut old = 0u64;
                insist(&a, || get(&a, peer, &h, 0, (&raw mut old).cast(), 8, None));
                assert_eq!(a.flush(None), Status::SUCCESS);
                assert_eq!(old, 0);
                assert!(
                    got[guard..guard + size] == bytes[at..at + size],
                    "seed {seed}"
                );
                assert!(got[..guard].iter().all(|b| *b == 0xee));
                assert!(got[guard + size..].iter().all(|b| *b == 0xee));
            }
        };
        match pausing {
            Some(true) => attended_at_times(&b, gets),
            Some(false) => attended(&b, gets),
            None => gets(),
        }
        close([region], [a, b]);
    }
}

/// Two processes get from each other at the same time, and make progress only in these gets.
#[test]
fn gets_both_ways() {
    let (a, b) = pair();
    let mut windows = [vec![1u64; 32 * 1024], vec![2u64; 32 * 1024]];
    let [first, second] = &mut windows;
    let (of_a, of_b) = (
        register(&a, first, Access::all()),
        register(&b, second, Access::all()),
    );
    let (at_a, at_b) = (of_a.handle(), of_b.handle());
    let (ends, barrier) = (AtomicU32::new(0), std::sync::Barrier::new(2));
    let run = |t: &Transport, other: &Transport, h: &Handle, what: u64| {
        let peer = t.connect(other.address(), 0).unwrap();
        let mut got = vec![0u64; 32 * 1024];
        barrier.wait();
        for _ in 0..200 {
            got.fill(0);
            let to = got.as_mut_ptr().cast();
            insist(t, || get(t, peer, h, 0, to, 256 * 1024, None));
            assert_eq!(t.flush(None), Status::SUCCESS);
            assert!(got.iter().all(|w| *w == what));
        }
        ends.fetch_add(1, Ordering::Relaxed);
        while ends.load(Ordering::Relaxed) < 2 {
            t.progress();
        }
    };
    thread::scope(|s| {
        s.spawn(|| run(&a, &b, &at_b, 2));
        run(&b, &a, &at_a, 1);
    });
    of_a.close().unwrap();
    of_b.close().unwrap();
    close([], [a, b]);
}

/// The carriers on one node behave the same beside a provider between nodes.
#[test]
fn the_same_over_rxm() {
    again_over(module_path!(), "tcp;ofi_rxm");
    again_over(module_path!(), "memory");
}
