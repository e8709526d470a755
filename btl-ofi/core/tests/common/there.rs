//! A region of a peer, with short forms of the operations on it; and two transports of this process, one of which has it.

use std::ptr::{self, NonNull};

use btl_ofi::{Completion, Endpoint, Handle, Notice, Op, Region, Transport};
use plugin_api::{Access, BtlAtomicOp, Status};

use super::told::Ended;
use super::{Calls as _, Patience, insist, register};

/// Element that tests transfer. A literal without a type, an `i32`, is refused.
pub(crate) trait Element {}
impl Element for u8 {}
impl Element for u64 {}

/// A region of a peer, as an origin reaches it. Places are bytes from its beginning.
#[derive(Clone, Copy)]
pub(crate) struct There<'a> {
    pub(crate) t: &'a Transport,
    pub(crate) peer: NonNull<Endpoint>,
    pub(crate) h: Handle,
    /// The beginning of the region; for memory of a device, the handle holds another value.
    pub(crate) base: u64,
}

// SAFETY: tests whose threads call the transport at the same time open it at the level MULTIPLE.
unsafe impl Send for There<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for There<'_> {}

impl<'a> There<'a> {
    pub(crate) fn new(t: &'a Transport, peer: NonNull<Endpoint>, h: Handle) -> Self {
        let base = h.base();
        There { t, peer, h, base }
    }

    /// A region of `target`, which `t` connects as process `proc`.
    pub(crate) fn of(t: &'a Transport, proc: u64, target: &Transport, region: &Region) -> Self {
        let peer = t.connect(target.address(), proc).unwrap();
        There::new(t, peer, region.handle())
    }

    /// Another region of the peer.
    pub(crate) fn region(self, h: Handle) -> Self {
        There::new(self.t, self.peer, h)
    }

    pub(crate) fn at(&self, place: usize) -> u64 {
        self.base + place as u64
    }

    pub(crate) fn put<T: Element>(
        &self,
        place: usize,
        from: &[T],
        done: Option<Completion>,
    ) -> Status {
        let (local, size) = (from.as_ptr().cast_mut().cast(), size_of_val(from));
        self.t
            .put(self.peer, local, self.at(place), &self.h, size, done)
    }

    pub(crate) fn get<T: Element>(
        &self,
        place: usize,
        to: &mut [T],
        done: Option<Completion>,
    ) -> Status {
        let (local, size) = (to.as_mut_ptr().cast(), size_of_val(to));
        self.t
            .get(self.peer, local, self.at(place), &self.h, size, done)
    }

    /// Adds 1 to a word.
    pub(crate) fn add(&self, place: usize, done: Option<Completion>) -> Status {
        let (at, add) = (self.at(place), BtlAtomicOp::Add);
        self.t.atomic_op(self.peer, at, &self.h, add, 1, done)
    }

    /// Likewise, and fetches the old value.
    pub(crate) fn fetch_add(
        &self,
        place: usize,
        old: &mut u64,
        done: Option<Completion>,
    ) -> Status {
        let (at, add) = (self.at(place), BtlAtomicOp::Add);
        let out = ptr::from_mut(old).cast();
        self.t.atomic_fop(self.peer, out, at, &self.h, add, 1, done)
    }

    /// Posts the `i`-th operation, a put, get or atomic on the `i`-th word.
    pub(crate) fn one_of_three(
        &self,
        i: usize,
        word: &mut u64,
        done: Option<Completion>,
    ) -> Status {
        let word = std::slice::from_mut(word);
        match i % 3 {
            0 => self.put(8 * i, word, done),
            1 => self.get(8 * i, word, done),
            _ => self.fetch_add(8 * i, &mut word[0], done),
        }
    }

    /// Posts one of three until it is accepted or refused permanently; returns whether it was accepted.
    pub(crate) fn accepts(&self, i: usize, word: &mut u64, end: &impl Ended) -> bool {
        let deadline = Patience::new();
        loop {
            let status = self.one_of_three(i, word, end.completion());
            if status == Status::SUCCESS {
                return true;
            }
            if !status.is_again() {
                let gone = [Status::UNREACH, Status::FATAL];
                assert!(gone.contains(&status), "{status}");
                return false;
            }
            assert!(deadline.lasts(), "nothing is taken, and nobody ends it");
            self.t.progress();
        }
    }

    /// Puts, and then adds to a word of another region of the peer.
    pub(crate) fn put_notify<T: Element>(
        &self,
        place: usize,
        from: &[T],
        (counter, word, add): (&Handle, usize, u64),
        done: Option<Completion>,
    ) -> Status {
        let local = (from.as_ptr().cast_mut().cast(), ptr::null_mut());
        let put = Op::put(&self.h, self.at(place), local, size_of_val(from));
        let notice = Notice {
            counter,
            address: counter.base() + word as u64,
            add,
        };
        // SAFETY: the tests keep the buffers and handles until the put is complete.
        unsafe {
            self.t
                .put_notify(self.peer, &put.with_completion(done), &notice)
        }
    }

    /// The failure of the peer, if it has failed.
    pub(crate) fn failure(&self) -> Option<Status> {
        // SAFETY: the tests keep their peers connected.
        unsafe { self.peer.as_ref() }.failure()
    }

    /// Calls `post` until the provider accepts the operation.
    pub(crate) fn insist(&self, mut post: impl FnMut(&Self) -> Status) {
        insist(self.t, || post(self));
    }

    /// Flushes the peer.
    pub(crate) fn flush(&self) -> Status {
        // SAFETY: the tests keep their peers connected.
        self.t.flush(Some(unsafe { self.peer.as_ref() }))
    }

    /// Releases the peer, which was connected once.
    pub(crate) fn release(self) -> Status {
        // SAFETY: connected once, and not used any longer.
        unsafe { self.t.disconnect(self.peer) }
    }
}

/// A transport that is its own peer, and its window.
pub(crate) struct Own {
    pub(crate) t: Transport,
    pub(crate) peer: NonNull<Endpoint>,
    pub(crate) window: Vec<u64>,
    pub(crate) region: Region,
}

impl Own {
    pub(crate) fn new(t: Transport, words: usize) -> Own {
        let mut window = vec![0; words];
        Own {
            peer: t.connect(t.address(), 0).unwrap(),
            region: register(&t, &mut window, Access::all()),
            t,
            window,
        }
    }

    pub(crate) fn there(&self) -> There<'_> {
        There::new(&self.t, self.peer, self.region.handle())
    }

    /// A word of the window, which the transport may change meanwhile.
    pub(crate) fn word(&self, index: usize) -> u64 {
        // SAFETY: a word of the window.
        unsafe { (&raw const self.window[index]).read_volatile() }
    }

    /// Closes everything, and returns what is in the window.
    pub(crate) fn close(self) -> Vec<u64> {
        self.region.close().unwrap();
        self.t.close().unwrap();
        self.window
    }
}

/// An origin, a target, and a window of the target that the origin reaches.
pub(crate) struct Pair {
    pub(crate) a: Transport,
    pub(crate) b: Transport,
    pub(crate) peer: NonNull<Endpoint>,
    pub(crate) window: Vec<u64>,
    pub(crate) region: Region,
}

impl Pair {
    pub(crate) fn new(words: usize, open: impl Fn() -> Transport) -> Pair {
        Pair::of(open(), open(), vec![0; words])
    }

    pub(crate) fn of(a: Transport, b: Transport, mut window: Vec<u64>) -> Pair {
        let region = register(&b, &mut window, Access::all());
        let peer = a.connect(b.address(), 1).unwrap();
        Pair {
            a,
            b,
            peer,
            window,
            region,
        }
    }

    pub(crate) fn there(&self) -> There<'_> {
        There::new(&self.a, self.peer, self.region.handle())
    }

    /// A word of the window, which transports may change meanwhile.
    pub(crate) fn word(&self, index: usize) -> u64 {
        // SAFETY: a word of the window.
        unsafe { (&raw const self.window[index]).read_volatile() }
    }

    /// Closes everything, and returns the contents of the window.
    pub(crate) fn close(self) -> Vec<u64> {
        self.region.close().unwrap();
        self.a.close().unwrap();
        self.b.close().unwrap();
        self.window
    }
}
