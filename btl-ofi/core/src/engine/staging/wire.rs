//! Transfers of host memory that stand behind an operation on device memory: the transport's own puts,
//! gets and atomics, which tell a flag when they are done.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, Ordering};

use plugin_api::{Module, OpFlags, Status};

use crate::engine::transport::Transport;
use crate::hmem::mailbox::FRAGMENT;
use crate::mem::handle::Handle;
use crate::op::record::Completion;
use crate::peer::endpoint::{Copies, Endpoint};

/// Under way. Any other value of a flag is the status with which it ended.
const PENDING: i32 = 1;

/// What became of a try to start one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Started,
    /// The provider has no room now.
    Later,
    Failed(Status),
}

/// How one stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Pending,
    Done,
    Failed(Status),
}

/// Reads a flag.
pub(super) fn stand(flag: &AtomicI32) -> Stand {
    // Acquire pairs with the Release in `told`: what the transfer brought is here.
    match flag.load(Ordering::Acquire) {
        PENDING => Stand::Pending,
        0 => Stand::Done,
        code => Stand::Failed(Status(code)),
    }
}

unsafe extern "C" fn told(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    flag: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    // SAFETY: the flag is kept as long as an operation names it.
    let flag = unsafe { &*flag.cast::<AtomicI32>() };
    let status = if status == PENDING { 0 } else { status };
    flag.store(status, Ordering::Release);
}

fn started(flag: &AtomicI32, status: Status) -> Start {
    match status {
        Status::SUCCESS => Start::Started,
        // Over, and nobody else will say so.
        Status::COMPLETED => {
            flag.store(0, Ordering::Relaxed);
            Start::Started
        }
        status if status.is_again() || status == Status::OUT_OF_RESOURCE => Start::Later,
        status => Start::Failed(status),
    }
}

/// The best length of a fragment to a peer: where the transport copies itself, messages cost next to
/// nothing, and half as much stays nearer to the processor.
pub(super) fn best_fragment(peer: &Endpoint) -> usize {
    match peer.copies() {
        Copies::Provider => FRAGMENT,
        _ => FRAGMENT / 2,
    }
}

impl Transport {
    /// # Safety
    /// As for [`put`](Self::put), and the flag stays until it is no longer pending.
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
            // SAFETY: as the caller vouches.
            unsafe { self.put(endpoint, from, to, none, remote, size, Some(told)) }
        })
    }

    /// # Safety
    /// As for [`get`](Self::get), and the flag stays until it is no longer pending.
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
            // SAFETY: as the caller vouches.
            unsafe { self.get(endpoint, into, from, none, remote, size, Some(told)) }
        })
    }

    /// Replaces the word at `at` if it equals `compare`; what was there goes to `old`.
    ///
    /// # Safety
    /// As for [`atomic_cswap`](Self::atomic_cswap), and the flag stays until it is no longer pending.
    #[allow(
        clippy::too_many_arguments,
        reason = "a compare-and-swap has that many parts"
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
            // SAFETY: as the caller vouches.
            unsafe {
                self.atomic_cswap(
                    endpoint,
                    old.cast(),
                    at,
                    ptr::null_mut(),
                    remote,
                    compare,
                    value,
                    OpFlags::empty(),
                    Some(told),
                )
            }
        })
    }
}

/// Starts an operation that tells a flag, which is pending from here on.
pub(super) fn start(flag: &AtomicI32, call: impl FnOnce(Completion) -> Status) -> Start {
    flag.store(PENDING, Ordering::Relaxed);
    let tell = Completion {
        function: told,
        context: ptr::from_ref(flag).cast_mut().cast(),
        data: ptr::null_mut(),
    };
    started(flag, call(tell))
}
