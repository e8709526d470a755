//! A peer that is released and connected at the same time.

use super::*;

/// What a callback connects while the last release of the same peer waits for it.
struct Again<'a> {
    transport: &'a Transport,
    peer: Cell<Option<ptr::NonNull<Endpoint>>>,
}

unsafe extern "C" fn connect_again(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut Handle,
    context: *mut c_void,
    _: *mut c_void,
    _: i32,
) {
    // SAFETY: the test's structure, which outlives the operation.
    let again = unsafe { &*context.cast::<Again<'_>>() };
    let t = again.transport;
    again.peer.set(t.connect(t.address(), 0).ok());
}

/// A peer that is connected again while its last release waits is not taken away.
#[test]
fn a_release_that_is_overtaken_takes_nothing_away() {
    for provider in PROVIDERS {
        let t = open(provider, ThreadLevel::Single, &[]);
        let peer = t.connect(t.address(), 0).unwrap();
        let mut window = 0u64;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        // SAFETY: the word lives until the region is closed.
        let region = unsafe { t.register((&raw mut window).cast(), 8, access) }.unwrap();
        let (h, none) = (region.handle(), ptr::null_mut());
        let again = Again {
            transport: &t,
            peer: Cell::new(None),
        };
        let with = Completion {
            function: connect_again,
            context: (&raw const again).cast_mut().cast(),
            data: ptr::null_mut(),
        };
        let (mut source, mut old) = (5u64, 0u64);
        let from = (&raw mut source).cast::<c_void>();
        // SAFETY: the words outlive the operations.
        insist(&t, || unsafe {
            t.put(peer, from, h.base(), none, &h, 8, Some(with))
        });
        assert_eq!(again.peer.get(), None, "{provider}: nothing was polled yet");
        // SAFETY: connected once, released once.
        assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
        assert_eq!(again.peer.get(), Some(peer), "{provider}");
        assert_eq!(t.stats().endpoints, 1, "{provider}");
        let (out, f) = ((&raw mut old).cast::<c_void>(), OpFlags::empty());
        // SAFETY: the endpoint was connected again, and the words outlive the flush.
        insist(&t, || unsafe {
            t.atomic_fop(peer, out, h.base(), none, &h, BtlAtomicOp::Add, 1, f, None)
        });
        // SAFETY: the endpoint was connected twice and released once, so it is live.
        assert_eq!(t.flush(Some(unsafe { peer.as_ref() })), Status::SUCCESS);
        assert_eq!((old, window), (5, 6), "{provider}");
        // SAFETY: connected twice, released twice.
        assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
        assert_eq!(t.stats().endpoints, 0, "{provider}");
        region.close().unwrap();
        t.close().unwrap();
    }
}
