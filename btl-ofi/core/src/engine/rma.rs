//! Puts and gets.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::base::cma::{self, Refused};
use crate::base::guard;
use crate::base::hints::branch;
use crate::engine::context::Context;
use crate::engine::post::{Caller, Needs, guarded};
use crate::engine::ring_transfers::{HOLD, MOST, Small};
use crate::engine::staging::{Action, Ask};
use crate::engine::transport::Transport;
use crate::mem::handle::{Handle, Target};
use crate::mem::rights;
use crate::op::record::Completion;
use crate::peer::endpoint::Endpoint;
use crate::peer::reach::COPIES_PER_LOOK;
use crate::peer::route::Transfers;
use crate::sm::requester::Direction;
use crate::sm::segment::PAYLOAD;

impl Transport {
    /// Fast path of [`put`](Self::put), for callers without local handle. `None`, before side effects, for
    /// anything unusual; the caller then calls `put`. `T` is [`is_threaded`](Self::is_threaded), with
    /// `FAR` it serves peers whose transfers the provider makes, without it those of this node.
    ///
    /// # Safety
    /// As for [`put`](Self::put); the constants have the values named above.
    #[inline(always)]
    pub unsafe fn try_put<const T: bool, const FAR: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        remote: &Handle,
        size: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        // SAFETY: the caller guarantees that `T` is the transport's threading.
        let here = unsafe { peer.takes_transfers::<T, FAR>() };
        if !here {
            return None;
        }
        let target = self.place(local, remote, remote_address, size, self.put_limit)?;
        // SAFETY: the endpoint is live, and its address does not change; the local buffer is the caller's until
        // completion; `open_target` checked that the target's region allows writes; the message is used only
        // while the context is locked.
        unsafe {
            if !FAR {
                if size <= MOST {
                    let put = Small::new(Direction::Put, local, remote, remote_address, size);
                    let handed = self.hand_over(endpoint, completion, ptr::null_mut(), &put);
                    if handed.is_some() {
                        return handed;
                    }
                }
                self.may_copy::<T>(peer, completion)?;
                let copied = cma::write(peer.pid(), local, remote_address, size);
                return self.copied::<T>(endpoint, completion, copied);
            }
            let mut posting = self.begin::<T, false>(endpoint, local, completion)?;
            let context = posting.context;
            let message = posting.state.message.put(
                (local, size),
                (peer.address, target.address, target.key),
                posting.pointer,
            );
            let rc = (context.calls.writemsg)(context.tx, message, self.quick.delivered);
            self.end::<T>(posting, rc)
        }
    }

    /// Fast path of [`get`](Self::get), under the same conditions as [`try_put`](Self::try_put).
    ///
    /// # Safety
    /// As for [`get`](Self::get); the constants have the values named in [`try_put`](Self::try_put).
    #[inline(always)]
    pub unsafe fn try_get<const T: bool, const FAR: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        remote: &Handle,
        size: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        // SAFETY: the caller guarantees that `T` is the transport's threading.
        let here = unsafe { peer.takes_transfers::<T, FAR>() };
        if !here {
            return None;
        }
        let target = self.place(local, remote, remote_address, size, self.get_limit)?;
        // SAFETY: the endpoint is live, and its address does not change; the local buffer is the caller's until
        // completion; `open_target` checked that the target's region allows reads. A read completes when its
        // data has arrived, so it needs no delivery flags.
        unsafe {
            if !FAR {
                if size <= MOST {
                    let get = Small::new(Direction::Get, local, remote, remote_address, size);
                    let handed = self.hand_over(endpoint, completion, ptr::null_mut(), &get);
                    if handed.is_some() {
                        return handed;
                    }
                }
                self.may_copy::<T>(peer, completion)?;
                let copied = self.read(endpoint, local, remote, remote_address, size);
                return self.copied::<T>(endpoint, completion, copied);
            }
            let posting = self.begin::<T, false>(endpoint, local, completion)?;
            let context = posting.context;
            let rc = (context.calls.read)(
                context.tx,
                local,
                size,
                ptr::null_mut(),
                peer.address,
                target.address,
                target.key,
                posting.pointer,
            );
            self.end::<T>(posting, rc)
        }
    }

    /// Checks a transfer for the fast path and returns its target for the provider. `None` unless it has at
    /// least one byte, at most `limit` bytes, and a live region of host memory that allows peers every access.
    #[inline(always)]
    fn place(
        &self,
        local: *mut c_void,
        remote: &Handle,
        remote_address: u64,
        size: usize,
        limit: usize,
    ) -> Option<Target> {
        branch();
        // The subtraction wraps, so that zero bytes also fail this check.
        if size.wrapping_sub(1) >= limit {
            return None;
        }
        branch();
        if local.is_null() {
            return None;
        }
        branch();
        let virtual_addresses = self.quick.virtual_addresses;
        remote.open_target(remote_address, size as u64, virtual_addresses)
    }

    /// Whether the fast path may copy inline.
    ///
    /// # Safety
    /// `T` is whether the transport was opened for threads.
    #[inline(always)]
    unsafe fn may_copy<const T: bool>(
        &self,
        peer: &Endpoint,
        completion: Option<Completion>,
    ) -> Option<()> {
        branch();
        if completion.is_some() && !self.answers_at_once {
            return None;
        }
        branch();
        // SAFETY: the caller guarantees that `T` is the transport's threading.
        unsafe { peer.is_well::<T>() }.then_some(())
    }

    /// The status of an inline copy; `None` if the caller must try another way.
    #[inline(always)]
    fn copied<const T: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        completion: Option<Completion>,
        copied: Result<(), Refused>,
    ) -> Option<Status> {
        if let Err(refused) = copied {
            return self.not_copied_on_fast_path(endpoint, refused);
        }
        self.count_copy(self.context_as::<T>(), T);
        Some(match completion {
            None => Status::SUCCESS,
            Some(_) => Status::COMPLETED,
        })
    }

    /// Counts an inline transfer. Checks the peers at intervals, because a host with only inline transfers may
    /// never poll.
    #[inline(always)]
    fn count_copy(&self, context: &Context, threaded: bool) {
        let before = if threaded {
            context.direct.fetch_add(1, Ordering::Relaxed)
        } else {
            let before = context.direct.load(Ordering::Relaxed);
            context.direct.store(before + 1, Ordering::Relaxed);
            before
        };
        if before.is_multiple_of(COPIES_PER_LOOK) {
            self.check_peers_between_copies();
        }
    }

    #[cold]
    #[inline(never)]
    fn check_peers_between_copies(&self) {
        guarded(|| {
            self.check_peers_now_and_then();
            Status::SUCCESS
        });
    }

    /// Writes `size` bytes at `local` to `remote_address` in the peer's region `remote`.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect); `local` is readable for `size` bytes until completion;
    /// `local_handle` is NULL or a handle of this transport.
    #[allow(clippy::too_many_arguments, reason = "the BTL's put")]
    pub unsafe fn put(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        local_handle: *mut plugin_api::Handle,
        remote: &Handle,
        size: usize,
        completion: Option<Completion>,
    ) -> Status {
        let caller = Caller {
            completion,
            local_address: local,
            local_handle,
        };
        // SAFETY: the caller guarantees that `endpoint` is live, the local buffer is valid until completion,
        // and the local handle is NULL or readable.
        let target = unsafe { self.checked(endpoint, &caller, remote, remote_address, size, true) };
        let target = match target {
            Ok(target) => target,
            Err(status) => return status,
        };
        // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until completion.
        unsafe { self.post_put(endpoint, &caller, size, target) }
    }

    /// Posts a put to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; the local buffer is readable for `size` bytes until completion, and the provider reaches it.
    #[inline(always)]
    pub(crate) unsafe fn post_put(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        size: usize,
        Target { address, key }: Target,
    ) -> Status {
        // SAFETY: the endpoint is live, and its address does not change; the local buffer is the caller's until
        // completion; the message is used only while the context is locked.
        unsafe {
            self.post(endpoint, caller, Needs::default(), |posting| {
                let context = posting.context;
                let message = posting.state.message.put(
                    (caller.local_address, size),
                    (endpoint.as_ref().address, address, key),
                    posting.pointer,
                );
                (context.calls.writemsg)(context.tx, message, self.quick.delivered)
            })
        }
    }

    /// Reads `size` bytes at `remote_address` of the peer's region `remote` to `local`.
    ///
    /// # Safety
    /// As for [`put`](Self::put), with `local` writable.
    #[allow(clippy::too_many_arguments, reason = "the BTL's get")]
    pub unsafe fn get(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        local_handle: *mut plugin_api::Handle,
        remote: &Handle,
        size: usize,
        completion: Option<Completion>,
    ) -> Status {
        let caller = Caller {
            completion,
            local_address: local,
            local_handle,
        };
        // SAFETY: the caller guarantees that `endpoint` is live, the local buffer is valid until completion,
        // and the local handle is NULL or readable.
        let target =
            unsafe { self.checked(endpoint, &caller, remote, remote_address, size, false) };
        let target = match target {
            Ok(target) => target,
            Err(status) => return status,
        };
        // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until completion.
        unsafe { self.post_get(endpoint, &caller, size, target) }
    }

    /// Posts a get to the provider.
    ///
    /// # Safety
    /// As for [`post_put`](Self::post_put), with the local buffer writable.
    #[inline(always)]
    pub(crate) unsafe fn post_get(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        size: usize,
        Target { address, key }: Target,
    ) -> Status {
        // SAFETY: the endpoint is live, and the local buffer is the caller's until completion.
        unsafe {
            self.post(endpoint, caller, Needs::default(), |posting| {
                let (context, none) = (posting.context, ptr::null_mut());
                let (peer, pointer) = (endpoint.as_ref().address, posting.pointer);
                let local = caller.local_address;
                (context.calls.read)(context.tx, local, size, none, peer, address, key, pointer)
            })
        }
    }

    /// Checks a transfer. Returns its target for the provider, or as `Err` the status of a transfer that does
    /// not go to the provider: refused, on device memory, of zero bytes, or made by CMA, by a copy or by the
    /// target.
    ///
    /// # Safety
    /// As for [`put`](Self::put) or [`get`](Self::get).
    #[inline(always)]
    unsafe fn checked(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Handle,
        remote_address: u64,
        size: usize,
        put: bool,
    ) -> Result<Target, Status> {
        let local = caller.local_address;
        if local.is_null() && size > 0 {
            return Err(Status::BAD_PARAM);
        }
        let checked = remote
            .target(remote_address, size as u64, self.virtual_addresses)
            .and_then(|target| {
                if !rights::allow_transfer(remote.access(), put) {
                    return Err(Status::PERM);
                }
                // SAFETY: the caller guarantees that the handle is NULL or readable.
                unsafe { check_local(caller.local_handle, local, size) }?;
                Ok(target)
            });
        let target = match checked {
            Ok(target) => target,
            Err(status) => {
                // A side that is not host memory may be device memory.
                let ask = Ask {
                    action: if put { Action::Put } else { Action::Get },
                    local,
                    local_handle: caller.local_handle,
                    value: None,
                    result: ptr::null_mut(),
                    result_handle: ptr::null_mut(),
                    address: remote_address,
                    size,
                };
                // SAFETY: the caller guarantees that `endpoint` is live, the local buffer is valid until
                // completion, and the local handle is NULL or readable.
                return Err(unsafe { self.elsewhere(endpoint, *caller, status, remote, ask) });
            }
        };
        if size == 0 {
            return Err(self.nothing(endpoint, *caller));
        }
        if size > if put { self.put_limit } else { self.get_limit } {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        loop {
            match peer.transfers() {
                Transfers::Fabric => return Ok(target),
                Transfers::Copy => {
                    // SAFETY: the bounds were checked against the handle; the local buffer is the caller's.
                    let copied =
                        unsafe { self.copy(endpoint, caller, remote, remote_address, size, put) };
                    return Err(copied);
                }
                Transfers::Kernel => {
                    // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid
                    // until completion; the bounds were checked.
                    let made = unsafe {
                        self.copy_by_kernel(endpoint, caller, remote, remote_address, size, put)
                    };
                    if let Some(status) = made {
                        return Err(status);
                    }
                }
                Transfers::Ring => {
                    let direction = if put { Direction::Put } else { Direction::Get };
                    let transfer = Small::new(direction, local, remote, remote_address, size);
                    // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid
                    // until completion; `copies` is `Transfers::Ring`.
                    return Err(unsafe { self.leave_to_target(endpoint, caller, &transfer) });
                }
                Transfers::Doubted => {
                    if let Some(status) = self.examine_doubted(endpoint) {
                        return Err(status);
                    }
                }
            }
        }
    }

    /// Makes a transfer by CMA, or through the ring while the target is quick. `None` if the caller must try
    /// another way.
    ///
    /// # Safety
    /// As for [`checked`](Self::checked), after its checks of the handles and bounds.
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
            let direction = if put { Direction::Put } else { Direction::Get };
            let small = Small::new(direction, local, remote, remote_address, size);
            let Caller {
                completion,
                local_handle,
                ..
            } = *caller;
            // SAFETY: the caller guarantees that `endpoint` is live and that the local buffer is valid until
            // completion.
            let handed = unsafe { self.hand_over(endpoint, completion, local_handle, &small) };
            if handed.is_some() {
                return handed;
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
        self.count_copy(self.context(), self.threaded);
        if self.answers_at_once && caller.completion.is_some() {
            return Some(Status::COMPLETED);
        }
        Some(self.nothing(endpoint, *caller))
    }

    /// Gets from a peer by CMA, with the target's help where that is faster.
    ///
    /// # Safety
    /// `endpoint` is live; `local` is writable for `size` bytes.
    #[inline(always)]
    unsafe fn read(
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
            let rest = Small::new(Direction::Get, to, remote, from, size - got);
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffer is writable; `rest`
            // lies inside it.
            let begun = unsafe { self.get_beginning(endpoint, &rest, got > 0) };
            if let Some(status) = begun.refused {
                return Err(Refused::by_target(status));
            }
            timed = timed.or(begun.timed);
            got += begun.got;
            if begun.got == 0 || got == size {
                break;
            }
            let waited_for = self.let_others_in();
            let share = if begun.got < HOLD {
                // The target pauses, perhaps briefly. Do not wait for the bytes that it may have begun.
                PAYLOAD
            } else if waited_for {
                HOLD
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
        // SAFETY: the caller guarantees `size` writable bytes, of which `got` are filled.
        unsafe { cma::read(pid, to, from, size - got) }?;
        if let Some(timed) = timed {
            self.took(endpoint, size, timed);
        }
        Ok(())
    }

    /// Makes a put or get to this transport itself, by a copy in this thread.
    ///
    /// # Safety
    /// The local buffer is valid for `size` bytes; `remote_address` lies in the handle's bounds.
    #[cold]
    unsafe fn copy(
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
        // The lock on the regions keeps the window registered; it is released between two parts.
        for start in (0..size).step_by(HOLD) {
            let part = HOLD.min(size - start);
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
            if let Err(status) = unsafe { regions.reach().copy(from, to, part) } {
                return match (guard::probe(local, part, !put), status) {
                    (Err(guard::Fault), _) => Status::BAD_PARAM,
                    // The kernel takes the side that it reads for the caller's own; here that may be the window.
                    (Ok(()), Status::BAD_PARAM) => Status::PERM,
                    (Ok(()), status) => status,
                };
            }
        }
        self.count_copy(self.context(), self.threaded);
        if self.answers_at_once && caller.completion.is_some() {
            return Status::COMPLETED;
        }
        self.nothing(endpoint, *caller)
    }

    /// Counts an inline operation.
    #[inline]
    pub(crate) fn count_direct(&self) {
        let count = &self.context().direct;
        if self.threaded {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn not_copied_on_fast_path(
        &self,
        endpoint: NonNull<Endpoint>,
        refused: Refused,
    ) -> Option<Status> {
        let mut found = None;
        let outcome = guarded(|| {
            found = self.examine(endpoint, refused);
            Status::SUCCESS
        });
        // The panic hook already reported a panic.
        if outcome.is_ok() {
            found
        } else {
            Some(outcome)
        }
    }
}

/// Refuses a local handle that was deregistered or does not cover the buffer. NULL is allowed: no supported
/// provider needs local registration.
///
/// # Safety
/// `handle` is NULL or readable for the size of a handle.
#[inline(always)]
pub(crate) unsafe fn check_local(
    handle: *mut plugin_api::Handle,
    address: *const c_void,
    size: usize,
) -> Result<(), Status> {
    // SAFETY: the caller guarantees that the handle is NULL or readable; `Handle` has no alignment requirement.
    match unsafe { handle.cast::<Handle>().as_ref() } {
        None => Ok(()),
        Some(handle) => handle.covers(address as u64, size as u64),
    }
}
