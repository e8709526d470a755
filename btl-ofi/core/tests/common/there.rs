//! A region of a peer, with short forms of the operations on it; and two transports of this process, one of which has it.

use std::ptr::{self, NonNull};

use btl_ofi::{Completion, Endpoint, Handle, Region, Transport};
use plugin_api::{Access, BtlAtomicOp, Status};

use super::{Calls as _, insist, register};

/// A region of a peer, as an origin reaches it. Places are bytes from its beginning.
#[derive(Clone, Copy)]
pub(crate) struct There<'a> {
    pub(crate) t: &'a Transport,
    pub(crate) peer: NonNull<Endpoint>,
    pub(crate) h: Handle,
}

// SAFETY: tests whose threads call the transport at the same time open it at the level MULTIPLE.
unsafe impl Send for There<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for There<'_> {}

impl There<'_> {
    /// Another region of the peer.
    pub(crate) fn region(self, h: Handle) -> Self {
        There { h, ..self }
    }

    pub(crate) fn at(&self, place: usize) -> u64 {
        self.h.base() + place as u64
    }

    pub(crate) fn put<T>(&self, place: usize, from: &[T], done: Option<Completion>) -> Status {
        let (local, size) = (from.as_ptr().cast_mut().cast(), size_of_val(from));
        self.t
            .put(self.peer, local, self.at(place), &self.h, size, done)
    }

    pub(crate) fn get<T>(&self, place: usize, to: &mut [T], done: Option<Completion>) -> Status {
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
        There {
            t: &self.a,
            peer: self.peer,
            h: self.region.handle(),
        }
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
