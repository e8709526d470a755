//! The domain, in which regions, queues and endpoints are opened.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use libfabric_sys as ffi;

use crate::base::arithmetic;
use crate::base::config::Config;
use crate::base::faults::Faults;
use crate::base::missing::Missing;
use crate::base::random::Random;
use crate::info;
use crate::objects::fabric::FabricObject;
use crate::objects::object::{Object, closed_by, fid, or_return};
use crate::objects::{endpoint, overrides, queue, region, vector};
use crate::reach::{device, inbox};

pub(crate) struct Domain {
    fabric: &'static FabricObject,
    pub(crate) config: &'static Config,
    /// Whether the domain was opened with atomics.
    pub(crate) atomics: bool,
    /// A number that distinguishes the domains of a process.
    pub(crate) number: u64,
    /// The randomness of keys and registrations.
    pub(crate) random: Mutex<Random>,
    pub(crate) next_key: AtomicU64,
    pub(crate) queues: AtomicU64,
    /// The thread that serves peers under automatic progress.
    agent: Mutex<Option<inbox::Agent>>,
}

pub(crate) type DomainObject = Object<ffi::fid_domain, Domain>;

static NEXT: AtomicU64 = AtomicU64::new(1);

static FID: ffi::fi_ops = ffi::fi_ops {
    ops_set: Some(overrides::set_ops),
    ..closed_by(close)
};

static OPS: ffi::fi_ops_domain = ffi::fi_ops_domain {
    size: size_of::<ffi::fi_ops_domain>(),
    av_open: Some(vector::open),
    cq_open: Some(queue::open),
    endpoint: Some(endpoint::open),
    scalable_ep: Some(endpoint::open_scalable),
    cntr_open: Missing::MISSING,
    poll_open: Missing::MISSING,
    stx_ctx: Missing::MISSING,
    srx_ctx: Missing::MISSING,
    query_atomic: Some(query_atomic),
    query_collective: Missing::MISSING,
};

static MR: ffi::fi_ops_mr = ffi::fi_ops_mr {
    size: size_of::<ffi::fi_ops_mr>(),
    reg: Missing::MISSING,
    regv: Missing::MISSING,
    regattr: Some(region::register),
};

/// Makes a step of opening fail if the script requests it.
pub(crate) fn step(domain: &DomainObject, name: &str) -> Result<(), c_int> {
    match domain.inner.config.faults.at_open(name) {
        0 => Ok(()),
        code => Err(code),
    }
}

pub(crate) unsafe extern "C" fn open(
    fabric: *mut ffi::fid_fabric,
    info: *mut ffi::fi_info,
    domain: *mut *mut ffi::fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: by libfabric's contract, this is a fabric of this provider.
    let fabric: &FabricObject = or_return!(unsafe { Object::of(fabric, "fi_domain") });
    // SAFETY: the caller passes an info with its attributes, whose name is NULL or a C string.
    let name = unsafe { (*(*info).domain_attr).name };
    let name = match name.is_null() {
        true => c"lab0",
        // SAFETY: the name is not NULL, so it is a C string.
        false => unsafe { CStr::from_ptr(name) },
    };
    let name = name.to_str().unwrap_or_default();
    let relaxed = name.ends_with(info::RELAXED);
    let whole = fabric.inner.config;
    let config = match name.trim_end_matches(info::RELAXED) {
        "lab0" if !relaxed => whole,
        name => Box::leak(Box::new(Config {
            faults: match name {
                "lab0" => whole.faults.clone(),
                _ => Faults::from_environment("LAB_RAIL_FAULTS"),
            },
            read_order: whole.read_order && !relaxed,
            ..whole.clone()
        })),
    };
    let rc = config.faults.at_open("domain");
    if rc != 0 {
        return rc;
    }
    fabric.depend();
    let mut fid = fid(ffi::FI_CLASS_DOMAIN, &FID);
    fid.context = context;
    let object: &DomainObject = Object::place(
        "domain",
        ffi::fid_domain {
            fid,
            ops: ptr::from_ref(&OPS).cast_mut(),
            mr: ptr::from_ref(&MR).cast_mut(),
        },
        Domain {
            fabric,
            config,
            // SAFETY: the caller passes an info.
            atomics: unsafe { (*info).caps } & u64::from(ffi::FI_ATOMIC) != 0,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            random: Mutex::new(Random::new(config.faults.seed)),
            next_key: AtomicU64::new(0),
            queues: AtomicU64::new(0),
            agent: Mutex::new((config.hmem && config.auto_progress).then(inbox::Agent::start)),
        },
    );
    // SAFETY: the caller passes a writable pointer.
    unsafe { *domain = object.pointer() };
    0
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    // SAFETY: the table belongs to domains only.
    let domain: &DomainObject = or_return!(unsafe { Object::of(fid, "fi_close") });
    let rc = domain.close();
    if rc == 0 {
        // The drop waits for the domain's thread.
        drop(domain.inner.agent.lock().map(|mut agent| agent.take()));
        device::set_overrides(domain.inner.number, None);
        domain.inner.fabric.release();
    }
    rc
}

unsafe extern "C" fn query_atomic(
    domain: *mut ffi::fid_domain,
    datatype: ffi::fi_datatype,
    op: ffi::fi_op,
    attr: *mut ffi::fi_atomic_attr,
    flags: u64,
) -> c_int {
    // SAFETY: the table belongs to domains only.
    let domain: &DomainObject = or_return!(unsafe { Object::of(domain, "fi_query_atomic") });
    let kind = match flags {
        0 => 0,
        ffi::FI_FETCH_ATOMIC => 1,
        ffi::FI_COMPARE_ATOMIC => 2,
        _ => return -(ffi::FI_EINVAL as c_int),
    };
    let config = domain.inner.config;
    if !config.atomics {
        return -(ffi::FI_ENOSYS as c_int);
    }
    let Some(size) = arithmetic::size(datatype) else {
        return -(ffi::FI_EOPNOTSUPP as c_int);
    };
    let fits = (op == ffi::FI_CSWAP) == (kind == 2)
        && !(kind == 0 && op == ffi::FI_ATOMIC_READ)
        && arithmetic::serves(datatype, op);
    if !fits || !config.serves(kind, datatype, op) {
        return -(ffi::FI_EOPNOTSUPP as c_int);
    }
    // SAFETY: the caller passes a writable structure.
    unsafe {
        (*attr).size = size;
        (*attr).count = config.atomic_bytes / size;
    }
    0
}
