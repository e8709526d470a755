//! Writes whose bytes come after their completion, and reads that come behind writes.

use std::ptr;

use libfabric_sys as ffi;

use crate::bench::{Bench, close_region, in_process, quiet};

const ACCESS: u32 = ffi::FI_REMOTE_WRITE | ffi::FI_REMOTE_READ;

#[test]
fn reads_come_behind_late_writes_where_that_is_promised() {
    quiet(|| {
        let none = ptr::null_mut();
        for (order, behind) in [("0", false), ("1", true)] {
            let b = Bench::open(&[("LAB_CONFIRMS", "0"), ("LAB_READ_ORDER", order)]);
            let (memory, source) = ([0u64; 8], 7u64);
            let mr = b.register_for(ACCESS, &memory, 5);
            // SAFETY: the word lies in the array; the provider writes the array.
            let word = |i| unsafe { memory.as_ptr().add(i).read_volatile() };
            assert_eq!(b.write_with(&source, none, 0, 5, none, 0), 0);
            assert!(b.ends());
            assert_eq!(word(0), 0, "the bytes come late");
            let mut other = 1u64;
            assert_eq!(b.fetch(&raw mut other, None, none, 8, 5, none), 0);
            assert!(b.ends());
            assert_eq!((other, word(0) == 7), (0, behind), "order {order}");
            assert!(b.is_quiet());
            assert_eq!(word(0), 7, "the bytes come");
            close_region(mr);
            b.close();
        }
    });
}

#[test]
fn delivery_that_is_not_offered_is_not_asked_for() {
    let Some((text, _)) = in_process(|| {
        let b = Bench::open(&[("LAB_CONFIRMS", "0")]);
        let (memory, source) = ([0u64; 8], 7u64);
        let mr = b.register(&memory, 5);
        assert!(b.write(&source, 0, 5, ptr::null_mut()) < 0);
        close_region(mr);
        b.close();
    }) else {
        return;
    };
    assert!(text.contains("delivery that is not offered"), "{text}");
}
