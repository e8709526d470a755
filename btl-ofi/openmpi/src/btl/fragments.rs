//! Descriptors of messages: Open MPI fills descriptors in and sends them. A descriptor that finds no room waits here until
//! progress sends it. The transport copies the bytes of a send, but reports a descriptor as complete only when its message
//! has left. Otherwise pml/ob1 would complete its request earlier, and a process that computes makes no progress.

use std::cell::Cell;
use std::mem::zeroed;
use std::ptr::{self, NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::{Endpoint, Leaves, Sent, Transport};
use plugin_api::Status;

use crate::bindings as ffi;
use crate::btl::sender;
use crate::btl::waiting::Queues;

/// The parts of a module that sending needs.
#[derive(Clone, Copy)]
pub(crate) struct Door<'a> {
    pub(crate) transport: &'a Transport,
    pub(crate) btl: *mut ffi::mca_btl_base_module_t,
}

/// A descriptor with room for one message. Open MPI sees the first field only.
#[repr(C)]
pub(crate) struct Fragment {
    pub(crate) base: ffi::mca_btl_base_descriptor_t,
    /// The bytes of the buffer, then the bytes that are sent from the program's memory.
    segments: [ffi::mca_btl_base_segment_t; 2],
    /// In words, for its alignment.
    buffer: Vec<u64>,
}

impl Fragment {
    /// A descriptor with one segment, which is a buffer.
    fn new() -> Box<Fragment> {
        // SAFETY: the structures hold numbers, pointers and optional functions; zero is a valid value of each.
        let (base, segments) = unsafe { zeroed() };
        let mut fragment = Box::new(Fragment {
            base,
            segments,
            buffer: Vec::new(),
        });
        // SAFETY: the descriptor is zeroed and stays in its box.
        unsafe { ffi::mca_btl_ofi_host_construct(&raw mut fragment.base) };
        fragment
    }

    fn begin(&mut self, size: usize, flags: u32) {
        let words = size.div_ceil(8);
        if self.buffer.len() < words {
            self.buffer.resize(words, 0);
        }
        let segments = self.segments.as_mut_ptr();
        self.base.des_segments = segments;
        self.base.des_segment_count = 1;
        self.base.des_cbfunc = None;
        self.base.des_flags = flags;
        self.base.order = ffi::MCA_BTL_NO_ORDER as u8;
        let at = self.at(0);
        self.set(0, at, size);
    }

    /// Sets a segment.
    fn set(&mut self, number: usize, at: *mut std::ffi::c_void, size: usize) {
        self.segments[number].seg_addr.pval = at;
        self.segments[number].seg_len = size as u64;
    }

    /// The address of the buffer's byte at `offset`.
    pub(crate) fn at(&mut self, offset: usize) -> *mut std::ffi::c_void {
        // SAFETY: the callers stay within the size that they asked for.
        unsafe { self.buffer.as_mut_ptr().cast::<u8>().add(offset).cast() }
    }

    /// Shortens the message to its first `size` bytes, which are all in the buffer.
    pub(crate) fn cut(&mut self, size: usize) {
        self.segments[0].seg_len = size as u64;
    }

    /// Adds bytes that are sent from the program's memory.
    pub(crate) fn append(&mut self, at: *mut std::ffi::c_void, size: usize) {
        self.set(1, at, size);
        self.base.des_segment_count = 2;
    }

    fn segments(&self) -> &[ffi::mca_btl_base_segment_t] {
        &self.segments[..self.base.des_segment_count.min(2)]
    }

    fn size(&self) -> usize {
        self.segments().iter().map(|s| s.seg_len as usize).sum()
    }

    /// Copies the message.
    ///
    /// # Safety
    /// `to` is writable for the message's size, and Open MPI keeps the bytes in the program's
    /// memory.
    unsafe fn copy_to(&self, mut to: *mut u8) {
        for segment in self.segments() {
            let size = segment.seg_len as usize;
            // SAFETY: the caller guarantees both sides.
            unsafe {
                ptr::copy_nonoverlapping(segment.seg_addr.pval.cast::<u8>(), to, size);
                to = to.add(size);
            }
        }
    }
}

/// A descriptor that waits for room, and the tag of its message.
#[derive(Clone, Copy)]
struct Waiting {
    fragment: NonNull<Fragment>,
    tag: u8,
}

/// A descriptor whose message has not left.
#[derive(Clone, Copy)]
struct Leaving {
    fragment: NonNull<Fragment>,
    sent: Sent,
}

/// The descriptors of a module.
#[derive(Default)]
pub(crate) struct Fragments {
    #[allow(clippy::vec_box, reason = "Open MPI holds their addresses")]
    free: Mutex<Vec<Box<Fragment>>>,
    waiting: Queues<Waiting>,
    leaving: Queues<Leaving>,
}

// SAFETY: a fragment is used by one thread at a time: by a thread of Open MPI until it is sent, then by the thread that
// posts it or takes it out of a list.
unsafe impl Send for Fragments {}
// SAFETY: the lists are locked.
unsafe impl Sync for Fragments {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fragments {
    /// A descriptor with a buffer of `size` bytes, which belongs to the caller until [`give_back`](Self::give_back).
    pub(crate) fn take(&self, size: usize, flags: u32) -> NonNull<Fragment> {
        let mut fragment = lock(&self.free).pop().unwrap_or_else(Fragment::new);
        fragment.begin(size, flags);
        NonNull::from(Box::leak(fragment))
    }

    /// # Safety
    /// The descriptor came from [`take`](Self::take), and was not given back since.
    pub(crate) unsafe fn give_back(&self, fragment: NonNull<Fragment>) {
        // SAFETY: `take` leaked this box, and the caller gives it back once.
        let fragment = unsafe { Box::from_raw(fragment.as_ptr()) };
        lock(&self.free).push(fragment);
    }

    /// Sends a descriptor, or keeps it until there is room. Returns 1 if its message has left, 0 if it is kept until then, or an
    /// error, which is lack of room only while the peer is being released.
    ///
    /// # Safety
    /// The descriptor belongs to the caller; the endpoint is live.
    pub(crate) unsafe fn send(
        &self,
        door: Door<'_>,
        (endpoint, tag): (NonNull<Endpoint>, u8),
        fragment: NonNull<Fragment>,
    ) -> i32 {
        let mut sent = Err(Status::TEMP_OUT_OF_RESOURCE);
        if !self.has_waiting_for(endpoint) {
            // SAFETY: the caller guarantees the descriptor and the endpoint.
            sent = unsafe { post(door.transport, (endpoint, tag), fragment) };
        }
        let is_kept = match sent {
            Ok(Sent::Left) => false,
            Ok(sent) => self.leaving.push(endpoint, Leaving { fragment, sent }),
            Err(status) if status.is_again() => {
                if !self.waiting.push(endpoint, Waiting { fragment, tag }) {
                    return status.0;
                }
                true
            }
            Err(status) => return status.0,
        };
        if is_kept {
            return 0;
        }
        // SAFETY: the descriptor was sent, and is not used here any more.
        unsafe { self.tell(door, endpoint, fragment, Status::SUCCESS, false) };
        1
    }

    /// Whether descriptors are kept.
    #[inline]
    pub(crate) fn has_kept(&self) -> bool {
        self.waiting.any() || self.leaving.any()
    }

    /// Whether descriptors wait for room at this endpoint.
    #[inline]
    pub(crate) fn has_waiting_for(&self, endpoint: NonNull<Endpoint>) -> bool {
        self.waiting.any_for(endpoint)
    }

    /// Sends descriptors that waited for room, and completes those that have left. Returns the number of complete descriptors.
    #[cold]
    pub(crate) fn resume(&self, door: Door<'_>) -> usize {
        // SAFETY: the descriptors left their queues, so each completes once.
        self.resume_with(door.transport, |endpoint, fragment, status| unsafe {
            self.tell(door, endpoint, fragment, status, true);
        })
    }

    fn resume_with(
        &self,
        transport: &Transport,
        complete: impl Fn(NonNull<Endpoint>, NonNull<Fragment>, Status),
    ) -> usize {
        let n = Cell::new(0);
        let complete = |endpoint, fragment, status| {
            n.set(n.get() + 1);
            complete(endpoint, fragment, status);
        };
        self.waiting.resume(
            |endpoint, Waiting { fragment, tag }| {
                // SAFETY: a waiting descriptor belongs to its queue. The endpoint is released only after its queue is closed,
                // which waits for this call.
                match unsafe { post(transport, (endpoint, tag), fragment) } {
                    Ok(sent) if self.leaving.push(endpoint, Leaving { fragment, sent }) => KEPT,
                    Ok(_) => Status::SUCCESS,
                    Err(status) => status,
                }
            },
            |endpoint, Waiting { fragment, .. }, status| {
                if status != KEPT {
                    complete(endpoint, fragment, status);
                }
            },
        );
        self.leaving.resume(
            // SAFETY: the endpoint is released only after its queue is closed, which waits for this call.
            |endpoint, Leaving { sent, .. }| match unsafe { transport.has_sent(endpoint, sent) } {
                true => Status::SUCCESS,
                false => Status::TEMP_OUT_OF_RESOURCE,
            },
            |endpoint, Leaving { fragment, .. }, status| complete(endpoint, fragment, status),
        );
        n.get()
    }

    /// Sends the waiting descriptors of a peer that is to be released, because Open MPI has sent them and the peer may wait for
    /// them. Descriptors that find no room as long as the release waits are left.
    pub(crate) fn send_before_release(&self, door: Door<'_>, released: NonNull<Endpoint>) {
        door.transport.progress_until(|| {
            self.resume(door);
            !self.has_waiting_for(released) && !self.leaving.any_for(released)
        });
    }

    /// Sends the waiting descriptors of all peers of a transport that is to be closed. Calls no function
    /// of Open MPI.
    pub(crate) fn send_before_close(&self, transport: &Transport) {
        transport.progress_until(|| {
            // SAFETY: `take` made the descriptors, which have just left their queues. No function of Open MPI is called, so
            // they are freed here.
            self.resume_with(transport, |_, fragment, _| unsafe {
                self.give_back(fragment);
            });
            !self.has_kept()
        });
    }

    /// Ends the descriptors of a peer that is to be released: waiting descriptors end as not sent. The release sends messages
    /// that have not left, as long as it waits. Nothing is kept for the peer until [`end_release`](Self::end_release).
    pub(crate) fn begin_release(&self, door: Door<'_>, released: NonNull<Endpoint>) {
        for Waiting { fragment, .. } in self.waiting.close(released) {
            // SAFETY: the descriptor left its queue, so it completes once.
            unsafe { self.tell(door, released, fragment, Status::UNREACH, true) };
        }
        for Leaving { fragment, .. } in self.leaving.close(released) {
            // SAFETY: the message of the descriptor has left, so it completes once.
            unsafe { self.tell(door, released, fragment, Status::SUCCESS, true) };
        }
    }

    /// Called after the peer was released.
    pub(crate) fn end_release(&self, released: NonNull<Endpoint>) {
        self.waiting.open(released);
        self.leaving.open(released);
    }

    /// Calls a descriptor's function, if it was kept or always requires the call. Frees the descriptor if the component
    /// owns it.
    ///
    /// # Safety
    /// The descriptor is not used here any more. The caller holds no lock.
    unsafe fn tell(
        &self,
        door: Door<'_>,
        endpoint: NonNull<Endpoint>,
        fragment: NonNull<Fragment>,
        status: Status,
        was_kept: bool,
    ) {
        // SAFETY: the caller guarantees a live descriptor.
        let (flags, function) = unsafe {
            let base = &(*fragment.as_ptr()).base;
            (base.des_flags, base.des_cbfunc)
        };
        if (was_kept || flags & ffi::MCA_BTL_DES_SEND_ALWAYS_CALLBACK != 0)
            && let Some(function) = function
        {
            // SAFETY: the function is Open MPI's, with the arguments that it expects.
            unsafe {
                function(
                    door.btl,
                    endpoint.as_ptr().cast(),
                    fragment.as_ptr().cast(),
                    status.0,
                )
            };
        }
        // Without this flag, Open MPI frees the descriptor, perhaps in its function.
        if flags & ffi::MCA_BTL_DES_FLAGS_BTL_OWNERSHIP != 0 {
            // SAFETY: the component owns the descriptor now.
            unsafe { self.give_back(fragment) };
        }
    }
}

impl Drop for Fragments {
    fn drop(&mut self) {
        let waiting = self.waiting.clear().into_iter().map(|w| w.fragment);
        let leaving = self.leaving.clear().into_iter().map(|l| l.fragment);
        for fragment in waiting.chain(leaving) {
            // SAFETY: `take` leaked this box, and it was kept here.
            drop(unsafe { Box::from_raw(fragment.as_ptr()) });
        }
    }
}

/// Sends a descriptor's message.
///
/// # Safety
/// The descriptor belongs to the caller; the endpoint is live.
unsafe fn post(
    transport: &Transport,
    (endpoint, tag): (NonNull<Endpoint>, u8),
    fragment: NonNull<Fragment>,
) -> Result<Sent, Status> {
    // SAFETY: the caller guarantees the descriptor, whose bytes have its size, and the endpoint.
    unsafe {
        let fragment = fragment.as_ref();
        let size = fragment.size();
        let message = (tag, size + sender::size(tag), Leaves::Later);
        transport.send(endpoint, message, |to| {
            fragment.copy_to(to);
            sender::write(tag, to.add(size));
        })
    }
}

/// A descriptor that waited was sent, and is kept until it has left.
const KEPT: Status = Status::COMPLETED;

/// No descriptor.
pub(crate) const NONE: *mut ffi::mca_btl_base_descriptor_t = null_mut();
