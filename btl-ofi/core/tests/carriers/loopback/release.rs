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
        let own = Own::new(open(provider, ThreadLevel::Single, &[]), 1);
        let (t, there) = (&own.t, own.there());
        let again = Again {
            transport: t,
            peer: Cell::new(None),
        };
        let mut old = 0;
        there.insist(|there| there.put(0, &[5u64], again.completion()));
        assert_eq!(again.peer.get(), None, "{provider}: nothing was polled yet");
        assert_eq!(there.release(), Status::SUCCESS);
        assert_eq!(again.peer.get(), Some(there.peer), "{provider}");
        assert_eq!(t.stats().endpoints, 1, "{provider}");
        there.insist(|there| there.fetch_add(0, &mut old, None));
        assert_eq!(there.flush(), Status::SUCCESS);
        assert_eq!((old, own.word(0)), (5, 6), "{provider}");
        // Connected twice, released twice.
        assert_eq!(there.release(), Status::SUCCESS);
        assert_eq!(t.stats().endpoints, 0, "{provider}");
        own.close();
    }
}
