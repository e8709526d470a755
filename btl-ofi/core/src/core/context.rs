//! Transmit contexts: each has the queues in which operations are posted and complete, and their
//! lock.

mod message;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libfabric_sys as ffi;

use crate::base::error::Error;
use crate::base::lock::Lock;
use crate::base::ticks;
use crate::core::completions::Completions;
use crate::core::delivering::Delivering;
use crate::fabric::confirmation::{Confirmations, writemsg_to_confirm};
use crate::fabric::msg::Messages;
use crate::op::completion::Finished;
use crate::op::record::Pool;
use crate::peer::outstanding::OutstandingCount;
use crate::peer::share::Share;
use crate::sm::channel::Channel;
pub(crate) use message::Message;

/// After a read of the provider's queue that found something, every poll reads the queue for as long as this many empty
/// reads take: several round trips over TCP.
const BUSY: u64 = 64;

type Read = unsafe extern "C" fn(
    *mut ffi::fid_ep,
    *mut c_void,
    usize,
    *mut c_void,
    ffi::fi_addr_t,
    u64,
    u64,
    *mut c_void,
) -> isize;
type WriteMsg = unsafe extern "C" fn(*mut ffi::fid_ep, *const ffi::fi_msg_rma, u64) -> isize;
type Update = unsafe extern "C" fn(*mut ffi::fid_ep, *const ffi::fi_msg_atomic, u64) -> isize;
type Fetch = unsafe extern "C" fn(
    *mut ffi::fid_ep,
    *const c_void,
    usize,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    ffi::fi_addr_t,
    u64,
    u64,
    ffi::fi_datatype,
    ffi::fi_op,
    *mut c_void,
) -> isize;
type Compare = unsafe extern "C" fn(
    *mut ffi::fid_ep,
    *const c_void,
    usize,
    *mut c_void,
    *const c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    ffi::fi_addr_t,
    u64,
    u64,
    ffi::fi_datatype,
    ffi::fi_op,
    *mut c_void,
) -> isize;
pub(crate) type CqRead = unsafe extern "C" fn(*mut ffi::fid_cq, *mut c_void, usize) -> isize;

/// Replaces the provider's `fi_cq_read` once the endpoints are closed.
pub(crate) unsafe extern "C" fn never_read(_: *mut ffi::fid_cq, _: *mut c_void, _: usize) -> isize {
    -(ffi::FI_EAGAIN as isize)
}

/// The provider's data-path functions. `Context::new` reads them once and checks that none is missing.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) read: Read,
    pub(crate) writemsg: WriteMsg,
    pub(crate) update: Update,
    pub(crate) fetch: Fetch,
    pub(crate) compare: Compare,
}

const NOT_SERVED: isize = -(ffi::FI_ENOSYS as isize);

unsafe extern "C" fn no_update(_: *mut ffi::fid_ep, _: *const ffi::fi_msg_atomic, _: u64) -> isize {
    NOT_SERVED
}

unsafe extern "C" fn no_fetch(
    _: *mut ffi::fid_ep,
    _: *const c_void,
    _: usize,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: ffi::fi_addr_t,
    _: u64,
    _: u64,
    _: ffi::fi_datatype,
    _: ffi::fi_op,
    _: *mut c_void,
) -> isize {
    NOT_SERVED
}

unsafe extern "C" fn no_compare(
    _: *mut ffi::fid_ep,
    _: *const c_void,
    _: usize,
    _: *mut c_void,
    _: *const c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    _: ffi::fi_addr_t,
    _: u64,
    _: u64,
    _: ffi::fi_datatype,
    _: ffi::fi_op,
    _: *mut c_void,
) -> isize {
    NOT_SERVED
}

/// The paths by which peers' commands reach a context, besides its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carriers {
    /// No other path.
    None,
    /// By rings.
    Rings,
    /// By rings, beside a queue whose readings make system calls.
    RingsAndKernel,
    /// By messages, and perhaps by rings.
    Messages,
    /// By rings at most, while puts of this process need confirmation.
    Confirmations,
}

/// Counts of operations since the context was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Posted operations that no carrier counts (`plugin_api::counters`): staged operations, and sends.
    pub(crate) others: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    /// Posts that the provider refused.
    pub(crate) again: u64,
}

/// The operation that is being posted, kept in case of a refusal. The operation is kept here instead of in registers,
/// because every post would have to save these registers around the provider's call.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    /// The context pointer that the provider received.
    pub(crate) pointer: *mut c_void,
    /// The bytes that were counted (`plugin_api::counters`).
    pub(crate) bytes: usize,
}

/// State under a context's lock. The lock also serializes calls on the provider's endpoint and queue.
pub(crate) struct State {
    pub(crate) pool: Pool,
    pub(crate) attempt: Attempt,
    pub(crate) message: Message,
    /// The provider's `fi_cq_read`. After the endpoints are closed, a function that reads nothing
    /// (`carrier::provider::endpoints`).
    pub(crate) read: CqRead,
    /// Zero-byte operations; the next progress call completes them.
    pub(crate) ready: Vec<Finished>,
    /// An empty list that replaces `ready`, so that its allocation is reused.
    pub(crate) spare: Vec<Finished>,
    /// Rings for atomics and ring puts and gets with local peers, if the provider is bypassed.
    pub(crate) channel: Option<Box<Channel>>,
    /// The carriers by which commands of peers arrive here.
    pub(crate) carriers: Carriers,
    /// Messages with peers, if the transport uses them. Only the first context has messages.
    pub(crate) messages: Option<Box<Messages>>,
    /// Unconfirmed puts, if puts go by order.
    pub(crate) confirmations: Option<Box<Confirmations>>,
    /// Error completions that named no operation (`carrier::provider::unattributed`).
    pub(crate) unattributed: u32,
    /// Number of polls without a completion.
    pub(crate) idle: u32,
    pub(crate) counts: Counts,
    pub(crate) completions: Completions,
}

impl State {
    /// Whether the endpoints are closed (`carrier::provider::endpoints`).
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.read as usize == never_read as *const () as usize
    }

    /// Takes the ready operations and leaves the spare list in their place.
    #[inline]
    pub(crate) fn take_ready(&mut self) -> Vec<Finished> {
        if self.ready.is_empty() {
            return Vec::new();
        }
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.ready, spare)
    }
}

/// One transmit context. Aligned so that two contexts never share a cache line.
#[repr(C, align(128))]
pub(crate) struct Context {
    /// The first field, so that a pointer to the context is a pointer to its lock.
    pub(crate) state: Lock<State>,
    pub(crate) tx: *mut ffi::fid_ep,
    pub(crate) cq: *mut ffi::fid_cq,
    pub(crate) calls: Calls,
    pub(crate) count: OutstandingCount,
    /// The share in which this context counts its operations to a peer.
    pub(crate) share: Share,
    /// Transfers completed inline, without the provider.
    pub(crate) direct: AtomicU64,
    pub(crate) delivering: Delivering,
    /// Number of polls of this context by its threads. Used only with several contexts.
    pub(crate) polls: AtomicU32,
    pub(crate) other_polls: AtomicU32,
    /// The time of the last read of the provider's queue, and the duration of a read that finds nothing, in [`ticks`].
    /// Used only if a read makes system calls.
    read_at: AtomicU64,
    read_takes: AtomicU64,
    /// The time of the last read that found something.
    found_at: AtomicU64,
}

// SAFETY: `tx` and `cq` are used only while `state` is locked; the rest is Send.
unsafe impl Send for Context {}
// SAFETY: `tx` and `cq` are used only while `state` is locked; the other fields are atomic, locked or constant.
unsafe impl Sync for Context {}

impl Context {
    /// Creates a context and reads the functions from the provider's tables. With `claimed`, the provider writes to
    /// operation contexts. With `tells_lengths`, the queue's entries contain the lengths of messages.
    ///
    /// # Errors
    /// [`Error::Incomplete`] names a missing function.
    ///
    /// # Safety
    /// `tx` and `cq` are live and outlive the context. The queue has the format that `tells_lengths` selects.
    pub(crate) unsafe fn new(
        tx: *mut ffi::fid_ep,
        cq: *mut ffi::fid_cq,
        provider: &str,
        (threaded, share): (bool, Share),
        (claimed, tells_lengths): (bool, bool),
    ) -> Result<Context, Error> {
        macro_rules! entry {
            ($table:expr, $entry:ident, $name:literal) => {{
                let table = $table;
                let found = if table.is_null() {
                    None
                } else {
                    // SAFETY: a live fid keeps its tables valid.
                    unsafe { (*table).$entry }
                };
                found.ok_or_else(|| Error::Incomplete {
                    provider: provider.to_owned(),
                    entry: $name,
                })?
            }};
        }
        // SAFETY: the caller guarantees that `tx` and `cq` are live.
        let (rma, atomic, queue) = unsafe { ((*tx).rma, (*tx).atomic, (*cq).ops) };
        // SAFETY: a live endpoint keeps its table valid. Without atomics the endpoint may have no table, and
        // messages carry atomics.
        let atomic = unsafe { atomic.as_ref() };
        let calls = Calls {
            read: entry!(rma, read, "fi_read"),
            writemsg: entry!(rma, writemsg, "fi_writemsg"),
            update: atomic.and_then(|a| a.writemsg).unwrap_or(no_update),
            fetch: atomic.and_then(|a| a.readwrite).unwrap_or(no_fetch),
            compare: atomic.and_then(|a| a.compwrite).unwrap_or(no_compare),
        };
        let state = State {
            pool: Pool::new(claimed),
            attempt: Attempt {
                pointer: ptr::null_mut(),
                bytes: 0,
            },
            message: Message::new(),
            read: entry!(queue, read, "fi_cq_read"),
            ready: Vec::new(),
            spare: Vec::new(),
            channel: None,
            messages: None,
            confirmations: None,
            carriers: Carriers::None,
            unattributed: 0,
            idle: 0,
            counts: Counts::default(),
            completions: Completions::new(tells_lengths),
        };
        Ok(Context {
            tx,
            cq,
            calls,
            count: OutstandingCount::new(),
            share,
            direct: AtomicU64::new(0),
            delivering: Delivering::default(),
            polls: AtomicU32::new(0),
            other_polls: AtomicU32::new(0),
            read_at: AtomicU64::new(0),
            read_takes: AtomicU64::new(0),
            found_at: AtomicU64::new(0),
            state: Lock::new(state, threaded),
        })
    }

    /// Makes puts go by order (`fabric::confirmation`). Every operation of the context then needs a record.
    pub(crate) fn put_by_order(&mut self) {
        self.calls.writemsg = writemsg_to_confirm;
        let mut state = self.state.lock();
        state.confirmations = Some(Box::default());
        state.carriers = Carriers::Confirmations;
    }

    /// Whether the provider's queue should be read: `times` the duration of a read has passed since the last read, or a
    /// recent read found something, so that more is likely to arrive.
    #[inline]
    pub(crate) fn has_paused(&self, times: u64) -> bool {
        let (now, takes) = (ticks::now(), self.read_takes.load(Ordering::Relaxed));
        let since = |at: &AtomicU64| now.wrapping_sub(at.load(Ordering::Relaxed));
        since(&self.read_at) >= times * takes || since(&self.found_at) < BUSY * takes
    }

    /// Records a read of the provider's queue that began at `before` and completed `completed` operations. A read that took
    /// twice as long as others also found something, because a provider serves its peers' requests in it.
    #[inline]
    pub(crate) fn has_read(&self, before: u64, completed: usize) {
        let (now, takes) = (ticks::now(), self.read_takes.load(Ordering::Relaxed));
        self.read_at.store(now, Ordering::Relaxed);
        let took = now.wrapping_sub(before);
        let found = completed > 0 || self.found_at.load(Ordering::Relaxed) >= before;
        if found || took > 2 * takes && takes > 0 {
            self.found_at.store(now, Ordering::Relaxed);
            // The duration is raised a little, because all reads may take longer from now on.
            let takes = (takes + takes / 16 + 1).min(ticks::LONG);
            self.read_takes.store(takes, Ordering::Relaxed);
        } else {
            self.read_takes
                .store(took.min(ticks::LONG), Ordering::Relaxed);
        }
    }

    /// Records that a read found messages of peers, which complete no operation of this process.
    #[inline]
    pub(crate) fn has_found(&self) {
        self.found_at.store(ticks::now(), Ordering::Relaxed);
    }
}
