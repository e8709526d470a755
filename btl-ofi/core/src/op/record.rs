//! Operation records: the data that an operation needs until its completion arrives, and the pool of records of a
//! context.
//!
//! A record keeps the operand of an atomic alive, and holds the context that a provider may claim. Records lie in
//! chunks that are not moved or freed while the context lives, so a pointer that the provider holds stays valid. A
//! free list makes `take` and `give_back` two moves each.
//!
//! The provider gets the record's address. The context that the provider may claim (FI_CONTEXT, FI_CONTEXT2) lies at
//! that address, and the transport's data ([`Kept`]) lies behind it. A provider that claims no context never
//! accesses this context. Records then overlap: the context of a record is the `Kept` of the record before. So an
//! outstanding operation takes half the memory and one cache line, with the same instructions. For this reason
//! references are made to `Kept` only, never to a whole record.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use libfabric_sys::fi_context2;
use plugin_api::{CompletionFn, Handle, Module};

use crate::op::completion::{Completion, Finished};
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

/// Number of records in the first chunk. Each further chunk doubles the number, up to [`LARGEST_CHUNK`].
const FIRST_CHUNK: usize = 256;
const LARGEST_CHUNK: usize = 16 * 1024;

/// The record of an outstanding operation.
#[repr(C, align(64))]
pub(crate) struct Record {
    /// Memory for the provider, if it claims contexts.
    context: MaybeUninit<fi_context2>,
    kept: Kept,
}

/// The part of an operation record that the transport uses.
#[repr(C, align(64))]
struct Kept {
    /// Operand of an atomic. The provider reads the operand until completion.
    operand: u64,
    /// Compare value of an atomic. The provider reads this value until completion.
    compare: u64,
    function: Option<CompletionFn>,
    callback_context: *mut c_void,
    data: *mut c_void,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    /// A [`Tag`]: the peer's address, with the phases in its low bits (endpoints are aligned to 16). The tag is 0 while the
    /// record is free; then `data` points to the next free record.
    tag: usize,
}

const _: () = assert!(
    size_of::<Kept>() == 64 && size_of::<Record>() == 128,
    "docs/performance.md promises 64 bytes per operation, and as many for a provider that claims a context"
);
const _: () = assert!(
    align_of::<Record>() == 64,
    "the low bits of a record's address are zero"
);

/// The operation records of one context. The context's lock guards the records.
pub(crate) struct Pool {
    free: *mut Record,
    chunks: Vec<Box<[Place]>>,
    /// Number of places from one record to the next: 2 if the provider claims contexts, else 1.
    stride: usize,
}

/// Memory of a [`Kept`], or of a context. A chunk has one place more than its records need, so that the first record
/// also has a place for its context.
type Place = MaybeUninit<Kept>;

// SAFETY: the pool owns its records exclusively. The pointers in the records are data for the issuer of the
// operation; the pool dereferences none of them.
unsafe impl Send for Pool {}

impl Pool {
    /// Makes a pool with its first chunk, so that the first operations allocate nothing. `claimed` says whether the
    /// provider writes to operation contexts.
    pub(crate) fn new(claimed: bool) -> Self {
        let mut pool = Pool {
            free: ptr::null_mut(),
            chunks: Vec::new(),
            stride: 1 + usize::from(claimed),
        };
        pool.grow();
        pool
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let records = (FIRST_CHUNK << self.chunks.len().min(16)).min(LARGEST_CHUNK);
        let places = records * self.stride + 1;
        let mut chunk: Vec<Place> = Vec::new();
        // If the reservation fails, the pool stays empty and the operation returns OUT_OF_RESOURCE.
        if chunk.try_reserve_exact(places).is_err() || self.chunks.try_reserve(1).is_err() {
            return;
        }
        chunk.resize_with(places, || MaybeUninit::new(Kept::vacant()));
        let mut chunk = chunk.into_boxed_slice();
        let first = chunk.as_mut_ptr().cast::<Record>();
        for number in (0..records).rev() {
            // SAFETY: both places of the record, context and `Kept`, lie inside the chunk, which has one place more
            // than `records` strides.
            unsafe {
                let record = first
                    .cast::<Place>()
                    .add(number * self.stride)
                    .cast::<Record>();
                (*record).kept.data = self.free.cast();
                self.free = record;
            }
        }
        self.chunks.push(chunk);
    }

    /// All records, both in use and free.
    fn records(&self) -> impl Iterator<Item = NonNull<Record>> {
        self.chunks.iter().flat_map(move |chunk| {
            let first = NonNull::from(&**chunk).cast::<Place>();
            (0..chunk.len() - 1)
                .step_by(self.stride)
                // SAFETY: `at` is below the number of places in the chunk.
                .map(move |at| unsafe { first.add(at) }.cast())
        })
    }

    /// Takes a record; `None` if memory is exhausted. The record stays in use until [`give_back`](Self::give_back).
    #[inline]
    pub(crate) fn take(&mut self) -> Option<NonNull<Record>> {
        if self.free.is_null() {
            self.grow();
        }
        let record = NonNull::new(self.free)?;
        // SAFETY: the free list holds only records of our chunks that no operation uses.
        self.free = unsafe { (*record.as_ptr()).kept.data.cast() };
        Some(record)
    }

    /// [`take`](Self::take) without allocation: `None` if the free list is empty.
    #[inline(always)]
    pub(crate) fn take_ready(&mut self) -> Option<NonNull<Record>> {
        let record = NonNull::new(self.free)?;
        // SAFETY: the free list holds only records of our chunks that no operation uses.
        self.free = unsafe { (*record.as_ptr()).kept.data.cast() };
        Some(record)
    }

    /// Makes a record free, and returns the data that its callback needs.
    ///
    /// # Safety
    /// `record` came from [`take`](Self::take) of this pool, and was not given back since.
    #[inline]
    pub(crate) unsafe fn give_back(&mut self, record: NonNull<Record>) -> Finished {
        // SAFETY: the caller guarantees that the record belongs to this pool and is in use; `&mut self` excludes
        // other access.
        let r = unsafe { &mut (*record.as_ptr()).kept };
        let finished = Finished {
            tag: Tag(r.tag),
            function: r.function,
            context: r.callback_context,
            data: r.data,
            local_address: r.local_address,
            local_handle: r.local_handle,
        };
        r.tag = 0;
        r.data = self.free.cast();
        self.free = record.as_ptr();
        finished
    }

    /// Whether an operation was reported before its record was given back ([`silence`](Self::silence)).
    pub(crate) fn was_reported(finished: &Finished) -> bool {
        let function = finished.function;
        function.is_some_and(|function| ptr::fn_addr_eq(function, reported as CompletionFn))
    }

    /// Whether a record was already given back. This happens if the provider reported a failure without naming the
    /// operation: this operation was reported as failed, and another one had actually failed.
    ///
    /// # Safety
    /// `record` came from [`take`](Self::take) of a pool that still exists. The caller holds the pool's lock, or is
    /// the only thread that uses the pool.
    #[inline(always)]
    pub(crate) unsafe fn is_free(record: NonNull<Record>) -> bool {
        // SAFETY: the caller guarantees that the pool exists, so the record's memory is valid. The pool is locked, or
        // only one thread uses it.
        unsafe { (*record.as_ptr()).kept.tag == 0 }
    }

    /// Removes the callback from a record that stays in use, because the operation was reported as failed. A late
    /// completion must not report the operation again, neither to the callback nor as a failure without callback.
    /// Returns `None` if it has no callback.
    ///
    /// # Safety
    /// `record` came from [`take`](Self::take) of this pool, and was not given back since.
    pub(crate) unsafe fn silence(&mut self, record: NonNull<Record>) -> Option<Finished> {
        // SAFETY: the caller guarantees that the record belongs to this pool and is in use; `&mut self` excludes
        // other access.
        let r = unsafe { &mut (*record.as_ptr()).kept };
        let function = r.function?;
        r.function = Some(reported);
        Some(Finished {
            tag: Tag(r.tag),
            function: Some(function),
            context: r.callback_context,
            data: r.data,
            local_address: r.local_address,
            local_handle: r.local_handle,
        })
    }

    /// The record at `pointer`, if it belongs to this pool and is in use. The fast path trusts the pointers that
    /// a provider returns; this function checks a pointer when an error is reported.
    pub(crate) fn owns(&self, pointer: *mut c_void) -> Option<NonNull<Record>> {
        let record = NonNull::new(pointer.cast::<Record>())?;
        let size = self.stride * size_of::<Place>();
        let inside = self.chunks.iter().any(|chunk| {
            let distance = (pointer as usize).wrapping_sub(chunk.as_ptr() as usize);
            let last = size_of_val(&**chunk) - size_of::<Place>();
            distance < last && distance.is_multiple_of(size)
        });
        // SAFETY: `inside` means that the pointer is to a record in one of our chunks.
        (inside && unsafe { (*record.as_ptr()).kept.tag } != 0).then_some(record)
    }

    /// The records in use: all, or only those of operations to one peer.
    pub(crate) fn in_use(&self, endpoint: Option<NonNull<Endpoint>>) -> Vec<NonNull<Record>> {
        let wanted = |record: &NonNull<Record>| {
            // SAFETY: `all` returns records of this pool, whose lock the caller holds.
            let tag = unsafe { (*record.as_ptr()).kept.tag };
            tag != 0 && endpoint.is_none_or(|e| Tag(tag).endpoint() == e.as_ptr())
        };
        self.records().filter(wanted).collect()
    }
}

/// Replaces the callback of an operation that was already reported.
unsafe extern "C" fn reported(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut Handle,
    _: *mut c_void,
    _: *mut c_void,
    _: i32,
) {
}

impl Kept {
    fn vacant() -> Kept {
        Kept {
            operand: 0,
            compare: 0,
            function: None,
            callback_context: ptr::null_mut(),
            data: ptr::null_mut(),
            local_address: ptr::null_mut(),
            local_handle: ptr::null_mut(),
            tag: 0,
        }
    }
}

impl Record {
    /// Fills a record.
    ///
    /// # Safety
    /// The caller just took the record from its pool.
    #[inline]
    pub(crate) unsafe fn fill(
        record: NonNull<Record>,
        tag: Tag,
        completion: Option<Completion>,
        local_address: *mut c_void,
        local_handle: *mut Handle,
    ) {
        // SAFETY: the caller just took the record, so no other code uses it.
        let kept = unsafe { &mut (*record.as_ptr()).kept };
        kept.tag = tag.0;
        match completion {
            Some(c) => {
                kept.function = Some(c.function);
                kept.callback_context = c.context;
                kept.data = c.data;
                kept.local_address = local_address;
                kept.local_handle = local_handle;
            }
            None => kept.function = None,
        }
    }

    /// Stores an operand in a record; returns its address.
    ///
    /// # Safety
    /// The record is in use, and its operation was not passed to the provider yet. The caller holds the pool's
    /// lock, or is the only user of the record.
    #[inline(always)]
    pub(crate) unsafe fn operand(record: *mut Record, value: u64) -> *mut c_void {
        // SAFETY: the caller guarantees that the record is in use and that the provider does not have it yet.
        unsafe {
            (*record).kept.operand = value;
            (&raw mut (*record).kept.operand).cast()
        }
    }

    /// Links the record of a put to another record, or to none. The link takes the place of the put's operand.
    ///
    /// # Safety
    /// The record is in use for a put. The caller holds the pool's lock, or is the only user of the record.
    pub(crate) unsafe fn link(record: NonNull<Record>, next: Option<NonNull<Record>>) {
        let next = next.map_or(0, |next| next.as_ptr().expose_provenance());
        // SAFETY: the caller guarantees that the record is in use, and that nothing else uses it now. A put has no operand.
        unsafe { (*record.as_ptr()).kept.operand = next as u64 };
    }

    /// The record to which [`link`](Self::link) linked this record.
    ///
    /// # Safety
    /// The conditions of [`link`](Self::link), which was called after the record was taken.
    pub(crate) unsafe fn linked(record: NonNull<Record>) -> Option<NonNull<Record>> {
        // SAFETY: the caller guarantees that the record is in use, and that nothing else uses it now.
        let next = unsafe { (*record.as_ptr()).kept.operand };
        NonNull::new(ptr::with_exposed_provenance_mut(next as usize))
    }

    /// The tag of the operation.
    ///
    /// # Safety
    /// The record is in use. The caller holds the pool's lock, or is the only user of the record.
    pub(crate) unsafe fn tag(record: NonNull<Record>) -> Tag {
        // SAFETY: the caller guarantees that the record is in use, and that nothing else changes it now.
        Tag(unsafe { (*record.as_ptr()).kept.tag })
    }

    /// The peer of the operation.
    ///
    /// # Safety
    /// The conditions of [`tag`](Self::tag).
    pub(crate) unsafe fn endpoint(record: NonNull<Record>) -> Option<NonNull<Endpoint>> {
        // SAFETY: the caller guarantees the same conditions.
        NonNull::new(unsafe { Record::tag(record) }.endpoint())
    }

    /// Stores a compare value in a record; returns its address.
    ///
    /// # Safety
    /// The record is in use, and its operation was not passed to the provider yet.
    #[inline(always)]
    pub(crate) unsafe fn compare(record: *mut Record, value: u64) -> *mut c_void {
        // SAFETY: the caller guarantees that the record is in use and that the provider does not have it yet.
        unsafe {
            (*record).kept.compare = value;
            (&raw mut (*record).kept.compare).cast()
        }
    }
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
