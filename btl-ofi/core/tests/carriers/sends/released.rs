//! Senders that are released while the host receives their messages.

use super::*;

/// The arguments of `release`: the transport, the address of another process, and the received
/// messages.
struct Releaser {
    t: Transport,
    other: Vec<u8>,
    /// The peer that is connected in the place of the sender.
    second: AtomicUsize,
    senders: Mutex<Vec<(u8, usize)>>,
}

impl Receives for Releaser {
    fn receive(&self, from: *mut plugin_api::Endpoint, tag: u8, _: &[u8]) {
        self.senders.lock().unwrap().push((tag, from.addr()));
        if tag == 1 {
            let sender = NonNull::new(from.cast()).unwrap();
            // SAFETY: connected once.
            assert_eq!(unsafe { self.t.disconnect(sender) }, Status::SUCCESS);
            let second = self.t.connect(&self.other, 7).unwrap();
            self.second.store(second.as_ptr().addr(), Ordering::Relaxed);
        }
    }
}

/// The receiving function releases the sender and connects another process. Later sends, in the same message or after it,
/// have no sender; they are not attributed to the new process.
#[test]
fn a_released_sender_is_nobody() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let [a, other] = [(); 2].map(|()| single(provider));
        let releaser = Box::new(Releaser {
            t: single(provider),
            other: other.address().to_vec(),
            second: AtomicUsize::new(0),
            senders: Mutex::default(),
        });
        let b = &releaser.t;
        releaser.receive_of(b);
        let first = b.connect(a.address(), 0).unwrap().as_ptr().addr();
        let peer = a.connect(b.address(), 1).unwrap();
        // The first message introduces the sender. The next three messages wait for the answer to the first,
        // then leave together.
        (0..4).for_each(|tag| send(&a, peer, tag, b"hello"));
        let wait = |n: usize| {
            until(
                &[&a, &other, b],
                format_args!("{provider}: not all came"),
                || releaser.senders.lock().unwrap().len() >= n,
            );
        };
        wait(4);
        send(&a, peer, 4, b"more");
        wait(5);
        let second = releaser.second.load(Ordering::Relaxed);
        assert_ne!(second, 0, "{provider}");
        let expected = [(0, first), (1, first), (2, 0), (3, 0), (4, 0)];
        assert_eq!(*releaser.senders.lock().unwrap(), expected, "{provider}");
        let to_b = other.connect(b.address(), 1).unwrap();
        send(&other, to_b, 5, b"it is me");
        wait(6);
        let last = releaser.senders.lock().unwrap().last().copied();
        assert_eq!(last, Some((5, second)), "{provider}");
    }
}
