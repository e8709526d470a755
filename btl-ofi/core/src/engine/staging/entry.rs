//! The transport's functions for device memory: overrides, registration, copies.

use std::ffi::c_void;
use std::sync::PoisonError;
use std::time::Duration;

use libfabric_sys as ffi;
use plugin_api::{Access, HmemInfo, IoVec, OverrideOps, hmem_iface};

use crate::base::error::{CallError, Error};
use crate::engine::transport::Transport;
use crate::fabric::registration::Region;
use crate::hmem::agent::Agent;
use crate::hmem::mailbox::LANES;
use crate::mem::copy::Copier;
use crate::mem::cuda;
use crate::mem::handle::Handle;

impl Transport {
    /// Sets how device memory is reached; `None` goes back to our own functions. The provider is offered them
    /// first, if both are there. If it takes them, it uses them at once for every region of its domain. Copies of our
    /// own use the functions that were set when their region was registered.
    pub fn set_overrides(&self, ops: Option<&OverrideOps>) {
        let copier = ops.map_or_else(Copier::default, Copier::new);
        *self
            .hmem
            .copier
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = copier;
        let mut offer = self
            .device
            .offer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The provider wants both functions (man fi_domain). With one of them ours would take the place
        // of its own, which knows its devices better; once it has the pair, there is no way back.
        if !copier.is_complete() && !offer.is_taken() {
            return;
        }
        // SAFETY: the device, and so its domain, lives as long as the transport.
        let rc = unsafe { offer.make(self.device.domain(), copier) };
        if rc == 0 {
            tracing::info!("the provider uses the user's functions for device memory too");
        } else if rc != -(ffi::FI_ENOSYS as i32) {
            let code = -rc;
            let call = "fi_set_ops(FI_SET_OPS_HMEM_OVERRIDE)";
            tracing::warn!(
                "{}; the transport uses the functions itself",
                CallError { call, code }
            );
        }
    }

    /// Registers `length` bytes at `base` on device number `device` of kind `iface`: directly where
    /// the provider takes it, else for copies.
    ///
    /// # Errors
    /// As for [`register`](Self::register); [`Status::NOT_SUPPORTED`](plugin_api::Status::NOT_SUPPORTED) when nothing reaches this kind.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub unsafe fn register_hmem(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
        iface: u32,
        device: u64,
    ) -> Result<Region, Error> {
        if iface == hmem_iface::SYSTEM {
            // SAFETY: the caller vouches for the memory.
            return unsafe { self.register(base, length, access) };
        }
        let copier = self.hmem.copier();
        let ours = !copier.is_overridden() && iface == hmem_iface::CUDA && length > 0;
        // The pointer's own device, whatever the caller takes it for.
        let device = match ours {
            true => cuda::device_of(base as u64).unwrap_or(device),
            false => device,
        };
        if self.hmem_provider && length > 0 {
            match self
                .registrar
                .register_direct(base, length, access, iface, device, copier)
            {
                Ok(region) => return Ok(region),
                Err(e) => self.fall_back(iface, &e),
            }
        }
        // Also has the bounce buffers pinned.
        let reached = copier.may_reach(iface) && (!ours || cuda::meet(base as u64));
        if !reached {
            return Err(Error::Call {
                doing: format!(
                    "registering {length} bytes of interface {iface} at {:#x}: the provider does \
                     not take it, no override is set, and the transport does not know it as memory \
                     of a device",
                    base as u64
                ),
                source: CallError {
                    call: "copy_from_hmem_iov",
                    code: ffi::FI_ENOSYS as i32,
                },
            });
        }
        let remote = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let mailbox = if access.intersects(remote) && length > 0 {
            self.mailbox()?
        } else {
            Handle::vacant()
        };
        self.registrar
            .register_staged(base, length, access, iface, copier, &mailbox)
    }

    fn mailbox(&self) -> Result<Handle, Error> {
        let limit = self.put_limit.min(self.get_limit);
        self.hmem.mailbox(
            || {
                let regions = self.registrar.device_regions();
                let interval = Duration::from_millis(self.look_ms);
                let thread = self.hmem_thread.then_some((self.node, interval));
                // As many as there ever are: peers may come later.
                Some((Agent::new(LANES, limit, regions)?, thread))
            },
            |agent| {
                let all = Access::LOCAL_WRITE
                    | Access::REMOTE_READ
                    | Access::REMOTE_WRITE
                    | Access::REMOTE_ATOMIC;
                self.registrar
                    .register(agent.base().cast(), agent.bytes(), all)
            },
        )
    }

    #[cold]
    fn fall_back(&self, iface: u32, error: &Error) {
        if self
            .said_fall_back
            .swap(true, std::sync::atomic::Ordering::Relaxed)
        {
            return;
        }
        tracing::warn!(
            "the provider offers FI_HMEM, but refuses memory of interface {iface} ({error}); \
             copies are used instead"
        );
    }

    /// Whether the provider has taken the user's functions.
    fn is_offered(&self) -> bool {
        let offer = self.device.offer.lock();
        offer.unwrap_or_else(PoisonError::into_inner).is_taken()
    }

    /// What is made of a kind of memory.
    pub fn hmem_info(&self, iface: u32) -> HmemInfo {
        let mut info = HmemInfo::new();
        info.provider = u32::from(self.hmem_provider);
        info.overrides = match (self.hmem.copier().is_overridden(), self.is_offered()) {
            (false, _) => HmemInfo::NONE,
            (true, false) => HmemInfo::TRANSPORT,
            (true, true) => HmemInfo::PROVIDER,
        };
        info.devices = match iface {
            hmem_iface::SYSTEM => 1,
            hmem_iface::CUDA => cuda::devices(),
            _ => 0,
        };
        (info.direct, info.staged) = self.registrar.device_regions().counts();
        info
    }

    /// `copy_from_hmem_iov` with what is in force.
    ///
    /// # Safety
    /// The arrays have `count` elements, `dest` is writable for `size` bytes, and the runs are memory
    /// of their kinds.
    pub unsafe fn copy_from_hmem(
        &self,
        dest: *mut c_void,
        size: usize,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
    ) -> isize {
        // SAFETY: as the caller vouches.
        unsafe {
            self.hmem
                .copier()
                .copy_from(dest, size, iov, iface, count, offset)
        }
    }

    /// `copy_to_hmem_iov` with what is in force.
    ///
    /// # Safety
    /// As for [`copy_from_hmem`](Self::copy_from_hmem), with `src` readable.
    pub unsafe fn copy_to_hmem(
        &self,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
        src: *const c_void,
        size: usize,
    ) -> isize {
        // SAFETY: as the caller vouches.
        unsafe {
            self.hmem
                .copier()
                .copy_to(iov, iface, count, offset, src, size)
        }
    }
}
