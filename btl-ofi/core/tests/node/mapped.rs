//! Peers on one node whose memory is in files that cannot shrink. Origins map such memory, so their operations need neither
//! the target nor the kernel; other memory is accessed by ring and kernel.

mod ends;
mod threads;

use crate::common::memory::{descriptors, file_of, mappings};
use crate::common::pair::WORDS;

use crate::common::prelude::*;

/// The default of `btl_ofi_peer_check_interval`.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A put of a word that is flushed.
fn put_word(there: There<'_>, word: usize, value: u64) -> Status {
    let value = [value];
    let status = there.put(8 * word, &value, None);
    status.ok().map_or(status, |_| there.t.flush(None))
}

/// Operations by copies, rings and the kernel.
fn carried(t: &Transport) -> [u64; 3] {
    let stats = t.stats();
    [Carrier::Copy, Carrier::Ring, Carrier::Cma].map(|c| stats.operations[c as usize])
}

/// Makes every operation to a target that does nothing; each operation is complete when its call returns. Returns
/// the number of operations.
fn every_operation(there: There<'_>) -> u64 {
    let There { t, peer, h, .. } = there;
    let at = |word: u64| h.base() + 8 * word;
    let add = BtlAtomicOp::Add;
    let ok = |status: Status| assert_eq!(status, Status::SUCCESS);
    let long: Vec<u8> = (0..40_000u32).map(|i| i as u8).collect();
    ok(there.put(0, &[7u64], None));
    ok(there.put(80, &long, None));
    ok(there.put(80, &[9u8; 3], None));
    let mut back = vec![0u8; 40_000];
    ok(there.get(80, &mut back, None));
    assert_eq!((&back[..3], &back[3..]), (&[9u8; 3][..], &long[3..]));
    let (mut word, mut old, mut half) = (0u64, 0u64, 0u32);
    {
        let out = (&raw mut word).cast();
        ok(t.get(peer, out, at(0), &h, 8, None));
        assert_eq!(word, 7);
        ok(t.atomic_op(peer, at(0), &h, add, 3, None));
        ok(there.fetch_add(0, &mut old, None));
        assert_eq!(old, 10);
        let out: *mut c_void = (&raw mut old).cast();
        ok(t.atomic_cswap(peer, out, at(0), &h, 11, 20, None));
        assert_eq!(old, 11);
        ok(t.atomic_cswap(peer, out, at(0), &h, 11, 30, None));
        assert_eq!(old, 20);
        let (narrow, out) = (OpFlags::WORD_32, (&raw mut half).cast());
        ok(t.atomic_fop_of(peer, out, at(1), &h, add, 5, narrow, None));
        ok(t.atomic_fop_of(peer, out, at(1), &h, add, 5, narrow, None));
        assert_eq!(half, 5);
        let (u, sum) = (Datatype::Uint64, AtomicOp::Sum);
        let values = [1u64, 2, 3];
        let (from, mut olds) = (values.as_ptr().cast(), [9u64; 3]);
        ok(t.atomic_opv(peer, from, at(2), &h, u, sum, 3, None));
        let out = olds.as_mut_ptr().cast();
        ok(t.atomic_fopv(peer, from, out, at(2), &h, u, sum, 3, None));
        assert_eq!(olds, [1, 2, 3]);
        let (d, sum, two) = (Datatype::Double, AtomicOp::Sum, 2.5f64);
        let from = (&raw const two).cast();
        ok(t.atomic_opv(peer, from, at(5), &h, d, sum, 1, None));
        let out = (&raw mut old).cast();
        ok(t.atomic_cswapv(peer, 42, 2.5f64.to_bits(), out, at(5), &h, u, None));
        assert_eq!(f64::from_bits(old), 2.5);
    }
    ok(t.flush(None));
    15
}

/// Operations on mapped memory need no action of the target, so a stopped target supports all of
/// them, from the first one on.
#[test]
fn a_stopped_target() {
    for memory in [Memory::Memfd, Memory::Huge]
        .into_iter()
        .filter(|memory| memory.is_there())
    {
        let t = open(near(), ThreadLevel::Single, &[]);
        let mut target = Target::start_in(&t, near(), memory);
        let there = target.there();
        signal(target.child.id(), libc::SIGSTOP);
        let operations = every_operation(there);
        assert_eq!(carried(there.t), [operations, 0, 0], "{memory:?}");
        signal(target.child.id(), libc::SIGCONT);
        assert_eq!(target.sees(0, 1), (20, 10), "{memory:?}");
        assert_eq!(target.sees(2, 4), (2, 6));
        assert_eq!(target.sees(5, WORDS - 1), (42, 0));
        target.end();
        t.close().unwrap();
    }
}

/// Other memory is accessed by the ring and the kernel: memory without a file, and files that may shrink.
#[test]
fn other_memory() {
    for memory in [
        Memory::Heap,
        Memory::Anonymous,
        Memory::Unsealed,
        Memory::Shm,
        Memory::Disk,
    ] {
        let t = open(near(), ThreadLevel::Single, &[]);
        let mut target = Target::start_in(&t, near(), memory);
        let there = target.there();
        let mut old = 9;
        assert_eq!(put_word(there, 0, 5), Status::SUCCESS);
        // The put covers the first page to the last.
        let ones = vec![1u8; 8 * (WORDS - 1)];
        there.insist(|there| there.put(8, &ones, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
        there.insist(|there| there.fetch_add(0, &mut old, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!((old, carried(there.t)[0]), (5, 0), "{memory:?}");
        let word = 0x0101_0101_0101_0101;
        assert_eq!(target.sees(0, WORDS - 1), (6, word), "{memory:?}");
        target.end();
        t.close().unwrap();
    }
}

fn pair(level: ThreadLevel) -> (Transport, Transport) {
    let open = || open(near(), level, &[]);
    (open(), open())
}

fn register_window(t: &Transport, window: &Window, access: Access) -> Region {
    window.register(t, access).unwrap()
}

/// The transport keeps the file until the region is closed, and no longer.
#[test]
fn the_descriptor_may_be_closed() {
    let (a, b) = pair(ThreadLevel::Single);
    let mut window = Window::new(Memory::Memfd, 512);
    let file = window.file();
    let region = register_window(&b, &window, Access::all());
    assert_eq!(descriptors(file), 2);
    window.close_file();
    assert_eq!(descriptors(file), 1);
    let peer = a.connect(b.address(), 0).unwrap();
    let h = region.handle();
    let there = There::new(&a, peer, h);
    assert_eq!(put_word(there, 3, 7), Status::SUCCESS);
    assert_eq!((carried(there.t), window.word(3)), ([1, 0, 0], 7));
    region.close().unwrap();
    assert_eq!(descriptors(file), 0);
    close([], [a, b]);
}

/// A window may begin anywhere in its file; a part outside the file is refused.
#[test]
fn a_part_of_a_file() {
    let (a, b) = pair(ThreadLevel::Single);
    let window = Window::new(Memory::Memfd, 1024);
    let page = 4096;
    let part = |offset: usize, length, from| {
        let base = window.base().wrapping_byte_add(offset).cast();
        // SAFETY: the window stays mapped. The call refuses a part beyond the file.
        unsafe { b.register_shared(base, length, Access::all(), window.part(from)) }
    };
    let region = part(page + 16, page - 16, page as u64 + 16).unwrap();
    let peer = a.connect(b.address(), 0).unwrap();
    let h = region.handle();
    let there = There::new(&a, peer, h);
    assert_eq!(put_word(there, 1, 7), Status::SUCCESS);
    assert_eq!((carried(there.t), window.word(512 + 3)), ([1, 0, 0], 7));
    region.close().unwrap();
    for (offset, length, from, why) in [
        (0, 2 * page + 1, 0, "the file has 8192 bytes"),
        (0, 8, 2 * page as u64, "the file has 8192 bytes"),
        (8, 8, u64::MAX - 4087, "the file has 8192 bytes"),
        (8, 8, 0, "lie differently in their pages"),
    ] {
        let refused = part(offset, length, from).map(drop).unwrap_err();
        assert_eq!(refused.status(), Status::BAD_PARAM);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    close([], [a, b]);
}

/// Atomics to a peer stay in order, although some use its ring.
#[test]
fn the_order_of_atomics() {
    let (a, b) = pair(ThreadLevel::Single);
    let window = Window::new(Memory::Memfd, 512);
    let mut others = vec![0u64; 8];
    let mapped = register_window(&b, &window, Access::all());
    let other = register(&b, &mut others, Access::all());
    let peer = a.connect(b.address(), 0).unwrap();
    let [there, other_there] = [mapped.handle(), other.handle()].map(|h| There::new(&a, peer, h));
    let mut olds = [9u64; 4];
    let [first, second, third, fourth] = &mut olds;
    assert_eq!(there.fetch_add(0, first, None), Status::SUCCESS);
    assert_eq!((window.word(0), *first), (1, 0));
    insist(&a, || other_there.fetch_add(0, second, None));
    insist(&a, || there.fetch_add(0, third, None));
    assert_eq!(
        (window.word(0), *third),
        (1, 9),
        "behind the one in the ring"
    );
    // Transfers have no order.
    assert_eq!(there.put(8, &[7u64], None), Status::SUCCESS);
    assert_eq!(window.word(1), 7);
    attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
    assert_eq!((window.word(0), *second, *third), (2, 0, 1));
    assert_eq!(there.fetch_add(0, fourth, None), Status::SUCCESS);
    assert_eq!(
        (window.word(0), *fourth, carried(there.t)),
        (3, 2, [3, 2, 0])
    );
    for region in [mapped, other] {
        region.close().unwrap();
    }
    close([], [a, b]);
}

/// A host makes only atomics and no progress. The transport checks its peers between the atomics, which takes the locks
/// of an atomic.
#[test]
fn peers_are_checked_between_atomics() {
    let (a, b) = pair(ThreadLevel::Multiple);
    let window = Window::new(Memory::Memfd, 512);
    let region = register_window(&b, &window, Access::all());
    let peer = a.connect(b.address(), 0).unwrap();
    let h = region.handle();
    let there = There::new(&a, peer, h);
    let (begun, mut made, mut old) = (Instant::now(), 0, 0);
    while begun.elapsed() < 3 * CHECK_INTERVAL {
        assert_eq!(there.fetch_add(0, &mut old, None), Status::SUCCESS);
        made += 1;
    }
    assert_eq!((carried(there.t), window.word(0)), ([made, 0, 0], made));
    close([region], [a, b]);
}

/// Callbacks run once, in progress; no callback runs if the door supports inline completions.
#[test]
fn callbacks() {
    for at_once in [false, true] {
        let (mut a, b) = pair(ThreadLevel::Single);
        if at_once {
            a.answer_at_once();
        }
        let window = Window::new(Memory::Memfd, 512);
        let region = register_window(&b, &window, Access::all());
        let peer = a.connect(b.address(), 0).unwrap();
        let h = region.handle();
        let there = There::new(&a, peer, h);
        let (told, mut old, mut back) = (Seen::default(), 0, [0u64]);
        let expected = match at_once {
            true => Status::COMPLETED,
            false => Status::SUCCESS,
        };
        for round in 1..=5 {
            let done = || told.completion();
            assert_eq!(there.put(0, &[3u64], done()), expected);
            assert_eq!(there.get(0, &mut back, done()), expected);
            assert_eq!(there.fetch_add(0, &mut old, done()), expected);
            assert_eq!((back, old, window.word(0)), ([3], 3, 4));
            assert_eq!(a.flush(None), Status::SUCCESS);
            assert_eq!(told.both(), (if at_once { 0 } else { 3 * round }, 0));
        }
        let stats = a.stats();
        assert_eq!(carried(there.t), [15, 0, 0]);
        assert_eq!((stats.posted, stats.failed), (15, 0));
        close([region], [a, b]);
    }
}

/// The rights of a region hold as for other memory.
#[test]
fn rights() {
    let (a, b) = pair(ThreadLevel::Single);
    let window = Window::new(Memory::Memfd, 512);
    let peer = a.connect(b.address(), 0).unwrap();
    for (access, put, get) in [
        (Access::REMOTE_READ, Status::PERM, Status::SUCCESS),
        (Access::REMOTE_WRITE, Status::SUCCESS, Status::PERM),
    ] {
        let region = register_window(&b, &window, access);
        let h = region.handle();
        let there = There::new(&a, peer, h);
        for _ in 0..2 {
            assert_eq!(there.put(0, &[1u64], None), put);
            assert_eq!(there.get(0, &mut [0u64], None), get);
            assert_eq!(there.fetch_add(0, &mut 0, None), Status::PERM);
        }
        let beyond = there.put(8 * 511, &[1u64; 2], None);
        assert!(!beyond.is_ok(), "{beyond}");
        assert_eq!(carried(&a)[1..], [0, 0], "all were mapped");
        region.close().unwrap();
    }
    close([], [a, b]);
}
