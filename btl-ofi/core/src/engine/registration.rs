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
    /// Finds a region of this process that contains `size` bytes at `address` and allows atomics, and returns its handle.
    /// Hosts call this to access their own memory without a handle.
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
    /// Tries an access to the first and to the last word, which changes nothing. Refuses memory that is not mapped, and
    /// read-only memory if peers are to write to it. The owner must not unmap registered memory: if it does, this process
    /// gets the signal (SIGSEGV, SIGBUS) of an access that it makes for a peer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for memory that peers cannot use as `access` says. Otherwise the provider's refusal. After
    /// [`OUT_OF_RESOURCE`](plugin_api::Status::OUT_OF_RESOURCE), the caller may free something and try again.
    ///
    /// # Safety
    /// The memory stays mapped until the region is closed. Peers may access the memory as `access`
    /// allows.
    pub unsafe fn register(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
    ) -> Result<Region, Error> {
        // SAFETY: the caller's guarantees.
        unsafe { self.register_as(base, length, (access, false)) }
    }

    /// [`register`](Self::register) for memory whose elements only atomics of this transport (its peers' and its own)
    /// change while peers may access it. If all these atomics are commands, the responder changes elements by loads and
    /// stores.
    ///
    /// # Errors
    /// The errors of [`register`](Self::register).
    ///
    /// # Safety
    /// The conditions of [`register`](Self::register).
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
    /// The conditions of [`register`](Self::register).
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

    /// [`register`](Self::register) for memory that is a shared mapping of a file. If the file is in memory
    /// (`memfd_create`) and sealed against shrinking (`F_SEAL_SHRINK`), local peers map it, too, and access it with their
    /// own instructions. Otherwise peers access the memory like other memory, and a log line says why.
    ///
    /// The descriptor is duplicated (with `O_CLOEXEC`), and the duplicate is kept until the region is closed. So the caller
    /// may close its own descriptor after this call. If the process has no free descriptor for the duplicate, peers do not
    /// map the memory.
    ///
    /// The first access to a page of the file allocates it. If no memory is left, the accessing process gets a SIGBUS. So
    /// allocate the pages beforehand (`fallocate`).
    ///
    /// # Errors
    /// The errors of [`register`](Self::register). [`Error::Invalid`] if the memory cannot be at this offset of the file.
    ///
    /// # Safety
    /// The conditions of [`register`](Self::register). The memory is a shared mapping of the file at this offset.
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
