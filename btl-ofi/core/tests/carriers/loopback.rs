//! One process as its own peer: its first operation, contexts, callbacks of copies, and regions.

mod release;

use crate::common::prelude::*;

const PROVIDERS: [&str; 3] = ["shm", "tcp;ofi_rxm", "sockets"];

/// The first operation to a peer may be a fetch.
#[test]
fn a_fetch_comes_first() {
    for provider in PROVIDERS {
        let t = open(provider, ThreadLevel::Single, &[]);
        let peer = t.connect(t.address(), 0).unwrap();
        let (mut word, mut old) = (41u64, 0u64);
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        // SAFETY: the word lives until the region is closed.
        let region = unsafe { t.register((&raw mut word).cast(), 8, access) }.unwrap();
        let (h, out) = (region.handle(), (&raw mut old).cast::<c_void>());
        let op = BtlAtomicOp::Add;
        for _ in 0..10 {
            insist(&t, || t.atomic_fop(peer, out, h.base(), &h, op, 1, None));
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!((old, word), (50, 51), "{provider}");
    }
}

#[test]
fn contexts_of_a_scalable_endpoint() {
    loopback();
    let o = options(&[
        ("btl_ofi_provider_include", Value::str("sockets")),
        ("btl_ofi_num_contexts_per_module", Value::Int(4)),
    ]);
    let t = Transport::open(&o).unwrap();
    assert_eq!(t.capabilities().contexts, 4);
    let peer = t.connect(t.address(), 0).unwrap();
    let window = AtomicU32::new(0);
    let word = std::cell::UnsafeCell::new(0u64);
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // SAFETY: the word lives until the region is closed.
    let region = unsafe { t.register(word.get().cast(), 8, access) }.unwrap();
    let h = region.handle();
    let address = word.get() as u64;
    let t = &t;
    let peer = peer.as_ptr() as usize;
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let peer = std::ptr::NonNull::new(peer as *mut Endpoint).unwrap();
                for _ in 0..200 {
                    insist(t, || {
                        t.atomic_op(peer, address, &h, BtlAtomicOp::Add, 1, None)
                    });
                }
                assert_eq!(t.flush(None), Status::SUCCESS);
                window.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    // SAFETY: every operation was flushed.
    assert_eq!(unsafe { *word.get() }, 800);
    assert_eq!(window.load(Ordering::Relaxed), 4);
}

/// The callbacks of operations that complete within the call run even if the host makes no
/// progress.
#[test]
fn callbacks_of_copies_do_not_pile_up() {
    const THRESHOLD: u32 = 50;
    for level in [ThreadLevel::Single, ThreadLevel::Multiple] {
        let threshold = Value::Int(THRESHOLD as i32);
        let t = open(near(), level, &[("btl_ofi_progress_threshold", threshold)]);
        let peer = t.connect(t.address(), 0).unwrap();
        let mut window = [0u64; 2];
        // SAFETY: the window outlives the transport.
        let region = unsafe { t.register(window.as_mut_ptr().cast(), 16, Access::all()) }.unwrap();
        let h = region.handle();
        let at = h.base();
        let (mut word, done) = (7u64, AtomicU32::new(0));
        let local = (&raw mut word).cast();
        let with = done.completion();
        let add = BtlAtomicOp::Add;
        for issued in (1..3000).step_by(3) {
            let statuses = [
                t.put(peer, local, at, &h, 8, with),
                t.get(peer, local, at, &h, 0, with),
                t.atomic_op(peer, at + 8, &h, add, 1, with),
            ];
            assert_eq!(statuses, [Status::SUCCESS; 3]);
            let waiting = issued + 2 - done.load(Ordering::Relaxed);
            assert!(waiting < THRESHOLD + 3, "{waiting} callbacks wait");
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!(done.load(Ordering::Relaxed), 3000);
        drop(region);
        t.close().unwrap();
        assert_eq!(window, [7, 1000]);
    }
}

#[test]
fn a_provider_that_does_not_exist_is_named() {
    loopback();
    let o = options(&[("btl_ofi_provider_include", Value::str("nonesuch"))]);
    let e = try_open(&o, ThreadLevel::Single).err().unwrap();
    assert_eq!(e.status(), Status::NOT_AVAILABLE);
    let text = e.to_string();
    assert!(
        text.contains("nonesuch") && text.contains("shm: not in btl_ofi_provider_include"),
        "{text}"
    );
}

/// The provider has no key for an empty region, which must not replace a region with a key.
#[test]
fn an_empty_region_displaces_no_other() {
    for provider in PROVIDERS {
        let t = open(provider, ThreadLevel::Single, &[]);
        let peer = t.connect(t.address(), 0).unwrap();
        let mut word = 0u64;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let at = (&raw mut word).cast::<c_void>();
        // SAFETY: the word lives until the regions are closed.
        let (region, empty) = unsafe { (t.register(at, 8, access), t.register(at, 0, access)) };
        let (region, empty) = (region.unwrap(), empty.unwrap());
        let (h, mut source) = (region.handle(), 7u64);
        let from = (&raw mut source).cast::<c_void>();
        insist(&t, || t.put(peer, from, h.base(), &h, 8, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!(word, 7, "{provider}");
        empty.close().unwrap();
        region.close().unwrap();
        t.close().unwrap();
    }
}
