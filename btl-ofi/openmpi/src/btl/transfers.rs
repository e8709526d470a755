//! Long puts and gets that found no room and were accepted anyway. Progress posts these transfers
//! (`entries::kept`).

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use btl_ofi::{Completion, Endpoint, Handle, Op};
use plugin_api::Status;

use crate::bindings as ffi;
use crate::btl::waiting::Queues;

/// The direction of a transfer.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Put,
    Get,
}

/// A put or get. The caller of the put or get keeps the local memory until completion; the peer's
/// handle is copied.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) kind: Kind,
    pub(crate) local: *mut c_void,
    pub(crate) local_handle: *mut ffi::mca_btl_base_registration_handle_t,
    pub(crate) remote: u64,
    pub(crate) handle: Handle,
    pub(crate) size: usize,
    pub(crate) done: Option<Completion>,
}

impl Transfer {
    /// The operation for the transport.
    pub(crate) fn op(&self) -> Op<'_> {
        let local = (self.local, self.local_handle.cast());
        let op = match self.kind {
            Kind::Put => Op::put(&self.handle, self.remote, local, self.size),
            Kind::Get => Op::get(&self.handle, self.remote, local, self.size),
        };
        op.with_completion(self.done)
    }

    /// Its name in messages.
    pub(crate) fn what(&self) -> &'static str {
        match self.kind {
            Kind::Put => "put",
            Kind::Get => "get",
        }
    }
}

/// The transfers of a module that wait for room, each with its number.
#[derive(Default)]
pub(crate) struct Transfers {
    queues: Queues<(u64, Transfer)>,
    /// The number of the next transfer. Relaxed accesses suffice, because the queues' lock orders accesses with the
    /// contents of the queues.
    next: AtomicU64,
}

impl Transfers {
    /// Takes a transfer. Returns false, having done nothing, if the endpoint is being released.
    pub(crate) fn keep(&self, endpoint: NonNull<Endpoint>, transfer: Transfer) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.queues.push(endpoint, (number, transfer))
    }

    /// Whether transfers wait.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.queues.any()
    }

    /// The number of the next transfer.
    pub(crate) fn now(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Whether a transfer with a number below `end` waits for this endpoint; with `None`, for any endpoint. Queues are ordered by
    /// number.
    pub(crate) fn any_before(&self, endpoint: Option<NonNull<Endpoint>>, end: u64) -> bool {
        self.queues.has_first(endpoint, |(number, _)| *number < end)
    }

    /// See [`Queues::resume`].
    pub(crate) fn resume(
        &self,
        post: impl Fn(NonNull<Endpoint>, Transfer) -> Status,
        done: impl Fn(NonNull<Endpoint>, Transfer, Status),
    ) {
        self.queues.resume(
            |endpoint, (_, transfer)| post(endpoint, transfer),
            |endpoint, (_, transfer), status| done(endpoint, transfer, status),
        );
    }

    /// See [`Queues::close`].
    pub(crate) fn close(&self, endpoint: NonNull<Endpoint>) -> VecDeque<(u64, Transfer)> {
        self.queues.close(endpoint)
    }

    /// See [`Queues::open`].
    pub(crate) fn open(&self, endpoint: NonNull<Endpoint>) {
        self.queues.open(endpoint);
    }
}
