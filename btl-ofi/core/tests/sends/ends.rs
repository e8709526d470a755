//! One side leaves, or only flushes.

use super::*;

/// A sender that closes at once, or releases the peer, has sent everything. The receiver does not know it.
#[test]
fn senders_leave_at_once() {
    for provider in PROVIDERS {
        let b = single(provider);
        let inbox = Inbox::of(&b);
        for round in 0..4 {
            let a = single(provider);
            let peer = a.connect(b.address(), 1).unwrap();
            attended(&b, || {
                (0..200).for_each(|i| send(&a, peer, i as u8, &content(i, 900)));
                if round % 2 == 0 {
                    // SAFETY: connected once.
                    assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
                }
                a.close().unwrap();
            });
            inbox.wait(&b, 200 * (round + 1));
        }
        let all = inbox.all.lock().unwrap();
        for (i, (endpoint, _, bytes)) in all.iter().enumerate() {
            assert_eq!(*endpoint, 0, "{provider}: the sender is not connected");
            assert!(*bytes == content(i % 200, 900), "{provider}: message {i}");
        }
        drop(all);
        b.close().unwrap();
    }
}

/// Two transports that know each other and exchange messages. One releases the other, again and again; the other's way back
/// stays.
#[test]
fn one_side_leaves() {
    for provider in PROVIDERS {
        let (a, b) = (single(provider), single(provider));
        let (of_a, of_b) = (Inbox::of(&a), Inbox::of(&b));
        let back = b.connect(a.address(), 0).unwrap();
        for round in 1..=4 {
            let peer = a.connect(b.address(), 1).unwrap();
            send(&a, peer, 1, b"there");
            attended(&a, || of_b.wait(&b, round));
            send(&b, back, 2, b"and back");
            attended(&b, || of_a.wait(&a, 2 * round - 1));
            // SAFETY: connected once.
            let released = attended(&b, || unsafe { a.disconnect(peer) });
            assert_eq!(released, Status::SUCCESS);
            send(&b, back, 3, b"still");
            attended(&b, || of_a.wait(&a, 2 * round));
        }
        let known = of_b
            .all
            .lock()
            .unwrap()
            .iter()
            .all(|(e, ..)| *e == back.as_ptr().addr());
        assert!(known, "{provider}");
        a.close().unwrap();
        b.close().unwrap();
    }
}

/// A sender that only flushes after its messages, without anything outstanding: they arrive nevertheless.
#[test]
fn without_progress_messages_arrive() {
    for provider in PROVIDERS {
        let (a, b) = (single(provider), single(provider));
        let inbox = Inbox::of(&b);
        let peer = a.connect(b.address(), 1).unwrap();
        // The first message introduces the sender, and connects. The next one waits for its answer.
        send(&a, peer, 0, b"first");
        attended(&a, || inbox.wait(&b, 1));
        for i in 1..40 {
            send(&a, peer, i as u8, b"more");
            let deadline = Instant::now() + PATIENCE;
            while inbox.count.load(Ordering::Acquire) <= i {
                assert!(
                    Instant::now() < deadline,
                    "{provider}: message {i} was held back"
                );
                // A flush with nothing outstanding, and no progress.
                assert_eq!(a.flush(None), Status::SUCCESS);
                b.progress();
            }
            // Takes the answers.
            a.progress();
        }
        a.close().unwrap();
        b.close().unwrap();
    }
}
