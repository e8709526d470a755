//! Endpoints with messages whose peer dies.

use std::ptr;

use libfabric_sys as ffi;

use crate::bench::messages::{Found, Messages, RECV, close, number};
use crate::bench::{Bench, quiet};

/// A process answers a message, and then dies.
#[test]
fn a_gone_peer_fails_sends() {
    quiet(|| {
        let mut b = Bench::open_bound(&[], RECV);
        let (mut name, mut length, mut pipe) = ([0u8; 64], 64, [0; 2]);
        // SAFETY: this process has one thread. The child has copies of the bench's objects at the same
        // addresses, and its own name with its process id.
        let child = unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            libc::fork()
        };
        assert!(child >= 0);
        if child == 0 {
            let mut word = 0u64;
            assert_eq!(b.recv(&mut word, 1, 1), 0);
            // SAFETY: the endpoint is live, and the buffer has this length.
            unsafe {
                crate::bench::good(ffi::fi_getname(b.ep, name.as_mut_ptr().cast(), &mut length));
                assert_eq!(libc::write(pipe[1], name.as_ptr().cast(), 64), 64);
            }
            while b.look() != Found::Done(1) {}
            let answer = [word + 1];
            assert_eq!(b.send(&answer, 2), 0);
            while b.look() != Found::Done(2) {}
            loop {
                // SAFETY: the call waits for the signal that ends this process.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: the child's name fills the buffer.
        unsafe {
            assert_eq!(libc::read(pipe[0], name.as_mut_ptr().cast(), 64), 64);
            let inserted = ffi::fi_av_insert(b.av, name.as_ptr().cast(), 1, &mut b.peer, 0);
            assert_eq!(inserted, 1);
        }
        let mut word = 0u64;
        assert_eq!((b.recv(&mut word, 1, 1), b.send(&[20], 2)), (0, 0));
        let mut ends = b.all(2);
        ends.sort_unstable();
        assert_eq!((ends, word), (vec![1, 2], 21));
        // The peer no longer reads its queue: its mailbox fills up, and the other sends wait.
        for _ in 0..40 {
            assert_eq!(b.send(&[30], 3), 0);
        }
        let taken = (0..1000).filter(|_| b.look() == Found::Done(3)).count();
        assert_eq!(taken, 32);
        // Sends to other peers do not wait.
        let peer = std::mem::replace(&mut b.peer, 1000);
        assert_eq!((b.recv(&mut word, 1, 4), b.send(&[22], 5)), (0, 0));
        let mut ends = b.all(2);
        ends.sort_unstable();
        assert_eq!((ends, word), (vec![4, 5], 22));
        b.peer = peer;
        // SAFETY: the calls end and reap the child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            assert_eq!(libc::waitpid(child, ptr::null_mut(), 0), child);
        }
        let gone = |context| Found::Failed(context, ffi::FI_EHOSTUNREACH, 0, 0);
        for _ in 32..40 {
            assert_eq!(b.next(), gone(3));
        }
        // The send fails like a write.
        assert_eq!(b.write(&1, 0, 0, number(6)), 0);
        assert_eq!(b.next(), gone(6));
        assert_eq!(b.send(&[1], 7), 0);
        assert_eq!(b.next(), gone(7));
        close(b);
    });
}
