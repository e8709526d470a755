//! Senders that are released while their messages are handed to the host.

use super::*;

/// What `release` needs: the transport, the address of another process, and what it was told.
struct Releaser {
    t: Transport,
    other: Vec<u8>,
    /// The peer that is connected in the place of the sender.
    second: AtomicUsize,
    senders: Mutex<Vec<(u8, usize)>>,
}

unsafe extern "C" fn release(
    _: *mut plugin_api::Module,
    endpoint: *mut plugin_api::Endpoint,
    tag: u8,
    _: *const c_void,
    _: usize,
    context: *mut c_void,
) {
    // SAFETY: the context is the test's releaser.
    let releaser = unsafe { &*context.cast::<Releaser>() };
    releaser
        .senders
        .lock()
        .unwrap()
        .push((tag, endpoint.addr()));
    if tag == 1 {
        let endpoint = NonNull::new(endpoint.cast()).unwrap();
        // SAFETY: connected once.
        assert_eq!(unsafe { releaser.t.disconnect(endpoint) }, Status::SUCCESS);
        let second = releaser.t.connect(&releaser.other, 7).unwrap();
        releaser
            .second
            .store(second.as_ptr().addr(), Ordering::Relaxed);
    }
}

/// The receiving function releases the sender and connects another process. What comes in the same message, and later, is of
/// nobody, and not of the other one.
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
        b.on_receive(Some(Receive {
            function: release,
            context: (&raw const *releaser).cast_mut().cast(),
        }));
        let first = b.connect(a.address(), 0).unwrap().as_ptr().addr();
        let peer = a.connect(b.address(), 1).unwrap();
        // The first message introduces the sender. The next three wait for its answer, and then leave together.
        (0..4).for_each(|tag| send(&a, peer, tag, b"hello"));
        let wait = |n: usize| {
            let deadline = Patience::new();
            while releaser.senders.lock().unwrap().len() < n {
                assert!(deadline.lasts(), "{provider}: not all came");
                a.progress();
                other.progress();
                b.progress();
            }
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
