//! Completion queues: operations wait, take effect and complete here, as late and in as unusual an
//! order as the script demands. Operations progress only when the queue is read.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use libfabric_sys as ffi;

use crate::base::config::Config;
use crate::base::missing::Missing;
use crate::base::report::{COUNTS, count, violation};
use crate::objects::domain::{self, DomainObject};
use crate::objects::object::{Object, closed_by, fid, or_return};
use crate::reach::mailbox::Mailbox;
use crate::work::operation::{Operation, Work};
use crate::work::pending::{Ready, State};
use crate::work::receiver::Receiver;

pub(crate) struct Queue {
    domain: &'static DomainObject,
    /// Whether entries contain the kind of the operation and the length of a message.
    long: bool,
    state: Mutex<State>,
    /// The number of endpoints that complete here.
    bound: AtomicI32,
}

pub(crate) type QueueObject = Object<ffi::fid_cq, Queue>;

static FID: ffi::fi_ops = closed_by(close);

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
    // SAFETY: by libfabric's contract, this is a domain of this provider.
    let domain: &DomainObject = or_return!(unsafe { Object::of(domain, "fi_cq_open") });
    or_return!(domain::step(domain, "cq"));
    // SAFETY: the caller passes a complete attribute.
    let attr = unsafe { &*attr };
    let (format, wait) = (attr.format, attr.wait_obj);
    // Layers over endpoints of other types get no queue, because those types are only offered.
    let is_used = domain.inner.config.endpoints.contains(&ffi::FI_EP_RDM);
    let long = format == ffi::FI_CQ_FORMAT_MSG && is_used;
    if !(long || format == ffi::FI_CQ_FORMAT_CONTEXT) || wait != ffi::FI_WAIT_NONE {
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
            long,
            state: Mutex::new(State::new(seed)),
            bound: AtomicI32::new(0),
        },
    );
    // SAFETY: the caller passes a writable pointer.
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
    /// Locks the state. Every threading model that the transport requests permits one thread at a
    /// time here.
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

    /// Accepts an operation, or refuses it with a negative error.
    ///
    /// # Safety
    /// The buffers of the operation belong to the provider, as its call's man page says.
    pub(crate) unsafe fn post(&self, mut operation: Operation) -> isize {
        let config = self.domain.inner.config;
        let faults = &config.faults;
        let again = -(ffi::FI_EAGAIN as isize);
        let mut state = self.enter();
        if turned_away(&mut state, &operation, config) {
            count(&COUNTS.faults);
            return again;
        }
        if state.pending.len() >= config.tx_size {
            return again;
        }
        if let Err(code) = check_context(&state, &operation, config) {
            return code;
        }
        state.posted += 1;
        operation.number = state.posted;
        let wait = state.random.below(faults.delay + 1);
        operation.due = state.reads + wait;
        if state.random.per_mille(faults.error) || state.posted == faults.nth {
            operation.fails = Some(faults.errno);
            operation.nameless = state.random.per_mille(faults.nameless);
        }
        if operation.work == Work::Send {
            state.sends_taken += 1;
            operation.lost = state.sends_taken == faults.lose;
            if operation.lost {
                count(&COUNTS.faults);
            }
        }
        // SAFETY: the caller guarantees that the context is valid.
        if let Err(code) = unsafe { operation.arm(config) } {
            return -(code as isize);
        }
        if faults.silent != 0 && state.posted == faults.silent {
            state.fall_silent(operation.position, operation.peer.pid, faults.back);
        }
        // Some effects come long before their completion; under automatic progress all effects come
        // long before it.
        let early = config.auto_progress || (faults.delay > 0 && state.random.below(3) == 0);
        let silent = state.is_silent(operation.position);
        state.pending.push_back(operation);
        if early && !silent {
            let last = state.pending.len() - 1;
            // The operation keeps a failure until it completes.
            let _ = state.perform(last, config);
        }
        count(&COUNTS.posted);
        0
    }

    /// Accepts a write that was already made.
    pub(crate) fn made(&self, context: *mut c_void) -> isize {
        let mut state = self.enter();
        if state.ready.len() >= self.domain.inner.config.tx_size {
            return -(ffi::FI_EAGAIN as isize);
        }
        state.ready.push_back(Ready::Operation(context as u64));
        0
    }

    /// Accepts a receive, or refuses it with a negative error.
    ///
    /// # Safety
    /// The buffer of the receive belongs to the provider, as its call's man page says.
    pub(crate) unsafe fn post_receive(&self, mut receive: Operation) -> isize {
        let config = self.domain.inner.config;
        let mut state = self.enter();
        let of = |r: &Receiver| r.endpoint == receive.endpoint;
        let Some(index) = state.receivers.iter().position(of) else {
            violation("a receive on an endpoint that does not receive");
            return -(ffi::FI_EOPBADSTATE as isize);
        };
        let Some(number) = state.receivers[index].admit(config) else {
            return -(ffi::FI_EAGAIN as isize);
        };
        receive.number = number;
        if let Err(code) = check_context(&state, &receive, config) {
            return code;
        }
        // SAFETY: the caller guarantees that the context is valid.
        if let Err(code) = unsafe { receive.arm(config) } {
            return -(code as isize);
        }
        state.receivers[index].posted.push_back(receive);
        count(&COUNTS.posted);
        0
    }

    /// Adds an endpoint whose receives complete here.
    pub(crate) fn receive(&self, endpoint: usize, mailbox: &'static Mailbox) {
        let receiver = Receiver::new(endpoint, mailbox);
        self.enter().receivers.push(receiver);
    }

    pub(crate) fn bind(&self) {
        self.bound.fetch_add(1, Ordering::Relaxed);
    }

    /// Discards the outstanding operations of an endpoint that closes.
    pub(crate) fn unbind(&self, endpoint: usize) {
        self.bound.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.enter();
        let before = state.outstanding();
        state.pending.retain(|o| o.endpoint != endpoint);
        let closed = state.receivers.iter().filter(|r| r.endpoint == endpoint);
        let unmet: usize = closed.map(|r| r.posted.len()).sum();
        COUNTS.unmet.fetch_add(unmet as u64, Ordering::Relaxed);
        state.receivers.retain(|r| r.endpoint != endpoint);
        let gone = (before - state.outstanding()) as u64;
        COUNTS.discarded.fetch_add(gone, Ordering::Relaxed);
        state.late.clear();
    }
}

/// Whether the script refuses a post.
fn turned_away(state: &mut State, operation: &Operation, config: &Config) -> bool {
    let faults = &config.faults;
    state.tries += 1;
    if faults.again_from != 0 && state.tries >= faults.again_from {
        return true;
    }
    if state.burst > 0 {
        state.burst -= 1;
        return true;
    }
    if state.random.per_mille(faults.again) {
        state.burst = state.random.below(faults.burst + 1);
        return true;
    }
    if operation.work != Work::Send {
        return false;
    }
    state.sends += 1;
    faults.send_again != 0 && state.sends.is_multiple_of(faults.send_again)
}

/// Whether a new operation has its own context, if the provider requires contexts.
fn check_context(state: &State, operation: &Operation, config: &Config) -> Result<(), isize> {
    if config.context_bytes() == 0 {
        return Ok(());
    }
    let wrong = if operation.context == 0 {
        "an operation without the context that the provider requires"
    } else if state.uses(operation.context) {
        "a context is used by two outstanding operations"
    } else {
        return Ok(());
    };
    violation(wrong);
    Err(-(ffi::FI_EINVAL as isize))
}

unsafe extern "C" fn read(cq: *mut ffi::fid_cq, buffer: *mut c_void, count_: usize) -> isize {
    // SAFETY: the table belongs to queues only.
    let queue: &QueueObject = match unsafe { Object::of(cq, "fi_cq_read") } {
        Ok(queue) => queue,
        Err(code) => return code as isize,
    };
    let config = queue.inner.domain.inner.config;
    let mut state = queue.inner.enter();
    let unreadable = config.faults.unreadable;
    if unreadable != 0 && state.posted >= unreadable {
        count(&COUNTS.faults);
        return -(ffi::FI_EIO as isize);
    }
    // A provider gets room by progress, however rarely it is read.
    state.burst = state.burst.saturating_sub(1);
    let bare = config.bare && state.pending.is_empty() && state.receivers.is_empty();
    if !bare && (state.errors.is_empty() || state.ready.is_empty()) {
        state.advance(config, count_);
    }
    // Successful completions are returned before the failure that followed them.
    let n = state.ready.len().min(count_);
    for (i, ready) in state.ready.drain(..n).enumerate() {
        let (context, received, counter) = match ready {
            Ready::Operation(context) => (context, None, &COUNTS.completed),
            Ready::Received(context, bytes) => (context, Some(bytes), &COUNTS.completed),
            Ready::Stray => (0, None, &COUNTS.strays),
        };
        let op_context = context as *mut c_void;
        // SAFETY: the caller passes room for `count_` entries of the queue's format; `i` of them are
        // filled.
        unsafe {
            if queue.inner.long {
                let flags = received.map_or(ffi::FI_TRANSMIT, |_| ffi::FI_MSG | ffi::FI_RECV);
                let entry = ffi::fi_cq_msg_entry {
                    op_context,
                    flags: u64::from(flags),
                    len: received.unwrap_or(0),
                };
                buffer.cast::<ffi::fi_cq_msg_entry>().add(i).write(entry);
            } else {
                let entry = ffi::fi_cq_entry { op_context };
                buffer.cast::<ffi::fi_cq_entry>().add(i).write(entry);
            }
        }
        if !config.bare {
            count(counter);
        }
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
