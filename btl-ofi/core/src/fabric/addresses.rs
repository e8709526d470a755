//! The addresses of other processes in the provider's address vector.
//!
//! A process may be a connected peer and an origin of messages at the same time. Providers disagree about an address that is
//! inserted twice: shm (1.17) returns the first entry, and forgets it at the first removal. So where messages are used, an
//! address is inserted once, and its uses are counted here.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashTable;
use libfabric_sys as ffi;
use libfabric_sys::fi_addr_t;

use crate::base::error::{CallError, check};

/// The entries of an address vector.
pub(crate) struct Addresses {
    av: *mut ffi::fid_av,
    /// The counted entries; `None` if each insertion is an entry of its own.
    counted: Mutex<Option<Counted>>,
}

/// A name that is inserted, its address, and the number of its uses.
struct Entry {
    name: Box<[u8]>,
    address: fi_addr_t,
    uses: u32,
}

/// Entries, and their numbers by name and by address: a job may have a hundred thousand, so each name is kept once.
#[derive(Default)]
struct Counted {
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_name: HashTable<u32>,
    by_address: HashTable<u32>,
    hasher: RandomState,
}

impl Counted {
    /// Begins another use of a name that is inserted already.
    fn use_again(&mut self, name: &[u8]) -> Option<fi_addr_t> {
        let entries = &mut self.entries;
        let same = |n: &u32| *entries[*n as usize].name == *name;
        let number = *self.by_name.find(self.hasher.hash_one(name), same)?;
        entries[number as usize].uses += 1;
        Some(entries[number as usize].address)
    }

    /// Notes the first use of a name.
    fn add(&mut self, name: &[u8], address: fi_addr_t) {
        let entry = Entry {
            name: name.into(),
            address,
            uses: 1,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        let by_name = |n: &u32| hasher.hash_one(&*entries[*n as usize].name);
        self.by_name
            .insert_unique(by_name(&number), number, by_name);
        let by_address = |n: &u32| hasher.hash_one(entries[*n as usize].address);
        self.by_address
            .insert_unique(by_address(&number), number, by_address);
    }

    /// Ends one use of an address. Returns whether others are left.
    fn end_use(&mut self, address: fi_addr_t) -> bool {
        let entries = &mut self.entries;
        let same = |n: &u32| entries[*n as usize].address == address;
        let hash = self.hasher.hash_one(address);
        let Ok(found) = self.by_address.find_entry(hash, same) else {
            return false;
        };
        let number = *found.get();
        let entry = &mut entries[number as usize];
        entry.uses -= 1;
        if entry.uses > 0 {
            return true;
        }
        found.remove();
        let hash = self.hasher.hash_one(&*entry.name);
        if let Ok(found) = self.by_name.find_entry(hash, |n| *n == number) {
            found.remove();
        }
        entry.name = Box::default();
        self.free.push(number);
        false
    }
}

// SAFETY: libfabric's address vector may be used by any thread under FI_THREAD_COMPLETION; under FI_THREAD_DOMAIN the host
// guarantees one call at a time.
unsafe impl Send for Addresses {}
// SAFETY: the table is locked, and the address vector may be used as stated for `Send`.
unsafe impl Sync for Addresses {}

impl Addresses {
    /// # Safety
    /// The address vector outlives all calls.
    pub(crate) unsafe fn new(av: *mut ffi::fid_av) -> Addresses {
        Addresses {
            av,
            counted: Mutex::new(None),
        }
    }

    /// One that has this name, with so many uses that it stays.
    #[cfg(test)]
    pub(crate) fn that_keep(name: &[u8]) -> Addresses {
        let mut counted = Counted::default();
        counted.add(name, 0);
        counted.entries[0].uses = u32::MAX / 2;
        Addresses {
            av: std::ptr::null_mut(),
            counted: Mutex::new(Some(counted)),
        }
    }

    /// Counts the uses of each address from now on. To be called before the first insertion.
    pub(crate) fn count(&self) {
        *self.lock() = Some(Counted::default());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of an address; `None` if the provider does not accept it.
    ///
    /// # Safety
    /// The address has the provider's format and length.
    pub(crate) unsafe fn insert(&self, name: &[u8]) -> Result<Option<fi_addr_t>, CallError> {
        let mut counted = self.lock();
        if let Some(counted) = &mut *counted
            && let Some(address) = counted.use_again(name)
        {
            return Ok(Some(address));
        }
        let mut address = ffi::FI_ADDR_NOTAVAIL;
        // SAFETY: the address vector is live; the caller guarantees the address.
        let inserted =
            unsafe { ffi::fi_av_insert(self.av, name.as_ptr().cast(), 1, &mut address, 0) };
        check("fi_av_insert", inserted)?;
        if inserted != 1 || address == ffi::FI_ADDR_NOTAVAIL {
            return Ok(None);
        }
        if let Some(counted) = &mut *counted {
            counted.add(name, address);
        }
        Ok(Some(address))
    }

    /// Ends one use of an entry that [`insert`](Self::insert) returned.
    pub(crate) fn remove(&self, address: fi_addr_t) -> Result<(), CallError> {
        let mut counted = self.lock();
        if let Some(counted) = &mut *counted
            && counted.end_use(address)
        {
            return Ok(());
        }
        let mut address = address;
        // SAFETY: the address vector is live, and has the entry, whose last use this was.
        check("fi_av_remove", unsafe {
            ffi::fi_av_remove(self.av, &mut address, 1)
        })
        .map(drop)
    }
}
