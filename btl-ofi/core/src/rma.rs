//! Posting: the common path of all operations, and puts and gets.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::address::Handle;
use crate::context::Context;
use crate::direct::{self, Refused};
use crate::endpoint::{Copies, Endpoint};
use crate::error::status_of;
use crate::hmem::{Action, Ask};
use crate::record::{Completion, Finished, Record, Tag};
use crate::transport::Transport;

/// Posts turned away after which it is asked whether the peer still runs.
const AGAIN_CHECK: u64 = 4096;

/// The caller's side of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) completion: Option<Completion>,
    pub(crate) local_address: *mut c_void,
    pub(crate) local_handle: *mut plugin_api::Handle,
}

impl Caller {
    /// What its completion will have to say.
    #[inline]
    pub(crate) fn finished(&self, tag: Tag) -> Finished {
        Finished {
            tag,
            function: self.completion.map(|c| c.function),
            context: self.completion.map_or(ptr::null_mut(), |c| c.context),
            data: self.completion.map_or(ptr::null_mut(), |c| c.data),
            local_address: self.local_address,
            local_handle: self.local_handle,
        }
    }
}

/// What an operation needs besides what its caller wants.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// A record, for its operands.
    pub(crate) record: bool,
    /// That nothing else is outstanding on its context.
    pub(crate) alone: bool,
}

impl Transport {
    /// Hands one operation to the provider. `call` gets the context, the provider's context pointer
    /// and the record if there is one.
    ///
    /// Counts are raised before the post, because its completion may be read by another thread
    /// before the call even returns.
    ///
    /// # Safety
    /// `endpoint` is live; `call` posts to that peer with the pointer it is given.
    #[inline(always)]
    pub(crate) unsafe fn post(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        needs: Needs,
        call: impl FnOnce(&Context, *mut c_void, Option<&mut Record>) -> isize,
    ) -> Status {
        // SAFETY: the caller vouches for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let context = self.context();
        let mut state = context.state.lock();
        // Looked for under the lock: a peer is cut off with all of them held.
        if let Some(status) = peer.failure() {
            return status;
        }
        // One lock hold covers the look and the raise below, so the bound is kept among threads too.
        let most = if needs.alone { 1 } else { self.policy.depth };
        let outstanding = context.tally.outstanding();
        // What is counted without the provider having it does not crowd the provider.
        if outstanding >= most && outstanding.saturating_sub(self.hmem.held()) >= most {
            drop(state);
            return self.turned_away(context);
        }
        let tag = Tag::new(
            endpoint,
            context.tally.raise(self.threaded),
            peer.tally.raise(self.threaded),
        );
        let taken = if needs.record || caller.completion.is_some() || !self.policy.bare {
            let Some(mut taken) = state.pool.take() else {
                self.lower(context, tag, 1);
                return Status::OUT_OF_RESOURCE;
            };
            // SAFETY: just taken from the pool, so nobody else has it.
            let r = unsafe { taken.as_mut() };
            r.fill(
                tag,
                caller.completion,
                caller.local_address,
                caller.local_handle,
            );
            Some(taken)
        } else {
            None
        };
        let pointer = taken.map_or_else(|| tag.bare(), |r| r.as_ptr().cast());
        // SAFETY: as above; the provider does not have it yet.
        let rc = call(context, pointer, taken.map(|mut r| unsafe { r.as_mut() }));
        if rc != 0 {
            if let Some(taken) = taken {
                // SAFETY: taken above; the provider refused the operation and forgot it.
                unsafe { state.pool.give_back(taken) };
            }
            state.again += 1;
            let count = state.again;
            drop(state);
            self.lower(context, tag, 1);
            return self.refused(endpoint, context, rc, count);
        }
        state.posted += 1;
        drop(state);
        self.poll_if_many(context);
        Status::SUCCESS
    }

    /// Makes progress where many operations are outstanding.
    #[inline]
    pub(crate) fn poll_if_many(&self, context: &Context) {
        if context.tally.outstanding() > self.progress_threshold
            && !context.delivering.load(Ordering::Relaxed)
        {
            self.poll(context);
        }
    }

    /// Counts operations as done at their peer and in their context, in this order: whoever finds a
    /// context without other operations than those it accounts for (`settle_unattributed`) must not
    /// find others still counted at a peer.
    #[inline]
    pub(crate) fn lower(&self, context: &Context, tag: Tag, n: u32) {
        // SAFETY: tags are made from endpoints that outlive their operations.
        let peer = unsafe { &*tag.endpoint() };
        peer.tally.lower(tag.endpoint_slot(), n, self.threaded);
        context.tally.lower(tag.context_slot(), n, self.threaded);
    }

    /// Turns an operation away because more are outstanding than the provider can hold beside it.
    #[cold]
    #[inline(never)]
    fn turned_away(&self, context: &Context) -> Status {
        if !context.delivering.load(Ordering::Relaxed) {
            self.poll(context);
        }
        Status::TEMP_OUT_OF_RESOURCE
    }

    /// What a refused post means to the caller. shm refuses for ever once a peer died with its
    /// command queue full, so now and then the peer is looked at.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(
        &self,
        endpoint: NonNull<Endpoint>,
        context: &Context,
        rc: isize,
        count: u64,
    ) -> Status {
        let status = i32::try_from(-rc).map_or(Status::ERROR, status_of);
        if status == Status::TEMP_OUT_OF_RESOURCE {
            if count.is_multiple_of(AGAIN_CHECK) {
                self.check_peers();
                // SAFETY: the caller of post vouched for the endpoint.
                if let Some(gone) = unsafe { endpoint.as_ref() }.failure() {
                    return gone;
                }
                if self.takes_nothing(context) {
                    let why =
                        "the provider has taken no operation since btl_ofi_peer_timeout began";
                    self.abandon_peer(endpoint, why);
                    return Status::UNREACH;
                }
            }
            // Completions free the provider's room; its own callbacks may already be running here.
            if !context.delivering.load(Ordering::Relaxed) {
                self.poll(context);
            }
        } else if status == Status::UNREACH {
            self.fail_peer(endpoint, status, "the provider refuses to send to it");
        } else {
            // Some providers have no better word for a lost connection than any error.
            self.check_peers();
            // SAFETY: the caller of post vouched for the endpoint.
            if let Some(gone) = unsafe { endpoint.as_ref() }.failure() {
                return gone;
            }
        }
        status
    }

    /// Whether a context has taken no operation for the time that peers are given. Nothing need be
    /// outstanding for that, so no peer would be found silent.
    fn takes_nothing(&self, context: &Context) -> bool {
        if self.peer_timeout_ms == 0 {
            return false;
        }
        let now = self.opened.elapsed().as_millis() as u64;
        let mut state = context.state.lock();
        match state.refusing {
            Some((posted, since)) if posted == state.posted => now - since >= self.peer_timeout_ms,
            _ => {
                state.refusing = Some((state.posted, now));
                false
            }
        }
    }

    /// Completes an operation that needs no provider: at once without callback, else when progress is made.
    #[cold]
    pub(crate) fn nothing(&self, endpoint: NonNull<Endpoint>, caller: Caller) -> Status {
        // SAFETY: the caller of the operation vouched for the endpoint.
        let peer = unsafe { endpoint.as_ref() };
        if let Some(status) = peer.failure() {
            return status;
        }
        if caller.completion.is_none() {
            return Status::SUCCESS;
        }
        let context = self.context();
        let mut state = context.state.lock();
        if state.ready.try_reserve(1).is_err() {
            return Status::OUT_OF_RESOURCE;
        }
        let tag = Tag::new(
            endpoint,
            context.tally.raise(self.threaded),
            peer.tally.raise(self.threaded),
        );
        state.ready.push(caller.finished(tag));
        Status::SUCCESS
    }

    /// What a transfer made directly means to its caller: it is over, one way or the other.
    #[inline]
    fn copied(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        copied: Result<(), Refused>,
    ) -> Status {
        if let Err(Refused(errno)) = copied {
            return self.not_copied(endpoint, errno);
        }
        self.count_direct();
        match caller.completion {
            None => Status::SUCCESS,
            Some(_) => self.nothing(endpoint, caller),
        }
    }

    /// Counts an operation that was over before its call returned.
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
    fn not_copied(&self, endpoint: NonNull<Endpoint>, errno: i32) -> Status {
        match errno {
            libc::ESRCH => {
                let why = "its process no longer runs";
                self.fail_peer(endpoint, Status::UNREACH, why);
                Status::UNREACH
            }
            // The region's memory is no longer mapped there.
            libc::EFAULT => Status::PERM,
            errno => status_of(errno),
        }
    }

    /// A put or get to this process itself, made by copying under the context's lock.
    ///
    /// # Safety
    /// The local buffer is good for `size` bytes; `remote_address` lies in the handle's bounds.
    #[cold]
    unsafe fn copy(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: &Handle,
        remote_address: u64,
        size: usize,
        put: bool,
    ) -> Status {
        if !self.registrar.lives(remote) {
            return Status::PERM;
        }
        let local: *mut u8 = caller.local_address.cast();
        let window: *mut u8 = ptr::with_exposed_provenance_mut(remote_address as usize);
        let (from, to) = if put {
            (local, window)
        } else {
            (window, local)
        };
        {
            let _state = self.context().state.lock();
            // SAFETY: the caller vouches for the local side; the other lies in a region that lives.
            unsafe { ptr::copy(from, to, size) };
        }
        self.nothing(endpoint, caller)
    }

    /// Writes `size` bytes at `local` to `remote_address` in the peer's region `remote`.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect); `local` is readable for `size` bytes until
    /// completion; `local_handle` is NULL or a handle of this transport.
    #[inline]
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
        // What is no host memory here or there may be of a device.
        let device = |status| {
            let ask = Ask {
                action: Action::Put,
                local,
                local_handle,
                value: None,
                result: ptr::null_mut(),
                result_handle: ptr::null_mut(),
                address: remote_address,
                size,
            };
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, remote, ask) }
        };
        let target = match remote.target(remote_address, size as u64, self.virtual_addresses) {
            Ok(target) => target,
            Err(status) => return device(status),
        };
        // SAFETY: the caller vouches for the handle.
        if let Err(status) = unsafe { check_local(local_handle, local, size) } {
            return device(status);
        }
        if size == 0 {
            return self.nothing(endpoint, caller);
        }
        if size > self.put_limit {
            return Status::VALUE_OUT_OF_BOUNDS;
        }
        // SAFETY: the caller vouches for the endpoint.
        let peer = unsafe { endpoint.as_ref() };
        if peer.copies == Copies::Here {
            // SAFETY: the bounds were checked; the buffer is the caller's.
            return unsafe { self.copy(endpoint, caller, remote, remote_address, size, true) };
        }
        if peer.copies == Copies::Kernel {
            if let Some(status) = peer.failure() {
                return status;
            }
            // SAFETY: the caller vouches for the buffer; the target's region lets itself be written.
            let copied = unsafe { direct::write(peer.pid(), local, remote_address, size) };
            return self.copied(endpoint, caller, copied);
        }
        let delivered = self.policy.delivered;
        // SAFETY: the endpoint is live; the buffers are the caller's until completion.
        unsafe {
            self.post(endpoint, caller, Needs::default(), |context, pointer, _| {
                let iov = ffi::iovec {
                    iov_base: local,
                    iov_len: size,
                };
                let rma = ffi::fi_rma_iov {
                    addr: target.address,
                    len: size,
                    key: target.key,
                };
                let message = ffi::fi_msg_rma {
                    msg_iov: &iov,
                    desc: ptr::null_mut(),
                    iov_count: 1,
                    addr: peer.address,
                    rma_iov: &rma,
                    rma_iov_count: 1,
                    context: pointer,
                    data: 0,
                };
                (context.calls.writemsg)(context.tx, &message, delivered)
            })
        }
    }

    /// Reads `size` bytes at `remote_address` of the peer's region `remote` to `local`.
    ///
    /// # Safety
    /// As for [`put`](Self::put), with `local` writable.
    #[inline]
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
        // What is no host memory here or there may be of a device.
        let device = |status| {
            let ask = Ask {
                action: Action::Get,
                local,
                local_handle,
                value: None,
                result: ptr::null_mut(),
                result_handle: ptr::null_mut(),
                address: remote_address,
                size,
            };
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, remote, ask) }
        };
        let target = match remote.target(remote_address, size as u64, self.virtual_addresses) {
            Ok(target) => target,
            Err(status) => return device(status),
        };
        // SAFETY: the caller vouches for the handle.
        if let Err(status) = unsafe { check_local(local_handle, local, size) } {
            return device(status);
        }
        if size == 0 {
            return self.nothing(endpoint, caller);
        }
        if size > self.get_limit {
            return Status::VALUE_OUT_OF_BOUNDS;
        }
        // SAFETY: the caller vouches for the endpoint, whose address does not change.
        let peer = unsafe { endpoint.as_ref() };
        if peer.copies == Copies::Here {
            // SAFETY: the bounds were checked; the buffer is the caller's.
            return unsafe { self.copy(endpoint, caller, remote, remote_address, size, false) };
        }
        if peer.copies == Copies::Kernel {
            if let Some(status) = peer.failure() {
                return status;
            }
            // SAFETY: the caller vouches for the buffer.
            let copied = unsafe { direct::read(peer.pid(), local, remote_address, size) };
            return self.copied(endpoint, caller, copied);
        }
        let address = peer.address;
        // SAFETY: the endpoint is live; the buffer is the caller's until completion. A read is
        // complete when its data is here, whatever the provider does at the target.
        unsafe {
            self.post(endpoint, caller, Needs::default(), |context, pointer, _| {
                (context.calls.read)(
                    context.tx,
                    local,
                    size,
                    ptr::null_mut(),
                    address,
                    target.address,
                    target.key,
                    pointer,
                )
            })
        }
    }
}

/// Refuses a local handle that was deregistered or does not cover the buffer. NULL is fine: no
/// supported provider needs local registration.
///
/// # Safety
/// `handle` is NULL or readable for the size of a handle.
#[inline]
pub(crate) unsafe fn check_local(
    handle: *mut plugin_api::Handle,
    address: *const c_void,
    size: usize,
) -> Result<(), Status> {
    if handle.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for it; hosts may keep handles anywhere, so nothing is assumed of
    // the alignment.
    let handle = unsafe { ptr::read_unaligned(handle.cast::<Handle>()) };
    handle.covers(address as u64, size as u64)
}
