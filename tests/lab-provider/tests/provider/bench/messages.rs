//! Sending and receiving on a bench.

use std::ffi::c_void;
use std::{env, fs, ptr};

use libfabric_sys as ffi;

use super::{Bench, REPORT};

/// The flag of the queue for receives.
pub(crate) const RECV: u64 = ffi::FI_RECV as u64;
/// Return values of calls.
pub(crate) const AGAIN: isize = -(ffi::FI_EAGAIN as isize);

/// A context that is a number.
pub(crate) fn number(n: usize) -> *mut c_void {
    ptr::without_provenance_mut(n)
}

/// The result of a read of the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Done(usize),
    /// Context, error, length and excess.
    Failed(usize, u32, usize, usize),
}

/// The calls of a bench for messages; buffers are words.
pub(crate) trait Messages {
    /// The endpoint's table.
    fn msg(&self) -> &ffi::fi_ops_msg;
    /// Sends to the bench's peer.
    fn send(&self, words: &[u64], context: usize) -> isize;
    /// Receives up to `count` words.
    fn recv(&self, words: *mut u64, count: usize, context: usize) -> isize;
    /// Reads the queue once.
    fn look(&self) -> Found;
    /// Reads the queue until a read returns a completion.
    fn next(&self) -> Found;
    /// The contexts of the next completions.
    fn all(&self, count: usize) -> Vec<usize>;
}

impl Messages for Bench {
    fn msg(&self) -> &ffi::fi_ops_msg {
        // SAFETY: the endpoint is live and has a table.
        unsafe { &*(*self.ep).msg }
    }

    fn send(&self, words: &[u64], context: usize) -> isize {
        let (from, none) = (words.as_ptr().cast(), ptr::null_mut());
        let (length, context) = (size_of_val(words), number(context));
        // SAFETY: the endpoint is live; the buffer belongs to the test.
        unsafe { self.msg().send.unwrap()(self.ep, from, length, none, self.peer, context) }
    }

    fn recv(&self, words: *mut u64, count: usize, context: usize) -> isize {
        let (none, context) = (ptr::null_mut(), number(context));
        // SAFETY: the endpoint is live; the buffer belongs to the test.
        unsafe { self.msg().recv.unwrap()(self.ep, words.cast(), count * 8, none, 0, context) }
    }

    fn look(&self) -> Found {
        let mut entry = ffi::fi_cq_entry::default();
        // SAFETY: the queue is live, and the buffer has room for one entry.
        let n = unsafe { (*(*self.cq).ops).read.unwrap()(self.cq, (&raw mut entry).cast(), 1) };
        if n == 1 {
            return Found::Done(entry.op_context as usize);
        }
        if n == AGAIN {
            return Found::Nothing;
        }
        let mut e = ffi::fi_cq_err_entry::default();
        // SAFETY: the queue is live, and the buffer has room for one entry.
        assert_eq!(unsafe { ffi::fi_cq_readerr(self.cq, &mut e) }, 1);
        Found::Failed(e.op_context as usize, e.err as u32, e.len, e.olen)
    }

    fn next(&self) -> Found {
        let mut looks = (0..100_000).map(|_| self.look());
        looks.find(|found| *found != Found::Nothing).unwrap()
    }

    fn all(&self, count: usize) -> Vec<usize> {
        let done = |_| match self.next() {
            Found::Done(context) => context,
            other => panic!("{other:?}"),
        };
        (0..count).map(done).collect()
    }
}

/// Closes a bench; the provider must have reported no violation.
pub(crate) fn close(b: Bench) {
    b.close();
    let report = fs::read_to_string(env::var_os(REPORT).unwrap()).unwrap_or_default();
    assert_eq!(report, "");
}
