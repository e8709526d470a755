//! Transfers of any size and place among atomics, compared with a model of the window.

use super::*;

/// One thread's operations: puts, gets and additions on its own part of the window, compared with a
/// model.
pub(crate) fn matches_the_model(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
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
            insist(t, || {
                put(
                    t,
                    peer,
                    h,
                    (first + at) as u64,
                    data.as_ptr(),
                    data.len(),
                    with,
                )
            });
        }
        for (at, data) in &mut gets {
            let (with, size) = (completion(), data.len());
            insist(t, || {
                get(
                    t,
                    peer,
                    h,
                    (first + *at) as u64,
                    data.as_mut_ptr(),
                    size,
                    with,
                )
            });
        }
        sums.resize(numbers.below(4), 0u64);
        for out in &mut sums {
            insist(t, || add(t, peer, h, out));
            added += 1;
        }
        // SAFETY: the endpoint lives.
        assert_eq!(t.flush(Some(unsafe { peer.as_ref() })), Status::SUCCESS);
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
    insist(t, || {
        get(t, peer, h, first as u64, all.as_mut_ptr(), bytes, None)
    });
    assert_eq!(t.flush(None), Status::SUCCESS);
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
        let (a, b) = pair();
        let mut window = vec![0u64; 4096];
        let target = if pausing.is_none() { &a } else { &b };
        let region = register(target, &mut window, Access::all());
        let h = region.handle();
        let peer = a.connect(target.address(), 0).unwrap();
        let work = || matches_the_model(&a, peer, &h, (8, 32 * 1024 - 8), seed, 100);
        let added = match pausing {
            Some(true) => attended_at_times(&b, work),
            Some(false) => attended(&b, work),
            None => work(),
        };
        assert_eq!(window[0], added);
        assert_eq!(a.stats().posted, a.stats().completed);
        close([region], [a, b]);
    }
}

/// Threads share a context at one end, and make progress together at the other end.
#[test]
fn threads() {
    const EACH: usize = 16 * 1024;
    let open = || open(near(), ThreadLevel::Multiple, &[]);
    let [a, b] = [(); 2].map(|()| open());
    let mut window = vec![0u64; 1 + 3 * EACH / 8];
    let region = register(&b, &mut window, Access::all());
    let h = region.handle();
    let peer = a.connect(b.address(), 0).unwrap().as_ptr() as usize;
    let added = AtomicU64::new(0);
    attended_at_times(&b, || {
        attended(&b, || {
            thread::scope(|s| {
                for thread in 0..3 {
                    let (a, h, added) = (&a, &h, &added);
                    s.spawn(move || {
                        let peer = NonNull::new(peer as *mut Endpoint).unwrap();
                        let share = (8 + thread * EACH, EACH);
                        let n = matches_the_model(a, peer, h, share, thread as u64, 60);
                        added.fetch_add(n, Ordering::Relaxed);
                    });
                }
            });
        });
    });
    assert_eq!(window[0], added.load(Ordering::Relaxed));
    assert_eq!(a.stats().posted, a.stats().completed);
    close([region], [a, b]);
}
