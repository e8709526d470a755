//! What a transport records in its trace (`btl_ofi_trace`).
//!
//! A traced transport leaves the fast paths: its door's table has the slow functions ([`Transport::is_traced`]), progress
//! takes the way of staged operations, and flushes that of messages of the host. So the fast paths know nothing of traces.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_api::counters::{CARRIERS, Carrier};
use plugin_api::trace::{Kind, NO_CARRIER, NOT_ENDED, QUIET, Record};
use plugin_api::{AtomicKind, Handle, Module, Status};

use crate::base::params::Options;
use crate::base::sys;
use crate::base::trace::TraceFile;
use crate::engine::transport::Transport;
use crate::op::completion::Completion;
use crate::op::request::{Action, Op};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Atomics, Transfers};

/// Operations whose completions are recorded at the same time. Those of others are not.
const MOST_UNDER_WAY: usize = 4096;

/// The trace of a transport.
pub(crate) struct Trace {
    file: TraceFile,
    /// The number of the next operation.
    next: AtomicU64,
    /// When progress was made last, and the commands executed for peers until then.
    progressed: AtomicU64,
    served: AtomicU64,
    under_way: Mutex<UnderWay>,
    refused: Mutex<Option<Record>>,
}

/// Operations with callbacks, by the index that their callbacks get.
struct UnderWay {
    entries: Box<[Option<Watched>]>,
    free: Vec<usize>,
}

/// An operation whose callback is the trace's, which calls the caller's.
#[derive(Clone, Copy)]
struct Watched {
    completion: Completion,
    posted: Record,
}

// SAFETY: only the caller's function follows its pointers, and the caller allows it to run on any thread that makes progress.
unsafe impl Send for Watched {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trace {
    /// Opens the trace that the options ask for. Without one the transport works as well.
    pub(crate) fn open(options: &Options, title: &str) -> Option<Arc<Trace>> {
        let name = options.trace.as_deref()?;
        let file = TraceFile::create(name, title);
        let file = file.inspect_err(|e| {
            tracing::warn!(
                "no trace is written to {}.*: {e}; choose another btl_ofi_trace",
                name.display()
            );
        });
        Some(Arc::new(Trace {
            file: file.ok()?,
            next: AtomicU64::new(0),
            progressed: AtomicU64::new(sys::monotonic()),
            served: AtomicU64::new(0),
            under_way: Mutex::new(UnderWay {
                entries: vec![None; MOST_UNDER_WAY].into_boxed_slice(),
                free: (0..MOST_UNDER_WAY).collect(),
            }),
            refused: Mutex::new(None),
        }))
    }

    /// Notes an interval that begins now, for the case that it never ends.
    pub(crate) fn begin(&self, kind: Kind, begin: u64, peer: u64) {
        self.file.begin(&Record {
            peer,
            ..Record::new(kind, begin, 0)
        });
    }

    /// Records an interval that ends now.
    pub(crate) fn add_since(&self, kind: Kind, begin: u64, peer: u64) {
        let duration = sys::monotonic().saturating_sub(begin);
        self.file.add(&Record {
            peer,
            ..Record::new(kind, begin, duration)
        });
    }

    /// Has the callback of an operation recorded, if there is room.
    fn watch(&self, completion: Completion, posted: Record) -> Option<Completion> {
        let mut under_way = lock(&self.under_way);
        let index = under_way.free.pop()?;
        under_way.entries[index] = Some(Watched { completion, posted });
        Some(Completion {
            function: completed,
            context: ptr::from_ref(self).cast_mut().cast(),
            data: ptr::without_provenance_mut(index),
        })
    }

    fn take(&self, index: usize) -> Option<Watched> {
        let mut under_way = lock(&self.under_way);
        let watched = under_way.entries.get_mut(index)?.take()?;
        under_way.free.push(index);
        Some(watched)
    }

    /// Notes a post that was refused for lack of room, or with none that one was taken; records a row of refused ones when it
    /// ends.
    fn note_refusal(&self, new: Option<Record>, peer: u64) {
        let mut refused = lock(&self.refused);
        match (&mut *refused, new) {
            (Some(row), Some(new)) if row.peer == peer && row.name == new.name => {
                row.id += 1;
                row.duration = new.end().saturating_sub(row.begin);
            }
            (Some(row), None) if row.peer != peer => {}
            (row, new) => {
                if let Some(ended) = std::mem::replace(row, new) {
                    self.file.add(&ended);
                }
            }
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Some(last) = lock(&self.refused).take() {
            self.file.add(&last);
        }
    }
}

/// The callback of a watched operation.
unsafe extern "C" fn completed(
    module: *mut Module,
    endpoint: *mut plugin_api::Endpoint,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    // SAFETY: `watch` passes its trace, which the transport keeps until it is closed, when no callback runs any more.
    let trace = unsafe { &*context.cast::<Trace>() };
    let Some(Watched { completion, posted }) = trace.take(data.addr()) else {
        return;
    };
    trace.file.add(&Record {
        kind: Kind::Done,
        duration: sys::monotonic().saturating_sub(posted.begin),
        status: status as i16,
        ..posted
    });
    // SAFETY: the caller of the operation passed this function with its arguments, and allows it to run here.
    unsafe {
        (completion.function)(
            module,
            endpoint,
            local_address,
            local_handle,
            completion.context,
            completion.data,
            status,
        );
    }
}

impl Transport {
    /// Whether a trace is written: then a door takes no fast path.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Adds an interval of the host to the trace: a call about process `peer`, or about none ([`NO_RANK`](plugin_api::trace::NO_RANK)), from `begin` to
    /// `end` in nanoseconds of `CLOCK_MONOTONIC`. With an end of [`NOT_ENDED`] it is noted, in case that it never ends; one that ends
    /// where it began is recorded no more. Without a trace nothing is done.
    pub fn add_to_trace(&self, name: &[u8], peer: u64, (begin, end): (u64, u64)) {
        let Some(trace) = &self.trace else { return };
        let call = Record::new(Kind::Call, begin, end.saturating_sub(begin)).named(name);
        let call = Record { peer, ..call };
        match end {
            NOT_ENDED => trace.file.begin(&call),
            end if end == begin => trace.file.forget(&call),
            _ => trace.file.add(&call),
        }
    }

    /// Executes a request by `execute`, and records it.
    ///
    /// # Safety
    /// `endpoint` is live.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn execute_traced(
        &self,
        trace: &Trace,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        execute: impl FnOnce(&Op<'_>) -> Status,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let before = self.carried(peer);
        let mut record = Record {
            peer: peer.proc,
            bytes: op.size as u64,
            id: trace.next.fetch_add(1, Ordering::Relaxed),
            ..Record::new(Kind::Post, sys::monotonic(), 0).named(name(op.action).as_bytes())
        };
        let watched = op.completion.and_then(|c| trace.watch(c, record));
        let status = execute(&op.with_completion(watched.or(op.completion)));
        if status != Status::SUCCESS
            && let Some(watched) = watched
        {
            // No callback runs.
            trace.take(watched.data.addr());
        }
        record.duration = sys::monotonic().saturating_sub(record.begin);
        record.status = status.0 as i16;
        if status.is_again() {
            let why = self.lacks(endpoint, op.action);
            let refused = Record {
                kind: Kind::Refused,
                id: 1,
                name: [0; 16],
                ..record
            };
            trace.note_refusal(Some(refused.named(why.as_bytes())), peer.proc);
            return status;
        }
        trace.note_refusal(None, peer.proc);
        let after = self.carried(peer);
        let carrier = (0..CARRIERS).find(|i| after[*i] > before[*i]);
        record.carrier = carrier.map_or(NO_CARRIER, |i| i as u8);
        trace.file.add(&record);
        status
    }

    /// Operations to a peer so far, by carrier. Several threads may count at the same time; then an operation may be recorded
    /// with another one's carrier.
    fn carried(&self, peer: &Endpoint) -> [u64; CARRIERS] {
        Carrier::ALL.map(|carrier| self.counters.operations(peer, carrier))
    }

    /// What there was no room in.
    fn lacks(&self, endpoint: NonNull<Endpoint>, action: Action) -> &'static str {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let by_message = match action {
            Action::Atomic { .. } if peer.atomics() == Atomics::Ring => return "ring",
            Action::Put | Action::Get if peer.transfers() == Transfers::Ring => return "ring",
            Action::Atomic { .. } => peer.atomics() == Atomics::Message,
            Action::Put | Action::Get => peer.transfers() == Transfers::Message,
        };
        let state = self.contexts[0].state.lock();
        match &state.messages {
            Some(messages) if by_message && !messages.stuck().any(|peer| peer == endpoint) => {
                "credits"
            }
            _ => "provider",
        }
    }

    /// Progress that is recorded: when it did something, and when none was made for long before.
    #[cold]
    #[inline(never)]
    pub(crate) fn progress_traced(&self, trace: &Trace, progress: impl FnOnce() -> usize) -> usize {
        let begin = sys::monotonic();
        let last = trace.progressed.swap(begin, Ordering::Relaxed);
        if begin.saturating_sub(last) > QUIET {
            trace
                .file
                .add(&Record::new(Kind::Quiet, last, begin - last));
        }
        let done = progress();
        let end = sys::monotonic();
        let served = self.served().map_or(0, |now| {
            now.wrapping_sub(trace.served.swap(now, Ordering::Relaxed))
        });
        // Another thread may have been here meanwhile.
        trace.progressed.fetch_max(end, Ordering::Relaxed);
        if done > 0 || served > 0 {
            trace.file.add(&Record {
                id: done as u64,
                bytes: served,
                ..Record::new(Kind::Progress, begin, end - begin)
            });
        }
        done
    }

    /// Commands and messages of peers that were executed here; `None` if another thread is at it.
    fn served(&self) -> Option<u64> {
        let state = self.contexts[0].state.try_lock()?;
        let by_rings = state.channel.as_ref().map_or(0, |channel| channel.served());
        let by_messages = state
            .messages
            .as_ref()
            .map_or(0, |messages| messages.served());
        Some(by_rings.wrapping_add(by_messages))
    }
}

/// What an operation is called in a trace.
fn name(action: Action) -> &'static str {
    match action {
        Action::Put => "put",
        Action::Get => "get",
        Action::Atomic { kind, .. } => match kind {
            AtomicKind::Update => "update",
            AtomicKind::Fetch => "fetch",
            AtomicKind::Compare => "compare-swap",
        },
    }
}
