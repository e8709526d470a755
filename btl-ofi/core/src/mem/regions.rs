//! The registered regions of this process, found by key and cookie.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use plugin_api::{Access, ApplyFn};

use crate::mem::device_regions::DeviceRegions;
use crate::mem::handle::Handle;

/// The live regions. The responder (`op/responder.rs`) and operations of this process on itself use them under a lock while
/// they access the memory, so that no deregistered region is accessed.
///
/// A key alone names no region. A provider with a cache of registrations gives memory inside a live registration the key of
/// that registration (libfabric's `util_mr_cache.c`). Moreover, any provider may reuse a key while the region that had it
/// is being removed. So a region is found by the key and the cookie that peers send; the cookie contains the generation.
#[derive(Default)]
pub(crate) struct Regions {
    by_name: HashMap<(u64, u64), Known, BuildHasherDefault<Mixed>>,
    removals: u64,
    /// The user's arithmetic on elements of the regions. The function is stored here, because code that changes
    /// elements holds the lock of the regions.
    pub(crate) arithmetic: Option<Arithmetic>,
    /// The regions of device memory. Applies are executed on these, too.
    pub(crate) devices: Arc<DeviceRegions>,
}

/// The user's arithmetic on elements ([`Apply`](crate::Apply)).
#[derive(Clone, Copy)]
pub struct Arithmetic {
    /// The function.
    pub function: ApplyFn,
    /// The function's first argument.
    pub context: *mut c_void,
}

// SAFETY: only the user's function follows the pointer, and the user allows that function on any thread.
unsafe impl Send for Arithmetic {}
// SAFETY: through a shared `Arithmetic`, callers can only copy its two pointers.
unsafe impl Sync for Arithmetic {}

/// A live region, with the handle that its peers use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) handle: Handle,
    pub(crate) access: Access,
    /// Whether only commands to this process, including its own, change elements in the region.
    pub(crate) by_commands: bool,
}

impl Regions {
    /// Adds a region.
    pub(crate) fn insert(&mut self, known: Known) {
        // Generations repeat after 2^32 registrations. An older region with the same name is replaced.
        if self.by_name.insert(name(&known.handle), known).is_some() {
            self.removals += 1;
        }
    }

    /// Removes the region with this handle, if it is in the table. A region of zero bytes is not in the table.
    pub(crate) fn remove(&mut self, handle: &Handle) {
        if self.holds(handle) {
            self.by_name.remove(&name(handle));
            self.removals += 1;
        }
    }

    /// The region with this key and cookie.
    pub(crate) fn find(&self, key: u64, cookie: u64) -> Option<&Known> {
        self.by_name.get(&(key, cookie))
    }

    /// Whether this is the handle of a live region.
    pub(crate) fn holds(&self, handle: &Handle) -> bool {
        self.of(handle).is_some()
    }

    /// The live region with exactly this handle. A handle that differs in another field was changed
    /// by its user.
    fn of(&self, handle: &Handle) -> Option<&Known> {
        let known = self.by_name.get(&name(handle))?;
        (known.handle == *handle).then_some(known)
    }

    /// The handle of a region with this access that contains `size` bytes at `address`.
    pub(crate) fn covering(&self, address: u64, size: u64, access: Access) -> Option<Handle> {
        let mut known = self.by_name.values().filter(|k| k.access.contains(access));
        let holds = |known: &&Known| known.handle.covers(address, size).is_ok();
        known.find(holds).map(|known| known.handle)
    }

    /// Number of removals so far. A caller that keeps results of [`find`](Self::find) compares this number to detect
    /// removals.
    #[inline]
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }
}

/// A hash of two words. Only this process chooses the names in the table, so no other process can make them collide.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write_u64(&mut self, word: u64) {
        // An odd number with about as many ones as zeros: 2^64 divided by the golden ratio.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The key and the cookie, by which peers name a region.
fn name(handle: &Handle) -> (u64, u64) {
    (handle.key(), handle.cookie())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 7;

    fn known(base: u64, length: u64, access: Access, generation: u32) -> Known {
        Known {
            handle: Handle::new(base, length, KEY, access, generation),
            access,
            by_commands: false,
        }
    }

    #[test]
    fn regions_of_one_key_are_told_apart() {
        let whole = known(0x1000, 0x1000, Access::all(), 1);
        let part = known(0x1800, 0x100, Access::REMOTE_READ, 2);
        for first in [&whole, &part] {
            let last = if first.handle == whole.handle {
                &part
            } else {
                &whole
            };
            let mut regions = Regions::default();
            regions.insert(*first);
            regions.insert(*last);
            for one in [first, last] {
                let found = regions.find(KEY, one.handle.cookie()).unwrap();
                assert_eq!((found.handle, found.access), (one.handle, one.access));
                assert!(regions.holds(&one.handle));
            }
            let before = regions.removals();
            regions.remove(&last.handle);
            assert_eq!(regions.removals(), before + 1);
            assert!(regions.find(KEY, last.handle.cookie()).is_none());
            assert!(regions.holds(&first.handle) && !regions.holds(&last.handle));
            regions.remove(&last.handle);
            assert_eq!(regions.removals(), before + 1, "it was not there");
        }
    }

    #[test]
    fn a_handle_that_was_changed_is_that_of_no_region() {
        let mut regions = Regions::default();
        let whole = known(0x1000, 0x1000, Access::all(), 1);
        regions.insert(whole);
        let longer = Handle::new(0x1000, 0x2000, KEY, Access::all(), 1);
        assert!(!regions.holds(&longer));
        regions.remove(&longer);
        assert!(regions.holds(&whole.handle));
    }

    #[test]
    fn a_region_that_covers_bytes_is_found_among_those_of_its_key() {
        let mut regions = Regions::default();
        let whole = known(0x1000, 0x1000, Access::REMOTE_READ, 1);
        let part = known(0x1800, 0x100, Access::all(), 2);
        regions.insert(whole);
        regions.insert(part);
        let covering = |address, access| regions.covering(address, 8, access);
        assert_eq!(covering(0x1800, Access::REMOTE_ATOMIC), Some(part.handle));
        assert_eq!(covering(0x1000, Access::REMOTE_ATOMIC), None);
        assert_eq!(covering(0x1000, Access::REMOTE_READ), Some(whole.handle));
    }
}
