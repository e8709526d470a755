//! The regions of this process that its peers on the node may map: those in shared mappings.
//! Peers reach such memory without the owner (`sm::mapped`), so they cannot be refused by the owner's table of regions. Instead
//! they read here, before each operation, whether the region is still registered.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::mapping::Mapped;
use crate::base::maps;
use crate::mem::handle::Handle;
use crate::mem::rights;

/// Most regions at a time; others are reached as if they could not be mapped.
const PLACES: usize = 512;

/// Part of the owner's segment (`sm::segment`).
#[repr(C, align(4096))]
pub(crate) struct SharedRegions {
    /// The cookies of the registered regions that may be mapped, by generation; 0 in a place of none.
    places: [AtomicU64; PLACES],
}

const _: () = assert!(size_of::<SharedRegions>() == 4096);

impl SharedRegions {
    /// The place of a region, by the cookie field of its handle.
    pub(crate) fn place(&self, cookie: u64) -> &AtomicU64 {
        // Numbers of generations that follow one another have different places.
        &self.places[cookie as usize % PLACES]
    }

    /// Adds a region. False if another one has its place.
    pub(crate) fn announce(&self, cookie: u64) -> bool {
        // Relaxed: peers learn of the region by its handle, which is published later.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.place(cookie)
            .compare_exchange(0, cookie, set, fetch)
            .is_ok()
    }

    /// Removes a region, if it is there.
    pub(crate) fn withdraw(&self, cookie: u64) {
        // Peers that read 0 refuse their operations. No memory is handed over by it.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.place(cookie).compare_exchange(cookie, 0, set, fetch);
    }
}

/// The side of the owner.
pub(crate) struct Announced {
    regions: Mapped<SharedRegions>,
    memory: maps::Own,
}

impl Announced {
    pub(crate) fn new(regions: Mapped<SharedRegions>) -> Announced {
        Announced {
            regions,
            memory: maps::Own::new(),
        }
    }

    /// The handle of a new region for its peers: another one if they may map its memory.
    pub(crate) fn announce(&self, handle: Handle) -> Handle {
        let shared = handle.shared();
        let is_used = handle.length() > 0 && handle.access().intersects(rights::REMOTE);
        // Only the first byte is looked at: the peers read the list of mappings anyway.
        if is_used && self.memory.is_shared(handle.base()) && self.regions.announce(shared.cookie())
        {
            return shared;
        }
        handle
    }

    /// Says that a region is no longer registered.
    pub(crate) fn withdraw(&self, handle: &Handle) {
        self.regions.withdraw(handle.cookie());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_serves_one_region_at_a_time() {
        let regions = SharedRegions {
            places: [const { AtomicU64::new(0) }; PLACES],
        };
        let (first, second) = (7 << 32 | 3, 7 << 32 | (3 + PLACES as u64));
        assert!(regions.announce(first) && !regions.announce(second));
        regions.withdraw(second);
        assert_eq!(regions.place(second).load(Ordering::Relaxed), first);
        regions.withdraw(first);
        assert!(regions.announce(second));
        assert_eq!(regions.place(first).load(Ordering::Relaxed), second);
        assert!(regions.announce(first + 1), "the next registration");
    }
}
