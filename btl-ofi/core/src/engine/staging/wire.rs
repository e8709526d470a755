//! Transfers of host memory behind operations on device memory: the transport's own puts, gets and atomics,
//! with a completion flag.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, Ordering};

use plugin_api::{AtomicKind, AtomicOp, Datatype, Module, OpFlags, Status};

use crate::engine::transport::Transport;
use crate::hmem::mailbox::FRAGMENT;
use crate::mem::handle::Handle;
use crate::op::completion::Completion;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Transfers;

/// In progress. Any other value of a flag is the final status.
const PENDING: i32 = 1;

/// Result of starting a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Started,
    /// The provider has no room now.
    Later,
    Failed(Status),
}

/// Progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Pending,
    Done,
    Failed(Status),
}

pub(super) fn stand(flag: &AtomicI32) -> Stand {
    // Acquire pairs with the Release in `told`: the transferred data is visible.
    match flag.load(Ordering::Acquire) {
        PENDING => Stand::Pending,
        0 => Stand::Done,
        code => Stand::Failed(Status(code)),
    }
}

pub(crate) unsafe extern "C" fn told(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    flag: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    // SAFETY: the flag lives as long as an operation refers to it.
    let flag = unsafe { &*flag.cast::<AtomicI32>() };
    let status = if status == PENDING { 0 } else { status };
    flag.store(status, Ordering::Release);
}

fn started(flag: &AtomicI32, status: Status) -> Start {
    match status {
        Status::SUCCESS => Start::Started,
        // Completed inline: no callback runs.
        Status::COMPLETED => {
            flag.store(0, Ordering::Relaxed);
            Start::Started
        }
        status if status.is_again() || status == Status::OUT_OF_RESOURCE => Start::Later,
        status => Start::Failed(status),
    }
}

/// The best length of a fragment to a peer. If the transport copies the data itself, messages cost little, and
/// half the length uses the cache better.
pub(super) fn best_fragment(peer: &Endpoint) -> usize {
    match peer.transfers() {
        Transfers::Fabric | Transfers::Message => FRAGMENT,
        _ => FRAGMENT / 2,
    }
}

impl Transport {
    /// Starts a put.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit); the flag lives until it is no longer pending.
    pub(super) unsafe fn wire_put(
        &self,
        endpoint: NonNull<Endpoint>,
        from: *const u8,
        to: u64,
        remote: &Handle,
        size: usize,
        flag: &AtomicI32,
    ) -> Start {
        let (from, none) = (from.cast_mut().cast(), ptr::null_mut());
        start(flag, |told| {
            // SAFETY: the caller guarantees that `endpoint` is live and that `from` is readable until the flag
            // is set.
            unsafe {
                self.transfer(
                    endpoint,
                    &Op::put(remote, to, (from, none), size).with_completion(Some(told)),
                    true,
                )
                .unwrap_or_else(|refusal| refusal)
            }
        })
    }

    /// Starts a get.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit); the flag lives until it is no longer pending.
    pub(super) unsafe fn wire_get(
        &self,
        endpoint: NonNull<Endpoint>,
        into: *mut u8,
        from: u64,
        remote: &Handle,
        size: usize,
        flag: &AtomicI32,
    ) -> Start {
        let (into, none) = (into.cast(), ptr::null_mut());
        start(flag, |told| {
            // SAFETY: the caller guarantees that `endpoint` is live and that `into` is writable until the flag
            // is set.
            unsafe {
                self.transfer(
                    endpoint,
                    &Op::get(remote, from, (into, none), size).with_completion(Some(told)),
                    false,
                )
                .unwrap_or_else(|refusal| refusal)
            }
        })
    }

    /// Starts a compare-and-swap: replaces the word at `at` if it equals `compare`; writes the old value to
    /// `old`.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit); the flag lives until it is no longer pending.
    #[allow(
        clippy::too_many_arguments,
        reason = "the parameters of a compare-and-swap"
    )]
    pub(super) unsafe fn wire_cswap(
        &self,
        endpoint: NonNull<Endpoint>,
        old: *mut u64,
        at: u64,
        remote: &Handle,
        compare: u64,
        value: u64,
        flag: &AtomicI32,
    ) -> Start {
        start(flag, |told| {
            let result = (old.cast(), ptr::null_mut());
            let op = Op::swap_word(OpFlags::empty(), (remote, at), (compare, value), result)
                .with_completion(Some(told));
            let what = (
                AtomicKind::Compare,
                Datatype::Uint64,
                AtomicOp::Cswap,
                compare,
            );
            // SAFETY: the caller guarantees that `endpoint` is live and that `old` is writable until the flag is set.
            unsafe {
                if self.policy.serves_atomics_itself() {
                    // A thread of the target may serve the mailbox in its owner's place, which a ring would wait for.
                    self.atomic_by_fabric(endpoint, &op, remote, what)
                } else {
                    self.atomic(endpoint, &op, what)
                        .unwrap_or_else(|refusal| refusal)
                }
            }
        })
    }
}

/// Starts an operation that sets `flag` when it completes. The flag is pending from this call on.
pub(super) fn start(flag: &AtomicI32, call: impl FnOnce(Completion) -> Status) -> Start {
    flag.store(PENDING, Ordering::Relaxed);
    let tell = Completion {
        function: told,
        context: ptr::from_ref(flag).cast_mut().cast(),
        data: ptr::null_mut(),
    };
    started(flag, call(tell))
}
