//! A stream of the program: copies queue on it, and are made in their order when they are asked for while it is not busy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::Endpoint;
use plugin_api::{IoVec, OverrideOps, hmem_iface};

use crate::common::device;

/// A copy that was started.
pub(crate) struct Queued {
    number: usize,
    to_device: bool,
    /// The address on the device, the one on the host, bytes.
    place: (usize, usize, usize),
}

#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) queue: VecDeque<Queued>,
    started: usize,
    /// Nothing is copied.
    pub(crate) is_busy: bool,
    /// It is busy until this peer has failed.
    pub(crate) busy_while_well: Option<NonNull<Endpoint>>,
    /// Half of each copy is made.
    pub(crate) is_short: bool,
}

// SAFETY: the endpoint is read only while its transport is open.
unsafe impl Send for Stream {}

static STREAM: Mutex<Option<Stream>> = Mutex::new(None);
/// Tests that use the stream, one at a time.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn with<R>(act: impl FnOnce(&mut Stream) -> R) -> R {
    let mut guard = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    act(guard.get_or_insert_with(Stream::default))
}

/// The stream as new, for one test.
pub(crate) fn fresh() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    with(|stream| *stream = Stream::default());
    turn
}

impl Stream {
    /// Makes the next copy.
    pub(crate) fn copy_next(&mut self) {
        let Some(Queued {
            to_device,
            place: (at, host, size),
            ..
        }) = self.queue.pop_front()
        else {
            return;
        };
        let iov = IoVec {
            base: ptr::without_provenance_mut(at),
            len: size,
        };
        let kind = &hmem_iface::CUDA;
        let host = ptr::with_exposed_provenance_mut(host);
        // SAFETY: memory of the device and a host buffer, which the transport keeps until the copy is over.
        let copied = unsafe {
            match to_device {
                true => device::copy_to(&iov, kind, 1, 0, host, size),
                false => device::copy_from(host, size, &iov, kind, 1, 0),
            }
        };
        assert_eq!(copied, size as isize);
    }

    fn goes_on(&self) -> bool {
        let peer = self.busy_while_well;
        // SAFETY: the test names a peer of its transport.
        !self.is_busy || peer.is_some_and(|peer| unsafe { peer.as_ref() }.failure().is_some())
    }
}

/// Queues a copy.
///
/// # Safety
/// `iov` has an element, and `event` is writable.
unsafe fn start(
    to_device: bool,
    iov: *const IoVec,
    host: usize,
    size: usize,
    event: *mut *mut c_void,
) -> isize {
    // SAFETY: the caller guarantees the element.
    let at = unsafe { (*iov).base }.addr();
    with(|stream| {
        stream.started += 1;
        let size = if stream.is_short { size / 2 } else { size };
        stream.queue.push_back(Queued {
            number: stream.started,
            to_device,
            place: (at, host, size),
        });
        // SAFETY: the caller guarantees `event`.
        unsafe { *event = ptr::without_provenance_mut(stream.started) };
        size as isize
    })
}

unsafe extern "C" fn start_from(
    _stream: *mut c_void,
    dest: *mut c_void,
    size: usize,
    iov: *const IoVec,
    _iface: *const u32,
    _count: usize,
    _offset: u64,
    event: *mut *mut c_void,
) -> isize {
    // SAFETY: the caller guarantees an element and `event`.
    unsafe { start(false, iov, dest.expose_provenance(), size, event) }
}

unsafe extern "C" fn start_to(
    _stream: *mut c_void,
    iov: *const IoVec,
    _iface: *const u32,
    _count: usize,
    _offset: u64,
    src: *const c_void,
    size: usize,
    event: *mut *mut c_void,
) -> isize {
    // SAFETY: the caller guarantees an element and `event`.
    unsafe { start(true, iov, src.expose_provenance(), size, event) }
}

unsafe extern "C" fn query(event: *mut c_void) -> i32 {
    with(|stream| {
        while stream.goes_on()
            && stream
                .queue
                .front()
                .is_some_and(|c| c.number <= event.addr())
        {
            stream.copy_next();
        }
        let waits = stream.queue.iter().any(|c| c.number == event.addr());
        i32::from(!waits)
    })
}

pub(crate) fn overrides() -> OverrideOps {
    let both = OverrideOps::new(Some(device::copy_from), Some(device::copy_to));
    both.with_async(
        Some(start_from),
        Some(start_to),
        Some(query),
        ptr::null_mut(),
    )
}

/// The host memory of a copy, and whether it was freed.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicBool = AtomicBool::new(false);

/// Watches the memory of the next copy.
pub(crate) fn watch_memory(stream: &mut Stream) {
    FREED.store(false, Ordering::Relaxed);
    let next = stream.queue.front().map_or(0, |copy| copy.place.1);
    WATCHED.store(next, Ordering::Relaxed);
}

/// Whether it was freed; it is watched no more.
pub(crate) fn was_freed() -> bool {
    WATCHED.store(0, Ordering::Relaxed);
    FREED.load(Ordering::Relaxed)
}

struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

// SAFETY: each call is the system allocator's.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if block.addr() == WATCHED.load(Ordering::Relaxed) {
            FREED.store(true, Ordering::Relaxed);
        }
        // SAFETY: the caller guarantees the block and its layout.
        unsafe { System.dealloc(block, layout) }
    }
}
