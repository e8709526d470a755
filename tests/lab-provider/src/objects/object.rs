//! The frame of every fid: its kind, whether it was closed, and the objects that depend on it.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libfabric_sys as ffi;

use crate::base::missing::Missing;
use crate::base::report::{COUNTS, violation};

/// A libfabric structure that begins with a `struct fid`, and the provider's data about it.
#[repr(C)]
pub(crate) struct Object<F, T> {
    /// The first field, so that libfabric's pointer is also a pointer to the object.
    fid: UnsafeCell<F>,
    kind: &'static str,
    closed: AtomicBool,
    /// Objects that must be closed before this one.
    dependents: AtomicUsize,
    pub(crate) inner: T,
}

impl<F, T> Object<F, T> {
    /// Allocates an object at a fixed address. The memory is never freed: the user's accesses after
    /// the closing must be reported, not crash.
    pub(crate) fn place(kind: &'static str, fid: F, inner: T) -> &'static Object<F, T> {
        COUNTS.open.fetch_add(1, Ordering::Relaxed);
        Box::leak(Box::new(Object {
            fid: UnsafeCell::new(fid),
            kind,
            closed: AtomicBool::new(false),
            dependents: AtomicUsize::new(0),
            inner,
        }))
    }

    /// The object behind libfabric's pointer; an access to a closed object is reported and refused.
    ///
    /// # Safety
    /// `fid` points to the structure of an object that [`place`](Self::place) made with these
    /// types.
    pub(crate) unsafe fn of<P>(fid: *mut P, call: &str) -> Result<&'static Object<F, T>, c_int> {
        // SAFETY: the caller guarantees the type; objects are never freed.
        let object = unsafe { &*fid.cast::<Object<F, T>>() };
        if object.closed.load(Ordering::Relaxed) {
            violation(&format!("{call} on a closed {}", object.kind));
            return Err(-libc::EBADF);
        }
        Ok(object)
    }

    /// libfabric's pointer.
    pub(crate) fn pointer(&self) -> *mut F {
        self.fid.get()
    }

    pub(crate) fn depend(&self) {
        self.dependents.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.dependents.fetch_sub(1, Ordering::Relaxed);
    }

    /// Marks the object closed, unless other objects depend on it.
    pub(crate) fn close(&self) -> c_int {
        let n = self.dependents.load(Ordering::Relaxed);
        if n > 0 {
            violation(&format!(
                "closing a {} on which {n} open object(s) depend",
                self.kind
            ));
            return -(ffi::FI_EBUSY as c_int);
        }
        if self.closed.swap(true, Ordering::Relaxed) {
            violation(&format!("closing a {} twice", self.kind));
            return -libc::EBADF;
        }
        COUNTS.open.fetch_sub(1, Ordering::Relaxed);
        0
    }
}

/// Unwraps a result in a function that returns negative errors.
macro_rules! or_return {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(code) => return code.into(),
        }
    };
}
pub(crate) use or_return;

/// The functions of a fid that can only be closed.
pub(crate) const fn closed_by(close: unsafe extern "C" fn(*mut ffi::fid) -> c_int) -> ffi::fi_ops {
    ffi::fi_ops {
        size: size_of::<ffi::fi_ops>(),
        close: Some(close),
        bind: Missing::MISSING,
        control: Missing::MISSING,
        ops_open: Missing::MISSING,
        tostr: Missing::MISSING,
        ops_set: Missing::MISSING,
    }
}

/// The `struct fid` of a new object.
pub(crate) fn fid(class: u32, ops: &'static ffi::fi_ops) -> ffi::fid {
    ffi::fid {
        fclass: class as usize,
        context: std::ptr::null_mut(),
        ops: std::ptr::from_ref(ops).cast_mut(),
    }
}
