//! Counters: how many operations of the endpoints that they are bound to are done, and how many
//! failed. Nothing happens while one is read; as with queues, somebody reads the queue.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libfabric_sys as ffi;

use crate::base::missing::Missing;
use crate::objects::domain::{self, DomainObject};
use crate::objects::object::{Object, fid, or_return};
use crate::objects::queue::QueueObject;
use crate::work::tally::Tally;

pub(crate) struct Counter {
    domain: &'static DomainObject,
    pub(crate) tally: Tally,
    /// Where what it counts completes: reading it is what makes progress.
    queue: std::sync::OnceLock<&'static QueueObject>,
}

// SAFETY: objects are never freed, and guard their own state.
unsafe impl Sync for Counter {}
// SAFETY: as for Sync.
unsafe impl Send for Counter {}

pub(crate) type CounterObject = Object<ffi::fid_cntr, Counter>;

static FID: ffi::fi_ops = ffi::fi_ops {
    size: size_of::<ffi::fi_ops>(),
    close: Some(close),
    bind: Missing::MISSING,
    control: Missing::MISSING,
    ops_open: Missing::MISSING,
    tostr: Missing::MISSING,
    ops_set: Missing::MISSING,
};

static OPS: ffi::fi_ops_cntr = ffi::fi_ops_cntr {
    size: size_of::<ffi::fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
};

pub(crate) unsafe extern "C" fn open(
    domain: *mut ffi::fid_domain,
    attr: *mut ffi::fi_cntr_attr,
    cntr: *mut *mut ffi::fid_cntr,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: libfabric's contract: a domain of ours.
    let domain: &DomainObject = or_return!(unsafe { Object::of(domain, "fi_cntr_open") });
    or_return!(domain::step(domain, "cntr"));
    // SAFETY: the caller passes a complete attribute or NULL.
    let events = unsafe { attr.as_ref() }.map_or(ffi::FI_CNTR_EVENTS_COMP, |a| a.events);
    if events != ffi::FI_CNTR_EVENTS_COMP {
        return -(ffi::FI_ENOSYS as c_int);
    }
    domain.depend();
    let object: &CounterObject = Object::place(
        "counter",
        ffi::fid_cntr {
            fid: fid(ffi::FI_CLASS_CNTR, &FID),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        Counter {
            domain,
            tally: Tally::default(),
            queue: std::sync::OnceLock::new(),
        },
    );
    // SAFETY: the caller passes where to put the pointer.
    unsafe { *cntr = object.pointer() };
    0
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    // SAFETY: the table belongs to counters only.
    let counter: &CounterObject = or_return!(unsafe { Object::of(fid, "fi_close") });
    let rc = counter.close();
    if rc == 0 {
        counter.inner.domain.release();
    }
    rc
}

impl Counter {
    /// Says where what it counts completes.
    pub(crate) fn follow(&self, queue: &'static QueueObject) {
        self.queue.get_or_init(|| queue);
    }
}

/// The counter behind a pointer, with its count going on where nobody reads a queue.
///
/// # Safety
/// `cntr` is a counter of ours.
unsafe fn live(cntr: *mut ffi::fid_cntr, call: &str) -> Option<&'static Counter> {
    // SAFETY: the caller vouches for the counter.
    let object: &'static CounterObject = unsafe { Object::of(cntr, call) }.ok()?;
    if let Some(queue) = object.inner.queue.get() {
        queue.inner.progress();
    }
    Some(&object.inner)
}

unsafe extern "C" fn read(cntr: *mut ffi::fid_cntr) -> u64 {
    // SAFETY: the table belongs to counters only.
    let counter = unsafe { live(cntr, "fi_cntr_read") };
    counter.map_or(0, |c| c.tally.done.load(Ordering::Acquire))
}

unsafe extern "C" fn readerr(cntr: *mut ffi::fid_cntr) -> u64 {
    // SAFETY: the table belongs to counters only.
    let counter = unsafe { live(cntr, "fi_cntr_readerr") };
    counter.map_or(0, |c| c.tally.failed.load(Ordering::Acquire))
}

macro_rules! change {
    ($name:ident, $call:literal, $field:ident, $change:ident) => {
        unsafe extern "C" fn $name(cntr: *mut ffi::fid_cntr, value: u64) -> c_int {
            // SAFETY: the table belongs to counters only.
            let counter: &CounterObject = or_return!(unsafe { Object::of(cntr, $call) });
            counter.inner.tally.$field.$change(value, Ordering::Release);
            0
        }
    };
}

change!(add, "fi_cntr_add", done, fetch_add);
change!(set, "fi_cntr_set", done, store);
change!(adderr, "fi_cntr_adderr", failed, fetch_add);
change!(seterr, "fi_cntr_seterr", failed, store);

/// Waits until so many are done; a failure or the time limit ends it too.
unsafe extern "C" fn wait(cntr: *mut ffi::fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    let start = Instant::now();
    // SAFETY: the table belongs to counters only.
    let counter: &CounterObject = or_return!(unsafe { Object::of(cntr, "fi_cntr_wait") });
    let failed = counter.inner.tally.failed.load(Ordering::Acquire);
    loop {
        // SAFETY: as above.
        let (done, now) = unsafe { (read(cntr), readerr(cntr)) };
        if done >= threshold {
            return 0;
        }
        if now != failed {
            return -(ffi::FI_EAVAIL as c_int);
        }
        let limit = u64::try_from(timeout).map(Duration::from_millis);
        if limit.is_ok_and(|limit| start.elapsed() >= limit) {
            return -(ffi::FI_ETIMEDOUT as c_int);
        }
        std::thread::yield_now();
    }
}
