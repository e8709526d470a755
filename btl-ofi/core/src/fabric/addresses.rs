//! The addresses of other processes in the provider's address vector.
//!
//! A process may be a connected peer and an origin of messages at the same time. Providers treat an address that is
//! inserted twice differently: shm (1.17) returns the first entry, and forgets the entry at its first removal. So if
//! messages are used, an address is inserted once, and this table counts its uses.
//!
//! An entry holds the key of its process, which every message to that process carries (`msg`). A connect sets the key.
//!
//! A job may have a million processes, and the provider keeps their names. So this table keeps no names: it reads two names
//! back from the provider to compare them.

mod counted;

use std::sync::{Mutex, PoisonError};

use libfabric_sys as ffi;
use libfabric_sys::fi_addr_t;

use self::counted::Counted;
use crate::base::error::{CallError, check};

/// The entries of an address vector.
pub(crate) struct Addresses {
    av: *mut ffi::fid_av,
    /// The counted entries; `None` if each insertion makes an entry of its own.
    counted: Mutex<Option<Counted>>,
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

    /// A table with this name; the name has enough uses to stay in the table.
    #[cfg(test)]
    pub(crate) fn that_keep(name: &[u8]) -> Addresses {
        Addresses {
            av: std::ptr::null_mut(),
            counted: Mutex::new(Some(Counted::that_keep(name))),
        }
    }

    /// Counts the uses of each address from now on. This call must precede the first insertion.
    pub(crate) fn count(&self) {
        *self.lock() = Some(Counted::default());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the name of an entry, and returns the name's length; `None` if the provider does not
    /// return the name.
    fn name(&self, address: fi_addr_t, name: &mut [u8]) -> Option<usize> {
        let mut length = name.len();
        // SAFETY: the address vector is live, and has the entry; the buffer has `length` bytes.
        let found =
            unsafe { ffi::fi_av_lookup(self.av, address, name.as_mut_ptr().cast(), &mut length) };
        (found == 0 && length <= name.len()).then_some(length)
    }

    /// Inserts an address and returns its entry; `None` if the provider does not accept the
    /// address.
    ///
    /// # Safety
    /// The address has the provider's format and length.
    pub(crate) unsafe fn insert(&self, name: &[u8]) -> Result<Option<fi_addr_t>, CallError> {
        let mut counted = self.lock();
        if let Some(counted) = &mut *counted
            && let Some(address) = counted.use_again(name, &|at, name| self.name(at, name))
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
            counted.add(name, address, &|at, name| self.name(at, name));
        }
        Ok(Some(address))
    }

    /// Sets the key of the process at a counted address. A later key replaces an earlier one, because a new process may
    /// have got the address.
    pub(crate) fn set_key(&self, address: fi_addr_t, key: u64) {
        if let Some(counted) = &mut *self.lock() {
            counted.set_key(address, key);
        }
    }

    /// The key of the process at an address; 0 if no key was set.
    pub(crate) fn key(&self, address: fi_addr_t) -> u64 {
        let counted = self.lock();
        counted.as_ref().map_or(0, |counted| counted.key(address))
    }

    /// Ends one use of an entry that [`insert`](Self::insert) returned.
    pub(crate) fn remove(&self, address: fi_addr_t) -> Result<(), CallError> {
        let mut counted = self.lock();
        if let Some(counted) = &mut *counted
            && counted.end_use(address, &|at, name| self.name(at, name))
        {
            return Ok(());
        }
        let mut address = address;
        // SAFETY: the address vector is live and has the entry, and this was the entry's last use.
        check("fi_av_remove", unsafe {
            ffi::fi_av_remove(self.av, &mut address, 1)
        })
        .map(drop)
    }
}
