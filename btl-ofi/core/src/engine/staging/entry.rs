//! The transport's public functions for device memory: overrides, registration, copies.

use std::ffi::c_void;
use std::sync::{MutexGuard, PoisonError};

use libfabric_sys as ffi;
use plugin_api::{Access, HmemInfo, IoVec, OverrideOps, hmem_iface};

use crate::base::error::{CallError, Error};
use crate::engine::transport::Transport;
use crate::fabric::offer::Offer;
use crate::fabric::region::Region;
use crate::hmem::mailbox::LANES;
use crate::hmem::server::MailboxServer;
use crate::mem::blocks::Blocks;
use crate::mem::copy::{self, Copier};
use crate::mem::cuda;
use crate::mem::handle::Handle;

impl Transport {
    /// Sets the copy functions for device memory; `None` restores this crate's own functions. The functions apply to
    /// all regions. An operation that begins after this call uses these functions for its local buffers. A peer's
    /// request that is served after this call uses these functions for the target. An operation in progress keeps the
    /// functions with which it began for its local buffers.
    ///
    /// The functions are also offered to the provider. If the provider accepts the functions, its copies use them immediately.
    /// For a function that is not set, the provider then calls this crate's function, because no provider returns to its own
    /// function (man fi_domain). So an incomplete set of functions is offered only if this crate's functions reach every
    /// kind of device memory that the provider reaches.
    pub fn set_overrides(&self, ops: Option<&OverrideOps>) {
        let copier = ops.map_or_else(Copier::default, Copier::new);
        let regions = self.registrar.device_regions();
        // The offer stays locked: of two concurrent changes, the provider and the transport end with the same one.
        let mut offer = self.offer();
        regions.set_copier(copier);
        // `stands_in` is evaluated last, because counting the devices starts their driver.
        let stands_in = || cuda::devices() > 0 && regions.all_direct(copy::reaches);
        let fits = copier.is_complete() || (copier.is_overridden() && stands_in());
        if !fits && !offer.is_taken() {
            return;
        }
        if !copier.is_complete() && !regions.all_direct(copy::reaches) {
            tracing::warn!(
                "the provider keeps calling copy functions, and for a kind of memory that is registered \
                 with it neither the user nor the transport has both: its transfers will fail"
            );
        }
        // SAFETY: the transport keeps the device, and thereby its domain, live.
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

    /// Registers `length` bytes at `base` on device number `device` of interface `iface`: with the provider if
    /// possible, otherwise for staging.
    ///
    /// # Errors
    /// The errors of [`register`](Self::register); [`Status::NOT_SUPPORTED`](plugin_api::Status::NOT_SUPPORTED) if
    /// neither the provider nor a copy function reaches this interface.
    ///
    /// # Safety
    /// The conditions of [`register`](Self::register).
    pub unsafe fn register_hmem(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
        iface: u32,
        device: u64,
    ) -> Result<Region, Error> {
        if iface == hmem_iface::SYSTEM {
            // SAFETY: the caller guarantees that the memory stays mapped until the region is closed.
            return unsafe { self.register(base, length, access) };
        }
        self.check_copy()?;
        let copier = self.copier();
        let cuda = iface == hmem_iface::CUDA && length > 0;
        let ours = cuda && !copier.is_overridden();
        // The device that owns the memory, whichever device the caller names.
        let device = match ours {
            true => cuda::device_of(base as u64).unwrap_or(device),
            false => device,
        };
        if self.setup.hmem_provider && length > 0 && self.has_copies(copier, iface) {
            match self
                .registrar
                .register_direct(base, length, access, iface, device)
            {
                Ok(region) => return Ok(region),
                Err(e) => self.fall_back(iface, &e),
            }
        }
        // From now on, bounce buffers are pinned. Copies by the user's functions need this as much as
        // copies by this crate.
        let met = cuda && cuda::meet(base as u64);
        let reached = copier.may_reach(iface) && (met || !ours);
        if !reached {
            return Err(Error::Call {
                doing: format!(
                    "registering {length} bytes of interface {iface} at {:#x}: the provider does \
                     not register it, no override is set, and the transport does not recognize it \
                     as device memory",
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
            .register_staged(base, length, access, iface, &mailbox)
    }

    fn mailbox(&self) -> Result<Handle, Error> {
        let limit = self.setup.put_limit.min(self.setup.get_limit);
        self.hmem.mailbox(
            &self.slow,
            || {
                let regions = self.registrar.device_regions();
                // Always the maximum number of lanes, because peers may connect later.
                let server = MailboxServer::new(LANES, limit, regions)?;
                Some((server, self.setup.hmem_thread))
            },
            |server| {
                let all = Access::LOCAL_WRITE
                    | Access::REMOTE_READ
                    | Access::REMOTE_WRITE
                    | Access::REMOTE_ATOMIC;
                self.registrar
                    .register_own(server.base().cast(), server.bytes(), all)
            },
        )
    }

    #[cold]
    fn fall_back(&self, iface: u32, error: &Error) {
        if self
            .hmem
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

    /// The copy functions for operations that begin now.
    fn copier(&self) -> Copier {
        self.registrar.device_regions().copier()
    }

    fn offer(&self) -> MutexGuard<'_, Offer> {
        let offer = self.device.offer.lock();
        offer.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the provider has functions for both directions to memory of this kind: its own functions, or the
    /// ones that it accepted.
    fn has_copies(&self, copier: Copier, iface: u32) -> bool {
        copier.is_complete() || copy::reaches(iface) || !self.offer().is_taken()
    }

    /// The transport's handling of memory of interface `iface`.
    pub fn hmem_info(&self, iface: u32) -> HmemInfo {
        let mut info = HmemInfo::new();
        info.provider = u32::from(self.setup.hmem_provider);
        let answer = self.offer().answer();
        (info.overrides, info.answer) = match (self.copier().is_overridden(), answer) {
            (false, _) => (HmemInfo::NONE, HmemInfo::NONE_SET),
            (true, 0) => (HmemInfo::PROVIDER, 0),
            (true, refused) => (HmemInfo::TRANSPORT, refused),
        };
        info.devices = match iface {
            hmem_iface::SYSTEM => 1,
            hmem_iface::CUDA => cuda::devices(),
            _ => 0,
        };
        (info.direct, info.staged) = self.registrar.device_regions().counts();
        info
    }

    /// `copy_from_hmem_iov` with the current functions.
    ///
    /// # Safety
    /// The arrays have `count` elements; `dest` is writable for `size` bytes; each element of `iov` is memory
    /// of its interface.
    pub unsafe fn copy_from_hmem(
        &self,
        dest: *mut c_void,
        size: usize,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
    ) -> isize {
        // SAFETY: the caller guarantees `count` array elements, a writable `dest` and valid device ranges.
        unsafe {
            self.copier()
                .copy_from(dest, size, iov, iface, count, offset)
        }
    }

    /// `copy_to_hmem_iov` with the current functions.
    ///
    /// # Safety
    /// The conditions of [`copy_from_hmem`](Self::copy_from_hmem), with `src` readable for `size` bytes.
    pub unsafe fn copy_to_hmem(
        &self,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
        src: *const c_void,
        size: usize,
    ) -> isize {
        // SAFETY: the caller guarantees `count` array elements, a readable `src` and valid device ranges.
        unsafe { self.copier().copy_to(iov, iface, count, offset, src, size) }
    }

    /// `copy_from_hmem_strided` with the current functions. Copies from blocks at regular distances in
    /// memory of kind `iface`.
    ///
    /// # Safety
    /// `dest` is writable for `size` bytes; the blocks are memory of that kind.
    #[allow(clippy::too_many_arguments, reason = "the ABI's arguments")]
    pub unsafe fn copy_from_hmem_strided(
        &self,
        dest: *mut c_void,
        size: usize,
        base: *const c_void,
        iface: u32,
        block: usize,
        stride: [usize; 2],
        count: [usize; 2],
    ) -> isize {
        let blocks = Blocks {
            base: base.cast_mut(),
            block,
            stride,
            count,
        };
        // SAFETY: the caller guarantees `dest` and the blocks.
        unsafe { self.copier().copy_from_blocks(dest, size, iface, &blocks) }
    }

    /// `copy_to_hmem_strided` with the current functions, under the same rules.
    ///
    /// # Safety
    /// `src` is readable for `size` bytes; the blocks are memory of that kind.
    #[allow(clippy::too_many_arguments, reason = "the ABI's arguments")]
    pub unsafe fn copy_to_hmem_strided(
        &self,
        base: *mut c_void,
        iface: u32,
        block: usize,
        stride: [usize; 2],
        count: [usize; 2],
        src: *const c_void,
        size: usize,
    ) -> isize {
        let blocks = Blocks {
            base,
            block,
            stride,
            count,
        };
        // SAFETY: the caller guarantees `src` and the blocks.
        unsafe { self.copier().copy_to_blocks(iface, &blocks, src, size) }
    }
}
