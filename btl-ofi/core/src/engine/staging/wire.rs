//! Transfers of host memory for operations on device memory. These transfers are the transport's own puts, gets and
//! atomics, with a completion flag.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, Ordering};

use plugin_api::{Module, Status};

use crate::engine::transport::Transport;
use crate::hmem::mailbox::FRAGMENT;
use crate::op::completion::Completion;
use crate::op::request::{Action, Buffer, Op};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Transfers;

/// In progress. Every other value of a flag is the final status.
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
        // The transfer completed inline: no callback runs.
        Status::COMPLETED => {
            flag.store(0, Ordering::Relaxed);
            Start::Started
        }
        status if status.is_again() || status == Status::OUT_OF_RESOURCE => Start::Later,
        status => Start::Failed(status),
    }
}

/// The best length of a fragment to a peer. If the transport itself copies the data, messages cost little, and
/// half the length uses the cache better.
pub(super) fn best_fragment(peer: &Endpoint) -> usize {
    match peer.transfers() {
        Transfers::Fabric | Transfers::Message => FRAGMENT,
        _ => FRAGMENT / 2,
    }
}

impl Transport {
    /// Starts a put, a get or an atomic of host memory, which sets the flag when it completes.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit), with the buffers valid until the flag is no longer pending; the flag
    /// lives as long.
    pub(super) unsafe fn wire(
        &self,
        endpoint: NonNull<Endpoint>,
        op: Op<'_>,
        flag: &AtomicI32,
    ) -> Start {
        start(flag, |told| {
            let op = &op.with_completion(Some(told));
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until the flag is set.
            let status = unsafe {
                match op.action {
                    Action::Put => self.transfer(endpoint, op, true),
                    Action::Get => self.transfer(endpoint, op, false),
                    Action::Atomic {
                        kind,
                        datatype,
                        op: code,
                        compare,
                    } => {
                        let what = (kind, datatype, code, compare);
                        match self.policy.serves_atomics_itself() {
                            // A thread of the target may serve the mailbox for its owner. A ring would wait for the owner.
                            true => Ok(self.atomic_by_fabric(endpoint, op, op.remote, what)),
                            false => self.atomic(endpoint, op, what),
                        }
                    }
                }
            };
            status.unwrap_or_else(|refusal| refusal)
        })
    }
}

/// A local buffer of a transfer, without a handle.
pub(super) fn plain(at: *mut u8) -> Buffer {
    (at.cast(), ptr::null_mut())
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
