//! Registering memory.

use crate::base::error::Error;
use crate::base::usable;
use crate::engine::transport::Transport;
use crate::fabric::region::Region;
use crate::mem::handle::Handle;
use crate::mem::shared::SharedMemory;
use plugin_api::Access;
use std::ffi::c_void;

impl Transport {
    /// Finds a region of this process that contains `size` bytes at `address` and allows atomics, and returns its handle. For
    /// hosts that access their own memory without a handle.
    #[cold]
    pub fn own_handle(&self, address: u64, size: u64) -> Option<Handle> {
        if self.is_copy() {
            return None;
        }
        let regions = self.registrar.regions();
        regions.covering(address, size, Access::REMOTE_ATOMIC)
    }

    /// Registers `length` bytes at `base`. See [`Region`].
    ///
    /// For accesses of peers the first and the last word are tried, which changes nothing: memory that is to be written and can only
    /// be read is refused, and memory that is not mapped. Memory that its owner takes away later, while it is registered, is
    /// the owner's mistake: it gets the signal (SIGSEGV, SIGBUS) of the access that it makes for a peer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for memory that peers cannot use as `access` says. Else the provider's refusal. With
    /// [`OUT_OF_RESOURCE`](plugin_api::Status::OUT_OF_RESOURCE) the caller may free something and try again.
    ///
    /// # Safety
    /// The memory stays mapped until the region is closed. Peers may access it as `access` allows.
    pub unsafe fn register(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
    ) -> Result<Region, Error> {
        // SAFETY: the caller's guarantees.
        unsafe { self.register_as(base, length, (access, false)) }
    }

    /// [`register`](Self::register) for memory whose elements only atomics of this transport (its peers' and its own) change
    /// while peers may access it. If all these atomics are commands, the responder changes elements by loads and stores.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub unsafe fn register_sole(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
    ) -> Result<Region, Error> {
        let by_commands = self.policy.is_by_commands();
        // SAFETY: the caller's guarantees.
        unsafe { self.register_as(base, length, (access, by_commands)) }
    }

    /// # Safety
    /// As for [`register`](Self::register).
    unsafe fn register_as(
        &self,
        base: *mut c_void,
        length: usize,
        (access, by_commands): (Access, bool),
    ) -> Result<Region, Error> {
        self.check_copy()?;
        usable::check(base as u64, length as u64, access)?;
        let rails = self.rails.register(base, length, access);
        self.registrar
            .register((base, length), (access, by_commands), rails, None)
    }

    /// [`register`](Self::register) for memory that is a shared mapping of a file. Local peers map it too, and make their
    /// operations by instructions of their own, if the file is one in memory (`memfd_create`) that is sealed against
    /// shrinking (`F_SEAL_SHRINK`). Otherwise they reach it as other memory; a line of the log says why.
    ///
    /// The descriptor is duplicated (with `O_CLOEXEC`) and kept until the region is closed, so the caller may close its own
    /// after this call. If no descriptor is left for that, peers do not map the memory.
    ///
    /// A page of the file that is not allocated is allocated by its first access, and without memory left for it this is a
    /// fault (SIGBUS) of the process that makes the access. So allocate the pages before (`fallocate`).
    ///
    /// # Errors
    /// As for [`register`](Self::register). [`Error::Invalid`] if the memory cannot be at this place of the file.
    ///
    /// # Safety
    /// As for [`register`](Self::register). The memory is a shared mapping of the file at this place.
    pub unsafe fn register_shared(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
        memory: SharedMemory<'_>,
    ) -> Result<Region, Error> {
        self.check_copy()?;
        let file = memory.keep(base as u64, length as u64)?;
        usable::check(base as u64, length as u64, access)?;
        let rails = self.rails.register(base, length, access);
        self.registrar
            .register((base, length), (access, false), rails, file)
    }
}
