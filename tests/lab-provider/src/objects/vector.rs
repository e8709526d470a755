//! Address vectors, which hold the addresses of peers.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use libfabric_sys as ffi;

use crate::base::missing::Missing;
use crate::base::report::{COUNTS, count as note, violation};
use crate::objects::domain::{self, DomainObject};
use crate::objects::object::{Object, closed_by, fid, or_return};
use crate::reach::name::Name;

/// Vector positions start here, so that no position equals a rank.
const FIRST: u64 = 1000;

pub(crate) struct Vector {
    domain: &'static DomainObject,
    names: Mutex<Vec<Option<Name>>>,
}

pub(crate) type VectorObject = Object<ffi::fid_av, Vector>;

static FID: ffi::fi_ops = closed_by(close);

static OPS: ffi::fi_ops_av = ffi::fi_ops_av {
    size: size_of::<ffi::fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Missing::MISSING,
    insertsym: Missing::MISSING,
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Missing::MISSING,
    av_set: Missing::MISSING,
};

impl Vector {
    /// The name at a position.
    pub(crate) fn name(&self, address: ffi::fi_addr_t) -> Option<Name> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let index = usize::try_from(address.checked_sub(FIRST)?).ok()?;
        names.get(index).copied().flatten()
    }
}

pub(crate) unsafe extern "C" fn open(
    domain: *mut ffi::fid_domain,
    _attr: *mut ffi::fi_av_attr,
    av: *mut *mut ffi::fid_av,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by libfabric's contract, this is a domain of this provider.
    let domain: &DomainObject = or_return!(unsafe { Object::of(domain, "fi_av_open") });
    or_return!(domain::step(domain, "av"));
    domain.depend();
    let object: &VectorObject = Object::place(
        "address vector",
        ffi::fid_av {
            fid: fid(ffi::FI_CLASS_AV, &FID),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        Vector {
            domain,
            names: Mutex::new(Vec::new()),
        },
    );
    // SAFETY: the caller passes a writable pointer.
    unsafe { *av = object.pointer() };
    0
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    // SAFETY: the table belongs to vectors only.
    let av: &VectorObject = or_return!(unsafe { Object::of(fid, "fi_close") });
    let rc = av.close();
    if rc == 0 {
        av.inner.domain.release();
    }
    rc
}

unsafe extern "C" fn insert(
    av: *mut ffi::fid_av,
    addresses: *const c_void,
    count: usize,
    out: *mut ffi::fi_addr_t,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the table belongs to vectors only.
    let av: &VectorObject = or_return!(unsafe { Object::of(av, "fi_av_insert") });
    or_return!(domain::step(av.inner.domain, "avinsert"));
    let mut names = av
        .inner
        .names
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let mut inserted = 0;
    for i in 0..count {
        // SAFETY: the caller passes `count` addresses of this provider, with any alignment.
        let name = unsafe { ptr::read_unaligned(addresses.cast::<Name>().add(i)) };
        let place = if name.is_ours() {
            names.push(Some(name));
            note(&COUNTS.inserted);
            inserted += 1;
            FIRST + names.len() as u64 - 1
        } else {
            violation("inserting an address that is none of this provider's");
            ffi::FI_ADDR_NOTAVAIL
        };
        if !out.is_null() {
            // SAFETY: the caller passes room for `count` positions, or NULL.
            unsafe { *out.add(i) = place };
        }
    }
    inserted
}

unsafe extern "C" fn remove(
    av: *mut ffi::fid_av,
    addresses: *mut ffi::fi_addr_t,
    count: usize,
    _flags: u64,
) -> c_int {
    // SAFETY: the table belongs to vectors only.
    let av: &VectorObject = or_return!(unsafe { Object::of(av, "fi_av_remove") });
    for i in 0..count {
        // SAFETY: the caller passes `count` positions.
        let address = unsafe { *addresses.add(i) };
        if av.inner.name(address).is_none() {
            violation(&format!(
                "removing position {address}, which holds no address"
            ));
            return -(ffi::FI_EINVAL as c_int);
        }
        let mut names = av
            .inner
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        names[(address - FIRST) as usize] = None;
        note(&COUNTS.removed);
    }
    0
}

unsafe extern "C" fn lookup(
    av: *mut ffi::fid_av,
    address: ffi::fi_addr_t,
    out: *mut c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the table belongs to vectors only.
    let av: &VectorObject = or_return!(unsafe { Object::of(av, "fi_av_lookup") });
    note(&COUNTS.looked);
    match av.inner.name(address) {
        // SAFETY: the caller passes a buffer with its length.
        Some(name) => unsafe { give(name, out, length) },
        None => -(ffi::FI_EINVAL as c_int),
    }
}

/// Copies a name out, as far as there is room.
///
/// # Safety
/// `out` has room for `*length` bytes.
pub(crate) unsafe fn give(name: Name, out: *mut c_void, length: *mut usize) -> c_int {
    let size = size_of::<Name>();
    // SAFETY: the caller guarantees the buffer and its length.
    unsafe {
        let room = (*length).min(size);
        ptr::copy_nonoverlapping((&raw const name).cast::<u8>(), out.cast(), room);
        let small = *length < size;
        *length = size;
        if small {
            -(ffi::FI_ETOOSMALL as c_int)
        } else {
            0
        }
    }
}
