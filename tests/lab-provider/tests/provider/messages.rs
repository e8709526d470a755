//! Messages: their order, messages that come late, refused posts, and violations by the user.

use libfabric_sys as ffi;

use crate::bench::messages::{AGAIN, Found, Messages, RECV, close, number};
use crate::bench::{Bench, in_process, quiet};

/// Sends 0, 1, 2... from `words`, as fast as the provider accepts them, to receives that were
/// posted before. Returns the received words, and checks that receives are used in order.
fn stream(b: &Bench, words: &[u64]) -> Vec<u64> {
    const SENDS: usize = 1000;
    let mut got = vec![0u64; words.len()];
    for (i, word) in got.iter_mut().enumerate() {
        assert_eq!(b.recv(word, 1, i), 0);
    }
    let (mut sent, mut received, mut ends) = (0, 0, 0);
    while ends < 2 * words.len() {
        if sent < words.len() && b.send(&words[sent..=sent], SENDS + sent) == 0 {
            sent += 1;
        }
        match b.look() {
            Found::Nothing => continue,
            Found::Done(context) if context < SENDS => {
                assert_eq!(context, received);
                received += 1;
            }
            Found::Done(_) => {}
            failed => panic!("{failed:?}"),
        }
        ends += 1;
    }
    got
}

#[test]
fn messages_keep_their_order() {
    quiet(|| {
        let words: Vec<u64> = (0..200).map(|n| n * 3).collect();
        for faults in [
            "",
            "delay=7,seed=1",
            "delay=7,reorder=1,seed=2",
            "again=300,burst=3,sendagain=4,seed=3",
        ] {
            let b = Bench::open_bound(&[("LAB_FAULTS", faults)], RECV);
            // SAFETY: the entry and its attributes live as long as the bench.
            let (info, tx, rx) = unsafe { (&*b.info, &*(*b.info).tx_attr, &*(*b.info).rx_attr) };
            let sides = u64::from(ffi::FI_MSG | ffi::FI_SEND | ffi::FI_RECV);
            assert_eq!(info.caps & sides, sides);
            assert_eq!(tx.msg_order, u64::from(ffi::FI_ORDER_SAS));
            assert_eq!(rx.msg_order, u64::from(ffi::FI_ORDER_SAS));
            assert_eq!(stream(&b, &words), words, "{faults}");
            close(b);
        }
        let b = Bench::open_bound(&[("LAB_SEND_ORDER", "0"), ("LAB_FAULTS", "delay=7")], RECV);
        // SAFETY: the entry and its attributes live as long as the bench.
        assert_eq!(unsafe { (*(*b.info).tx_attr).msg_order }, 0);
        let mut got = stream(&b, &words);
        assert_ne!(got, words);
        got.sort_unstable();
        assert_eq!(got, words);
        close(b);
    });
}

/// A send takes up to 1000 reads, and its message up to 1000 more.
#[test]
fn messages_come_late() {
    quiet(|| {
        let b = Bench::open_bound(&[("LAB_FAULTS", "delay=1000,seed=5")], RECV);
        let (words, mut longest) = ((0..20).collect::<Vec<u64>>(), 0);
        for word in &words {
            let mut got = 0u64;
            let sent = b.send(std::slice::from_ref(word), 2);
            assert_eq!((b.recv(&mut got, 1, 1), sent), (0, 0));
            let looks = (1..).find(|_| b.look() == Found::Done(1));
            longest = longest.max(looks.unwrap_or(0));
            assert_eq!(got, *word);
        }
        assert!((1001..2010).contains(&longest), "{longest}");
        close(b);
    });
}

#[test]
fn posts_are_refused_by_script() {
    let Some((report, counts)) = in_process(|| {
        let shape = [("LAB_FAULTS", "sendagain=3,recvagain=4,nth=5,errno=22")];
        let b = Bench::open_bound(&shape, RECV);
        let mut got = [0u64; 8];
        let posts = got.iter_mut().map(|word| b.recv(word, 1, 1));
        assert_eq!(posts.collect::<Vec<_>>(), [0, 0, 0, AGAIN, 0, 0, 0, AGAIN]);
        let words = [0u64; 6];
        let posts = (0..6).map(|n| b.send(&words[n..=n], 2));
        assert_eq!(posts.collect::<Vec<_>>(), [0, 0, AGAIN, 0, 0, AGAIN]);
        // A write is no send, so neither fault refuses it.
        let mr = b.register(&got, 5);
        assert_eq!(b.write(&0, 0, 5, number(3)), 0);
        let (mut sends, mut receives) = (0, 0);
        let found: Vec<Found> = (0..9).map(|_| b.next()).collect();
        for found in found {
            match found {
                Found::Done(1) => receives += 1,
                Found::Done(2) => sends += 1,
                Found::Done(3) => {}
                other => assert_eq!(other, Found::Failed(3, 22, 0, 0)),
            }
        }
        assert_eq!((sends, receives), (4, 4));
        // SAFETY: the region is live.
        crate::bench::good(unsafe { ffi::fi_close(mr.cast()) });
        // The closing drops two receives.
        close(b);
    }) else {
        return;
    };
    assert_eq!(report, "");
    for count in ["posted=11", "completed=8", "failed=1", "discarded=2"] {
        assert!(counts.contains(&format!(" {count} ")), "{count}: {counts}");
    }
}

/// Violations by the user of messages.
#[test]
fn misuse_of_messages_is_reported() {
    let Some((text, _)) = in_process(|| {
        let (mut word, mut context) = (0u64, ffi::fi_context2::default());
        let c = (&raw mut context) as usize;
        let b = Bench::open(&[]);
        assert_ne!(b.recv(&mut word, 1, 1), 0);
        b.close();
        let shape = [("LAB_MODE", "CONTEXT2"), ("LAB_MAX_MSG", "8")];
        let b = Bench::open_bound(&shape, RECV);
        assert_ne!(b.recv(&mut word, 1, 0), 0);
        assert_eq!(b.recv(&mut word, 1, c), 0);
        assert_ne!(b.recv(&mut word, 1, c), 0);
        assert_ne!(b.send(&[1], c), 0);
        // SAFETY: the word belongs to this test; the provider owns it until completion, and the test
        // breaks this rule.
        unsafe { (&raw mut word).write_volatile(2) };
        let mut other = ffi::fi_context2::default();
        let other = (&raw mut other) as usize;
        assert_eq!(b.send(&[1], other), 0);
        b.all(2);
        assert_ne!(b.send(&[1, 2], other), 0);
        b.close();
    }) else {
        return;
    };
    let wanted = [
        "without a queue for receives",
        "without the context",
        "used by two outstanding operations",
        "used by two outstanding operations",
        "Receive: its destination changed",
        "fi_send of 16 bytes",
    ];
    assert_eq!(text.lines().count(), wanted.len(), "{text}");
    for (line, words) in text.lines().zip(wanted) {
        assert!(line.contains(words), "{line}");
    }
}
