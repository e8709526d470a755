//! A bounded pool of host buffers for data between a device and the provider.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;

use super::mailbox::FRAGMENT;
use crate::mem::copy_error::CopyError;
use crate::mem::cuda;
use crate::mem::later::Event;
use crate::peer::endpoint::Endpoint;

/// Maximum buffers of one transport: enough for a full lane and one more operation.
const MOST: usize = 16;
/// Number of buffers that a peer may have beyond this limit, so that peers that do not answer cannot stop it. A fetching
/// atomic needs two buffers.
const FEW: usize = 2;
const PAGE: usize = 4096;

/// A buffer of [`FRAGMENT`] bytes.
pub(crate) struct Bounce {
    base: NonNull<u8>,
    pinned: bool,
    /// State of the provider's operation on the buffer (`engine::staging::wire`). The state is boxed, because the
    /// operation refers to it by address.
    flag: Box<AtomicI32>,
    /// The copy in progress between a device and the buffer.
    copy: Option<Event>,
    /// The peer whose operations use the buffer.
    peer: NonNull<Endpoint>,
}

// SAFETY: the buffer owns its memory, which is not tied to a thread. The peer is only compared.
unsafe impl Send for Bounce {}

impl Bounce {
    fn layout() -> Option<Layout> {
        Layout::from_size_align(FRAGMENT, PAGE).ok()
    }

    fn new(peer: NonNull<Endpoint>) -> Option<Bounce> {
        // SAFETY: the layout has FRAGMENT bytes, not 0.
        let base = NonNull::new(unsafe { alloc(Bounce::layout()?) })?;
        Some(Bounce {
            base,
            pinned: cuda::pin(base.as_ptr(), FRAGMENT),
            flag: Box::default(),
            copy: None,
            peer,
        })
    }

    fn lent_to(mut self, peer: NonNull<Endpoint>) -> Bounce {
        self.peer = peer;
        self
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn flag(&self) -> &AtomicI32 {
        &self.flag
    }

    /// Records a copy of the buffer that was started; `None` if the copy is already complete.
    pub(crate) fn keep_for(&mut self, copy: Option<Event>) {
        self.copy = copy;
    }

    /// The result of the latest copy; `None` while the copy is in progress.
    pub(crate) fn copied(&mut self) -> Option<Result<(), CopyError>> {
        let copied = match &self.copy {
            Some(copy) => copy.stand()?,
            None => Ok(()),
        };
        self.copy = None;
        Some(copied)
    }

    /// Leaks the memory, because a failed peer may still write to it.
    pub(crate) fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        // A device still uses the memory, because the transport is closed during the copy. So the memory
        // is leaked.
        if self.copied().is_none() {
            return;
        }
        if self.pinned && !cuda::unpin(self.base.as_ptr()) {
            return;
        }
        if let Some(layout) = Bounce::layout() {
            // SAFETY: `new` allocated the memory with this layout, and only this drop frees it.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// The pool. The pool lends the most recently returned buffer, because this buffer is still in the cache.
#[derive(Default)]
pub(crate) struct Pool {
    free: Vec<Bounce>,
    /// The peers that have a lent buffer, one entry per buffer.
    lent: Vec<NonNull<Endpoint>>,
}

// SAFETY: the peers are only compared.
unsafe impl Send for Pool {}

impl Pool {
    /// Lends a buffer for operations to a peer. Returns `None` while the peer may have no further
    /// buffer, or if memory is exhausted.
    pub(crate) fn lend(&mut self, peer: NonNull<Endpoint>) -> Option<Bounce> {
        let has = || self.lent.iter().filter(|of| **of == peer).count();
        if self.lent.len() >= MOST && has() >= FEW {
            return None;
        }
        let bounce = match self.free.pop() {
            Some(bounce) => bounce.lent_to(peer),
            None => Bounce::new(peer)?,
        };
        self.lent.push(peer);
        Some(bounce)
    }

    pub(crate) fn give_back(&mut self, bounce: Bounce) {
        self.end(&bounce);
        // A few buffers are always kept, because a buffer that is allocated for each use costs page
        // faults.
        if self.free.len() < FEW || self.free.len() + self.lent.len() < MOST {
            self.free.push(bounce);
        }
    }

    /// [Abandons](Bounce::abandon) a lent buffer, so that a new one can replace it.
    pub(crate) fn abandon(&mut self, bounce: Bounce) {
        self.end(&bounce);
        bounce.abandon();
    }

    fn end(&mut self, bounce: &Bounce) {
        if let Some(at) = self.lent.iter().rposition(|of| *of == bounce.peer) {
            self.lent.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers<const N: usize>() -> [NonNull<Endpoint>; N] {
        std::array::from_fn(|i| {
            NonNull::new(std::ptr::without_provenance_mut(16 * (i + 1))).unwrap()
        })
    }

    /// All buffers that a peer gets.
    fn all(pool: &mut Pool, peer: NonNull<Endpoint>) -> Vec<Bounce> {
        std::iter::from_fn(|| pool.lend(peer)).collect()
    }

    #[test]
    fn one_peer_cannot_take_all() {
        let (mut pool, [first, second, third]) = (Pool::default(), peers());
        let of_first = all(&mut pool, first);
        assert_eq!(of_first.len(), MOST);
        let of_second = all(&mut pool, second);
        assert_eq!(of_second.len(), FEW);
        // A peer gets the buffers again that it returned.
        of_second.into_iter().for_each(|b| pool.give_back(b));
        assert!(pool.lend(first).is_none());
        assert_eq!(all(&mut pool, second).len(), FEW);
        assert_eq!(all(&mut pool, third).len(), FEW);
        assert!(pool.lend(first).is_none());
    }

    #[test]
    fn no_more_are_kept_than_the_pool_has() {
        let (mut pool, [first, second]) = (Pool::default(), peers());
        let of_first = all(&mut pool, first);
        let of_second = all(&mut pool, second);
        let lent = of_first.into_iter().chain(of_second);
        lent.for_each(|b| pool.give_back(b));
        assert_eq!((pool.free.len(), pool.lent.len()), (MOST, 0));
        // A lost buffer makes room for a new one.
        let mut of_first = all(&mut pool, first);
        pool.abandon(of_first.pop().unwrap());
        assert_eq!(all(&mut pool, first).len(), 1);
    }
}
