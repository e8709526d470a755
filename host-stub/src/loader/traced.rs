//! Records the calls between the host and a transport (`host_trace`).
//!
//! A recorded transport has functions that call the module's functions and write a record of each call to the trace. A
//! transport that is not recorded has the module's own functions. A missing trace therefore costs nothing, and the module
//! does not depend on traces.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use plugin_api::counters::CARRIERS;
use plugin_api::{
    ApplyRequest, CompletionFn, Datatype, Endpoint, Handle, Module, OpFlags, Stats, Status,
};

use crate::base::trace::{Kind, NO_CARRIER, NO_RANK, QUIET, Record, TraceFile, monotonic};
use osc_engine::transport::{ApplyFunctions, Functions, ProgressFn, Transport};

/// The maximum number of operations whose completions are recorded at the same time. Further
/// operations are not recorded.
const MOST_UNDER_WAY: usize = 4096;

/// The recorders of this process. The recording functions know only the module or the component.
static RECORDERS: RwLock<Vec<Weak<Recorder>>> = RwLock::new(Vec::new());

/// The recorder of one module.
pub(crate) struct Recorder {
    file: TraceFile,
    /// The addresses of the module and its component, and their original functions.
    module: *mut Module,
    component: *mut plugin_api::Component,
    functions: Functions,
    progress: ProgressFn,
    /// The number of the next operation.
    next: AtomicU64,
    /// The time of the last progress call.
    progressed: AtomicU64,
    /// The value of [`Stats::completed`] that the trace already contains.
    completed: AtomicU64,
    /// The process of each endpoint.
    peers: Mutex<HashMap<usize, u64>>,
    under_way: Mutex<UnderWay>,
    refused: Mutex<Option<Record>>,
}

/// Operations with callbacks, by the index that their callbacks receive.
struct UnderWay {
    entries: Box<[Option<Watched>]>,
    free: Vec<usize>,
}

/// The function of a completion and its two arguments.
type Completion = (Option<CompletionFn>, *mut c_void, *mut c_void);

/// An operation whose callback is the recorder's function, which calls the caller's function.
#[derive(Clone, Copy)]
struct Watched {
    completion: Completion,
    posted: Record,
}

// SAFETY: the threads that may call the transport may also call the module and the component. Only the caller's function
// dereferences the pointers of completions, and the caller allows this function to run on any thread that makes progress.
unsafe impl Send for Recorder {}
// SAFETY: the module has its own locks, and all other fields of the recorder are atomic or behind locks.
unsafe impl Sync for Recorder {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same transport with recording functions, and its recorder. Every later call of the transport is written to a trace
/// file. If the trace file cannot be opened, the host logs this, and the transport works without a recorder.
pub(crate) fn recorded(
    transport: Transport,
    name: &Path,
    rank: u64,
) -> (Transport, Option<Arc<Recorder>>) {
    let (mut functions, mut progress) = (*transport.functions(), transport.progress_fn());
    let attributes = transport.attributes();
    let title = format!("{}, {}", attributes.provider, attributes.domain);
    let raw = (transport.module(), transport.component());
    match Recorder::begin((name, &title, rank), raw, &mut functions, &mut progress) {
        Ok(recorder) => {
            let used = Arc::clone(&recorder);
            (transport.through(functions, progress, used), Some(recorder))
        }
        Err(error) => {
            tracing::warn!(
                "no trace is written to {}.*: {error}; choose another host_trace",
                name.display()
            );
            (transport, None)
        }
    }
}

impl Recorder {
    /// Starts to record a module. `functions` and `progress` are the module's functions; the call replaces them
    /// by recording functions.
    ///
    /// # Errors
    /// The file cannot be written.
    fn begin(
        (name, title, rank): (&Path, &str, u64),
        (module, component): (*mut Module, *mut plugin_api::Component),
        functions: &mut Functions,
        progress: &mut ProgressFn,
    ) -> io::Result<Arc<Recorder>> {
        let recorder = Arc::new(Recorder {
            file: TraceFile::create(name, title, rank)?,
            module,
            component,
            functions: *functions,
            progress: *progress,
            next: AtomicU64::new(0),
            progressed: AtomicU64::new(monotonic()),
            completed: AtomicU64::new(0),
            peers: Mutex::default(),
            under_way: Mutex::new(UnderWay {
                entries: vec![None; MOST_UNDER_WAY].into_boxed_slice(),
                free: (0..MOST_UNDER_WAY).collect(),
            }),
            refused: Mutex::new(None),
        });
        let mut all = RECORDERS.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&recorder));
        functions.add_procs = add_procs;
        functions.put = put;
        functions.get = get;
        functions.atomic_op = atomic_op;
        functions.atomic_fop = atomic_fop;
        functions.atomic_cswap = atomic_cswap;
        functions.atomic_opv = atomic_opv;
        functions.atomic_fopv = atomic_fopv;
        functions.atomic_cswapv = atomic_cswapv;
        functions.flush = flush;
        functions.put_notify = functions.put_notify.map(|_| put_notify as _);
        functions.apply = functions.apply.map(|own| ApplyFunctions { apply, ..own });
        *progress = self::progress;
        Ok(recorder)
    }

    fn find(is_it: impl Fn(&Recorder) -> bool) -> Option<Arc<Recorder>> {
        let all = RECORDERS.read().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter_map(Weak::upgrade)
            .find(|recorder| is_it(recorder))
    }

    fn of(module: *mut Module) -> Option<Arc<Recorder>> {
        Recorder::find(|recorder| recorder.module == module)
    }

    /// Records the beginning of a call of the host, in case the call never ends. `peer` is the call's process,
    /// or [`NO_RANK`].
    pub(crate) fn call_begins(&self, call: &str, peer: u64, began: u64) {
        self.file.begin(&of_call(call, peer, (began, began)));
    }

    /// Records a call of the host.
    pub(crate) fn call_ended(&self, call: &str, peer: u64, span: (u64, u64)) {
        self.file.add(&of_call(call, peer, span));
    }

    /// Ends a call of the host that is too short for a record.
    pub(crate) fn call_forgotten(&self, call: &str, peer: u64, began: u64) {
        self.file.forget(&of_call(call, peer, (began, began)));
    }

    /// The process of an endpoint; [`NO_RANK`] for NULL, which stands for all endpoints.
    fn peer(&self, endpoint: *mut Endpoint) -> u64 {
        let peers = lock(&self.peers);
        peers.get(&endpoint.addr()).copied().unwrap_or(NO_RANK)
    }

    /// The module's counts; zeros if the module has none.
    fn stats(&self) -> Stats {
        let mut stats = Stats::new();
        // SAFETY: the module is not finalised while its transport is in use; `stats` declares its own size.
        let _ = unsafe { (self.functions.stats)(self.module, &mut stats) };
        stats
    }

    /// Prepares the recording of an operation's callback, if there is room; returns the index of the
    /// operation.
    fn watch(&self, completion: Completion, posted: Record) -> Option<usize> {
        completion.0?;
        let mut under_way = lock(&self.under_way);
        let index = under_way.free.pop()?;
        under_way.entries[index] = Some(Watched { completion, posted });
        Some(index)
    }

    fn take(&self, index: usize) -> Option<Watched> {
        let mut under_way = lock(&self.under_way);
        let watched = under_way.entries.get_mut(index)?.take()?;
        under_way.free.push(index);
        Some(watched)
    }

    /// Counts a post that was refused for lack of room. `None` says that a post was accepted, which ends and records a row
    /// of refused posts.
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

    /// Records a time without progress calls, if such a time ends now.
    fn resume(&self, now: u64) {
        let last = self.progressed.swap(now, Ordering::Relaxed);
        if now.saturating_sub(last) > QUIET {
            self.file.add(&Record::new(Kind::Quiet, last, now - last));
        }
    }

    /// Executes an operation, and records it. Several threads may count at the same time; the record may then name the
    /// carrier of another operation.
    fn post(
        &self,
        endpoint: *mut Endpoint,
        (name, bytes): (&str, usize),
        completion: Completion,
        execute: impl FnOnce(Completion) -> Status,
    ) -> Status {
        let (peer, before) = (self.peer(endpoint), self.stats());
        let mut record = Record {
            peer,
            bytes: bytes as u64,
            id: self.next.fetch_add(1, Ordering::Relaxed),
            ..Record::new(Kind::Post, monotonic(), 0).named(name.as_bytes())
        };
        let watched = self.watch(completion, record);
        let own = watched.map(|index| {
            let context = ptr::from_ref(self).cast_mut().cast();
            let function: CompletionFn = completed;
            (Some(function), context, ptr::without_provenance_mut(index))
        });
        let status = execute(own.unwrap_or(completion));
        if status != Status::SUCCESS
            && let Some(watched) = watched
        {
            // No callback runs.
            self.take(watched);
        }
        record.duration = monotonic().saturating_sub(record.begin);
        record.status = status.0 as i16;
        let after = self.stats();
        let at_once = after.completed.saturating_sub(before.completed);
        self.completed.fetch_add(at_once, Ordering::Relaxed);
        if status.is_again() {
            let by_provider = after.again > before.again;
            let why = if by_provider { "provider" } else { "peer" };
            let refused = Record {
                kind: Kind::Refused,
                id: 1,
                name: [0; 16],
                ..record
            };
            self.note_refusal(Some(refused.named(why.as_bytes())), peer);
            return status;
        }
        self.note_refusal(None, peer);
        let carrier = (0..CARRIERS).find(|i| after.operations[*i] > before.operations[*i]);
        record.carrier = carrier.map_or(NO_CARRIER, |i| i as u8);
        self.file.add(&record);
        status
    }

    fn flush(&self, endpoint: *mut Endpoint) -> Status {
        let (begin, before) = (monotonic(), self.stats());
        self.resume(begin);
        let peer = self.peer(endpoint);
        let of = |kind, duration| Record {
            peer,
            ..Record::new(kind, begin, duration)
        };
        self.file.begin(&of(Kind::Wait, 0));
        // SAFETY: the caller of the flush guarantees that its arguments are valid.
        let status = unsafe { (self.functions.flush)(self.module, endpoint) };
        let end = monotonic();
        let completed = self.stats().completed.saturating_sub(before.completed);
        self.completed.fetch_add(completed, Ordering::Relaxed);
        self.progressed.fetch_max(end, Ordering::Relaxed);
        match end - begin {
            duration if duration > QUIET => self.file.add(&of(Kind::Wait, duration)),
            _ => self.file.forget(&of(Kind::Wait, 0)),
        }
        self.file.add(&of(Kind::Flush, end - begin));
        status
    }

    /// Makes progress, and records the call if it did something.
    fn progress(&self) -> i32 {
        let begin = monotonic();
        self.resume(begin);
        // SAFETY: the component lives as long as its transports.
        let done = unsafe { (self.progress)(self.component) };
        let end = monotonic();
        // Another thread may have stored a later time.
        self.progressed.fetch_max(end, Ordering::Relaxed);
        if let Ok(done) = u64::try_from(done)
            && done > 0
        {
            let now = self.stats();
            let completed = now
                .completed
                .saturating_sub(self.completed.swap(now.completed, Ordering::Relaxed));
            self.file.add(&Record {
                id: done,
                bytes: done.saturating_sub(completed),
                ..Record::new(Kind::Progress, begin, end - begin)
            });
        }
        done
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(last) = lock(&self.refused).take() {
            self.file.add(&last);
        }
    }
}

fn of_call(call: &str, peer: u64, (begin, end): (u64, u64)) -> Record {
    Record {
        peer,
        ..Record::new(Kind::Call, begin, end.saturating_sub(begin)).named(call.as_bytes())
    }
}

/// The callback of a recorded operation.
unsafe extern "C" fn completed(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    // SAFETY: `post` passes its recorder, which stays until the module is finalised; no callback runs afterwards.
    let recorder = unsafe { &*context.cast::<Recorder>() };
    let Some(Watched { completion, posted }) = recorder.take(data.addr()) else {
        return;
    };
    recorder.file.add(&Record {
        kind: Kind::Done,
        duration: monotonic().saturating_sub(posted.begin),
        status: status as i16,
        ..posted
    });
    let (Some(function), context, data) = completion else {
        return;
    };
    // SAFETY: the caller of the operation passed this function with its arguments, and allows the function to
    // run here.
    unsafe {
        function(
            module,
            endpoint,
            local_address,
            local_handle,
            context,
            data,
            status,
        );
    }
}

/// Bytes of a word that an atomic of the BTL changes.
fn word(flags: u32) -> usize {
    match OpFlags::from_bits_retain(flags).contains(OpFlags::WORD_32) {
        true => 4,
        false => 8,
    }
}

/// Bytes of elements.
fn elements(datatype: u32, count: usize) -> usize {
    Datatype::try_from(datatype).map_or(0, |datatype| datatype.size() * count)
}

/// Bytes of the runs of an apply.
///
/// # Safety
/// The request and its runs are readable.
unsafe fn applied(request: *const ApplyRequest) -> usize {
    // SAFETY: the caller guarantees the request and its runs.
    let runs = unsafe { std::slice::from_raw_parts((*request).runs, (*request).run_count) };
    let of = |run: &plugin_api::ApplyRun| run.length.saturating_mul(run.count);
    runs.iter().map(of).fold(0, u64::saturating_add) as usize
}

/// Defines functions that record an operation and call the module's function, if it has the function.
macro_rules! recording {
    ($($entry:ident($($argument:ident: $type:ty),*) is $name:literal of $bytes:expr, by $own:ident => $function:expr;)*) => {
        $(unsafe extern "C" fn $entry(
            module: *mut Module,
            endpoint: *mut Endpoint,
            $($argument: $type,)*
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status {
            let recorder = Recorder::of(module);
            let function = recorder.as_ref().and_then(|recorder| {
                let $own = &recorder.functions;
                $function
            });
            let (Some(recorder), Some(function)) = (&recorder, function) else {
                return Status::BAD_PARAM;
            };
            let completion = (callback, context, data);
            recorder.post(endpoint, ($name, $bytes), completion, |(callback, context, data)| {
                // SAFETY: the caller of the operation guarantees that its arguments are valid; the callback is the caller's
                // or `completed`.
                unsafe { function(module, endpoint, $($argument,)* callback, context, data) }
            })
        })*
    };
}

recording! {
    put(local: *mut c_void, remote: u64, local_handle: *mut Handle, remote_handle: *const Handle, size: usize, flags: u32,
        order: i32) is "put" of size, by own => Some(own.put);
    get(local: *mut c_void, remote: u64, local_handle: *mut Handle, remote_handle: *const Handle, size: usize, flags: u32,
        order: i32) is "get" of size, by own => Some(own.get);
    atomic_op(remote: u64, remote_handle: *const Handle, op: u32, operand: u64, flags: u32, order: i32)
        is "update" of word(flags), by own => Some(own.atomic_op);
    atomic_fop(local: *mut c_void, remote: u64, local_handle: *mut Handle, remote_handle: *const Handle, op: u32,
        operand: u64, flags: u32, order: i32) is "fetch" of word(flags), by own => Some(own.atomic_fop);
    atomic_cswap(local: *mut c_void, remote: u64, local_handle: *mut Handle, remote_handle: *const Handle, compare: u64,
        value: u64, flags: u32, order: i32) is "compare-swap" of word(flags), by own => Some(own.atomic_cswap);
    atomic_opv(local: *const c_void, remote: u64, local_handle: *mut Handle, remote_handle: *const Handle, datatype: u32,
        op: u32, count: usize) is "update" of elements(datatype, count), by own => Some(own.atomic_opv);
    atomic_fopv(local: *const c_void, result: *mut c_void, remote: u64, local_handle: *mut Handle,
        result_handle: *mut Handle, remote_handle: *const Handle, datatype: u32, op: u32, count: usize)
        is "fetch" of elements(datatype, count), by own => Some(own.atomic_fopv);
    atomic_cswapv(local: *const c_void, compare: *const c_void, result: *mut c_void, remote: u64,
        result_handle: *mut Handle, remote_handle: *const Handle, datatype: u32)
        is "compare-swap" of elements(datatype, 1), by own => Some(own.atomic_cswapv);
    put_notify(local: *mut c_void, remote: u64, local_handle: *mut Handle, remote_handle: *const Handle, size: usize,
        counter: u64, counter_handle: *const Handle, add: u64) is "put" of size, by own => own.put_notify;
    apply(remote: u64, remote_handle: *const Handle, request: *const ApplyRequest)
        // SAFETY: the caller of the operation passes a readable request.
        is "apply" of unsafe { applied(request) }, by own => own.apply.map(|own| own.apply);
}

unsafe extern "C" fn add_procs(
    module: *mut Module,
    count: usize,
    procs: *const u64,
    endpoints: *mut *mut Endpoint,
) -> Status {
    let Some(recorder) = Recorder::of(module) else {
        return Status::BAD_PARAM;
    };
    // SAFETY: the caller guarantees that both arrays are valid.
    let status = unsafe { (recorder.functions.add_procs)(module, count, procs, endpoints) };
    if status.is_ok() && count > 0 {
        // SAFETY: both arrays have `count` elements.
        let (procs, endpoints) = unsafe {
            (
                std::slice::from_raw_parts(procs, count),
                std::slice::from_raw_parts(endpoints, count),
            )
        };
        let known = endpoints.iter().map(|endpoint| endpoint.addr());
        lock(&recorder.peers).extend(known.zip(procs.iter().copied()));
    }
    status
}

unsafe extern "C" fn flush(module: *mut Module, endpoint: *mut Endpoint) -> Status {
    Recorder::of(module).map_or(Status::BAD_PARAM, |recorder| recorder.flush(endpoint))
}

unsafe extern "C" fn progress(component: *mut plugin_api::Component) -> i32 {
    let recorder = Recorder::find(|recorder| recorder.component == component);
    recorder.map_or(Status::BAD_PARAM.0, |recorder| recorder.progress())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests;
