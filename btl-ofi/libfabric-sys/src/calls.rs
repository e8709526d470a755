//! The inline functions of libfabric's headers. Each calls through the ops table of its fid.
//!
//! A call of an entry that the provider left NULL returns `-FI_ENOSYS`, as libfabric's own stubs do.
//!
//! # Safety
//! Each function has the contract of the C function of the same name: the fid is live and of the right class, and the
//! pointers satisfy the function's man page.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::headers::*;

const ENOSYS: c_int = -(FI_ENOSYS as c_int);

/// Calls entry `$entry` of the table at `$ops`; returns `$missing` if the table or the entry is NULL.
macro_rules! through {
    ($ops:expr, $entry:ident, $missing:expr, $($arg:expr),*) => {{
        // SAFETY: the caller guarantees a live fid and valid arguments; libfabric keeps a live fid's ops tables valid.
        unsafe {
            let ops = $ops;
            if ops.is_null() {
                return $missing;
            }
            match (*ops).$entry {
                Some(call) => call($($arg),*),
                None => $missing,
            }
        }
    }};
}

const NULL: *mut c_void = ptr::null_mut();

/// Defines functions that call an entry of a table of their first argument.
macro_rules! calls {
    ($($name:ident($object:ident: $class:ty $(, $arg:ident: $type:ty)*) is $ops:ident.$entry:ident($($passed:expr),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            ///
            /// # Safety
            /// See the module.
            pub unsafe fn $name($object: $class $(, $arg: $type)*) -> c_int {
                through!((*$object).$ops, $entry, ENOSYS, $($passed),*)
            }
        )*
    };
}

// `fi_bind` is `fi_ep_bind`, `fi_scalable_ep_bind` and `fi_mr_bind`, which one entry serves; `fi_enable` also `fi_mr_enable`.
calls! {
    fi_close(fid: *mut fid) is ops.close(fid);
    fi_bind(fid: *mut fid, bound: *mut fid, flags: u64) is ops.bind(fid, bound, flags);
    fi_enable(fid: *mut fid) is ops.control(fid, FI_ENABLE as c_int, NULL);
    fi_domain(fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain)
        is ops.domain(fabric, info, domain, NULL);
    fi_av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av) is ops.av_open(domain, attr, av, NULL);
    fi_cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq) is ops.cq_open(domain, attr, cq, NULL);
    fi_endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep) is ops.endpoint(domain, info, ep, NULL);
    fi_scalable_ep(domain: *mut fid_domain, info: *mut fi_info, sep: *mut *mut fid_ep)
        is ops.scalable_ep(domain, info, sep, NULL);
    fi_tx_context(sep: *mut fid_ep, index: c_int, attr: *mut fi_tx_attr, tx: *mut *mut fid_ep)
        is ops.tx_ctx(sep, index, attr, tx, NULL);
    fi_rx_context(sep: *mut fid_ep, index: c_int, attr: *mut fi_rx_attr, rx: *mut *mut fid_ep)
        is ops.rx_ctx(sep, index, attr, rx, NULL);
    fi_query_atomic(domain: *mut fid_domain, datatype: fi_datatype, op: fi_op, attr: *mut fi_atomic_attr, flags: u64)
        is ops.query_atomic(domain, datatype, op, attr, flags);
    fi_getname(ep: *mut fid_ep, addr: *mut c_void, len: *mut usize)
        is cm.getname(ptr::addr_of_mut!((*ep).fid), addr, len);
    fi_av_insert(av: *mut fid_av, addr: *const c_void, count: usize, out: *mut fi_addr_t, flags: u64)
        is ops.insert(av, addr, count, out, flags, NULL);
    fi_av_remove(av: *mut fid_av, addr: *mut fi_addr_t, count: usize) is ops.remove(av, addr, count, 0);
    fi_av_lookup(av: *mut fid_av, at: fi_addr_t, addr: *mut c_void, len: *mut usize) is ops.lookup(av, at, addr, len);
}

/// A caller's structure followed by zeroed space: a release newer than the bindings may read or write fields that it
/// added. Zero is the default of such a field.
#[repr(C)]
struct Padded<T> {
    known: T,
    padding: [u64; 16],
}

impl<T> Padded<T> {
    fn new(known: T) -> Self {
        Padded {
            known,
            padding: [0; 16],
        }
    }

    /// The address, with access to the extra space too.
    fn address(&mut self) -> *mut T {
        ptr::from_mut(self).cast()
    }
}

/// `fi_mr_regattr`.
///
/// # Safety
/// See the module.
pub unsafe fn fi_mr_regattr(
    domain: *mut fid_domain,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the caller guarantees that `attr` points to a complete attribute.
    let mut padded = Padded::new(unsafe { *attr });
    let attr = padded.address().cast_const();
    through!(
        (*domain).mr,
        regattr,
        ENOSYS,
        ptr::addr_of_mut!((*domain).fid),
        attr,
        flags,
        mr
    )
}

/// `fi_set_ops`.
///
/// # Safety
/// See the module.
pub unsafe fn fi_set_ops(
    fid: *mut fid,
    name: *const std::ffi::c_char,
    flags: u64,
    ops: *mut c_void,
    context: *mut c_void,
) -> c_int {
    // A later release added the entry to the table, so the table's size is checked first.
    // SAFETY: the caller guarantees a live fid; its table is NULL or starts with its size.
    let holds = unsafe {
        let ops = (*fid).ops;
        !ops.is_null() && (*ops).size > std::mem::offset_of!(fi_ops, ops_set)
    };
    if !holds {
        return ENOSYS;
    }
    through!((*fid).ops, ops_set, ENOSYS, fid, name, flags, ops, context)
}

/// `fi_cq_readerr`.
///
/// # Safety
/// See the module.
pub unsafe fn fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry) -> isize {
    // SAFETY: the caller guarantees that `entry` is readable and writable; it may hold a buffer for error details.
    let mut padded = Padded::new(unsafe { *entry });
    let address = padded.address();
    // SAFETY: the caller guarantees a live queue; `address` points to the local entry and its extra space.
    let read = unsafe { readerr(cq, address) };
    // SAFETY: the caller guarantees that `entry` is writable; `address` points to `padded`, which is still live.
    unsafe { *entry = *address };
    read
}

unsafe fn readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry) -> isize {
    through!((*cq).ops, readerr, ENOSYS as isize, cq, entry, 0)
}

#[cfg(test)]
mod tests;
