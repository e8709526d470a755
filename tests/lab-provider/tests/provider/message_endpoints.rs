//! Endpoints with messages: their capabilities, dead peers, and endpoints without messages or without atomics.

use std::ptr;

use libfabric_sys as ffi;

use crate::bench::messages::{Found, Messages, NOSYS, RECV, close, number};
use crate::bench::{Bench, quiet};

/// The capabilities of an entry for hints that request capabilities, or the error.
fn offered(caps: u32) -> Result<u64, i32> {
    let mut info = ptr::null_mut();
    // SAFETY: the hints are complete; the answer is freed after it was read.
    unsafe {
        let hints = ffi::fi_dupinfo(ptr::null());
        (*(*hints).fabric_attr).prov_name = libc::strdup(c"lab".as_ptr());
        (*hints).caps = u64::from(caps);
        let version = ffi::version(1, 14);
        let rc = ffi::fi_getinfo(version, ptr::null(), ptr::null(), 0, hints, &mut info);
        ffi::fi_freeinfo(hints);
        if rc != 0 {
            return Err(rc);
        }
        let caps = (*info).caps;
        ffi::fi_freeinfo(info);
        Ok(caps)
    }
}

#[test]
fn atomics_and_messages_can_be_missing() {
    quiet(|| {
        let none = Err(-(ffi::FI_ENODATA as i32));
        let b = Bench::open(&[("LAB_ATOMICS", "0")]);
        assert_eq!(offered(ffi::FI_RMA | ffi::FI_ATOMIC), none);
        let sides = ffi::FI_MSG | ffi::FI_SEND | ffi::FI_RECV;
        assert_eq!(offered(ffi::FI_MSG), Ok(u64::from(sides)));
        // SAFETY: the entry and its attributes live as long as the bench.
        let caps = unsafe { [(*b.info).caps, (*(*b.info).domain_attr).caps] };
        assert!(caps.iter().all(|c| c & u64::from(ffi::FI_ATOMIC) == 0));
        let mut attr = ffi::fi_atomic_attr::default();
        // SAFETY: the domain is live, and the structure is writable.
        let rc =
            unsafe { ffi::fi_query_atomic(b.domain, ffi::FI_UINT64, ffi::FI_SUM, &mut attr, 0) };
        assert_eq!(rc as isize, NOSYS);
        let none_at_all = ptr::null_mut();
        let mut word = 0;
        let rc = b.fetch(&mut word, Some(&1), none_at_all, 0, 0, none_at_all);
        assert_eq!(rc, NOSYS);
        close(b);
        let b = Bench::open(&[("LAB_MESSAGES", "0")]);
        assert_eq!(offered(ffi::FI_MSG), none);
        assert_eq!((b.send(&[1], 1), b.recv(&mut word, 1, 1)), (NOSYS, NOSYS));
        close(b);
        let b = Bench::open(&[]);
        assert_ne!(
            offered(ffi::FI_ATOMIC).unwrap() & u64::from(ffi::FI_ATOMIC),
            0
        );
        // These entries are unsupported. SAFETY: the endpoint is live.
        let rc = unsafe {
            b.msg().sendv.unwrap()(b.ep, ptr::null(), none_at_all.cast(), 0, 0, none_at_all)
        };
        assert_eq!(rc, NOSYS);
        close(b);
    });
}

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
