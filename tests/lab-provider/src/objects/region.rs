//! Memory regions: keys, binding, enabling, in every mode.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libfabric_sys as ffi;

use crate::base::config::{Cache, Config, Keys};
use crate::base::report::{COUNTS, count, violation};
use crate::objects::domain::{Domain, DomainObject};
use crate::objects::endpoint::EndpointObject;
use crate::objects::object::{Object, closed_by, fid, or_return};
use crate::reach::device;
use crate::reach::memory;
use crate::reach::pages;
use crate::reach::regions::{self, Exposed, Refused};

/// The maximum number of tries for a random key.
const DRAWS: u32 = 1000;

pub(crate) struct Region {
    domain: &'static DomainObject,
    slot: usize,
    key: u64,
    device: bool,
    /// The endpoint that the region is bound to; it cannot be closed before the region.
    bound: Mutex<Option<&'static EndpointObject>>,
    enabled: AtomicBool,
}

impl Region {
    fn bound_to(&self) -> MutexGuard<'_, Option<&'static EndpointObject>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type RegionObject = Object<ffi::fid_mr, Region>;

static FID: ffi::fi_ops = ffi::fi_ops {
    bind: Some(bind),
    control: Some(control),
    ..closed_by(close)
};

/// The largest key of the domain's size that does not mean "no key yet".
fn last_key(config: &Config) -> u64 {
    match config.key_size {
        0 | 8.. => ffi::FI_KEY_NOTAVAIL - 1,
        bytes => (1 << (bytes * 8)) - 1,
    }
}

/// A key that the provider chooses.
fn draw(domain: &Domain) -> u64 {
    let last = last_key(domain.config);
    let next = || domain.next_key.fetch_add(1, Ordering::Relaxed) % last.max(1);
    match domain.config.keys {
        Keys::Low => next(),
        Keys::High => last - next(),
        Keys::Random => {
            let mut random = domain.random.lock().unwrap_or_else(PoisonError::into_inner);
            random.next() & last
        }
    }
}

/// The negative error of a registration that the script refuses; `None` if it is not refused.
fn fault(domain: &Domain) -> Option<c_int> {
    let faults = &domain.config.faults;
    let mut random = domain.random.lock().unwrap_or_else(PoisonError::into_inner);
    let code = if random.per_mille(faults.nomem) {
        ffi::FI_ENOMEM
    } else if random.per_mille(faults.keyrejected) {
        ffi::FI_EKEYREJECTED
    } else {
        return None;
    };
    count(&COUNTS.faults);
    Some(-(code as c_int))
}

/// Whether the first and the last byte are readable.
fn is_mapped(base: u64, length: usize) -> bool {
    let mut byte = 0u8;
    let own = u64::from(std::process::id());
    [base, base.wrapping_add(length as u64 - 1)]
        .into_iter()
        .all(|at| memory::get(own, at, (&raw mut byte) as u64, 1).is_ok())
}

pub(crate) unsafe extern "C" fn register(
    fid_: *mut ffi::fid,
    attr: *const ffi::fi_mr_attr,
    flags: u64,
    mr: *mut *mut ffi::fid_mr,
) -> c_int {
    // SAFETY: the table belongs to domains only.
    let domain: &DomainObject = or_return!(unsafe { Object::of(fid_, "fi_mr_regattr") });
    // SAFETY: the caller passes a complete attribute with its vector.
    let (attr, iov) = unsafe { (&*attr, &*(*attr).mr_iov) };
    or_return!(check(&domain.inner, attr, iov));
    let mut exposed = describe(&domain.inner, attr, iov);
    let mut memory = None;
    if exposed.device {
        let owner = &domain.inner;
        let (config, number) = (owner.config, owner.number);
        memory = Some(or_return!(device::register(
            config, number, attr, iov, flags
        )));
    }
    let slot = or_return!(list(&domain.inner, &mut exposed));
    if let Some(memory) = memory {
        device::remember(memory.with_key(exposed.key));
    }
    let object = place(domain, slot, &exposed);
    // SAFETY: the caller passes a writable pointer.
    unsafe { *mr = object.pointer() };
    0
}

/// Whether memory may be registered; otherwise a negative error.
fn check(domain: &Domain, attr: &ffi::fi_mr_attr, iov: &ffi::iovec) -> Result<(), c_int> {
    let config = domain.config;
    let wrong = |what: &str| {
        violation(what);
        Err(-(ffi::FI_EINVAL as c_int))
    };
    if attr.iov_count != 1 {
        return wrong("registering other than one piece of memory");
    }
    if iov.iov_len == 0 {
        return wrong("registering no bytes");
    }
    let is_host = attr.iface == ffi::FI_HMEM_SYSTEM;
    if is_host && config.allocated_memory() && !is_mapped(iov.iov_base as u64, iov.iov_len) {
        return wrong("registering memory that is not there, which FI_MR_ALLOCATED asks for");
    }
    let written = u64::from(ffi::FI_READ | ffi::FI_RECV | ffi::FI_REMOTE_WRITE);
    if is_host
        && config.pins
        && attr.access & written != 0
        && !pages::can_be_written(iov.iov_base as u64, iov.iov_len as u64)
    {
        return Err(-libc::EFAULT);
    }
    if !config.provider_keys() && attr.requested_key > last_key(config) {
        violation(&format!(
            "key {:#x} does not fit into {} bytes",
            attr.requested_key, config.key_size
        ));
        return Err(-(ffi::FI_EKEYREJECTED as c_int));
    }
    fault(domain).map_or(Ok(()), Err)
}

/// The description of a region for peers.
fn describe(domain: &Domain, attr: &ffi::fi_mr_attr, iov: &ffi::iovec) -> Exposed {
    let config = domain.config;
    let device = attr.iface != ffi::FI_HMEM_SYSTEM;
    let (base, length) = (iov.iov_base as u64, iov.iov_len as u64);
    let frames = match config.pages && !device {
        true => pages::pinned(base, length),
        false => [0; 2],
    };
    Exposed {
        domain: domain.number,
        key: attr.requested_key,
        base,
        length,
        access: match config.cache {
            Cache::Absent => attr.access,
            _ => u64::from(ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE),
        },
        enabled: !config.bound_regions(),
        device,
        frames,
    }
}

/// Lists a region, under a key of the provider if the provider chooses keys. Returns its slot, or a
/// negative error.
fn list(domain: &Domain, exposed: &mut Exposed) -> Result<usize, c_int> {
    let config = domain.config;
    if config.cache != Cache::Absent && config.provider_keys() && !exposed.device {
        let around = regions::around(exposed.domain, exposed.base, exposed.length);
        if let Some((slot, whole)) = around {
            if config.cache == Cache::Forgets && domain.atomics {
                count(&COUNTS.faults);
                regions::forget(slot);
                return Err(-(ffi::FI_ENOKEY as c_int));
            }
            *exposed = Exposed {
                enabled: exposed.enabled,
                ..whole
            };
            let listed = regions::expose(exposed, true, config.regions);
            return listed.map_err(|_| -(ffi::FI_ENOMEM as c_int));
        }
    }
    let mut listed = Err(Refused::KeyTaken);
    for _ in 0..DRAWS {
        if config.provider_keys() {
            exposed.key = draw(domain);
        }
        listed = regions::expose(exposed, false, config.regions);
        if !(config.provider_keys() && matches!(listed, Err(Refused::KeyTaken))) {
            break;
        }
    }
    match listed {
        Ok(slot) => Ok(slot),
        Err(Refused::KeyTaken) if !config.provider_keys() => {
            violation(&format!("key {:#x} is in use", exposed.key));
            Err(-(ffi::FI_ENOKEY as c_int))
        }
        Err(_) => {
            count(&COUNTS.faults);
            Err(-(ffi::FI_ENOMEM as c_int))
        }
    }
}

/// The object of a listed region.
fn place(domain: &'static DomainObject, slot: usize, exposed: &Exposed) -> &'static RegionObject {
    let config = domain.inner.config;
    // Under FI_MR_ENDPOINT, a provider that chooses keys may determine them late.
    let late = config.bound_regions() && config.provider_keys();
    domain.depend();
    Object::place(
        "memory region",
        ffi::fid_mr {
            fid: fid(ffi::FI_CLASS_MR, &FID),
            // The descriptor contains no pointer, so no code can follow it.
            mem_desc: std::ptr::without_provenance_mut::<c_void>(slot + 1),
            key: if late {
                ffi::FI_KEY_NOTAVAIL
            } else {
                exposed.key
            },
        },
        Region {
            domain,
            slot,
            key: exposed.key,
            device: exposed.device,
            bound: Mutex::new(None),
            enabled: AtomicBool::new(exposed.enabled),
        },
    )
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    // SAFETY: the table belongs to regions only.
    let region: &RegionObject = or_return!(unsafe { Object::of(fid, "fi_close") });
    let rc = region.close();
    if rc == 0 {
        let r = &region.inner;
        regions::withdraw(r.slot);
        if r.device {
            device::forget(r.domain.inner.number, r.key);
        }
        if let Some(endpoint) = r.bound_to().take() {
            endpoint.release();
        }
        region.inner.domain.release();
    }
    rc
}

unsafe extern "C" fn bind(fid: *mut ffi::fid, to: *mut ffi::fid, _flags: u64) -> c_int {
    // SAFETY: the table belongs to regions only.
    let region: &RegionObject = or_return!(unsafe { Object::of(fid, "fi_mr_bind") });
    or_return!(crate::objects::domain::step(region.inner.domain, "mrbind"));
    // SAFETY: the caller passes a live fid.
    let class = unsafe { (*to).fclass } as u32;
    if ![ffi::FI_CLASS_EP, ffi::FI_CLASS_SEP].contains(&class) {
        violation("binding a region to what is no endpoint");
        return -(ffi::FI_EINVAL as c_int);
    }
    // SAFETY: the class says that it is an endpoint.
    let endpoint: &'static EndpointObject = or_return!(unsafe { Object::of(to, "fi_mr_bind") });
    if !region.inner.domain.inner.config.bound_regions() {
        violation("binding a region that need not be bound");
    }
    if region.inner.bound_to().replace(endpoint).is_some() {
        violation("binding a region twice");
        return -(ffi::FI_EINVAL as c_int);
    }
    endpoint.depend();
    0
}

unsafe extern "C" fn control(fid: *mut ffi::fid, command: c_int, _arg: *mut c_void) -> c_int {
    // SAFETY: the table belongs to regions only.
    let region: &RegionObject = or_return!(unsafe { Object::of(fid, "fi_control") });
    if command != ffi::FI_ENABLE as c_int {
        return -(ffi::FI_ENOSYS as c_int);
    }
    or_return!(crate::objects::domain::step(
        region.inner.domain,
        "mrenable"
    ));
    let r = &region.inner;
    if r.bound_to().is_none() {
        violation("enabling a region that is not bound");
        return -(ffi::FI_EINVAL as c_int);
    }
    if r.enabled.swap(true, Ordering::Relaxed) {
        violation("enabling a region twice");
    }
    // SAFETY: the object is live; its user reads the key only after this call.
    unsafe { (*region.pointer()).key = r.key };
    regions::enable(r.slot);
    0
}
