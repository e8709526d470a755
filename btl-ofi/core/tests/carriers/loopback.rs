//! One process as its own peer: its first operation, contexts, callbacks of copies, and regions.

mod release;

use crate::common::prelude::*;

const PROVIDERS: [&str; 3] = ["shm", "tcp;ofi_rxm", "sockets"];

/// The first operation to a peer may be a fetch.
#[test]
fn a_fetch_comes_first() {
    for provider in PROVIDERS {
        let own = Own::new(open(provider, ThreadLevel::Single, &[]), 1);
        let mut old = 0;
        for _ in 0..10 {
            own.there()
                .insist(|there| there.fetch_add(0, &mut old, None));
        }
        assert_eq!(own.t.flush(None), Status::SUCCESS);
        assert_eq!((old, own.word(0)), (9, 10), "{provider}");
        own.close();
    }
}

#[test]
fn contexts_of_a_scalable_endpoint() {
    loopback();
    let o = options(&[
        ("btl_ofi_provider_include", Value::str("sockets")),
        ("btl_ofi_num_contexts_per_module", Value::Int(4)),
    ]);
    let own = Own::new(Transport::open(&o).unwrap(), 1);
    assert_eq!(own.t.capabilities().contexts, 4);
    let there = own.there();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..200 {
                    there.insist(|there| there.add(0, None));
                }
                assert_eq!(there.t.flush(None), Status::SUCCESS);
            });
        }
    });
    assert_eq!(own.close(), [800]);
}

/// The callbacks of operations that complete within the call run even if the host makes no
/// progress.
#[test]
fn callbacks_of_copies_do_not_pile_up() {
    const THRESHOLD: u32 = 50;
    for level in [ThreadLevel::Single, ThreadLevel::Multiple] {
        let threshold = Value::Int(THRESHOLD as i32);
        let t = open(near(), level, &[("btl_ofi_progress_threshold", threshold)]);
        let own = Own::new(t, 2);
        let (there, done) = (own.there(), AtomicU32::new(0));
        let with = done.completion();
        for issued in (1..3000).step_by(3) {
            let statuses = [
                there.put(0, &[7u64], with),
                there.get(0, &mut [0u64; 0], with),
                there.add(8, with),
            ];
            assert_eq!(statuses, [Status::SUCCESS; 3]);
            let waiting = issued + 2 - done.load(Ordering::Relaxed);
            assert!(waiting < THRESHOLD + 3, "{waiting} callbacks wait");
        }
        assert_eq!(own.t.flush(None), Status::SUCCESS);
        assert_eq!(done.load(Ordering::Relaxed), 3000);
        assert_eq!(own.close(), [7, 1000]);
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
        let there = There::new(&t, peer, region.handle());
        there.insist(|there| there.put(0, &[7u64], None));
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!(word, 7, "{provider}");
        empty.close().unwrap();
        region.close().unwrap();
        t.close().unwrap();
    }
}
