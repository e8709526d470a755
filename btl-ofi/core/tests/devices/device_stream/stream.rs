//! A stream of the program. Copies wait in the stream's queue; a query makes them in their order if the stream is not
//! busy.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{MutexGuard, PoisonError};

use crate::common::prelude::*;

/// The number by which the program names the stream.
const NUMBER: usize = 0x5354;
/// The content of a bounce buffer that is not filled yet.
const NOT_YET: u8 = 0xee;

/// A copy that was started.
pub(crate) struct Queued {
    pub(crate) number: usize,
    /// The number of queries for the copy.
    asked: usize,
    to_device: bool,
    /// The address on the device, the address on the host, and the bytes.
    place: (usize, usize, usize),
}

#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) queue: VecDeque<Queued>,
    /// Copies that were made and not queried since.
    made: BTreeSet<usize>,
    /// The number of started copies, and the maximum number of outstanding copies.
    pub(crate) started: usize,
    pub(crate) most: usize,
    /// The number of queries after which each copy completes independently; 0 makes copies complete
    /// in order.
    pub(crate) questions: usize,
    /// The number of a copy that fails, and of a copy that gets no event.
    pub(crate) fails: Option<usize>,
    pub(crate) refuses: Option<usize>,
    /// Whether the stream makes no copies.
    pub(crate) is_busy: bool,
    /// The stream is busy until this peer has failed.
    pub(crate) busy_while_well: Option<NonNull<Endpoint>>,
    /// Whether only half of each copy is made.
    pub(crate) is_short: bool,
}

// SAFETY: the endpoint is read only while its transport is open.
unsafe impl Send for Stream {}

static STREAM: Mutex<Option<Stream>> = Mutex::new(None);
/// The lock of the tests that use the stream, one at a time.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn with<R>(act: impl FnOnce(&mut Stream) -> R) -> R {
    let mut guard = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    act(guard.get_or_insert_with(Stream::default))
}

/// Resets the stream for one test.
pub(crate) fn fresh() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    with(|stream| *stream = Stream::default());
    turn
}

impl Stream {
    /// Makes the next copy.
    pub(crate) fn copy_next(&mut self) {
        let Some(Queued {
            number,
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
        self.made.insert(number);
    }

    /// Queries one copy, which completes after enough queries.
    fn ask(&mut self, number: usize) -> i32 {
        let index = self.queue.iter().position(|c| c.number == number);
        let index = index.expect("asked for a copy that is over");
        self.queue[index].asked += 1;
        if self.queue[index].asked < self.questions {
            return 0;
        }
        self.queue.swap(0, index);
        if self.fails == Some(number) {
            self.queue.pop_front();
            // -FI_EIO
            return -5;
        }
        self.copy_next();
        1
    }

    fn goes_on(&self) -> bool {
        let peer = self.busy_while_well;
        // SAFETY: the test names a peer of its own transport.
        !self.is_busy || peer.is_some_and(|peer| unsafe { peer.as_ref() }.failure().is_some())
    }
}

/// Queues a copy.
///
/// # Safety
/// `iov` has one element, and `event` is writable.
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
        if stream.refuses == Some(stream.started) {
            // -FI_EAGAIN
            return -11;
        }
        let size = if stream.is_short { size / 2 } else { size };
        stream.queue.push_back(Queued {
            number: stream.started,
            asked: 0,
            to_device,
            place: (at, host, size),
        });
        stream.most = stream.most.max(stream.queue.len());
        // SAFETY: the caller guarantees `event`.
        unsafe { *event = ptr::without_provenance_mut(stream.started) };
        size as isize
    })
}

unsafe extern "C" fn start_from(
    stream: *mut c_void,
    dest: *mut c_void,
    size: usize,
    iov: *const IoVec,
    _iface: *const u32,
    count: usize,
    _offset: u64,
    event: *mut *mut c_void,
) -> isize {
    assert_eq!((stream.addr(), count), (NUMBER, 1));
    // SAFETY: the caller guarantees `size` bytes at `dest`, an element and `event`.
    unsafe {
        ptr::write_bytes(dest.cast::<u8>(), NOT_YET, size);
        start(false, iov, dest.expose_provenance(), size, event)
    }
}

unsafe extern "C" fn start_to(
    stream: *mut c_void,
    iov: *const IoVec,
    _iface: *const u32,
    count: usize,
    _offset: u64,
    src: *const c_void,
    size: usize,
    event: *mut *mut c_void,
) -> isize {
    assert_eq!((stream.addr(), count), (NUMBER, 1));
    // SAFETY: the caller guarantees an element and `event`.
    unsafe { start(true, iov, src.expose_provenance(), size, event) }
}

unsafe extern "C" fn query(event: *mut c_void) -> i32 {
    with(|stream| {
        if stream.questions > 0 {
            return stream.ask(event.addr());
        }
        while stream.goes_on()
            && stream
                .queue
                .front()
                .is_some_and(|c| c.number <= event.addr())
        {
            stream.copy_next();
        }
        let waits = stream.queue.iter().any(|c| c.number == event.addr());
        assert!(
            waits || stream.made.remove(&event.addr()),
            "asked for a copy that is over"
        );
        i32::from(!waits)
    })
}

pub(crate) fn overrides() -> OverrideOps {
    let stream = ptr::without_provenance_mut(NUMBER);
    device::copies().with_async(Some(start_from), Some(start_to), Some(query), stream)
}

/// The address of a copy's host memory, and whether the memory was freed.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicBool = AtomicBool::new(false);

/// Starts to watch the memory of the next copy.
pub(crate) fn watch_memory(stream: &mut Stream) {
    FREED.store(false, Ordering::Relaxed);
    let next = stream.queue.front().map_or(0, |copy| copy.place.1);
    WATCHED.store(next, Ordering::Relaxed);
}

/// Whether the memory was freed; ends the watching.
pub(crate) fn was_freed() -> bool {
    WATCHED.store(0, Ordering::Relaxed);
    FREED.load(Ordering::Relaxed)
}

struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

// SAFETY: every call is passed on to the system's allocator.
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
