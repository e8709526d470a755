//! The registered regions of this process, as its peers know them.

use std::collections::HashMap;

use plugin_api::Access;

use crate::base::guard::Reach;
use crate::mem::handle::Handle;

/// The regions that live, for what this process does to them on behalf of others (`responder`) and of
/// itself. Locked while it does: a region that has been deregistered is not touched any more.
#[derive(Default)]
pub(crate) struct Regions {
    by_key: HashMap<u64, Known>,
    removals: u64,
    reach: Reach,
}

/// A region as its peers know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) handle: Handle,
    pub(crate) access: Access,
}

impl Regions {
    /// A region lives from now on. `reach` is how the memory of all is to be accessed.
    pub(crate) fn insert(&mut self, key: u64, known: Known, reach: Reach) {
        self.reach = reach;
        self.by_key.insert(key, known);
    }

    /// A region lives no more.
    pub(crate) fn remove(&mut self, key: u64) {
        self.by_key.remove(&key);
        self.removals += 1;
    }

    /// The region with this key. One of no bytes has none.
    pub(crate) fn find(&self, key: u64) -> Option<&Known> {
        self.by_key.get(&key)
    }

    /// Changes whenever a region stops living.
    #[inline]
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// How their memory is to be accessed.
    #[inline]
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }
}
