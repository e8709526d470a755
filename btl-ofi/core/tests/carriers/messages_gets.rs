//! Gets that travel as messages: their sizes, many gets whose answers share messages, and refusals among
//! them.

use crate::common::prelude::*;

/// Words of the window.
const WORDS: usize = 64 * 1024;

/// Two transports over a provider; the second has a window whose words are their own numbers, and a region that has ended.
fn with_pair(provider: &str, limit: u64, test: impl FnOnce(There<'_>, There<'_>)) {
    let settings = [("btl_ofi_message_limit", Value::Unsigned(limit))];
    let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &settings));
    let pair = Pair::of(a, b, (0..WORDS as u64).collect());
    let mut gone = vec![u64::MAX; 8];
    let closed = register(&pair.b, &mut gone, Access::all());
    let stale = pair.there().region(closed.handle());
    drop(closed);
    attended(&pair.b, || test(pair.there(), stale));
    let stats = pair.a.stats();
    assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    pair.close();
}

fn get<T: Element>(there: There<'_>, first: usize, to: &mut [T]) {
    there.insist(|there| there.get(8 * first, to, None));
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
        with_pair(provider, limit, |there, _| {
            let t = there.t;
            for size in [1, most, most + 1, 2 * most + 8] {
                let by_message = || t.stats().operations[Carrier::Message as usize];
                let before = by_message();
                let mut got = vec![u8::MAX; size + 8];
                if size > 0 {
                    get(there, 1, &mut got[..size]);
                }
                assert_eq!(t.flush(None), Status::SUCCESS);
                let is_message = (1..=most).contains(&size);
                assert_eq!(
                    by_message() - before,
                    u64::from(is_message),
                    "{provider} {limit}: {size}"
                );
                let due = (1u64..).flat_map(u64::to_ne_bytes).take(size);
                assert!(due.eq(got[..size].iter().copied()));
                assert_eq!(got[size..], [u8::MAX; 8], "{provider} {limit}: {size}");
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
        with_pair(provider, limit, |there, stale| {
            let (t, mut numbers) = (there.t, Numbers(limit));
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
                    match refused {
                        true => get(stale, 0, words),
                        false => get(there, *first, words),
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
