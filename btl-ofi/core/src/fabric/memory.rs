//! The provider `memory`: libfabric's objects for a transport that reaches all peers by memory. The provider carries no
//! data and needs no libfabric, so it opens at once. Rings, mapped memory and cross-memory attach make all operations.
//! The transport refuses a peer that these carriers cannot reach when it connects the peer (`engine::peers`).
//!
//! The provider is used only if the user names it (`btl_ofi_provider_include`).

use std::ffi::{CStr, c_int, c_void};
use std::mem::zeroed;
use std::ptr::{self, NonNull, null_mut};

use libfabric_sys as ffi;

use crate::base::error::Error;
use crate::base::params::Options;

/// The provider's name in `btl_ofi_provider_include`, in addresses and in the table of quirks.
pub(crate) const NAME: &str = "memory";
const NAME_C: &CStr = c"memory";
const DOMAIN_NAME: &CStr = c"node";
/// The address of every endpoint. Addresses need not differ, because processes identify peers.
const ADDRESS: &[u8] = NAME_C.to_bytes_with_nul();

const NOT_SERVED: isize = -(ffi::FI_ENOSYS as isize);
const NOTHING: isize = -(ffi::FI_EAGAIN as isize);

/// Whether the user named the provider.
pub(crate) fn is_named(options: &Options) -> bool {
    options.provider.include.iter().any(|name| name == NAME)
}

/// The error if no transport can be opened with this provider.
pub(crate) fn refused(why: String) -> Error {
    Error::NoProvider {
        wanted: String::new(),
        refusals: vec![(String::from(NAME), why)],
    }
}

/// The reason why the provider cannot be used with these options; `None` if it can.
pub(crate) fn refusal(options: &Options) -> Option<String> {
    if !options.peers.same_node {
        return Some(String::from("btl_ofi_same_node is off"));
    }
    let why = "btl_ofi_mode asks for two-sided messages, and it has none";
    options.two_sided().then(|| String::from(why))
}

/// The entry that libfabric would return, with all structures that it points to.
pub(super) struct Entry {
    info: ffi::fi_info,
    tx: ffi::fi_tx_attr,
    rx: ffi::fi_rx_attr,
    ep: ffi::fi_ep_attr,
    domain: ffi::fi_domain_attr,
    fabric: ffi::fi_fabric_attr,
}

impl Entry {
    /// A new entry. [`free`](Self::free) frees it.
    pub(super) fn new() -> NonNull<Entry> {
        // SAFETY: the structures hold integers and pointers, for which zero is valid.
        let mut entry: Box<Entry> = unsafe { Box::new(zeroed()) };
        entry.info.caps = u64::from(ffi::FI_RMA);
        entry.info.addr_format = ffi::FI_ADDR_STR;
        entry.tx.op_flags = u64::from(ffi::FI_DELIVERY_COMPLETE);
        entry.ep.type_ = ffi::FI_EP_RDM;
        entry.ep.max_msg_size = usize::MAX;
        entry.domain.name = DOMAIN_NAME.as_ptr().cast_mut();
        entry.domain.data_progress = ffi::FI_PROGRESS_MANUAL;
        entry.domain.control_progress = ffi::FI_PROGRESS_MANUAL;
        entry.domain.mr_mode = ffi::FI_MR_VIRT_ADDR as c_int;
        entry.domain.mr_key_size = size_of::<u64>();
        entry.domain.max_ep_tx_ctx = 1;
        entry.fabric.prov_name = NAME_C.as_ptr().cast_mut();
        entry.fabric.name = NAME_C.as_ptr().cast_mut();
        let raw = Box::into_raw(entry);
        // SAFETY: the entry was allocated above, and its pointers are to its own fields, which do not move.
        unsafe {
            (*raw).info.tx_attr = &raw mut (*raw).tx;
            (*raw).info.rx_attr = &raw mut (*raw).rx;
            (*raw).info.ep_attr = &raw mut (*raw).ep;
            (*raw).info.domain_attr = &raw mut (*raw).domain;
            (*raw).info.fabric_attr = &raw mut (*raw).fabric;
            NonNull::new_unchecked(raw)
        }
    }

    /// The `fi_info` in the entry.
    pub(super) fn info(entry: NonNull<Entry>) -> *mut ffi::fi_info {
        // SAFETY: the entry lives, and this only makes a pointer.
        unsafe { &raw mut (*entry.as_ptr()).info }
    }

    /// # Safety
    /// The entry came from [`new`](Self::new), and nothing uses it afterwards.
    pub(super) unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: `new` made it with `Box::into_raw`, and the caller guarantees that nothing frees it
        // again.
        drop(unsafe { Box::from_raw(entry.as_ptr()) });
    }
}

/// Opens the fabric in place of `fi_fabric`. The functions of this fabric open the other objects.
///
/// # Safety
/// `out` is writable.
pub(super) unsafe fn open_fabric(out: *mut *mut ffi::fid_fabric) -> c_int {
    // SAFETY: the caller guarantees that `out` is writable.
    unsafe { out.write(FABRIC.get()) };
    0
}

/// An object that is never written, so that all transports may share it. The functions of this object use only its
/// address.
#[repr(transparent)]
struct Shared<T>(T);

// SAFETY: nothing writes the object or the memory that it points to, and its functions keep no state.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    const fn get(&'static self) -> *mut T {
        ptr::from_ref(&self.0).cast_mut()
    }
}

const OBJECT: ffi::fid = ffi::fid {
    fclass: 0,
    context: null_mut(),
    ops: OBJECT_OPS.get(),
};

static OBJECT_OPS: Shared<ffi::fi_ops> = Shared(ffi::fi_ops {
    size: size_of::<ffi::fi_ops>(),
    close: Some(done),
    bind: Some(bind),
    control: Some(control),
    ops_open: None,
    tostr: None,
    ops_set: None,
});

static FABRIC: Shared<ffi::fid_fabric> = Shared(ffi::fid_fabric {
    fid: OBJECT,
    ops: FABRIC_OPS.get(),
    api_version: 0,
});

static FABRIC_OPS: Shared<ffi::fi_ops_fabric> = Shared(ffi::fi_ops_fabric {
    size: size_of::<ffi::fi_ops_fabric>(),
    domain: Some(open_domain),
    // SAFETY: NULL is a valid value of the other functions.
    ..unsafe { zeroed() }
});

static DOMAIN: Shared<ffi::fid_domain> = Shared(ffi::fid_domain {
    fid: OBJECT,
    ops: DOMAIN_OPS.get(),
    mr: REGION_OPS.get(),
});

static DOMAIN_OPS: Shared<ffi::fi_ops_domain> = Shared(ffi::fi_ops_domain {
    size: size_of::<ffi::fi_ops_domain>(),
    av_open: Some(open_av),
    cq_open: Some(open_cq),
    endpoint: Some(open_endpoint),
    // SAFETY: NULL is a valid value of the other functions.
    ..unsafe { zeroed() }
});

static REGION_OPS: Shared<ffi::fi_ops_mr> = Shared(ffi::fi_ops_mr {
    size: size_of::<ffi::fi_ops_mr>(),
    regattr: Some(register),
    // SAFETY: NULL is a valid value of the other functions.
    ..unsafe { zeroed() }
});

static AV: Shared<ffi::fid_av> = Shared(ffi::fid_av {
    fid: OBJECT,
    ops: AV_OPS.get(),
});

static AV_OPS: Shared<ffi::fi_ops_av> = Shared(ffi::fi_ops_av {
    size: size_of::<ffi::fi_ops_av>(),
    insert: Some(insert),
    remove: Some(remove),
    // SAFETY: NULL is a valid value of the other functions.
    ..unsafe { zeroed() }
});

static CQ: Shared<ffi::fid_cq> = Shared(ffi::fid_cq {
    fid: OBJECT,
    ops: CQ_OPS.get(),
});

static CQ_OPS: Shared<ffi::fi_ops_cq> = Shared(ffi::fi_ops_cq {
    size: size_of::<ffi::fi_ops_cq>(),
    read: Some(read_queue),
    readerr: Some(read_error),
    // SAFETY: NULL is a valid value of the other functions.
    ..unsafe { zeroed() }
});

static ENDPOINT: Shared<ffi::fid_ep> = Shared(ffi::fid_ep {
    fid: OBJECT,
    cm: CM_OPS.get(),
    rma: RMA_OPS.get(),
    // SAFETY: NULL is a valid value of the other tables.
    ..unsafe { zeroed() }
});

static CM_OPS: Shared<ffi::fi_ops_cm> = Shared(ffi::fi_ops_cm {
    size: size_of::<ffi::fi_ops_cm>(),
    getname: Some(name),
    // SAFETY: NULL is a valid value of the other functions.
    ..unsafe { zeroed() }
});

static RMA_OPS: Shared<ffi::fi_ops_rma> = Shared(ffi::fi_ops_rma {
    size: size_of::<ffi::fi_ops_rma>(),
    read: Some(read),
    writemsg: Some(write),
    // SAFETY: NULL is a valid value of the other functions.
    ..unsafe { zeroed() }
});

unsafe extern "C" fn done(_: *mut ffi::fid) -> c_int {
    0
}

unsafe extern "C" fn bind(_: *mut ffi::fid, _: *mut ffi::fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn control(_: *mut ffi::fid, _: c_int, _: *mut c_void) -> c_int {
    0
}

/// Defines a function that opens a shared object.
macro_rules! opens {
    ($($name:ident($attr:ty) $of:ident: $type:ident = $object:ident;)*) => {
        $(unsafe extern "C" fn $name(
            _: *mut ffi::$of,
            _: *mut $attr,
            out: *mut *mut ffi::$type,
            _: *mut c_void,
        ) -> c_int {
            // SAFETY: the caller passes a writable pointer (man pages).
            unsafe { out.write($object.get()) };
            0
        })*
    };
}

opens! {
    open_domain(ffi::fi_info) fid_fabric: fid_domain = DOMAIN;
    open_av(ffi::fi_av_attr) fid_domain: fid_av = AV;
    open_cq(ffi::fi_cq_attr) fid_domain: fid_cq = CQ;
    open_endpoint(ffi::fi_info) fid_domain: fid_ep = ENDPOINT;
}

static REGION: Shared<ffi::fi_ops> = Shared(ffi::fi_ops {
    size: size_of::<ffi::fi_ops>(),
    close: Some(close_region),
    bind: None,
    control: None,
    ops_open: None,
    tostr: None,
    ops_set: None,
});

/// Each region is a separate object, because it holds its key.
unsafe extern "C" fn register(
    _: *mut ffi::fid,
    attr: *const ffi::fi_mr_attr,
    _: u64,
    out: *mut *mut ffi::fid_mr,
) -> c_int {
    // SAFETY: the caller passes a complete attribute (man fi_mr).
    let key = unsafe { (*attr).requested_key };
    let region = Box::new(ffi::fid_mr {
        fid: ffi::fid {
            ops: REGION.get(),
            ..OBJECT
        },
        mem_desc: null_mut(),
        key,
    });
    // SAFETY: the caller passes a writable pointer (man fi_mr).
    unsafe { out.write(Box::into_raw(region)) };
    0
}

unsafe extern "C" fn close_region(fid: *mut ffi::fid) -> c_int {
    // SAFETY: `register` made the region with `Box::into_raw`, a region begins with its fid, and its owner closes it once.
    drop(unsafe { Box::from_raw(fid.cast::<ffi::fid_mr>()) });
    0
}

unsafe extern "C" fn insert(
    _: *mut ffi::fid_av,
    _: *const c_void,
    count: usize,
    out: *mut ffi::fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    for at in 0..count {
        // SAFETY: the caller passes room for `count` entries (man fi_av).
        unsafe { out.add(at).write(0) };
    }
    count as c_int
}

unsafe extern "C" fn remove(
    _: *mut ffi::fid_av,
    _: *mut ffi::fi_addr_t,
    _: usize,
    _: u64,
) -> c_int {
    0
}

unsafe extern "C" fn read_queue(_: *mut ffi::fid_cq, _: *mut c_void, _: usize) -> isize {
    NOTHING
}

unsafe extern "C" fn read_error(
    _: *mut ffi::fid_cq,
    _: *mut ffi::fi_cq_err_entry,
    _: u64,
) -> isize {
    NOTHING
}

unsafe extern "C" fn name(_: *mut ffi::fid, out: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: the caller passes a readable and writable length, and a buffer of that length (man
    // fi_cm).
    unsafe {
        let room = length.replace(ADDRESS.len());
        if room < ADDRESS.len() {
            return -(ffi::FI_ETOOSMALL as c_int);
        }
        ptr::copy_nonoverlapping(ADDRESS.as_ptr(), out.cast(), ADDRESS.len());
    }
    0
}

unsafe extern "C" fn read(
    _: *mut ffi::fid_ep,
    _: *mut c_void,
    _: usize,
    _: *mut c_void,
    _: ffi::fi_addr_t,
    _: u64,
    _: u64,
    _: *mut c_void,
) -> isize {
    NOT_SERVED
}

unsafe extern "C" fn write(_: *mut ffi::fid_ep, _: *const ffi::fi_msg_rma, _: u64) -> isize {
    NOT_SERVED
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use mca_params::Value;

    use super::*;

    fn refused(changed: &str, value: Value) -> Option<String> {
        let options = Options::resolve(|d| {
            let changed = d.name == changed;
            Ok::<_, Infallible>(if changed {
                value.clone()
            } else {
                d.default.clone()
            })
        });
        refusal(&options.unwrap())
    }

    #[test]
    fn options_that_want_more_than_memory_are_refused() {
        assert_eq!(refused("btl_ofi_rd_num", Value::Int(1)), None);
        assert!(refused("btl_ofi_same_node", Value::str("off")).is_some());
        assert!(refused("btl_ofi_mode", Value::Int(2)).is_some());
    }
}
