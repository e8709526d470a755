//! Gets that travel as messages: their sizes, many gets whose answers share messages, and refusals among
//! them.

use crate::common::prelude::*;

/// Words of the window.
const WORDS: usize = 64 * 1024;

/// Two transports over a provider; the second has a window whose words are their own numbers.
fn with_pair(
    provider: &str,
    limit: u64,
    test: impl FnOnce(&Transport, NonNull<Endpoint>, &Handle, &Handle),
) {
    let settings = [("btl_ofi_message_limit", Value::Unsigned(limit))];
    let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &settings));
    let peer = a.connect(b.address(), 1).unwrap();
    let mut window: Vec<u64> = (0..WORDS as u64).collect();
    let mut gone = vec![u64::MAX; 8];
    let region = register(&b, &mut window, Access::all());
    let closed = register(&b, &mut gone, Access::all());
    let stale = closed.handle();
    drop(closed);
    attended(&b, || test(&a, peer, &region.handle(), &stale));
    let stats = a.stats();
    assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    close([region], [a, b]);
}

fn get(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    first: usize,
    to: &mut [u64],
    size: usize,
) {
    let (local, at) = (to.as_mut_ptr().cast(), h.base() + 8 * first as u64);
    assert!(size <= size_of_val(to));
    insist(t, || t.get(peer, local, at, h, size, None));
}

/// The largest get by message is four times the largest put over net, and as large as the largest
/// put over rxm.
#[test]
fn sizes_that_are_messages() {
    for (provider, limit, most) in [
        ("net", 4096, 16_384_usize),
        ("net", 12 * 1024, 48 * 1024),
        ("net", 1, 4),
        ("net", 0, 0),
        ("tcp;ofi_rxm", 4096, 4096),
        ("tcp;ofi_rxm", 12 * 1024, 12 * 1024),
    ] {
        with_pair(provider, limit, |t, peer, h, _| {
            for size in [1, most, most + 1, 2 * most + 8] {
                let by_message = || t.stats().operations[Carrier::Message as usize];
                let before = by_message();
                let mut got = vec![u64::MAX; size.div_ceil(8) + 1];
                if size > 0 {
                    get(t, peer, h, 1, &mut got, size);
                }
                assert_eq!(t.flush(None), Status::SUCCESS);
                let is_message = (1..=most).contains(&size);
                assert_eq!(
                    by_message() - before,
                    u64::from(is_message),
                    "{provider} {limit}: {size}"
                );
                let whole = size / 8;
                assert!(
                    got[..whole]
                        .iter()
                        .zip(1..)
                        .all(|(word, number)| *word == number)
                );
                assert_eq!(
                    got[size.div_ceil(8)],
                    u64::MAX,
                    "{provider} {limit}: {size}"
                );
            }
        });
    }
}

/// Gets of random sizes up to the largest; some name a deregistered region.
#[test]
fn many_at_a_time() {
    for (provider, limit, most) in [
        ("net", 4096, 16_384),
        ("net", 12 * 1024, 48 * 1024),
        ("tcp;ofi_rxm", 12 * 1024, 12 * 1024),
    ] {
        with_pair(provider, limit, |t, peer, h, stale| {
            let mut numbers = Numbers(limit);
            for round in 0..60 {
                let mut got: Vec<(usize, bool, Vec<u64>)> = (0..=numbers.below(40))
                    .map(|_| {
                        let words = match numbers.below(3) {
                            0 => 1,
                            1 => most / 8,
                            _ => numbers.below(most / 8) + 1,
                        };
                        let refused = words <= 8 && numbers.below(4) == 0;
                        (numbers.below(WORDS - words), refused, vec![u64::MAX; words])
                    })
                    .collect();
                for (first, refused, words) in &mut got {
                    let size = size_of_val(&words[..]);
                    match refused {
                        true => get(t, peer, stale, 0, words, size),
                        false => get(t, peer, h, *first, words, size),
                    }
                }
                let any = got.iter().any(|(_, refused, _)| *refused);
                let expected = if any { Status::ERROR } else { Status::SUCCESS };
                assert_eq!(t.flush(None), expected, "{provider} {limit}, round {round}");
                for (first, refused, words) in got {
                    let of = |i: usize| {
                        if refused {
                            u64::MAX
                        } else {
                            (first + i) as u64
                        }
                    };
                    assert!(words.iter().enumerate().all(|(i, word)| *word == of(i)));
                }
            }
        });
    }
}
