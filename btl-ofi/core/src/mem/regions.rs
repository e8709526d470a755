//! The registered regions of this process, found by key.

use std::collections::HashMap;

use plugin_api::Access;

use crate::base::guard::Reach;
use crate::mem::device_regions::Descriptor;
use crate::mem::handle::Handle;

/// The live regions. The responder (`op/responder.rs`) and operations of this process on itself use them under a lock
/// for as long as they access the memory, so no deregistered region is accessed.
#[derive(Default)]
pub(crate) struct Regions {
    by_key: HashMap<u64, Known>,
    removals: u64,
    reach: Reach,
}

/// A live region, with the handle that its peers have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) handle: Handle,
    pub(crate) access: Access,
    /// What the provider takes with local buffers in the region.
    pub(crate) descriptor: Descriptor,
}

impl Regions {
    /// Adds a region. `reach` is how the memory of all regions is accessed from now on.
    pub(crate) fn insert(&mut self, key: u64, known: Known, reach: Reach) {
        self.reach = reach;
        // The provider may give a key away again before the region that had it is removed here.
        if self.by_key.insert(key, known).is_some() {
            self.removals += 1;
        }
    }

    /// Removes a region.
    pub(crate) fn remove(&mut self, key: u64) {
        self.by_key.remove(&key);
        self.removals += 1;
    }

    /// The region with this key. A region of zero bytes has no key.
    pub(crate) fn find(&self, key: u64) -> Option<&Known> {
        self.by_key.get(&key)
    }

    /// Whether this is the handle of a live region.
    pub(crate) fn holds(&self, handle: &Handle) -> bool {
        self.find(handle.key()).map(|known| known.handle) == Some(*handle)
    }

    /// The descriptor of the live region with this handle.
    pub(crate) fn descriptor(&self, handle: &Handle) -> Option<Descriptor> {
        let known = self.find(handle.key())?;
        (known.handle == *handle).then_some(known.descriptor)
    }

    /// The handle of a region with this access that holds `size` bytes at `address`.
    pub(crate) fn covering(&self, address: u64, size: u64, access: Access) -> Option<Handle> {
        let mut known = self.by_key.values().filter(|k| k.access.contains(access));
        let holds = |known: &&Known| known.handle.covers(address, size).is_ok();
        known.find(holds).map(|known| known.handle)
    }

    /// Number of removals so far. A caller that keeps results of [`find`](Self::find) compares it to detect removals.
    #[inline]
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// How the memory of all regions is accessed.
    #[inline]
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }
}
