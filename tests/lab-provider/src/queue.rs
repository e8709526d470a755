//! Completion queues: where operations wait, happen and complete, as late and in as odd an order as
//! the script wants. Nothing happens unless the queue is read.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use libfabric_sys as ffi;

use crate::config::Config;
use crate::domain::{self, DomainObject};
use crate::inbox;
use crate::missing::Missing;
use crate::object::{Object, fid, or_return};
use crate::operation::{Operation, Work};
use crate::random::Random;
use crate::report::{self, COUNTS, count, violation};

/// Reads of the queue after which a write that nobody asked to be delivered happens.
const LATE: u64 = 20;

pub(crate) struct Queue {
    domain: &'static DomainObject,
    state: Mutex<State>,
    /// Endpoints that complete here.
    bound: AtomicI32,
}

struct State {
    pending: VecDeque<Operation>,
    /// Contexts of completed operations, not yet handed out.
    ready: VecDeque<u64>,
    /// Completed, not delivered, and not asked to be.
    late: Vec<Operation>,
    errors: VecDeque<ffi::fi_cq_err_entry>,
    random: Random,
    reads: u64,
    posted: u64,
    /// Posts, taken or not.
    tries: u64,
    /// Posts still to turn away.
    burst: u64,
    /// The peer that went silent, by its position, and the read at which it comes back.
    silent: Option<(u64, u64)>,
}

// SAFETY: the pointers in error entries are the user's contexts, which are not followed.
unsafe impl Send for State {}

pub(crate) type QueueObject = Object<ffi::fid_cq, Queue>;

static FID: ffi::fi_ops = ffi::fi_ops {
    size: size_of::<ffi::fi_ops>(),
    close: Some(close),
    bind: Missing::MISSING,
    control: Missing::MISSING,
    ops_open: Missing::MISSING,
    tostr: Missing::MISSING,
    ops_set: Missing::MISSING,
};

static OPS: ffi::fi_ops_cq = ffi::fi_ops_cq {
    size: size_of::<ffi::fi_ops_cq>(),
    read: Some(read),
    readfrom: Missing::MISSING,
    readerr: Some(readerr),
    sread: Missing::MISSING,
    sreadfrom: Missing::MISSING,
    signal: Missing::MISSING,
    strerror: Missing::MISSING,
};

pub(crate) unsafe extern "C" fn open(
    domain: *mut ffi::fid_domain,
    attr: *mut ffi::fi_cq_attr,
    cq: *mut *mut ffi::fid_cq,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: libfabric's contract: a domain of ours.
    let domain: &DomainObject = or_return!(unsafe { Object::of(domain, "fi_cq_open") });
    or_return!(domain::step(domain, "cq"));
    // SAFETY: the caller passes a complete attribute.
    let attr = unsafe { &*attr };
    let (format, wait) = (attr.format, attr.wait_obj);
    if format != ffi::FI_CQ_FORMAT_CONTEXT || wait != ffi::FI_WAIT_NONE {
        return -(ffi::FI_ENOSYS as c_int);
    }
    domain.depend();
    let number = domain.inner.queues.fetch_add(1, Ordering::Relaxed);
    let seed = domain.inner.config.faults.seed ^ number.wrapping_mul(0x5851_f42d_4c95_7f2d);
    let object: &QueueObject = Object::place(
        "completion queue",
        ffi::fid_cq {
            fid: fid(ffi::FI_CLASS_CQ, &FID),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        Queue {
            domain,
            state: Mutex::new(State {
                pending: VecDeque::new(),
                ready: VecDeque::new(),
                late: Vec::new(),
                errors: VecDeque::new(),
                random: Random::new(seed),
                reads: 0,
                posted: 0,
                tries: 0,
                burst: 0,
                silent: None,
            }),
            bound: AtomicI32::new(0),
        },
    );
    // SAFETY: the caller passes where to put the pointer.
    unsafe { *cq = object.pointer() };
    0
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    // SAFETY: the table belongs to queues only.
    let queue: &QueueObject = or_return!(unsafe { Object::of(fid, "fi_close") });
    let rc = queue.close();
    if rc == 0 {
        queue.inner.domain.release();
    }
    rc
}

impl Queue {
    /// The state. Under every threading model that the transport asks for, one thread at a time
    /// may be here.
    fn enter(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => {
                violation("a queue and its endpoint are used by two threads at once");
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Takes an operation, or says why not with a negative error.
    ///
    /// # Safety
    /// The buffers of the operation are the provider's, as its call's man page says.
    pub(crate) unsafe fn post(&self, mut operation: Operation) -> isize {
        let config = self.domain.inner.config;
        let faults = &config.faults;
        let again = -(ffi::FI_EAGAIN as isize);
        let mut state = self.enter();
        state.tries += 1;
        if faults.again_from != 0 && state.tries >= faults.again_from {
            count(&COUNTS.faults);
            return again;
        }
        if state.burst > 0 {
            state.burst -= 1;
            count(&COUNTS.faults);
            return again;
        }
        if state.random.per_mille(faults.again) {
            state.burst = state.random.below(faults.burst + 1);
            count(&COUNTS.faults);
            return again;
        }
        if state.pending.len() >= config.tx_size {
            return again;
        }
        if config.context_bytes() > 0 && operation.completes {
            if operation.context == 0 {
                violation("an operation without the context that the provider requires");
                return -(ffi::FI_EINVAL as isize);
            }
            let same = |o: &Operation| o.context == operation.context;
            if state.pending.iter().any(same) {
                violation("a context is used by two outstanding operations");
                return -(ffi::FI_EINVAL as isize);
            }
        }
        state.posted += 1;
        operation.number = state.posted;
        let wait = state.random.below(faults.delay + 1);
        operation.due = state.reads + wait;
        if state.random.per_mille(faults.error) || state.posted == faults.nth {
            operation.fails = Some(faults.errno);
            operation.nameless = state.random.per_mille(faults.nameless);
        }
        // SAFETY: the caller vouches for the context.
        if let Err(code) = unsafe { operation.arm(config) } {
            return -(code as isize);
        }
        if faults.silent != 0 && state.posted == faults.silent {
            state.fall_silent(operation.position, faults.back);
        }
        // Some effects come long before their completion; under automatic progress all do.
        let early = config.auto_progress || (faults.delay > 0 && state.random.below(3) == 0);
        let silent = state.is_silent(operation.position);
        state.pending.push_back(operation);
        if early && !silent {
            let last = state.pending.len() - 1;
            // A failure is kept with the operation until it completes.
            let _ = state.perform(last, config);
        }
        count(&COUNTS.posted);
        0
    }

    pub(crate) fn bind(&self) {
        self.bound.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets what an endpoint that closes has outstanding.
    pub(crate) fn unbind(&self, endpoint: usize) {
        self.bound.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.enter();
        let before = state.pending.len();
        state.pending.retain(|o| o.endpoint != endpoint);
        let gone = (before - state.pending.len()) as u64;
        COUNTS.discarded.fetch_add(gone, Ordering::Relaxed);
        state.late.clear();
    }
}

impl State {
    /// Performs a pending operation; where atomics are ordered, those before it first. One that the
    /// script fails has no effect or its whole effect.
    fn perform(&mut self, index: usize, config: &Config) -> Option<Result<(), i32>> {
        let atomic = |o: &Operation| matches!(o.work, Work::Atomic { .. });
        if config.ordered && atomic(&self.pending[index]) {
            for earlier in 0..index {
                if atomic(&self.pending[earlier]) && self.pending[earlier].fails.is_none() {
                    let _ = self.pending[earlier].perform(config);
                }
            }
        }
        let operation = &mut self.pending[index];
        if let Some(code) = operation.fails {
            if operation.done.is_none() && self.random.below(2) == 0 {
                let _ = operation.perform(config);
            }
            operation.done = Some(Err(code));
            return operation.done;
        }
        operation.perform(config)
    }

    fn fall_silent(&mut self, position: u64, back: u64) {
        count(&COUNTS.faults);
        let until = if back == 0 {
            u64::MAX
        } else {
            self.reads + back
        };
        self.silent = Some((position, until));
    }

    fn is_silent(&self, position: u64) -> bool {
        self.silent
            .is_some_and(|(silent, until)| silent == position && self.reads < until)
    }

    /// The next operation to complete.
    fn choose(&mut self, reorder: bool) -> Option<usize> {
        let reads = self.reads;
        let audible = self.pending.iter().enumerate();
        let mut audible = audible.filter(|(_, o)| !self.is_silent(o.position));
        if !reorder {
            return audible
                .next()
                .filter(|(_, o)| o.due <= reads)
                .map(|(i, _)| i);
        }
        let due: Vec<usize> = audible
            .filter(|(_, o)| o.due <= reads)
            .map(|(i, _)| i)
            .collect();
        let pick = self.random.below(due.len() as u64) as usize;
        due.get(pick).copied()
    }

    fn deliver_late(&mut self, config: &Config) {
        let reads = self.reads;
        for operation in self.late.iter_mut().filter(|o| o.due + LATE <= reads) {
            let _ = operation.perform(config);
        }
        self.late.retain(|o| o.done.is_none());
    }
}

impl Queue {
    /// Makes progress without handing anything out; what counters do when they are read.
    pub(crate) fn progress(&self) {
        let mut state = self.enter();
        let room = state.ready.len() + 16;
        state.advance(self.domain.inner.config, room);
    }
}

impl State {
    /// Completes operations until `room` are ready, one failed, or none is due.
    fn advance(&mut self, config: &Config, room: usize) {
        self.reads += 1;
        if config.hmem {
            inbox::serve();
        }
        self.deliver_late(config);
        while self.ready.len() < room && self.errors.is_empty() {
            let Some(index) = self.choose(config.faults.reorder) else {
                break;
            };
            let promised = self.pending[index].delivered;
            let performed = if promised || self.pending[index].fails.is_some() {
                self.perform(index, config)
            } else {
                Some(Ok(()))
            };
            let Some(done) = performed else {
                // The peer has still to answer; the others are looked at next time.
                self.pending[index].due = self.reads + 1;
                break;
            };
            let Some(mut operation) = self.pending.remove(index) else {
                break;
            };
            // SAFETY: the operation was armed when it was posted, and is not complete yet.
            unsafe { operation.inspect(config) };
            operation.count(&done);
            if let Err(code) = done {
                self.fail(&operation, code);
                break;
            }
            if operation.completes {
                let lost = self.random.per_mille(config.faults.null_ok);
                if lost {
                    count(&COUNTS.faults);
                }
                self.ready
                    .push_back(if lost { 0 } else { operation.context });
                if self.random.per_mille(config.faults.stray) {
                    count(&COUNTS.faults);
                    self.ready.push_back(0);
                }
            }
            if !promised {
                operation.due = self.reads;
                self.late.push(operation);
            }
        }
    }

    fn fail(&mut self, operation: &Operation, code: i32) {
        let context = if operation.nameless {
            0
        } else {
            operation.context
        };
        self.errors.push_back(ffi::fi_cq_err_entry {
            op_context: context as *mut c_void,
            err: code,
            prov_errno: code,
            ..Default::default()
        });
        if operation.fails.is_some() {
            count(&COUNTS.faults);
            report::trace(|| {
                format!(
                    "failed {:?} number {} at {:#x} ({} bytes) with error {code}{}",
                    operation.work,
                    operation.number,
                    operation.address,
                    operation.length,
                    if operation.nameless { ", nameless" } else { "" }
                )
            });
        }
    }
}

unsafe extern "C" fn read(cq: *mut ffi::fid_cq, buffer: *mut c_void, count_: usize) -> isize {
    // SAFETY: the table belongs to queues only.
    let queue: &QueueObject = match unsafe { Object::of(cq, "fi_cq_read") } {
        Ok(queue) => queue,
        Err(code) => return code as isize,
    };
    let config = queue.inner.domain.inner.config;
    let entries = buffer.cast::<ffi::fi_cq_entry>();
    let mut state = queue.inner.enter();
    if state.errors.is_empty() || state.ready.is_empty() {
        state.advance(config, count_);
    }
    // Successes come out before the failure that followed them.
    let n = state.ready.len().min(count_);
    for (i, context) in state.ready.drain(..n).enumerate() {
        // SAFETY: the caller passes room for `count_` entries, of which i are taken.
        unsafe { (*entries.add(i)).op_context = context as *mut c_void };
        count(&COUNTS.completed);
    }
    match n {
        0 if state.errors.is_empty() => -(ffi::FI_EAGAIN as isize),
        0 => -(ffi::FI_EAVAIL as isize),
        n => n as isize,
    }
}

unsafe extern "C" fn readerr(
    cq: *mut ffi::fid_cq,
    entry: *mut ffi::fi_cq_err_entry,
    _flags: u64,
) -> isize {
    // SAFETY: the table belongs to queues only.
    let queue: &QueueObject = match unsafe { Object::of(cq, "fi_cq_readerr") } {
        Ok(queue) => queue,
        Err(code) => return code as isize,
    };
    let mut state = queue.inner.enter();
    match state.errors.pop_front() {
        Some(error) => {
            // SAFETY: the caller passes a complete entry.
            unsafe { *entry = error };
            count(&COUNTS.failed);
            1
        }
        None => -(ffi::FI_EAGAIN as isize),
    }
}
