//! Atomics over shm without the provider, between transports of one process: refusals, room, many initiators, both directions
//! at the same time. The self-check compares every type and operation with its model.

mod threads;

use crate::common::prelude::*;

const ALL: Access = Access::all();

/// The place of the segment's descriptor in a blob (see `modex`).
const SEGMENT: std::ops::Range<usize> = 40..44;

#[test]
fn wrong_handles_are_errors() {
    let [a, b] = [(); 2].map(|()| open(near(), ThreadLevel::Single, &[]));
    let (mut window, mut stale, mut read_only) = ([0u64; 4], [0u64; 4], [0u64; 4]);
    let region = register(&b, &mut window, ALL);
    let h = region.handle();
    let gone = register(&b, &mut stale, ALL);
    let stale_handle = gone.handle();
    gone.close().unwrap();
    let closed = register(&b, &mut read_only, Access::REMOTE_READ);
    // SAFETY: a handle consists of words: base, length, key, cookie, keys on rails.
    let words = |h: Handle| unsafe { std::mem::transmute::<Handle, [u64; Handle::SIZE / 8]>(h) };
    let forged = |change: fn(&mut [u64; Handle::SIZE / 8])| {
        let mut w = words(h);
        change(&mut w);
        // SAFETY: a handle consists of plain words, so any words are a valid value.
        unsafe { std::mem::transmute::<[u64; Handle::SIZE / 8], Handle>(w) }
    };
    let peer = a.connect(b.address(), 0).unwrap();
    let there = |h| There::new(&a, peer, h);
    let mut old = 0u64;
    attended(&b, || {
        for (wrong, status) in [
            (stale_handle, Status::PERM),
            (forged(|w| w[2] = 77_777), Status::PERM),
            (forged(|w| w[3] ^= 1), Status::PERM),
            (forged(|w| w[0] += 32), Status::VALUE_OUT_OF_BOUNDS),
            (forged(|w| w[0] = 0x1000), Status::VALUE_OUT_OF_BOUNDS),
        ] {
            let seen = Seen::default();
            let mut add = |h, done| there(h).fetch_add(0, &mut old, done);
            assert_eq!(add(wrong, seen.completion()), Status::SUCCESS);
            assert_eq!(a.flush(None), Status::SUCCESS);
            assert_eq!((seen.all(), seen.status()), (1, status), "{wrong:?}");
            // Without a callback, the next flush reports that an operation was lost.
            assert_eq!(add(wrong, None), Status::SUCCESS);
            assert_eq!(add(h, None), Status::SUCCESS);
            assert_eq!(there(h).flush(), Status::ERROR, "{wrong:?}");
            assert_eq!(a.flush(None), Status::SUCCESS);
        }
        // Atomic reads succeed in a region that permits only reads.
        let c = closed.handle();
        let (u, read) = (Datatype::Uint64, AtomicOp::Read);
        let (at, none, out) = (c.base(), ptr::null(), (&raw mut old).cast());
        let status = a.atomic_fopv(peer, none, out, at, &c, u, read, 1, None);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    assert_eq!(window[0], 5, "the right ones among the wrong");
    assert_eq!((stale, read_only), ([0; 4], [0; 4]));
    // The transport refuses its own stale handle in the call.
    let peer = b.connect(b.address(), 1).unwrap();
    let mut add = |h| There::new(&b, peer, h).fetch_add(0, &mut old, None);
    assert_eq!((add(stale_handle), add(h)), (Status::PERM, Status::SUCCESS));
    assert_eq!(old, 5);
    region.close().unwrap();
    closed.close().unwrap();
    close([], [a, b]);
}

#[test]
fn a_full_ring_turns_away() {
    let mut pair = Pair::new(512, || open(near(), ThreadLevel::Single, &[]));
    let mut old = vec![u64::MAX; 1000];
    for round in 0..3 {
        let (there, mut taken) = (pair.there(), 0);
        while there.fetch_add(0, &mut old[taken], None).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 128);
        let status = there.fetch_add(0, &mut old[taken], None);
        assert_eq!(status, Status::TEMP_OUT_OF_RESOURCE);
        attended(&pair.b, || assert_eq!(there.t.flush(None), Status::SUCCESS));
        for (i, old) in old[..taken].iter().enumerate() {
            assert_eq!(*old, (round * 128 + i) as u64);
        }
    }
    // For vectors, the payload is full before the entries are.
    let ones = vec![1u64; 512];
    let (sum, u) = (AtomicOp::Sum, Datatype::Uint64);
    pair.window.fill(0);
    let (there, mut taken) = (pair.there(), 0);
    loop {
        let (There { t, peer, h, .. }, from) = (there, ones.as_ptr().cast());
        let status = t.atomic_opv(peer, from, h.base(), &h, u, sum, 512, None);
        if status == Status::TEMP_OUT_OF_RESOURCE {
            break;
        }
        assert_eq!(status, Status::SUCCESS);
        taken += 1;
    }
    assert_eq!(taken, 16, "64 KiB of payload");
    // An atomic on one word needs no payload.
    assert_eq!(there.fetch_add(0, &mut old[0], None), Status::SUCCESS);
    attended(&pair.b, || assert_eq!(there.t.flush(None), Status::SUCCESS));
    let window = pair.close();
    assert_eq!((window[0], old[0]), (17, 16));
    assert!(window[1..].iter().all(|&w| w == 16));
}

/// More initiators than the bell's first word has bits, and than the target watches. These initiators release
/// their rings, and other initiators take them.
#[test]
fn many_initiators() {
    let b = open(near(), ThreadLevel::Single, &[]);
    let mut window = [0u64; 1];
    let region = register(&b, &mut window, ALL);
    let h = region.handle();
    let mut sum = 0;
    for generation in 0..2 {
        let initiators: Vec<Transport> = (0..70)
            .map(|_| open(near(), ThreadLevel::Single, &[]))
            .collect();
        let peers: Vec<_> = initiators
            .iter()
            .map(|a| a.connect(b.address(), 0).unwrap())
            .collect();
        let mut old = vec![0u64; 70 * 20];
        attended(&b, || {
            for round in 0..20 {
                for (i, (t, peer)) in initiators.iter().zip(&peers).enumerate() {
                    let (there, old) = (There::new(t, *peer, h), &mut old[round * 70 + i]);
                    there.insist(|there| there.fetch_add(0, old, None));
                }
                for (i, a) in initiators.iter().enumerate() {
                    // Some initiators wait, and some have several outstanding operations.
                    if i % 3 == round % 3 {
                        assert_eq!(a.flush(None), Status::SUCCESS);
                    }
                }
            }
            for a in &initiators {
                assert_eq!(a.flush(None), Status::SUCCESS);
            }
        });
        old.sort_unstable();
        let each: Vec<u64> = (sum..sum + 70 * 20).collect();
        assert!(old == each, "generation {generation}: each saw its own");
        sum += 70 * 20;
        for (a, peer) in initiators.into_iter().zip(peers) {
            // SAFETY: connected once.
            assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
            a.close().unwrap();
        }
    }
    assert_eq!(window[0], sum);
    close([region], [b]);
}

fn add_both(there: There<'_>) {
    let There { t, peer, h, .. } = there;
    let one = 1f64;
    let (double, sum) = (Datatype::Double, AtomicOp::Sum);
    let mut old = vec![0u64; 2000];
    for out in &mut old {
        there.insist(|there| there.fetch_add(0, out, None));
        let from = ptr::from_ref(&one).cast();
        insist(t, || {
            t.atomic_opv(peer, from, there.at(8), &h, double, sum, 1, None)
        });
    }
    assert_eq!(there.flush(), Status::SUCCESS);
    assert!(
        old.is_sorted(),
        "one initiator's additions keep their order"
    );
}

/// One initiator uses its ring. Another uses the provider, because it cannot open the segment. The
/// target adds too. All add to the same elements, and every addition counts.
#[test]
fn both_ways_at_once() {
    let b = open(near(), ThreadLevel::Multiple, &[]);
    let mut window = [0u64; 2];
    let region = register(&b, &mut window, ALL);
    let h = region.handle();
    let mut without = b.address().to_vec();
    without[SEGMENT].fill(0xff);
    let mut unusable = b.address().to_vec();
    unusable[SEGMENT].copy_from_slice(&1u32.to_le_bytes());
    let blobs = [b.address().to_vec(), without, unusable];
    attended(&b, || {
        thread::scope(|s| {
            for blob in &blobs {
                s.spawn(|| {
                    let t = open(near(), ThreadLevel::Single, &[]);
                    let peer = t.connect(blob, 0).unwrap();
                    add_both(There::new(&t, peer, h));
                    t.close().unwrap();
                });
            }
            s.spawn(|| {
                let peer = b.connect(b.address(), 1).unwrap();
                add_both(There::new(&b, peer, h));
            });
        });
    });
    assert_eq!(window[0], 4 * 2000);
    assert_eq!(f64::from_bits(window[1]), 4.0 * 2000.0);
    close([region], [b]);
}

/// No origin waits for a target that has closed its transport and lives on.
#[test]
fn a_closed_target_is_given_up() {
    let pair = Pair::new(1, || open(near(), ThreadLevel::Single, &[]));
    let h = pair.region.handle();
    let Pair {
        a,
        b,
        peer,
        window: _window,
        region,
    } = pair;
    let there = There::new(&a, peer, h);
    let mut old = [9u64; 3];
    assert!(there.fetch_add(0, &mut old[0], None).is_ok());
    b.progress();
    let seen = Seen::default();
    assert!(there.fetch_add(0, &mut old[1], seen.completion()).is_ok());
    assert!(there.fetch_add(0, &mut old[2], None).is_ok());
    close([region], [b]);
    let before = worked();
    assert_eq!(a.flush(None), Status::UNREACH);
    let spent = worked() - before;
    assert!(spent < Duration::from_secs(2), "{spent:?} of work");
    assert_eq!(old, [0, 9, 9], "what was executed is told, no other");
    assert_eq!((seen.all(), seen.status()), (1, Status::UNREACH));
    assert_eq!(there.fetch_add(0, &mut old[0], None), Status::UNREACH);
    assert_eq!(a.flush(None), Status::SUCCESS);
    a.close().unwrap();
}

/// The test below runs this in a separate process, whose descriptors no other test opens or closes.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn descriptors_of_this_process() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines()
            .filter(|l| l.contains("btl-ofi-atomics"))
            .count()
    };
    let mut before = 0;
    for round in 0..3 {
        if round == 1 {
            // Descriptors that libfabric keeps open permanently exist after the first round.
            before = count();
        }
        let pair = Pair::new(1, || open(near(), ThreadLevel::Single, &[]));
        attended(&pair.b, || {
            assert!(pair.there().fetch_add(0, &mut 0, None).is_ok());
            assert_eq!(pair.a.flush(None), Status::SUCCESS);
        });
        assert!(mappings() > 0);
        pair.close();
    }
    assert_eq!((count(), mappings()), (before, 0));
}

#[test]
fn nothing_is_left_open() {
    let status = again(module_path!(), "descriptors_of_this_process")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
