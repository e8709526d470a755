//! One side leaves, only flushes, or answers an unknown sender.

use super::*;

/// A sender that closes, or releases the peer, immediately after its sends has sent everything. The
/// receiver does not know the sender.
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

/// Two transports that know each other and exchange messages. One releases the other repeatedly; the other's connection
/// stays.
#[test]
fn one_side_leaves() {
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| single(provider));
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
        close([], [a, b]);
    }
}

/// A sender only flushes after its messages, and has no outstanding operation: the messages arrive
/// nevertheless.
#[test]
fn without_progress_messages_arrive() {
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| single(provider));
        let inbox = Inbox::of(&b);
        let peer = a.connect(b.address(), 1).unwrap();
        // The first message introduces the sender, and connects. The next message waits for the answer to
        // the first.
        send(&a, peer, 0, b"first");
        attended(&a, || inbox.wait(&b, 1));
        for i in 1..40 {
            send(&a, peer, i as u8, b"more");
            let deadline = Patience::new();
            while inbox.count.load(Ordering::Acquire) <= i {
                assert!(deadline.lasts(), "{provider}: message {i} was held back");
                // The flush has no outstanding operation, and makes no progress.
                assert_eq!(a.flush(None), Status::SUCCESS);
                b.progress();
            }
            // This progress takes the answers.
            a.progress();
        }
        close([], [a, b]);
    }
}

/// A receiver that connects an unknown sender, and answers.
struct Answering<'a> {
    transport: &'a Transport,
    address: &'a [u8],
    inbox: Inbox,
}

impl Receives for Answering<'_> {
    fn receive(&self, from: *mut plugin_api::Endpoint, tag: u8, bytes: &[u8]) {
        let t = self.transport;
        let peer = NonNull::new(from.cast::<Endpoint>());
        let peer = peer.unwrap_or_else(|| t.connect(self.address, 0).unwrap());
        assert_eq!(try_send(t, peer, tag, b"answer"), Status::SUCCESS);
        self.inbox.receive(from, tag, bytes);
    }
}

/// The receiving function may connect the sender. Messages that came together with the first message have no sender; later
/// messages have the sender.
#[test]
fn strangers_are_connected_where_they_are_received() {
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| single(provider));
        let of_a = Inbox::of(&a);
        let answering = Answering {
            transport: &b,
            address: a.address(),
            inbox: Inbox::default(),
        };
        answering.receive_of(&b);
        let peer = a.connect(b.address(), 1).unwrap();
        for tag in 1..=3 {
            send(&a, peer, tag, b"question");
            attended(&b, || of_a.wait(&a, usize::from(tag)));
        }
        let from = peer.as_ptr().addr();
        let senders = |inbox: &Inbox| -> Vec<_> {
            let all = inbox.all.lock().unwrap();
            all.iter().map(|(e, tag, _)| (*e, *tag)).collect()
        };
        assert_eq!(senders(&of_a), [(from, 1), (from, 2), (from, 3)]);
        let known = b.connect(a.address(), 0).unwrap().as_ptr().addr();
        let expected = [(0, 1), (known, 2), (known, 3)];
        assert_eq!(senders(&answering.inbox), expected, "{provider}");
        b.on_receive(None);
        close([], [a, b]);
    }
}

/// A host keeps messages for lack of room. These messages leave before the release of the peer if the host makes
/// progress before.
#[test]
fn what_was_kept_leaves_before_a_release() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let [a, b] = [(); 2].map(|()| single(provider));
        let inbox = Inbox::of(&b);
        let peer = a.connect(b.address(), 1).unwrap();
        let mut sent = 0;
        while try_send(&a, peer, 0, &content(sent, 3000)).is_ok() {
            sent += 1;
            assert!(sent < 3000, "{provider}: never refused");
        }
        let all = sent + 5;
        attended(&b, || {
            a.progress_until(|| {
                while sent < all && try_send(&a, peer, 0, &content(sent, 3000)).is_ok() {
                    sent += 1;
                }
                sent == all
            });
            // SAFETY: connected once.
            assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
        });
        assert_eq!(sent, all, "{provider}: there was room");
        inbox.wait(&b, all);
        close([], [a, b]);
    }
}
