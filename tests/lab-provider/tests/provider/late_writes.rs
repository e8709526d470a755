//! Writes whose bytes come after their completion, and reads that come behind them.

use std::ptr;

use libfabric_sys as ffi;

use crate::bench::{Bench, expect_provider, in_process};

const ACCESS: u64 = (ffi::FI_REMOTE_WRITE | ffi::FI_REMOTE_READ) as u64;

#[test]
#[ignore = "a child process of other tests, which start it"]
fn write_and_read() {
    expect_provider();
    let none = ptr::null_mut();
    for (order, behind) in [("0", false), ("1", true)] {
        let b = Bench::open(&[("LAB_CONFIRMS", "0"), ("LAB_READ_ORDER", order)]);
        let (memory, source) = ([0u64; 8], 7u64);
        let iov = ffi::iovec {
            iov_base: memory.as_ptr().cast_mut().cast(),
            iov_len: size_of_val(&memory),
        };
        let attr = ffi::fi_mr_attr {
            mr_iov: &iov,
            iov_count: 1,
            access: ACCESS,
            requested_key: 5,
            ..Default::default()
        };
        let mr = b.register_as(attr, 0).unwrap();
        // SAFETY: the word lies in the array; the provider writes it.
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
        // SAFETY: closed once.
        assert_eq!(unsafe { ffi::fi_close(mr.cast()) }, 0);
        b.close();
    }
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn ask_for_delivery() {
    expect_provider();
    let b = Bench::open(&[("LAB_CONFIRMS", "0")]);
    let (memory, source) = ([0u64; 8], 7u64);
    let mr = b.register(&memory, 5);
    assert!(b.write(&source, 0, 5, ptr::null_mut()) < 0);
    // SAFETY: closed once.
    assert_eq!(unsafe { ffi::fi_close(mr.cast()) }, 0);
    b.close();
}

#[test]
fn reads_come_behind_late_writes_where_that_is_promised() {
    assert_eq!(in_process("late_writes::write_and_read"), "");
}

#[test]
fn delivery_that_is_not_offered_is_not_asked_for() {
    let text = in_process("late_writes::ask_for_delivery");
    assert!(text.contains("delivery that is not offered"), "{text}");
}
