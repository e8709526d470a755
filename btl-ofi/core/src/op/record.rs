//! Completion records: what an operation needs to remember until its completion arrives.
//!
//! A record keeps the operand of an atomic alive, and lends the provider a context if it claims one. Records
//! come from chunks that are never moved or freed while the context lives, so a pointer that the
//! provider holds stays good; the free list makes taking and giving back two moves each.
//!
//! The provider is given the record's address, where the context that it may claim (FI_CONTEXT, FI_CONTEXT2) lies;
//! what we keep lies behind it. Where the provider claims none, it never looks there, and the records overlap: each
//! one's context is what the one before keeps. So an outstanding operation takes half the memory and one cache line, by
//! the same instructions. What is referred to is therefore the kept part alone, never a whole record.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use libfabric_sys::fi_context2;
use plugin_api::{CompletionFn, Handle, Module};

use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Phase;

/// Records of the first chunk; each further chunk doubles up to [`LARGEST_CHUNK`].
const FIRST_CHUNK: usize = 256;
const LARGEST_CHUNK: usize = 16 * 1024;

/// Whom to call when an operation completes.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The function.
    pub function: CompletionFn,
    /// Its `context` argument.
    pub context: *mut c_void,
    /// Its `data` argument.
    pub data: *mut c_void,
}

/// One outstanding operation.
#[repr(C, align(64))]
pub(crate) struct Record {
    /// The provider's, if it claims one.
    context: MaybeUninit<fi_context2>,
    kept: Kept,
}

/// What is kept of an operation.
#[repr(C, align(64))]
struct Kept {
    /// Operand of an atomic, read by the provider until completion.
    operand: u64,
    /// Compare value of an atomic, likewise.
    compare: u64,
    function: Option<CompletionFn>,
    callback_context: *mut c_void,
    data: *mut c_void,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    /// The peer with the phases in its low bits (endpoints are aligned to 16), or 0 while the record
    /// is free; the next free record then stands in `data`.
    tag: usize,
}

const _: () = assert!(
    size_of::<Kept>() == 64 && size_of::<Record>() == 128,
    "NOTES promises 64 bytes per operation, and as many for a provider that claims a context"
);
const _: () = assert!(
    align_of::<Record>() == 64,
    "the low bits of a record's address are zero"
);

/// Tells a bare operation (an endpoint's address) from a record's address.
const BARE: usize = 2;
const CONTEXT_SLOT: u32 = 0;
const ENDPOINT_SLOT: u32 = 2;

/// An endpoint and the phases its operation counts in, packed into one word. With [`BARE`] set it is
/// itself the provider's context pointer, for operations that need no record.
#[derive(Clone, Copy)]
pub(crate) struct Tag(usize);

impl Tag {
    #[inline]
    pub(crate) fn new(endpoint: NonNull<Endpoint>, context: Phase, peer: Phase) -> Self {
        // Sums of what has no bit in common, which processors make of several at once.
        Tag((endpoint.as_ptr() as usize)
            .wrapping_add((context as usize) << CONTEXT_SLOT)
            .wrapping_add((peer as usize) << ENDPOINT_SLOT))
    }

    /// The provider's context pointer for an operation without record.
    #[inline]
    pub(crate) fn bare(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0.wrapping_add(BARE))
    }

    /// Reads a pointer made by [`bare`](Self::bare) back.
    #[inline]
    pub(crate) fn from_bare(pointer: *mut c_void) -> Option<Tag> {
        let word = pointer as usize;
        (word & BARE != 0).then_some(Tag(word & !BARE))
    }

    #[inline]
    pub(crate) fn context_phase(self) -> Phase {
        (self.0 >> CONTEXT_SLOT) as u32 & 1
    }

    #[inline]
    pub(crate) fn endpoint_phase(self) -> Phase {
        (self.0 >> ENDPOINT_SLOT) as u32 & 1
    }

    /// The peer. The pointer is only made from live endpoints, whose memory outlives every
    /// operation that names them.
    #[inline]
    pub(crate) fn endpoint(self) -> *mut Endpoint {
        ptr::with_exposed_provenance_mut(self.0 & !(align_of::<Endpoint>() - 1))
    }
}

/// What is left of a record once it has been given back: enough to tell the caller.
#[derive(Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) tag: Tag,
    pub(crate) function: Option<CompletionFn>,
    pub(crate) context: *mut c_void,
    pub(crate) data: *mut c_void,
    pub(crate) local_address: *mut c_void,
    pub(crate) local_handle: *mut Handle,
}

/// Records of one context. Guarded by the context's lock.
pub(crate) struct Pool {
    free: *mut Record,
    chunks: Vec<Box<[Place]>>,
    /// Places from one record to the next: 2 where the provider claims contexts, otherwise 1.
    stride: usize,
}

/// Memory of what is kept of a record, or of a context. A chunk has one more than its records need, so that
/// the first has a place before it too.
type Place = MaybeUninit<Kept>;

// SAFETY: the pool owns its records; the pointers in them are data for whoever issued the operation
// and are not followed here.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool with its first chunk in place, so that the first operations allocate nothing. `claimed` says
    /// whether the provider writes to the contexts of operations.
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
        // A failed reservation leaves the pool empty, and the operation is answered with
        // OUT_OF_RESOURCE.
        if chunk.try_reserve_exact(places).is_err() || self.chunks.try_reserve(1).is_err() {
            return;
        }
        chunk.resize_with(places, || MaybeUninit::new(Kept::vacant()));
        let mut chunk = chunk.into_boxed_slice();
        let first = chunk.as_mut_ptr().cast::<Record>();
        for number in (0..records).rev() {
            // SAFETY: inside the chunk, with both places of the record.
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

    /// Every record, in use or not.
    fn all(&self) -> impl Iterator<Item = NonNull<Record>> {
        self.chunks.iter().flat_map(move |chunk| {
            let first = NonNull::from(&**chunk).cast::<Place>();
            (0..chunk.len() - 1)
                .step_by(self.stride)
                // SAFETY: inside the chunk.
                .map(move |at| unsafe { first.add(at) }.cast())
        })
    }

    /// A record, or `None` when memory is exhausted. It stays taken until
    /// [`give_back`](Self::give_back).
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

    /// As [`take`](Self::take), but `None` when there is none at hand.
    #[inline(always)]
    pub(crate) fn take_ready(&mut self) -> Option<NonNull<Record>> {
        let record = NonNull::new(self.free)?;
        // SAFETY: as in `take`.
        self.free = unsafe { (*record.as_ptr()).kept.data.cast() };
        Some(record)
    }

    /// Takes a record out of use, keeping what its completion needs to say.
    ///
    /// # Safety
    /// `record` came from [`take`](Self::take) of this pool, and was not given back since.
    #[inline]
    pub(crate) unsafe fn give_back(&mut self, record: NonNull<Record>) -> Finished {
        // SAFETY: the caller vouches that the record is one of ours and in use.
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

    /// Whether a record was given back: its operation was reported as failed without having a name, and was
    /// not the one that had failed.
    ///
    /// # Safety
    /// `record` came from [`take`](Self::take) of a pool that lives.
    #[inline(always)]
    pub(crate) unsafe fn is_free(record: NonNull<Record>) -> bool {
        // SAFETY: records stay as long as their pool, which is locked or used by one thread.
        unsafe { (*record.as_ptr()).kept.tag == 0 }
    }

    /// Takes the callback out of a record that stays in use: its operation has been reported as
    /// failed, and a late completion must not report it again, neither to the callback nor as an
    /// operation that has none. `None` if it has no callback.
    ///
    /// # Safety
    /// As for [`give_back`](Self::give_back).
    pub(crate) unsafe fn silence(&mut self, record: NonNull<Record>) -> Option<Finished> {
        // SAFETY: the caller vouches that the record is one of ours and in use.
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

    /// Whether `pointer` is a record of this pool that is in use: what a provider hands back is
    /// believed on the hot path, and checked with this wherever an error is reported.
    pub(crate) fn owns(&self, pointer: *mut c_void) -> Option<NonNull<Record>> {
        let record = NonNull::new(pointer.cast::<Record>())?;
        let size = self.stride * size_of::<Place>();
        let inside = self.chunks.iter().any(|chunk| {
            let distance = (pointer as usize).wrapping_sub(chunk.as_ptr() as usize);
            let last = size_of_val(&**chunk) - size_of::<Place>();
            distance < last && distance.is_multiple_of(size)
        });
        // SAFETY: the pointer is a record in one of our chunks.
        (inside && unsafe { (*record.as_ptr()).kept.tag } != 0).then_some(record)
    }

    /// The records in use, optionally only those to one peer.
    pub(crate) fn in_use(&self, endpoint: Option<NonNull<Endpoint>>) -> Vec<NonNull<Record>> {
        let wanted = |record: &NonNull<Record>| {
            // SAFETY: a record of this pool, under the context's lock.
            let tag = unsafe { (*record.as_ptr()).kept.tag };
            tag != 0 && endpoint.is_none_or(|e| Tag(tag).endpoint() == e.as_ptr())
        };
        self.all().filter(wanted).collect()
    }
}

/// The callback of an operation whose own has run.
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
    /// It was just taken from its pool.
    #[inline]
    pub(crate) unsafe fn fill(
        record: NonNull<Record>,
        tag: Tag,
        completion: Option<Completion>,
        local_address: *mut c_void,
        local_handle: *mut Handle,
    ) {
        // SAFETY: the caller's alone, as it vouches.
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

    /// Leaves an operand in a record; gives its place.
    ///
    /// # Safety
    /// The record was taken, and its operation is not yet handed to the provider.
    #[inline(always)]
    pub(crate) unsafe fn operand(record: *mut Record, value: u64) -> *mut c_void {
        // SAFETY: the caller's alone, as it vouches.
        unsafe {
            (*record).kept.operand = value;
            (&raw mut (*record).kept.operand).cast()
        }
    }

    /// Leaves a value to compare with there; gives its place.
    ///
    /// # Safety
    /// As for [`operand`](Self::operand).
    #[inline(always)]
    pub(crate) unsafe fn compare(record: *mut Record, value: u64) -> *mut c_void {
        // SAFETY: likewise.
        unsafe {
            (*record).kept.compare = value;
            (&raw mut (*record).kept.compare).cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> NonNull<Endpoint> {
        NonNull::new(ptr::with_exposed_provenance_mut(0x1000)).unwrap()
    }

    #[test]
    fn a_tag_keeps_its_parts() {
        for (c, p) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let tag = Tag::from_bare(Tag::new(endpoint(), c, p).bare()).unwrap();
            assert_eq!(tag.context_phase(), c);
            assert_eq!(tag.endpoint_phase(), p);
            assert_eq!(tag.endpoint(), endpoint().as_ptr());
        }
        assert!(Tag::from_bare(ptr::null_mut()).is_none());
    }

    #[test]
    fn records_are_reused_and_told_apart() {
        for claimed in [false, true] {
            let mut pool = Pool::new(claimed);
            let tag = Tag::new(endpoint(), 0, 1);
            let mut taken = Vec::new();
            for _ in 0..FIRST_CHUNK + 10 {
                let r = pool.take().unwrap();
                // SAFETY: just taken.
                unsafe { Record::fill(r, tag, None, ptr::null_mut(), ptr::null_mut()) };
                assert_eq!(pool.owns(r.as_ptr().cast()), Some(r));
                taken.push(r);
            }
            assert_eq!(pool.in_use(Some(endpoint())).len(), FIRST_CHUNK + 10);
            for r in taken {
                // SAFETY: taken above and not given back since.
                unsafe { pool.give_back(r) };
                assert!(pool.owns(r.as_ptr().cast()).is_none());
            }
            assert!(pool.in_use(None).is_empty());
            let mut stray = 0u64;
            assert!(pool.owns(ptr::from_mut(&mut stray).cast()).is_none());
            assert!(pool.owns(ptr::null_mut()).is_none());
        }
    }

    /// A provider that claims contexts may write to all of one, at any time until completion.
    #[test]
    fn a_claimed_context_is_nobody_elses() {
        let mut pool = Pool::new(true);
        let tag = Tag::new(endpoint(), 1, 0);
        let taken: Vec<_> = (0..3 * FIRST_CHUNK as u64)
            .map(|number| {
                let r = pool.take().unwrap();
                // SAFETY: just taken, with its context.
                unsafe {
                    Record::fill(r, tag, None, ptr::null_mut(), ptr::null_mut());
                    Record::operand(r.as_ptr(), number);
                    r.cast::<u8>().write_bytes(0xff, size_of::<fi_context2>());
                }
                r
            })
            .collect();
        assert_eq!(pool.in_use(None).len(), taken.len());
        for (number, r) in taken.into_iter().enumerate() {
            // SAFETY: taken above and not given back since.
            unsafe {
                assert_eq!((*r.as_ptr()).kept.operand, number as u64);
                assert_eq!(pool.give_back(r).tag.endpoint(), endpoint().as_ptr());
            }
        }
    }

    #[test]
    fn an_operation_takes_what_is_promised() {
        for (claimed, bytes) in [(false, 64), (true, 128)] {
            let mut pool = Pool::new(claimed);
            pool.grow();
            let places: usize = pool.chunks.iter().map(|chunk| size_of_val(&**chunk)).sum();
            let spare = pool.chunks.len() * size_of::<Place>();
            assert_eq!((places - spare) / pool.all().count(), bytes);
        }
    }
}
