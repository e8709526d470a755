//! The provider's checks of its user: each rule is broken once, and the report must contain it.

use std::ffi::c_void;
use std::{env, fs, ptr};

use libfabric_sys as ffi;

use crate::bench::{Bench, REPORT, good, in_process};

fn close(mr: *mut ffi::fid_mr) -> i32 {
    // SAFETY: the provider keeps closed objects readable, so this wrong call is safe.
    unsafe { ffi::fi_close(mr.cast()) }
}

/// Asserts that the report has grown by one line with these words.
fn reported(lines: &mut usize, words: &str) {
    let text = fs::read_to_string(env::var_os(REPORT).unwrap()).unwrap_or_default();
    let new: Vec<_> = text.lines().skip(*lines).collect();
    assert!(new.len() == 1 && new[0].contains(words), "{words}: {new:?}");
    *lines += 1;
}

/// Breaks the rules, in a process that has the provider.
#[test]
fn every_broken_rule_is_reported() {
    let Some((text, _)) = in_process(|| {
        let mut n = 0;
        let (memory, source) = ([0u64; 8], 7u64);
        let mut context = ffi::fi_context2::default();
        let c = (&raw mut context).cast::<c_void>();

        let b = Bench::open(&[]);
        let mr = b.register(&memory, 5);
        assert_eq!(b.write(&source, 0, 5, c), 0);
        assert!(b.ends());
        // SAFETY: the write is over; another process could have made it.
        assert_eq!(unsafe { ptr::read_volatile(memory.as_ptr()) }, 7);
        assert_eq!(b.write(&source, 0, 6, c), 0);
        assert!(!b.ends());
        reported(&mut n, "key 0x6 names no region");
        assert_eq!(b.write(&source, 57, 5, c), 0);
        assert!(!b.ends());
        reported(&mut n, "outside the region");
        assert!(b.register(&memory, 5).is_null());
        reported(&mut n, "key 0x5 is in use");
        // SAFETY: the domain is live; other objects depend on it.
        assert_ne!(unsafe { ffi::fi_close(b.domain.cast()) }, 0);
        reported(&mut n, "closing a domain on which 4 open object(s) depend");
        assert_eq!(close(mr), 0);
        assert_ne!(close(mr), 0);
        reported(&mut n, "on a closed memory region");
        assert_eq!(b.write(&source, 0, 5, c), 0);
        assert!(!b.ends());
        reported(&mut n, "key 0x5 names no region");
        b.close();

        let b = Bench::open(&[("LAB_MODE", "CONTEXT2"), ("LAB_FAULTS", "delay=3")]);
        let mr = b.register(&memory, 0);
        assert_ne!(b.write(&source, 0, 0, ptr::null_mut()), 0);
        reported(&mut n, "without the context");
        assert_eq!(b.write(&source, 0, 0, c), 0);
        assert_ne!(b.write(&source, 0, 0, c), 0);
        reported(&mut n, "used by two outstanding operations");
        // SAFETY: the context belongs to the provider until completion; the test breaks this rule.
        unsafe { c.cast::<u64>().add(7).write_volatile(1) };
        assert!(b.ends());
        reported(&mut n, "its context changed");
        let mut changed = 1u64;
        assert_eq!(b.write(&changed, 0, 0, c), 0);
        // SAFETY: the word belongs to this test; the provider owns it until completion, and the test
        // breaks this rule.
        unsafe { (&raw mut changed).write_volatile(2) };
        assert!(b.ends());
        reported(&mut n, "its source changed");
        assert_eq!(close(mr), 0);
        b.close();

        let b = Bench::open(&[("LAB_MR_MODE", "ENDPOINT")]);
        let mr = b.register(&memory, 0);
        assert_eq!(b.write(&source, 0, 0, c), 0);
        assert!(!b.ends());
        reported(&mut n, "is not enabled");
        // SAFETY: the region is live.
        assert_ne!(unsafe { ffi::fi_enable(mr.cast()) }, 0);
        reported(&mut n, "enabling a region that is not bound");
        // SAFETY: the region and the endpoint are live.
        unsafe {
            good(ffi::fi_bind(mr.cast(), b.ep.cast(), 0));
            good(ffi::fi_enable(mr.cast()));
        }
        assert_eq!(b.write(&source, 0, 0, c), 0);
        assert!(b.ends());
        assert_eq!(close(b.ep.cast()), -(ffi::FI_EBUSY as i32));
        reported(&mut n, "on which 1 open object(s) depend");
        assert_eq!(close(mr), 0);
        b.close();
        limits(&mut n);
        outlived(&mut n);
        registered(&mut n);
        buffers(&mut n);
        closed(&mut n);
        // The end of the process finds five open objects.
        let _open = Bench::open(&[]);
    }) else {
        return;
    };
    let last = text.lines().last().unwrap();
    assert!(last.contains("5 object(s) were never closed"), "{last}");
}

/// A registration outlives its memory, and other pages are mapped at its address.
fn outlived(n: &mut usize) {
    const SIZE: usize = 3 << 16;
    let mut context = ffi::fi_context2::default();
    let c = (&raw mut context).cast::<c_void>();
    let (source, kind) = (7u64, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the mapping is new.
    let place = unsafe { libc::mmap(ptr::null_mut(), SIZE, access, kind, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    // SAFETY: the memory was just mapped, and is used only here.
    let memory = unsafe { std::slice::from_raw_parts(place.cast::<u64>(), SIZE / 8) };
    for looks in ["0", "1"] {
        let b = Bench::open(&[("LAB_PAGES", looks)]);
        let mr = b.register(memory, 0);
        if looks == "1"
            && fs::read_to_string(env::var_os(REPORT).unwrap())
                .is_ok_and(|t| t.contains("LAB_PAGES"))
        {
            test_skips::skipped(
                test_skips::Lacking::PageFrames,
                "a look at the pages of a region takes CAP_SYS_ADMIN",
            );
            *n += 1;
            assert_eq!(close(mr), 0);
            b.close();
            break;
        }
        assert_eq!(b.write(&source, 64, 0, c), 0);
        assert!(b.ends());
        // SAFETY: the mapping replaces memory that only this function uses.
        let anew = unsafe {
            assert_eq!(libc::munmap(place, SIZE), 0);
            libc::mmap(place, SIZE, access, kind | libc::MAP_FIXED, -1, 0)
        };
        assert_eq!(anew, place);
        assert_eq!(b.write(&source, 64, 0, c), 0);
        assert_eq!(b.ends(), looks == "0");
        if looks == "1" {
            reported(n, "was given back since it was registered");
        }
        assert_eq!(close(mr), 0);
        b.close();
    }
    // SAFETY: no code uses the memory any longer.
    unsafe { libc::munmap(place, SIZE) };
}

/// Calls that exceed the provider's limits.
fn limits(n: &mut usize) {
    let memory = [0u64; 64];
    let mut context = ffi::fi_context2::default();
    let c = (&raw mut context).cast::<c_void>();
    let b = Bench::open(&[
        ("LAB_MR_KEY_SIZE", "2"),
        ("LAB_MAX_MSG", "100"),
        ("LAB_WITHOUT", "1:7:2"),
    ]);
    assert!(b.register(&memory, 1 << 16).is_null());
    reported(n, "key 0x10000 does not fit into 2 bytes");
    assert!(b.register(&memory[..0], 1).is_null());
    reported(n, "registering no bytes");
    let mr = b.register(&memory, (1 << 16) - 1);
    let key = (1 << 16) - 1;
    let inject = u64::from(ffi::FI_INJECT);
    assert_ne!(
        b.write_with(&memory[0], ptr::null_mut(), 0, key, c, inject),
        0
    );
    reported(n, "injects, which is not offered");
    assert_ne!(
        b.fetch(
            (&raw mut context).cast(),
            Some(&1),
            ptr::null_mut(),
            0,
            key,
            c
        ),
        0
    );
    reported(n, "of 1 elements of type 7, operation 2: 0 are served");
    // SAFETY: the endpoint is live; the memory is long enough.
    let rc = unsafe {
        let write = (*(*b.ep).rma).write.unwrap();
        let from = memory.as_ptr().cast();
        write(b.ep, from, 101, ptr::null_mut(), b.peer, 0, key, c)
    };
    assert_eq!(rc, -(ffi::FI_EMSGSIZE as isize));
    reported(n, "fi_write of 101 bytes");
    let mut word = 0u64;
    // The region permits only writes.
    assert_eq!(b.fetch(&mut word, None, ptr::null_mut(), 0, key, c), 0);
    assert!(!b.ends());
    reported(n, "does not allow this access");
    let nowhere = Bench { peer: 7, ..b };
    assert_ne!(nowhere.write(&memory[0], 0, key, c), 0);
    reported(n, "position 7, which holds no address");
    assert_eq!(close(mr), 0);
    nowhere.close();
}

/// The requirements of FI_MR_ALLOCATED on memory.
fn registered(n: &mut usize) {
    let b = Bench::open(&[("LAB_MR_MODE", "ALLOCATED")]);
    let iov = ffi::iovec {
        iov_base: ptr::without_provenance_mut(4096),
        iov_len: 64,
    };
    let attr = ffi::fi_mr_attr {
        mr_iov: &iov,
        iov_count: 1,
        ..Default::default()
    };
    assert!(b.register_as(attr, 0).is_err());
    reported(n, "registering memory that is not there");
    b.close();
}

/// Buffers that are changed or freed before their operation is complete.
fn buffers(n: &mut usize) {
    let memory = [0u64; 8];
    let mut context = ffi::fi_context2::default();
    let c = (&raw mut context).cast::<c_void>();
    for add in [None, Some(&5u64)] {
        let b = Bench::open(&[("LAB_FAULTS", "delay=3")]);
        let both = ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE;
        let mr = b.register_for(both, &memory, 0);
        let mut word = Box::new(1u64);
        assert_eq!(b.fetch(&mut *word, add, ptr::null_mut(), 0, 0, c), 0);
        // SAFETY: the word belongs to this test; the provider owns it until completion, and the test
        // breaks this rule.
        unsafe { (&raw mut *word).write_volatile(2) };
        assert!(b.ends());
        reported(n, "its destination changed");
        let nowhere = ptr::without_provenance_mut(16);
        assert_ne!(b.fetch(nowhere, add, ptr::null_mut(), 0, 0, c), 0);
        reported(n, "a buffer is not mapped");
        assert_eq!(close(mr), 0);
        b.close();
    }
}

/// Calls on each kind of object after it was closed.
fn closed(n: &mut usize) {
    let b = Bench::open(&[]);
    let word = 0u64;
    let (ep, cq, av, domain, fabric) = (b.ep, b.cq, b.av, b.domain, b.fabric);
    let gone = Bench { info: b.info, ..b };
    // SAFETY: the provider keeps closed objects readable, so these wrong calls are safe.
    unsafe {
        good(ffi::fi_close(ep.cast()));
        assert_ne!(gone.write(&word, 0, 0, ptr::null_mut()), 0);
        reported(n, "fi_writemsg on a closed endpoint");
        good(ffi::fi_close(cq.cast()));
        let mut entry = ffi::fi_cq_entry::default();
        let read = (*(*cq).ops).read.unwrap();
        assert!(read(cq, (&raw mut entry).cast(), 1) < 0);
        reported(n, "fi_cq_read on a closed completion queue");
        good(ffi::fi_close(av.cast()));
        assert_ne!(ffi::fi_av_insert(av, ptr::null(), 1, ptr::null_mut(), 0), 1);
        reported(n, "fi_av_insert on a closed address vector");
        good(ffi::fi_close(domain.cast()));
        assert!(gone.register(&[0], 0).is_null());
        reported(n, "fi_mr_regattr on a closed domain");
        good(ffi::fi_close(fabric.cast()));
        let mut again = ptr::null_mut();
        assert_ne!(ffi::fi_domain(fabric, gone.info, &mut again), 0);
        reported(n, "fi_domain on a closed fabric");
        assert_ne!(ffi::fi_close(fabric.cast()), 0);
        reported(n, "fi_close on a closed fabric");
        ffi::fi_freeinfo(gone.info);
    }
}

/// Every end of an operation is counted once; completions that belong to no operation are counted
/// separately.
#[test]
fn every_end_is_counted_once() {
    let Some((report, counts)) = in_process(|| {
        let (memory, source) = ([0u64; 8], 7u64);
        let b = Bench::open(&[("LAB_FAULTS", "nth=3,stray=1000")]);
        let mr = b.register(&memory, 5);
        for _ in 0..3 {
            assert_eq!(b.write(&source, 0, 5, ptr::null_mut()), 0);
        }
        // A stray completion follows two of the ends, and another end is a failure.
        let ends: Vec<bool> = (0..5).map(|_| b.ends()).collect();
        assert_eq!(ends.iter().filter(|good| **good).count(), 4);
        assert_eq!(close(mr), 0);
        b.close();
    }) else {
        return;
    };
    assert_eq!(report, "");
    for count in ["posted=3", "completed=2", "strays=2", "failed=1"] {
        assert!(counts.contains(&format!(" {count} ")), "{count}: {counts}");
    }
}

/// Two threads use one queue, which no requested threading model permits.
#[test]
fn a_shared_queue_is_reported() {
    let Some((text, _)) = in_process(|| {
        let b = Bench::open(&[]);
        let queue = b.cq as usize;
        let reads = || {
            let queue = queue as *mut ffi::fid_cq;
            let mut entry = ffi::fi_cq_entry::default();
            for _ in 0..2_000_000 {
                // SAFETY: the queue is live, and the buffer has room for one entry.
                unsafe { (*(*queue).ops).read.unwrap()(queue, (&raw mut entry).cast(), 1) };
                let report = env::var_os(REPORT).unwrap();
                if fs::metadata(report).is_ok_and(|m| m.len() > 0) {
                    break;
                }
            }
        };
        std::thread::scope(|s| {
            s.spawn(reads);
            s.spawn(reads);
        });
        b.close();
    }) else {
        return;
    };
    assert!(text.contains("used by two threads at once"), "{text}");
}
