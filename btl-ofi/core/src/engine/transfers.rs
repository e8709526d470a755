//! Puts and gets: the slow path, by any route. The fast paths are in `rma`.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::base::access;
use crate::base::cma::{self, Refused};
use crate::carrier::ring::transfers::{BYTES_PER_LOCK, MOST};
use crate::engine::transport::Transport;
use crate::mem::handle::{Handle, Target};
use crate::mem::local::check_local;
use crate::mem::rights;
use crate::op::request::{Caller, Op, Request};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Transfers;
use crate::sm::segment::PAYLOAD;

impl Transport {
    /// Makes a put or get by any route. An error means that the target or the local buffer is not host memory, and may be
    /// device memory.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit).
    pub(crate) unsafe fn transfer(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        put: bool,
    ) -> Result<Status, Status> {
        if op.local.is_null() && op.size > 0 {
            return Ok(Status::BAD_PARAM);
        }
        // SAFETY: the caller guarantees that the local handle is NULL or readable.
        let target = unsafe { self.check_transfer(op, put) }?;
        let caller = Caller::of(op);
        if op.size == 0 {
            return Ok(self.complete_empty(endpoint, caller));
        }
        let limit = match put {
            true => self.setup.put_limit,
            false => self.setup.get_limit,
        };
        if op.size > limit {
            return Ok(Status::VALUE_OUT_OF_BOUNDS);
        }
        let (caller, size) = (&caller, op.size);
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if op.is_checked() && !self.checks_keys(peer, put, size) {
            return Ok(Status::NOT_SUPPORTED);
        }
        if self.rails.divide(size)
            && matches!(peer.transfers(), Transfers::Fabric | Transfers::Message)
            && let Some(stripe) = self.plan(peer, op, put, target)
        {
            return Ok(self.stripe(endpoint, caller, stripe));
        }
        // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until completion.
        Ok(unsafe { self.carry(endpoint, caller, op, put, target) })
    }

    /// Whether the target makes the transfer by a command, and so checks that its region is still registered. A transfer by
    /// ring is also a command, but CMA makes it if the target does not begin in time.
    fn checks_keys(&self, peer: &Endpoint, put: bool, size: usize) -> bool {
        let (puts, gets) = self.setup.message_limits;
        match peer.transfers() {
            Transfers::Message => size <= if put { puts } else { gets },
            transfers => transfers == Transfers::Ring || transfers == Transfers::Copy,
        }
    }

    /// Passes a checked transfer to the carrier of the peer's route.
    ///
    /// # Safety
    /// `endpoint` is live, and the local buffer is valid until completion.
    #[inline(always)]
    unsafe fn carry(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        op: &Op<'_>,
        put: bool,
        target: Target,
    ) -> Status {
        let (remote, address, size) = (op.remote, op.address, op.size);
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let (puts, gets) = self.setup.message_limits;
        loop {
            match peer.transfers() {
                Transfers::Message if size <= if put { puts } else { gets } => {
                    let request = Request::transfer(put, op.local, remote, address, size);
                    // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until
                    // completion.
                    return unsafe { self.tell(endpoint, caller, &request) };
                }
                Transfers::Fabric | Transfers::Message => {
                    // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until
                    // completion.
                    return unsafe {
                        match put {
                            true => self.post_put(endpoint, caller, size, target),
                            false => self.post_get(endpoint, caller, size, target),
                        }
                    };
                }
                Transfers::Copy => {
                    // SAFETY: the caller guarantees that the local buffer is valid; the remote range was checked
                    // against the handle.
                    return unsafe { self.copy(endpoint, caller, remote, address, size, put) };
                }
                Transfers::Kernel => {
                    if remote.is_shared() {
                        let to = (remote, address);
                        // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid; the
                        // remote range was checked against the handle.
                        let mapped =
                            unsafe { self.mapped_transfer(endpoint, caller, to, size, put) };
                        if let Some(status) = mapped {
                            return status;
                        }
                    }
                    // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until
                    // completion; the remote range was checked against the handle.
                    let made = unsafe {
                        self.copy_by_kernel(endpoint, caller, remote, address, size, put)
                    };
                    if let Some(status) = made {
                        return status;
                    }
                }
                Transfers::Ring => {
                    let transfer = Request::transfer(put, op.local, remote, address, size);
                    // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until
                    // completion; the route is `Transfers::Ring`.
                    return unsafe { self.queue_at_target(endpoint, caller, &transfer) };
                }
                Transfers::Doubted => {
                    if let Some(status) = self.examine_doubted(endpoint) {
                        return status;
                    }
                }
            }
        }
    }

    /// Checks the bounds, the rights and the local handle of a transfer; returns its target for the provider.
    ///
    /// # Safety
    /// The local handle is NULL or readable.
    #[inline(always)]
    pub(super) unsafe fn check_transfer(&self, op: &Op<'_>, put: bool) -> Result<Target, Status> {
        op.remote
            .target(op.address, op.size as u64, self.setup.virtual_addresses)
            .and_then(|target| {
                if !rights::allow_transfer(op.remote.access(), put) {
                    return Err(Status::PERM);
                }
                // SAFETY: the caller guarantees that the handle is NULL or readable.
                unsafe { check_local(op.local_handle, op.local, op.size) }?;
                Ok(target)
            })
    }

    /// Makes a transfer by CMA, or through the ring while the target answers fast. Returns `None` if the
    /// caller must try another path.
    ///
    /// # Safety
    /// The conditions of [`transfer`](Self::transfer), after its checks of the handles and bounds.
    #[inline(always)]
    unsafe fn copy_by_kernel(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Handle,
        remote_address: u64,
        size: usize,
        put: bool,
    ) -> Option<Status> {
        let local = caller.local_address;
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if let Some(status) = peer.failure() {
            return Some(status);
        }
        if size <= MOST {
            let small = Request::transfer(put, local, remote, remote_address, size);
            // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until
            // completion.
            let posted = unsafe { self.try_ring_transfer(endpoint, caller, (&small, true)) };
            if posted.is_some() {
                return posted;
            }
        }
        // SAFETY: the caller guarantees that the local buffer is valid for `size` bytes and that the target's
        // region was checked.
        let copied = unsafe {
            if put {
                cma::write(peer.pid(), local, remote_address, size)
            } else {
                self.read(endpoint, local, remote, remote_address, size)
            }
        };
        if let Err(refused) = copied {
            return self.examine(endpoint, refused);
        }
        Some(self.complete_copy(endpoint, caller, (Carrier::Cma, size)))
    }

    /// Gets from a peer by CMA. The target copies a share if that is faster.
    ///
    /// # Safety
    /// `endpoint` is live; `local` is writable for `size` bytes.
    #[inline(always)]
    pub(super) unsafe fn read(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote: &Handle,
        remote_address: u64,
        size: usize,
    ) -> Result<(), Refused> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let pid = unsafe { endpoint.as_ref() }.pid();
        let (mut got, mut timed) = (0, None);
        while size - got > MOST {
            let (to, from) = (local.wrapping_byte_add(got), remote_address + got as u64);
            let rest = Request::transfer(false, to, remote, from, size - got);
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffer is writable; `rest`
            // lies inside the buffer.
            let begun = unsafe { self.get_beginning(endpoint, &rest, got > 0) };
            if let Some(status) = begun.refused {
                return Err(Refused::by_target(status));
            }
            timed = timed.or(begun.timed);
            got += begun.got;
            if begun.got == 0 || got == size {
                break;
            }
            let waited_for = self.serve_without_lock();
            let share = if begun.got < BYTES_PER_LOCK {
                // The target pauses, perhaps briefly. This process does not wait for bytes that the
                // target may have begun to copy.
                PAYLOAD
            } else if waited_for {
                BYTES_PER_LOCK
            } else {
                continue;
            };
            let share = share.min(size - got);
            let (to, from) = (local.wrapping_byte_add(got), remote_address + got as u64);
            // SAFETY: the caller guarantees `size` writable bytes; `got + share` is at most `size`.
            unsafe { cma::read(pid, to, from, share) }?;
            got += share;
        }
        let (to, from) = (local.wrapping_byte_add(got), remote_address + got as u64);
        // SAFETY: the caller guarantees `size` writable bytes; `got` of them are filled.
        unsafe { cma::read(pid, to, from, size - got) }?;
        if let Some(timed) = timed {
            self.record_time(endpoint, size, timed);
        }
        Ok(())
    }

    /// Makes a put or get to this transport itself, by a copy in the calling thread.
    ///
    /// # Safety
    /// The local buffer is valid for `size` bytes; `remote_address` lies in the handle's bounds.
    #[cold]
    pub(super) unsafe fn copy(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Handle,
        remote_address: u64,
        size: usize,
        put: bool,
    ) -> Status {
        let local: *mut u8 = caller.local_address.cast();
        let window: *mut u8 = ptr::with_exposed_provenance_mut(remote_address as usize);
        // The lock on the regions keeps the window registered. The lock is released between two parts.
        for start in (0..size).step_by(BYTES_PER_LOCK) {
            let part = BYTES_PER_LOCK.min(size - start);
            let (local, window) = (local.wrapping_add(start), window.wrapping_add(start));
            let (from, to) = if put {
                (local, window)
            } else {
                (window, local)
            };
            let regions = self.registrar.regions();
            if !regions.holds(remote) {
                return Status::PERM;
            }
            // SAFETY: the caller guarantees that the local side is valid; the other side lies in a live region.
            unsafe { access::copy(from, to, part) };
        }
        self.complete_copy(endpoint, caller, (Carrier::Copy, size))
    }
}
