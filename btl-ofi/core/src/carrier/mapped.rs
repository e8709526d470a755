//! Puts, gets and atomics on memory of local peers that this process maps (`sm::mapped`): instructions of this thread. The
//! fast paths leave such handles to the slow ones, so they cost nothing to other memory.
//!
//! **Completion.** An operation is complete when its call returns: a fence behind each put makes it visible before
//! anything that this thread does later.
//!
//! **Order.** A region is mapped while nothing is outstanding to its peer, so no earlier operation on it is overtaken. An
//! atomic is executed here only while the peer's ring holds none; otherwise it takes its place in the ring. So atomics to a
//! peer stay in order, although other memory of the peer is reached through the ring.
//!
//! **Atomicity.** One instruction changes each element, as at the ring's responder (`engine::commands`). Only peers whose
//! atomics go by a ring are reached so: if the provider's hardware executes atomics, it executes all of them. If the
//! provider's software fetches a value and changes it one after the other (`Policy::fetch_alone`), only the target executes
//! atomics.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};

use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::base::access;
use crate::core::state::Core;
use crate::mem::handle::Handle;
use crate::op::apply::Plan;
use crate::op::element::{self, Elements};
use crate::op::request::{Caller, Operands, Request};
use crate::op::responder;
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Atomics, Transfers};
use crate::sm::mapped::{Found, Mapping, Use};
use crate::sm::requester::Requester;
use crate::sm::segment::Place;

impl Core {
    /// Makes a checked put or get if the memory can be mapped. Returns `None`, before side effects, if it cannot.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit); the handle is [shared](Handle::is_shared).
    #[inline(never)]
    pub(crate) unsafe fn mapped_transfer(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        (remote, address): (&Handle, u64),
        size: usize,
        put: bool,
    ) -> Option<Status> {
        let used = match self.find_or_map(endpoint, remote) {
            Ok(used) => used?,
            Err(status) => return Some(status),
        };
        let local: *mut u8 = caller.local_address.cast();
        // SAFETY: the caller guarantees the local buffer.
        let made = unsafe { transfer(&used, local, address, size, put) };
        drop(used);
        if let Err(status) = made {
            return Some(status);
        }
        Some(self.complete_copy(endpoint, caller, (Carrier::Copy, size)))
    }

    /// Whether this thread may execute atomics to a peer on the peer's memory that this process maps.
    fn maps_atomics(&self, endpoint: NonNull<Endpoint>, remote: &Handle) -> bool {
        // SAFETY: the callers guarantee that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        remote.is_shared()
            && peer.transfers() == Transfers::Kernel
            && matches!(peer.atomics(), Atomics::Ring | Atomics::Unclaimed)
    }

    /// Executes a checked atomic if the memory can be mapped and no atomic to the peer is outstanding. Returns `None`,
    /// before side effects, if the atomic must take the peer's ring.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit).
    #[inline(never)]
    pub(crate) unsafe fn mapped_atomic(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Handle,
        atomic: &Request,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees the buffers.
        let change = |used: &Use<'_>| unsafe { execute(used, atomic) };
        self.mapped_change(endpoint, caller, (remote, atomic.size), change)
    }

    /// Makes a checked apply by instructions, in the same way, if atomics alone change its elements. Also returns `None` if
    /// the processor has no instruction for the elements' change.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit); the results are writable.
    #[inline(never)]
    pub(crate) unsafe fn mapped_apply(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Handle,
        (plan, results): (&Plan<'_>, *mut u8),
    ) -> Option<Status> {
        if !responder::is_by_instructions(plan) {
            return None;
        }
        let change = |used: &Use<'_>| {
            plan.check(|address, size| used.place(address, size as usize).map(drop))?;
            let place = used.place(plan.address, 0)?;
            let moved = plan.moved_to(place.expose_provenance() as u64);
            // SAFETY: the region has the elements, with the same alignment as at the owner. The region stays mapped
            // while it is used, and its file keeps its length. The caller guarantees the results.
            unsafe { responder::change_by_instructions(&moved, results) };
            fence(Ordering::SeqCst);
            Ok(())
        };
        self.mapped_change(endpoint, caller, (remote, plan.bytes()), change)
    }

    /// Changes memory of a peer by instructions if the memory can be mapped and no atomic to the peer is
    /// outstanding.
    #[inline(always)]
    fn mapped_change(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        (remote, size): (&Handle, usize),
        change: impl FnOnce(&Use<'_>) -> Result<(), Status>,
    ) -> Option<Status> {
        if !self.maps_atomics(endpoint, remote) {
            return None;
        }
        let used = match self.find_or_map(endpoint, remote) {
            Ok(used) => used?,
            Err(status) => return Some(status),
        };
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let mut in_turn = true;
        let status = self.change_here(endpoint, caller, size, || {
            // SAFETY: a peer whose atomics go by a ring has a requester, and the lock is held.
            let waits = || unsafe { &*Requester::of(peer) }.outstanding() > 0;
            if peer.atomics() == Atomics::Ring && waits() {
                in_turn = false;
                return Err(Status::TEMP_OUT_OF_RESOURCE);
            }
            change(&used)
        });
        in_turn.then_some(status)
    }

    /// Returns a peer's region. Maps the region now if nothing is outstanding to the peer. Returns
    /// `None` if the region is not mapped.
    ///
    /// # Errors
    /// Fails if the peer failed, or if the region is no longer registered.
    fn find_or_map(
        &self,
        endpoint: NonNull<Endpoint>,
        remote: &Handle,
    ) -> Result<Option<Use<'_>>, Status> {
        // SAFETY: the callers guarantee that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if let Some(status) = peer.failure() {
            return Err(status);
        }
        for is_new in [true, false] {
            match self.mapped.find(endpoint, remote, self.setup.threaded) {
                Found::Mapped(used) => return Ok(Some(used)),
                Found::Unmappable => return Ok(None),
                Found::Unknown if is_new && peer.is_idle() => {
                    self.map_region(endpoint, remote)?;
                }
                Found::Unknown => break,
            }
        }
        Ok(None)
    }

    /// Maps a peer's region, or records that it cannot be mapped.
    #[cold]
    fn map_region(&self, endpoint: NonNull<Endpoint>, remote: &Handle) -> Result<(), Status> {
        // SAFETY: the callers guarantee that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let probe = self.lock_peers().probe(peer);
        let (length, base, proc) = (remote.length(), remote.base(), peer.proc);
        self.mapped.insert(endpoint, remote, || {
            let mapping = match (probe, peer.segment()) {
                (Some(probe), descriptor @ 1..) => {
                    let segment = Place {
                        pid: peer.pid(),
                        descriptor,
                        // A process publishes one value as nonce and as probe.
                        nonce: probe.value,
                    };
                    Mapping::new(segment, probe, remote)
                }
                _ => Err(Some(String::from("its process offers no segment"))),
            };
            match mapping {
                Ok(mapping) => {
                    tracing::info!("{length} bytes of process {proc} at {base:#x} are mapped");
                    Ok(Some(mapping))
                }
                Err(Some(why)) => {
                    tracing::info!(
                        "{length} bytes of process {proc} at {base:#x} are not mapped: {why}"
                    );
                    Ok(None)
                }
                Err(None) => Err(Status::PERM),
            }
        })
    }
}

/// Copies between a local buffer and a mapped region.
///
/// # Safety
/// `local` is readable for `size` bytes, or writable for a get.
#[inline]
unsafe fn transfer(
    used: &Use<'_>,
    local: *mut u8,
    address: u64,
    size: usize,
    put: bool,
) -> Result<(), Status> {
    let window = used.place(address, size)?;
    // SAFETY: the caller guarantees the local buffer; the region has the bytes and stays mapped while it is used, and its
    // file keeps its length.
    unsafe {
        match put {
            true => access::put(local, window, size),
            false => access::get(window, local, size),
        }
    }
    match put {
        // A complete put is visible, so later loads of this thread must also come after it.
        true => fence(Ordering::SeqCst),
        // Pairs with the stores that fill the region: later loads of this thread come after the get.
        false => fence(Ordering::Acquire),
    }
    Ok(())
}

/// Executes an atomic on a mapped region.
///
/// # Safety
/// The buffers of `atomic` are valid, and its elements aligned.
#[inline]
unsafe fn execute(used: &Use<'_>, atomic: &Request) -> Result<(), Status> {
    let Some((_, datatype, op)) = responder::decode(atomic.command.what) else {
        return Err(Status::NOT_SUPPORTED);
    };
    let at = used.place(atomic.command.address, atomic.size)?;
    let value;
    let operands: *const c_void = match atomic.operands {
        Operands::Value(v) => {
            value = v;
            ptr::from_ref(&value).cast()
        }
        Operands::Buffer(buffer) => buffer,
    };
    let elements = Elements {
        datatype,
        op,
        count: atomic.command.count as usize,
        at,
        operands: operands.cast(),
        compare: atomic.command.compare,
        results: atomic.result.cast(),
        alone: false,
    };
    // SAFETY: the caller guarantees the buffers. The region has the elements, with the same alignment as at the owner.
    // The region stays mapped while it is used, and its file keeps its length.
    unsafe { element::apply(&elements) };
    // An update may be a plain store. Locked instructions order later loads only on some processors.
    fence(Ordering::SeqCst);
    Ok(())
}
