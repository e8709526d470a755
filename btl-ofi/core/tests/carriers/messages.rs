//! Puts, gets and atomics that travel as messages: order, targets that do not know their origin, and peers that come and go.

use crate::common::prelude::*;

/// Providers whose small transfers and atomics travel as messages: one with atomics of its own, and one without.
const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];

fn single(provider: &str) -> Transport {
    open(provider, ThreadLevel::Single, &[])
}

/// Atomics are executed in the order of issue, also across messages; each is executed once.
#[test]
fn atomics_keep_their_order() {
    const MANY: usize = 5000;
    for provider in PROVIDERS {
        let pair = Pair::new(2, || single(provider));
        let there = pair.there();
        let mut seen = vec![u64::MAX; MANY];
        attended(&pair.b, || {
            for old in &mut seen {
                there.insist(|there| there.fetch_add(8, old, None));
            }
            assert_eq!(there.t.flush(None), Status::SUCCESS);
        });
        assert!(
            seen.iter().enumerate().all(|(i, old)| *old == i as u64),
            "{provider}"
        );
        pair.close();
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
            attended(&b, || {
                for again in 0..3 {
                    let (there, mut old) = (There::of(&a, 1, &b, &region), 0);
                    there.insist(|there| there.fetch_add(0, &mut old, None));
                    assert_eq!(a.flush(None), Status::SUCCESS);
                    assert_eq!(old, again, "{provider}, round {round}");
                    assert_eq!(there.release(), Status::SUCCESS);
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
    let [a, b] = [&[OFF][..], &[]].map(|off| open("net", ThreadLevel::Single, off));
    let pair = Pair::of(a, b, vec![3]);
    let (there, mut old, mut word) = (pair.there(), 0, [0u64]);
    attended(&pair.b, || {
        there.insist(|there| there.fetch_add(0, &mut old, None));
        assert_eq!(there.t.flush(None), Status::SUCCESS);
        there.insist(|there| there.get(0, &mut word, None));
        assert_eq!(there.t.flush(None), Status::SUCCESS);
    });
    assert_eq!((old, word), (3, [4]));
    pair.close();
}

/// Two transports know each other. One transport releases the other, and forgets an address that its own peer
/// has, too.
#[test]
fn one_side_leaves() {
    for provider in PROVIDERS {
        let pair = Pair::new(1, || single(provider));
        let (a, b) = (&pair.a, &pair.b);
        assert_eq!(pair.there().release(), Status::SUCCESS);
        let mut of_a = vec![0u64; 1];
        let region = register(a, &mut of_a, Access::all());
        let back = There::of(b, 0, a, &region);
        let mut old = u64::MAX;
        for round in 0..3 {
            attended(b, || {
                let peer = a.connect(b.address(), 1).unwrap();
                let there = There {
                    peer,
                    ..pair.there()
                };
                there.insist(|there| there.fetch_add(0, &mut old, None));
                assert_eq!(a.flush(None), Status::SUCCESS, "{provider}");
                assert_eq!(old, round, "{provider}");
                assert_eq!(there.release(), Status::SUCCESS);
            });
            attended(a, || {
                back.insist(|there| there.fetch_add(0, &mut old, None));
                assert_eq!(b.flush(None), Status::SUCCESS, "{provider}");
                assert_eq!(old, round, "{provider}");
            });
        }
        region.close().unwrap();
        pair.close();
    }
}
