//! The handles that the host holds. The memory of handles stays readable for the module's life, so a handle used
//! after its deregistration is refused, and no freed memory is accessed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use transport::{Handle, Region};

/// Handles per chunk. Chunks live as long as the module.
const CHUNK: usize = 256;

/// One handle and its region. The handle is the first field, so that the host's pointer to it is also a
/// pointer to the slot.
#[repr(C)]
struct Slot {
    handle: Handle,
    region: Option<Region>,
}

#[derive(Default)]
struct Inner {
    chunks: Vec<Box<[Slot]>>,
    /// Free slots, reused oldest first, so that a stale pointer finds a retired handle for as long as possible.
    free: VecDeque<*mut Slot>,
}

/// All handles of a module.
#[derive(Default)]
pub(crate) struct Handles {
    inner: Mutex<Inner>,
}

// SAFETY: the pointers lead into chunks that the table owns; slots are written only under the mutex.
unsafe impl Send for Handles {}
// SAFETY: slots are written only under the mutex, so that threads may share the table.
unsafe impl Sync for Handles {}

impl Handles {
    /// Stores a region and returns the pointer to its handle. `None` if memory is exhausted; the region is dropped then.
    pub(crate) fn insert(&self, region: Region) -> Option<*mut Handle> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.free.is_empty() {
            let mut chunk = Vec::new();
            if chunk.try_reserve_exact(CHUNK).is_err()
                || inner.chunks.try_reserve(1).is_err()
                || inner.free.try_reserve(CHUNK).is_err()
            {
                return None;
            }
            chunk.resize_with(CHUNK, || Slot {
                handle: Handle::vacant(),
                region: None,
            });
            let mut chunk = chunk.into_boxed_slice();
            inner.free.extend(chunk.iter_mut().map(|s| &raw mut *s));
            inner.chunks.push(chunk);
        }
        let slot = inner.free.pop_front()?;
        // SAFETY: a free slot points into a live chunk, and this thread alone took it from the list.
        unsafe {
            (*slot).handle = region.handle();
            (*slot).region = Some(region);
        }
        Some(slot.cast())
    }

    /// Removes the region of a handle that [`insert`](Self::insert) returned and that was not removed since; `None` for
    /// any other pointer.
    pub(crate) fn remove(&self, handle: *mut Handle) -> Option<Region> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let slot: *mut Slot = handle.cast();
        let is_slot = inner.chunks.iter().any(|chunk| {
            let range = chunk.as_ptr_range();
            range.contains(&slot.cast_const())
                && (slot as usize - range.start as usize).is_multiple_of(size_of::<Slot>())
        });
        if !is_slot {
            return None;
        }
        // SAFETY: `slot` is the start of a slot in a live chunk, and this thread holds the mutex.
        let region = unsafe { (*slot).region.take() }?;
        // SAFETY: `slot` is the start of a slot in a live chunk, and this thread holds the mutex.
        unsafe { (*slot).handle.retire() };
        inner.free.push_back(slot);
        Some(region)
    }

    /// Ends every remaining registration.
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
