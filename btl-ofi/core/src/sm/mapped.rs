//! Memory of local peers that this process maps: regions in files of memory (`memfd_create`) that are sealed against
//! shrinking. Operations on such regions are instructions of this process, without the owner and without the kernel.
//!
//! **Which regions.** The owner's host names the file when it registers the region. The owner marks the region's handle
//! ([`Handle::is_shared`]). While the region is registered, the owner's segment holds the region's number and location
//! (`mem::shared`). At the first operation this process opens the file and maps the region (`region`).
//!
//! **Safety.** Before each access this process checks that the owner's segment still holds the region's number. So this
//! process refuses a deregistered region, as the owner itself would do. An access that begins before the number is
//! removed may end later, as with cross-memory attach. A mapping keeps the file, even if the owner later maps something
//! else at the address, so no other memory is accessed. The seal keeps the file's length, so no access faults.
//!
//! **Not mapped.** If a region cannot be mapped, the table records this for some [sweeps](MappedRegions::sweep), so that
//! few operations try again. The record expires, because nothing reports the end of such a region, and the obstacle may
//! disappear.
//!
//! **Threads.** A mapping that is in use by another thread is not removed ([`MappedRegions::find`]).

mod region;

use std::collections::HashMap;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::Status;

use crate::mem::handle::Handle;
use crate::peer::endpoint::Endpoint;

pub(crate) use region::Mapping;

/// Number of places in which a region may be stored.
const WAYS: usize = 4;
const SETS: usize = 256;
/// Number of sweeps during which a region that could not be mapped is remembered. Each check of the peers makes
/// one sweep, so this is about a minute.
const KEPT: u32 = 256;

/// A region of a peer. `cookie` is written last. The other fields are written only while it is 0 and nothing uses
/// the slot.
#[repr(align(64))]
#[derive(Default)]
struct Slot {
    /// The cookie field of the region's handle, or 0.
    cookie: AtomicU64,
    /// The peer's endpoint.
    endpoint: AtomicPtr<Endpoint>,
    /// The region in the peer's address space; its length is 0 if it cannot be mapped.
    base: AtomicU64,
    length: AtomicU64,
    /// The address of the region in this process.
    at: AtomicUsize,
    /// The word in the owner's segment that holds the cookie while the region is registered.
    registered: AtomicPtr<AtomicU64>,
    /// Number of threads that use the mapping.
    users: AtomicU32,
}

/// Regions of local peers that are mapped, or that cannot be mapped.
pub(crate) struct MappedRegions {
    slots: Box<[Slot]>,
    /// The objects behind the slots, by index.
    held: Mutex<HashMap<usize, Held>>,
    /// Number of sweeps so far.
    sweeps: AtomicU32,
}

/// The region of a slot.
struct Held {
    /// NULL after the peer was released.
    endpoint: *mut Endpoint,
    /// The mapping, or the number of the sweep after which the region could not be mapped.
    mapping: Result<Mapping, u32>,
}

// SAFETY: the endpoint is only compared.
unsafe impl Send for Held {}

/// The state of a region.
pub(crate) enum Found<'a> {
    /// The region was not tried yet, or another region has its slot.
    Unknown,
    /// The region cannot be mapped.
    Unmappable,
    Mapped(Use<'a>),
}

/// A mapped region that stays mapped while this value lives.
pub(crate) struct Use<'a> {
    slot: &'a Slot,
    cookie: u64,
    counted: bool,
}

impl Use<'_> {
    /// The address in this process of `size` bytes at `address` of the owner.
    ///
    /// # Errors
    /// [`Status::PERM`] if the region is no longer registered; `VALUE_OUT_OF_BOUNDS` if it does not contain the bytes,
    /// because the handle was changed.
    #[inline(always)]
    pub(crate) fn place(&self, address: u64, size: usize) -> Result<*mut u8, Status> {
        let slot = self.slot;
        let registered = slot.registered.load(Ordering::Relaxed);
        // SAFETY: the mapping of the owner's segment is kept as long as the mapping of the region, and this value is a
        // user of the region.
        if unsafe { &*registered }.load(Ordering::Relaxed) != self.cookie {
            return Err(Status::PERM);
        }
        let offset = address.wrapping_sub(slot.base.load(Ordering::Relaxed));
        match slot.length.load(Ordering::Relaxed).checked_sub(offset) {
            Some(rest) if size as u64 <= rest => {
                let at = slot.at.load(Ordering::Relaxed) + offset as usize;
                Ok(ptr::with_exposed_provenance_mut(at))
            }
            _ => Err(Status::VALUE_OUT_OF_BOUNDS),
        }
    }
}

impl Drop for Use<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.counted {
            // Release pairs with the SeqCst load in `vacate`: the accesses come before the mapping is removed.
            self.slot.users.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Default for MappedRegions {
    fn default() -> Self {
        MappedRegions {
            slots: (0..SETS * WAYS).map(|_| Slot::default()).collect(),
            held: Mutex::default(),
            sweeps: AtomicU32::new(0),
        }
    }
}

impl MappedRegions {
    /// Index of the first slot in which a region may be.
    #[inline(always)]
    fn first(endpoint: NonNull<Endpoint>, cookie: u64) -> usize {
        const BITS: u32 = 64 - SETS.trailing_zeros();
        // The upper bits of the product depend on all bits of the number. The cookie contains the
        // generation.
        let number = (endpoint.addr().get() as u64 / 64).wrapping_add(cookie);
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> BITS) as usize * WAYS
    }

    /// Searches for the region with this handle. `threaded` says that other threads may use the table.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        endpoint: NonNull<Endpoint>,
        handle: &Handle,
        threaded: bool,
    ) -> Found<'_> {
        let (first, cookie) = (Self::first(endpoint, handle.cookie()), handle.cookie());
        for slot in &self.slots[first..first + WAYS] {
            let is_here = |order| {
                slot.cookie.load(order) == cookie
                    && slot.endpoint.load(Ordering::Relaxed) == endpoint.as_ptr()
            };
            if !is_here(Ordering::Acquire) {
                continue;
            }
            let used = Use {
                slot,
                cookie,
                counted: threaded,
            };
            if threaded {
                // SeqCst, together with the accesses in `vacate`: either this thread sees that the slot was
                // vacated, or the other thread sees this user.
                slot.users.fetch_add(1, Ordering::SeqCst);
                if !is_here(Ordering::SeqCst) {
                    continue;
                }
            }
            return match slot.registered.load(Ordering::Relaxed).is_null() {
                true => Found::Unmappable,
                false => Found::Mapped(used),
            };
        }
        Found::Unknown
    }

    /// Adds a region, or records that it cannot be mapped. Does nothing if another thread has already added it, or
    /// if other regions occupy all its slots.
    ///
    /// # Errors
    /// The error of `map`.
    pub(crate) fn insert<E>(
        &self,
        endpoint: NonNull<Endpoint>,
        handle: &Handle,
        map: impl FnOnce() -> Result<Option<Mapping>, E>,
    ) -> Result<(), E> {
        let mut held = self.lock();
        let first = Self::first(endpoint, handle.cookie());
        let now = self.sweeps.load(Ordering::Relaxed);
        let mut free = None;
        for index in first..first + WAYS {
            let slot = &self.slots[index];
            let is_vacant = slot.cookie.load(Ordering::Relaxed) == 0;
            let named = slot.cookie.load(Ordering::Relaxed) == handle.cookie();
            if named && slot.endpoint.load(Ordering::Relaxed) == endpoint.as_ptr() {
                return Ok(());
            }
            let is_over = held.get(&index).is_some_and(|held| held.is_over(now));
            if (is_vacant || is_over) && self.vacate(&mut held, index) {
                free = Some(index);
            }
        }
        let Some(index) = free else { return Ok(()) };
        if held.try_reserve(1).is_err() {
            return Ok(());
        }
        let mapping = map()?.ok_or(now);
        let slot = &self.slots[index];
        let none = ptr::null_mut();
        let word = mapping
            .as_ref()
            .map_or(none, |m| m.registered().as_ptr().cast());
        slot.registered.store(word, Ordering::Relaxed);
        slot.endpoint.store(endpoint.as_ptr(), Ordering::Relaxed);
        slot.base.store(handle.base(), Ordering::Relaxed);
        slot.length.store(handle.length(), Ordering::Relaxed);
        let at = mapping.as_ref().map_or(0, Mapping::address);
        slot.at.store(at, Ordering::Relaxed);
        let endpoint = endpoint.as_ptr();
        held.insert(index, Held { endpoint, mapping });
        // Release pairs with the Acquire in `find`.
        slot.cookie.store(handle.cookie(), Ordering::Release);
        Ok(())
    }

    /// Removes the object behind a slot, unless a thread uses it. No thread begins to use the object
    /// from now on.
    fn vacate(&self, held: &mut HashMap<usize, Held>, index: usize) -> bool {
        let slot = &self.slots[index];
        // SeqCst: see `find`.
        slot.cookie.store(0, Ordering::SeqCst);
        let unused = slot.users.load(Ordering::SeqCst) == 0;
        if unused {
            held.remove(&index);
        }
        unused
    }

    /// Removes the regions of a dead or released peer, unless a thread uses them.
    pub(crate) fn abandon(&self, endpoint: NonNull<Endpoint>) {
        self.remove(|held| {
            let of_peer = held.endpoint == endpoint.as_ptr();
            if of_peer {
                held.endpoint = ptr::null_mut();
            }
            of_peer
        });
    }

    /// Removes regions that are no longer registered. The memory of these regions is freed after the last process has
    /// unmapped it.
    pub(crate) fn sweep(&self) {
        let now = self.sweeps.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.remove(|held| held.is_over(now));
    }

    fn remove(&self, mut ends: impl FnMut(&mut Held) -> bool) {
        let mut held = self.lock();
        if held.is_empty() {
            return;
        }
        let all = held.iter_mut();
        let over: Vec<usize> = all
            .filter_map(|(index, held)| ends(held).then_some(*index))
            .collect();
        for index in over {
            self.vacate(&mut held, index);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Whether the region is no longer registered, its peer was released, or its mapping may be tried again.
    fn is_over(&self, now: u32) -> bool {
        let ended = match &self.mapping {
            Ok(mapping) => mapping.is_over(),
            Err(since) => now.wrapping_sub(*since) >= KEPT,
        };
        self.endpoint.is_null() || ended
    }
}

#[cfg(test)]
mod tests;
