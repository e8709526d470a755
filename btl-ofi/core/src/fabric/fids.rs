//! Owners of libfabric objects: one type per fid. Drop closes the object. Structs that hold several declare
//! children before parents, so that children close first.

use std::ffi::CStr;
use std::ptr::{self, NonNull};

use libfabric_sys as ffi;

use crate::base::error::{CallError, check};
use crate::base::fork::Birth;
use crate::fabric::memory;

/// A libfabric object with an embedded `struct fid`.
pub(crate) trait Fid {
    /// Name of the kind, for messages.
    const KIND: &'static str;
}

macro_rules! fids {
    ($($type:ident $kind:literal,)*) => {
        $(impl Fid for ffi::$type { const KIND: &'static str = $kind; })*
    };
}

fids! {
    fid_fabric "fabric",
    fid_domain "domain",
    fid_av "address vector",
    fid_cq "completion queue",
    fid_ep "endpoint",
    fid_mr "memory region",
}

/// Owns a fid and closes it when dropped. Every libfabric object begins with its `struct fid`, so one pointer serves
/// for both. A child of fork closes nothing, because a close could affect objects that its parent uses.
pub(crate) struct Owned<T: Fid> {
    object: NonNull<T>,
    birth: Birth,
}

// SAFETY: libfabric objects are not tied to a thread. Users of this type call into these objects as the threading
// model of their domain allows.
unsafe impl<T: Fid> Send for Owned<T> {}
// SAFETY: a shared `Owned` returns only the pointer; calls through it follow the threading model of the domain.
unsafe impl<T: Fid> Sync for Owned<T> {}

impl<T: Fid> Owned<T> {
    /// Runs a call that opens an object and returns it through its out pointer.
    pub(crate) fn open(
        call: &'static str,
        open: impl FnOnce(*mut *mut T) -> std::ffi::c_int,
    ) -> Result<Self, CallError> {
        let mut object = ptr::null_mut();
        check(call, open(&mut object))?;
        match NonNull::new(object) {
            Some(object) => Ok(Owned {
                object,
                birth: Birth::now(),
            }),
            None => Err(CallError {
                call,
                code: ffi::FI_EOTHER as i32,
            }),
        }
    }

    /// The object; valid while `self` lives.
    pub(crate) fn ptr(&self) -> *mut T {
        self.object.as_ptr()
    }

    /// The object's `struct fid`; valid while `self` lives.
    pub(crate) fn fid(&self) -> *mut ffi::fid {
        self.object.as_ptr().cast()
    }

    /// Closes the object and reports the result.
    pub(crate) fn close(self) -> Result<(), CallError> {
        let closed = self.end();
        std::mem::forget(self);
        closed
    }

    /// Closes the object; nothing uses it afterwards.
    fn end(&self) -> Result<(), CallError> {
        if !self.birth.is_here() {
            return Ok(());
        }
        // SAFETY: `self` owns the fid. `close` forgets `self` and `drop` is the last use, so nothing closes
        // it again.
        check("fi_close", unsafe { ffi::fi_close(self.fid()) })
    }
}

impl<T: Fid> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::warn!("closing a {}: {e}", T::KIND);
        }
    }
}

/// A list of `fi_info`, freed when dropped.
pub(crate) struct InfoList {
    head: *mut ffi::fi_info,
    /// The allocation that contains `head` if this crate made the entry; `None` if libfabric did.
    made: Option<NonNull<memory::Entry>>,
}

// SAFETY: the list is plain memory that only this object refers to.
unsafe impl Send for InfoList {}
// SAFETY: the list is only read while shared.
unsafe impl Sync for InfoList {}

impl InfoList {
    /// A list that libfabric allocated. The caller passes its ownership.
    fn of(head: *mut ffi::fi_info) -> InfoList {
        InfoList { head, made: None }
    }

    /// `fi_getinfo` without node or service. Returns an empty list for `-FI_ENODATA`.
    pub(crate) fn query(api: u32, hints: &Hints) -> Result<InfoList, CallError> {
        let mut head = ptr::null_mut();
        // SAFETY: `hints` is a complete fi_info; `head` receives a list that this process then owns.
        let rc = unsafe {
            ffi::fi_getinfo(api, ptr::null(), ptr::null(), 0, hints.info.head, &mut head)
        };
        if rc == -(ffi::FI_ENODATA as i32) {
            return Ok(InfoList::of(ptr::null_mut()));
        }
        check("fi_getinfo", rc)?;
        Ok(InfoList::of(head))
    }

    /// The entries in libfabric's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = InfoRef<'_>> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            // SAFETY: every entry lives as long as the list, which `self` keeps.
            let info = unsafe { next.as_mut()? };
            next = info.next;
            Some(InfoRef { info })
        })
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        if let Some(made) = self.made {
            // SAFETY: this object owns the entry, and only this drop frees it.
            unsafe { memory::Entry::free(made) };
        } else if !self.head.is_null() {
            // SAFETY: this object owns the list, and only this drop frees it.
            unsafe { ffi::fi_freeinfo(self.head) };
        }
    }
}

/// One entry of a list. libfabric filled its attribute pointers.
#[derive(Clone, Copy)]
pub(crate) struct InfoRef<'a> {
    info: &'a ffi::fi_info,
}

impl<'a> InfoRef<'a> {
    /// An owned copy of this entry alone.
    pub(crate) fn duplicate(self) -> Result<Info, CallError> {
        // SAFETY: `info` is a live entry; fi_dupinfo copies it with everything that its pointers
        // reach.
        let copy = unsafe { ffi::fi_dupinfo(self.info) };
        if copy.is_null() {
            return Err(CallError {
                call: "fi_dupinfo",
                code: ffi::FI_ENOMEM as i32,
            });
        }
        Ok(Info {
            list: InfoList::of(copy),
        })
    }

    pub(crate) fn raw(self) -> &'a ffi::fi_info {
        self.info
    }

    pub(crate) fn domain_attr(self) -> &'a ffi::fi_domain_attr {
        // SAFETY: fi_getinfo and fi_dupinfo fill `domain_attr` (man fi_getinfo), and it lives as long as the entry.
        unsafe { &*self.info.domain_attr }
    }

    pub(crate) fn fabric_attr(self) -> &'a ffi::fi_fabric_attr {
        // SAFETY: fi_getinfo and fi_dupinfo fill `fabric_attr` (man fi_getinfo), and it lives as long as the entry.
        unsafe { &*self.info.fabric_attr }
    }

    pub(crate) fn ep_attr(self) -> &'a ffi::fi_ep_attr {
        // SAFETY: fi_getinfo and fi_dupinfo fill `ep_attr` (man fi_getinfo), and it lives as long as the entry.
        unsafe { &*self.info.ep_attr }
    }

    pub(crate) fn tx_attr(self) -> &'a ffi::fi_tx_attr {
        // SAFETY: fi_getinfo and fi_dupinfo fill `tx_attr` (man fi_getinfo), and it lives as long as the entry.
        unsafe { &*self.info.tx_attr }
    }

    /// Whether any of the mode words says that the provider writes to operation contexts.
    pub(crate) fn claims_contexts(self) -> bool {
        let claims = ffi::FI_CONTEXT | ffi::FI_CONTEXT2;
        (self.info.mode | self.domain_attr().mode | self.tx_attr().mode) & claims != 0
    }

    /// The source address of the entry, in the entry's format; empty if it has none.
    pub(crate) fn source(self) -> &'a [u8] {
        if self.info.src_addr.is_null() {
            return &[];
        }
        // SAFETY: an address from fi_getinfo or fi_dupinfo that is not NULL has `src_addrlen` bytes, and it lives as long
        // as the entry.
        unsafe { std::slice::from_raw_parts(self.info.src_addr.cast(), self.info.src_addrlen) }
    }

    /// Name of the provider, as `fi_info` prints it.
    pub(crate) fn provider(self) -> String {
        text(self.fabric_attr().prov_name)
    }

    /// Name of the fabric.
    pub(crate) fn fabric(self) -> String {
        text(self.fabric_attr().name)
    }

    /// Name of the domain (device).
    pub(crate) fn domain(self) -> String {
        text(self.domain_attr().name)
    }
}

/// One owned `fi_info`.
pub(crate) struct Info {
    list: InfoList,
}

impl Info {
    /// The entry of the provider `memory`.
    pub(crate) fn of_memory() -> Info {
        let made = memory::Entry::new();
        Info {
            list: InfoList {
                head: memory::Entry::info(made),
                made: Some(made),
            },
        }
    }

    pub(crate) fn get(&self) -> InfoRef<'_> {
        InfoRef {
            // SAFETY: `duplicate` and `of_memory` create every `Info`, with a head that is not NULL.
            info: unsafe { &*self.list.head },
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::fi_info {
        self.list.head
    }

    /// Sets the source address, in string format, of the endpoints to be opened.
    pub(crate) fn set_source(&mut self, address: &str) -> Result<(), CallError> {
        let length = address.len() + 1;
        // fi_freeinfo releases the address with free.
        // SAFETY: malloc takes an integer only.
        let copy = unsafe { libc::malloc(length) }.cast::<u8>();
        if copy.is_null() {
            return Err(CallError {
                call: "malloc",
                code: ffi::FI_ENOMEM as i32,
            });
        }
        // SAFETY: `copy` has room for the text and its NUL. This object owns the entry, whose address is NULL or from
        // malloc.
        unsafe {
            ptr::copy_nonoverlapping(address.as_ptr(), copy, address.len());
            copy.add(address.len()).write(0);
            let info = &mut *self.list.head;
            libc::free(info.src_addr);
            info.src_addr = copy.cast();
            info.src_addrlen = length;
        }
        Ok(())
    }
}

/// Hints for `fi_getinfo`, with every attribute structure present.
pub(crate) struct Hints {
    info: InfoList,
}

impl Hints {
    pub(crate) fn new() -> Result<Hints, CallError> {
        // SAFETY: with NULL, fi_dupinfo allocates an empty entry with all its attributes (`fi_allocinfo` is this
        // call).
        let head = unsafe { ffi::fi_dupinfo(ptr::null()) };
        if head.is_null() {
            return Err(CallError {
                call: "fi_allocinfo",
                code: ffi::FI_ENOMEM as i32,
            });
        }
        Ok(Hints {
            info: InfoList::of(head),
        })
    }

    /// Lets `fill` write the hints and their attributes.
    pub(crate) fn with(self, fill: impl FnOnce(&mut HintsMut<'_>)) -> Hints {
        // SAFETY: fi_allocinfo allocated the entry and each of these attributes; they are distinct objects.
        unsafe {
            let info = &mut *self.info.head;
            let mut hints = HintsMut {
                domain: &mut *info.domain_attr,
                ep: &mut *info.ep_attr,
                tx: &mut *info.tx_attr,
                rx: &mut *info.rx_attr,
                caps: &mut info.caps,
                mode: &mut info.mode,
            };
            fill(&mut hints);
        }
        self
    }

    /// Restricts the query to one provider by name.
    pub(crate) fn provider(self, name: &CStr) -> Hints {
        // SAFETY: fi_allocinfo allocated `fabric_attr`; its name is NULL or from strdup, and fi_freeinfo frees the
        // new name.
        unsafe {
            let fabric = &mut *(*self.info.head).fabric_attr;
            libc::free(fabric.prov_name.cast());
            fabric.prov_name = libc::strdup(name.as_ptr());
        }
        self
    }
}

#[cfg(test)]
impl Hints {
    /// The hints as if a provider had returned them.
    pub(crate) fn into_info(self) -> Info {
        Info { list: self.info }
    }
}

/// The fields of hints that selection writes.
pub(crate) struct HintsMut<'a> {
    pub(crate) caps: &'a mut u64,
    pub(crate) mode: &'a mut u64,
    pub(crate) domain: &'a mut ffi::fi_domain_attr,
    pub(crate) ep: &'a mut ffi::fi_ep_attr,
    pub(crate) tx: &'a mut ffi::fi_tx_attr,
    pub(crate) rx: &'a mut ffi::fi_rx_attr,
}

fn text(s: *const std::ffi::c_char) -> String {
    if s.is_null() {
        return String::new();
    }
    // SAFETY: `s` is a name from libfabric, which is NUL-terminated and lives as long as its fi_info.
    unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned()
}
