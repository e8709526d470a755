//! The uses of each entry of an address vector.
//!
//! Most providers number their entries from a first address on, with small gaps. Such an entry takes 12 bytes for its
//! count and key, and about 10 bytes in a table by names. The name of an entry is read back from the provider. Entries
//! of other providers are kept with their names.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use libfabric_sys::fi_addr_t;

/// The longest name that this table reads back.
const LONGEST: usize = 256;
/// Maximum numbers that a provider leaves out between two entries.
const GAP: usize = 16;

/// Reads the name of an entry into a buffer and returns its length; `None` if the provider does not return the name.
pub(super) type Names<'a> = dyn Fn(fi_addr_t, &mut [u8]) -> Option<usize> + 'a;

/// An entry whose name is kept.
struct Other {
    address: fi_addr_t,
    key: u64,
    uses: u32,
}

/// The entries in use.
#[derive(Default)]
pub(super) struct Counted {
    /// The address of the first numbered entry, and the number of uses of each entry from there on; 0 for an unused
    /// entry.
    first: fi_addr_t,
    uses: Vec<u32>,
    /// The keys of the entries' processes, at the same indices.
    keys: Vec<u64>,
    /// The indices of numbered entries in `uses`, by their names.
    by_name: HashTable<u32>,
    others: HashMap<Box<[u8]>, Other>,
    other_names: HashMap<fi_addr_t, Box<[u8]>>,
    hasher: RandomState,
}

impl Counted {
    /// A table with this name at address 0; the name has enough uses to stay in the table.
    #[cfg(test)]
    pub(super) fn that_keep(name: &[u8]) -> Counted {
        let mut counted = Counted::default();
        let uses = u32::MAX / 2;
        counted.others.insert(
            name.into(),
            Other {
                address: 0,
                key: 0,
                uses,
            },
        );
        counted.other_names.insert(0, name.into());
        counted
    }

    /// Adds a use to a name that is in the table; `None` if it is not.
    pub(super) fn use_again(&mut self, name: &[u8], names: &Names<'_>) -> Option<fi_addr_t> {
        let first = self.first;
        let is_its = |place: &u32| has_name(names, first + u64::from(*place), name);
        if let Some(place) = self.by_name.find(self.hasher.hash_one(name), is_its) {
            self.uses[*place as usize] += 1;
            return Some(first + u64::from(*place));
        }
        let other = self.others.get_mut(name)?;
        other.uses += 1;
        Some(other.address)
    }

    /// Adds a name with its first use.
    pub(super) fn add(&mut self, name: &[u8], address: fi_addr_t, names: &Names<'_>) {
        match self
            .place(address)
            .filter(|_| has_name(names, address, name))
        {
            Some(place) => {
                if place as usize >= self.uses.len() {
                    self.uses.resize(place as usize + 1, 0);
                    self.keys.resize(place as usize + 1, 0);
                }
                self.uses[place as usize] = 1;
                self.keys[place as usize] = 0;
                let (first, hasher) = (self.first, &self.hasher);
                let by_name = |place: &u32| hash(hasher, names, first + u64::from(*place));
                self.by_name
                    .insert_unique(hasher.hash_one(name), place, by_name);
            }
            None => {
                self.other_names.insert(address, name.into());
                let other = Other {
                    address,
                    key: 0,
                    uses: 1,
                };
                self.others.insert(name.into(), other);
            }
        }
    }

    /// Sets the key of an entry's process.
    pub(super) fn set_key(&mut self, address: fi_addr_t, key: u64) {
        if let Some(name) = self.other_names.get(&address) {
            if let Some(other) = self.others.get_mut(name) {
                other.key = key;
            }
        } else if let Some(place) = address.checked_sub(self.first)
            && let Some(kept) = self.keys.get_mut(place as usize)
        {
            *kept = key;
        }
    }

    /// The key of an entry's process; 0 if no key was set.
    pub(super) fn key(&self, address: fi_addr_t) -> u64 {
        if let Some(name) = self.other_names.get(&address) {
            return self.others.get(name).map_or(0, |other| other.key);
        }
        let place = address.checked_sub(self.first);
        let kept = place.and_then(|place| self.keys.get(place as usize));
        kept.copied().unwrap_or(0)
    }

    /// The index for a new entry: an unused index, or one shortly behind the last.
    fn place(&mut self, address: fi_addr_t) -> Option<u32> {
        if self.uses.is_empty() {
            self.first = address;
        }
        let place = u32::try_from(address.checked_sub(self.first)?).ok()?;
        let is_free = match self.uses.get(place as usize) {
            Some(uses) => *uses == 0,
            None => place as usize - self.uses.len() <= GAP,
        };
        is_free.then_some(place)
    }

    /// Ends one use of an entry that is still in the address vector. Returns whether the entry has uses
    /// left.
    pub(super) fn end_use(&mut self, address: fi_addr_t, names: &Names<'_>) -> bool {
        if let Some(name) = self.other_names.get(&address) {
            let Some(other) = self.others.get_mut(name) else {
                return false;
            };
            other.uses -= 1;
            if other.uses > 0 {
                return true;
            }
            self.others.remove(name);
            self.other_names.remove(&address);
            return false;
        }
        let place = address.checked_sub(self.first);
        let Some(place) = place.and_then(|place| u32::try_from(place).ok()) else {
            return false;
        };
        match self.uses.get_mut(place as usize) {
            Some(uses) if *uses > 0 => {
                *uses -= 1;
                if *uses > 0 {
                    return true;
                }
            }
            _ => return false,
        }
        let hash = hash(&self.hasher, names, address);
        if let Ok(found) = self.by_name.find_entry(hash, |other| *other == place) {
            found.remove();
        }
        false
    }
}

/// Whether the entry has this name.
fn has_name(names: &Names<'_>, address: fi_addr_t, name: &[u8]) -> bool {
    let mut buffer = [0; LONGEST];
    names(address, &mut buffer).is_some_and(|length| buffer[..length] == *name)
}

/// The hash of an entry's name.
fn hash(hasher: &RandomState, names: &Names<'_>, address: fi_addr_t) -> u64 {
    let mut buffer = [0; LONGEST];
    // Only entries whose names could be read have an index.
    let length = names(address, &mut buffer).unwrap_or(0);
    hasher.hash_one(&buffer[..length])
}

#[cfg(test)]
mod tests;
