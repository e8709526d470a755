//! One process as its own peer, over each real provider: every kind of operation, checked.

mod release;

use plugin_api::Handle;

use crate::common::prelude::*;

const PROVIDERS: [&str; 4] = ["shm", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"];

unsafe extern "C" fn count(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    assert_eq!(status, 0);
    assert_eq!(data as usize, 77);
    // SAFETY: the tests pass a counter that outlives the operation.
    unsafe { &*context.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

fn every_operation(provider: &'static str, level: ThreadLevel) {
    let t = open(provider, level, &[]);
    let peer = t.connect(t.address(), 0).unwrap();
    // SAFETY: the endpoint lives until the transport closes.
    let ep: &Endpoint = unsafe { peer.as_ref() };
    let mut window = vec![0u64; 4096];
    let base = window.as_mut_ptr() as u64;
    let bytes = window.len() * 8;
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // SAFETY: the window lives until the region is closed.
    let region = unsafe { t.register(window.as_mut_ptr().cast(), bytes, access) }.unwrap();
    let h = region.handle();
    let at = |i: u64| base + i * 8;
    // SAFETY: only operations that were flushed before change the window.
    let word = |i: u64| unsafe { ptr::read_volatile((base as *const u64).add(i as usize)) };

    let mut source: Vec<u64> = (0..2048).map(|i| i * 0x0101_0101_0101).collect();
    let src = source.as_mut_ptr().cast::<c_void>();
    let limit = t.capabilities().put_limit.min(t.capabilities().get_limit);
    for size in [1usize, 8, 9, 256, 4096, 16_384].map(|n: usize| n.min(limit)) {
        insist(&t, || t.put(peer, src, at(0), &h, size, None));
        assert_eq!(t.flush(Some(ep)), Status::SUCCESS);
        // SAFETY: both are initialised bytes of at least `size`.
        let (a, b) = unsafe {
            (
                std::slice::from_raw_parts(base as *const u8, size),
                std::slice::from_raw_parts(src.cast::<u8>(), size),
            )
        };
        assert_eq!(a, b, "{provider}: {size} bytes");
        let mut back = vec![0u8; size];
        let dst = back.as_mut_ptr().cast();
        insist(&t, || t.get(peer, dst, at(0), &h, size, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!(back, b, "{provider}: {size} bytes back");
    }

    let done = AtomicU32::new(0);
    let with = Some(Completion {
        function: count,
        context: (&raw const done).cast_mut().cast(),
        data: 77 as *mut c_void,
    });
    for _ in 0..300 {
        insist(&t, || t.put(peer, src, at(16), &h, 8, with));
    }
    insist(&t, || t.put(peer, src, at(16), &h, 0, with));
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert_eq!(
        done.load(Ordering::Relaxed),
        301,
        "{provider}: callbacks before flush returns"
    );

    let mut old = 0u64;
    let out = (&raw mut old).cast::<c_void>();
    let cases = [
        (BtlAtomicOp::Add, 5, 7, 12),
        (BtlAtomicOp::And, 0b1100, 0b1010, 0b1000),
        (BtlAtomicOp::Or, 0b1100, 0b1010, 0b1110),
        (BtlAtomicOp::Xor, 0b1100, 0b1010, 0b0110),
        (BtlAtomicOp::Swap, 3, 9, 9),
        (BtlAtomicOp::Min, (-2i64) as u64, 1, (-2i64) as u64),
        (BtlAtomicOp::Max, (-2i64) as u64, 1, 1),
    ];
    for (op, start, operand, end) in cases {
        window[40] = start;
        insist(&t, || t.atomic_op(peer, at(40), &h, op, operand, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!(word(40), end, "{provider}: {op:?}");
        window[40] = start;
        insist(&t, || {
            t.atomic_fop(peer, out, at(40), &h, op, operand, with)
        });
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!((old, word(40)), (start, end), "{provider}: fetching {op:?}");
    }
    window[41] = 1;
    for (compare, value, then) in [(2, 5, 1), (1, 5, 5)] {
        let before = word(41);
        insist(&t, || {
            t.atomic_cswap(peer, out, at(41), &h, compare, value, None)
        });
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!((old, word(41)), (before, then), "{provider}: compare-swap");
    }

    let max = t
        .atomic_count(AtomicKind::Update, Datatype::Double, AtomicOp::Sum)
        .unwrap();
    assert!(max >= 1);
    let n = max.min(4);
    let mut doubles = [1.5f64, 2.5, 3.5, 4.5];
    window[50..54].copy_from_slice(&[1.0f64.to_bits(); 4]);
    let operands = doubles.as_mut_ptr().cast::<c_void>();
    let (double, sum) = (Datatype::Double, AtomicOp::Sum);
    insist(&t, || {
        t.atomic_opv(peer, operands, at(50), &h, double, sum, n, None)
    });
    assert_eq!(t.flush(None), Status::SUCCESS);
    for (i, d) in doubles[..n].iter().enumerate() {
        assert_eq!(f64::from_bits(word(50 + i as u64)), d + 1.0);
    }
    let mut before = [0f64; 4];
    let result = before.as_mut_ptr().cast::<c_void>();
    let read = AtomicOp::Read;
    insist(&t, || {
        t.atomic_fopv(peer, ptr::null(), result, at(50), &h, double, read, n, None)
    });
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert_eq!(before[..n], doubles.map(|d| d + 1.0)[..n]);

    // The transport refuses operations outside the region before it sends anything.
    let end = base + bytes as u64;
    let outside = Status::VALUE_OUT_OF_BOUNDS;
    for (address, size) in [(end, 1), (base - 1, 1), (end - 4, 8), (base, bytes + 1)] {
        let status = t.put(peer, src, address, &h, size, None);
        assert_eq!(status, outside);
    }
    let odd = t.atomic_op(peer, at(40) + 1, &h, BtlAtomicOp::Add, 1, None);
    assert_eq!(odd, Status::BAD_PARAM);

    assert_eq!(t.flush(None), Status::SUCCESS);
    let stats = t.stats();
    assert_eq!(stats.posted, stats.completed);
    assert_eq!(
        (stats.failed, stats.registrations, stats.endpoints),
        (0, 1, 1)
    );
    region.close().unwrap();
    // SAFETY: connected once, released once.
    assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
    assert_eq!(t.stats().endpoints, 0);
    t.close().unwrap();
}

#[test]
fn shm() {
    every_operation(PROVIDERS[0], ThreadLevel::Single);
    every_operation(PROVIDERS[0], ThreadLevel::Multiple);
}

#[test]
fn tcp_rxm() {
    every_operation(PROVIDERS[1], ThreadLevel::Single);
    every_operation(PROVIDERS[1], ThreadLevel::Multiple);
}

#[test]
fn sockets() {
    every_operation(PROVIDERS[2], ThreadLevel::Single);
    every_operation(PROVIDERS[2], ThreadLevel::Multiple);
}

#[test]
fn udp_rxd() {
    every_operation(PROVIDERS[3], ThreadLevel::Single);
    every_operation(PROVIDERS[3], ThreadLevel::Multiple);
}

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
        let with = Some(Completion {
            function: count,
            context: (&raw const done).cast_mut().cast(),
            data: 77 as *mut c_void,
        });
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
