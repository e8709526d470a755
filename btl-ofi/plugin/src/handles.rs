//! Registration handles as the host holds them: pointers that stay readable, so that a handle used
//! after its deregistration is refused rather than followed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use transport::{Handle, Region};

/// Handles per chunk. Chunks live as long as the module.
const CHUNK: usize = 256;

/// One handle and the region behind it. The handle comes first: the host's pointer is the slot's.
#[repr(C)]
struct Slot {
    handle: Handle,
    region: Option<Region>,
}

#[derive(Default)]
struct Inner {
    chunks: Vec<Box<[Slot]>>,
    /// Free slots, used again oldest first, so that a stale pointer meets a dead handle for as long
    /// as can be.
    free: VecDeque<*mut Slot>,
}

/// All handles of a module.
#[derive(Default)]
pub(crate) struct Handles {
    inner: Mutex<Inner>,
}

// SAFETY: the pointers lead into chunks that the table owns; slots are written under the mutex only.
unsafe impl Send for Handles {}
// SAFETY: as for Send.
unsafe impl Sync for Handles {}

impl Handles {
    /// Keeps a region and gives out the pointer to its handle. Gives the region back when memory is
    /// exhausted.
    pub(crate) fn insert(&self, region: Region) -> Result<*mut Handle, Region> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.free.is_empty() {
            let mut chunk = Vec::new();
            if chunk.try_reserve_exact(CHUNK).is_err()
                || inner.chunks.try_reserve(1).is_err()
                || inner.free.try_reserve(CHUNK).is_err()
            {
                return Err(region);
            }
            chunk.resize_with(CHUNK, || Slot {
                handle: Handle::vacant(),
                region: None,
            });
            let mut chunk = chunk.into_boxed_slice();
            inner.free.extend(chunk.iter_mut().map(|s| &raw mut *s));
            inner.chunks.push(chunk);
        }
        let Some(slot) = inner.free.pop_front() else {
            return Err(region);
        };
        // SAFETY: a slot of our chunks that nobody uses.
        unsafe {
            (*slot).handle = region.handle();
            (*slot).region = Some(region);
        }
        Ok(slot.cast())
    }

    /// Takes the region behind a handle that [`insert`](Self::insert) gave out and that was not
    /// removed since; `None` for any other pointer.
    pub(crate) fn remove(&self, handle: *mut Handle) -> Option<Region> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let slot: *mut Slot = handle.cast();
        let ours = inner.chunks.iter().any(|chunk| {
            let range = chunk.as_ptr_range();
            range.contains(&slot.cast_const())
                && (slot as usize - range.start as usize).is_multiple_of(size_of::<Slot>())
        });
        if !ours {
            return None;
        }
        // SAFETY: the start of a slot in one of our chunks, and the mutex is held.
        let region = unsafe { (*slot).region.take() }?;
        // SAFETY: as above.
        unsafe { (*slot).handle.retire() };
        inner.free.push_back(slot);
        Some(region)
    }

    /// Ends every registration that is left.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in &mut inner.chunks {
            for slot in chunk {
                slot.handle.retire();
                slot.region = None;
            }
        }
    }
}
