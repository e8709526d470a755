//! A peer that is released and connected at the same time.

use super::*;

/// A callback that connects a peer while the last release of the same peer waits for this callback.
struct Again<'a> {
    transport: &'a Transport,
    peer: Cell<Option<ptr::NonNull<Endpoint>>>,
}

impl Ended for Again<'_> {
    fn ended(&self, _: Status) {
        let t = self.transport;
        self.peer.set(t.connect(t.address(), 0).ok());
    }
}

/// A peer that is connected again while its last release waits stays connected.
#[test]
fn a_release_that_is_overtaken_takes_nothing_away() {
    for provider in PROVIDERS {
        let t = open(provider, ThreadLevel::Single, &[]);
        let peer = t.connect(t.address(), 0).unwrap();
        let mut window = 0u64;
        let region = register(&t, std::slice::from_mut(&mut window), Access::all());
        let h = region.handle();
        let again = Again {
            transport: &t,
            peer: Cell::new(None),
        };
        let (mut source, mut old) = (5u64, 0u64);
        let from = (&raw mut source).cast::<c_void>();
        insist(&t, || {
            t.put(peer, from, h.base(), &h, 8, again.completion())
        });
        assert_eq!(again.peer.get(), None, "{provider}: nothing was polled yet");
        // SAFETY: the peer was connected once and is released once.
        assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
        assert_eq!(again.peer.get(), Some(peer), "{provider}");
        assert_eq!(t.stats().endpoints, 1, "{provider}");
        let out = (&raw mut old).cast::<c_void>();
        insist(&t, || {
            t.atomic_fop(peer, out, h.base(), &h, BtlAtomicOp::Add, 1, None)
        });
        // SAFETY: the endpoint was connected twice and released once, so it is live.
        assert_eq!(t.flush(Some(unsafe { peer.as_ref() })), Status::SUCCESS);
        assert_eq!((old, window), (5, 6), "{provider}");
        // SAFETY: connected twice, released twice.
        assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
        assert_eq!(t.stats().endpoints, 0, "{provider}");
        close([region], [t]);
    }
}
