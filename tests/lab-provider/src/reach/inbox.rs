//! Requests of other processes for this process's device memory, which only this process can
//! access. Requests are served when one of this process's queues is read, or by a thread under automatic progress.
//!
//! A request lies in one of a few slots, at an address that peers know. A peer takes a free slot
//! under the node's lock, fills it, and checks for the answer at each read of its queue.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use libfabric_sys as ffi;

use crate::base::arithmetic;
use crate::reach::device;
use crate::reach::memory::{self, Exclusive};
use crate::reach::name::Name;

/// The number of requests that a process can hold at a time.
const SLOTS: usize = 4;
/// The maximum bytes of a request.
pub(crate) const LARGEST: usize = 1 << 20;

/// Time between two checks of a serving thread.
const PAUSE: Duration = Duration::from_micros(100);

const FREE: u64 = 0;
const ASKED: u64 = 1;
const ANSWERED: u64 = 2;

/// The request of a peer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Request {
    pub(crate) domain: u64,
    pub(crate) key: u64,
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// The kind of work: 0 for a write, 1 for a read, 2 for an atomic.
    pub(crate) work: u64,
    pub(crate) datatype: u64,
    pub(crate) op: u64,
}

#[repr(C)]
struct Slot {
    state: AtomicU64,
    /// The answer: 0 or an error.
    answer: AtomicU64,
    request: UnsafeCell<Request>,
    /// The written bytes or the operands; later the read bytes.
    data: UnsafeCell<[u8; LARGEST]>,
    /// The comparands of an atomic; no atomic is this long.
    compare: UnsafeCell<[u8; 8192]>,
}

// SAFETY: a slot's cells belong to its peer until ASKED, then to `serve` until ANSWERED.
unsafe impl Sync for Slot {}

static INBOX: [Slot; SLOTS] = [const {
    Slot {
        state: AtomicU64::new(FREE),
        answer: AtomicU64::new(0),
        request: UnsafeCell::new(Request {
            domain: 0,
            key: 0,
            address: 0,
            length: 0,
            work: 0,
            datatype: 0,
            op: 0,
        }),
        data: UnsafeCell::new([0; LARGEST]),
        compare: UnsafeCell::new([0; 8192]),
    }
}; SLOTS];

/// The address of the slots in this process.
pub(crate) fn place() -> u64 {
    INBOX.as_ptr() as u64
}

fn slot_at(name: &Name, index: usize) -> u64 {
    name.inbox + (index * size_of::<Slot>()) as u64
}

fn field(name: &Name, index: usize, offset: usize) -> u64 {
    slot_at(name, index) + offset as u64
}

fn put_word(name: &Name, at: u64, word: u64) -> Result<(), i32> {
    memory::put(name.pid, at, (&raw const word) as u64, 8)
}

/// Sends a request to a peer; returns the slot of the request, or `None` while all slots are taken.
pub(crate) fn ask(
    name: &Name,
    request: &Request,
    data: &[u8],
    compare: &[u8],
) -> Result<Option<usize>, i32> {
    let _alone = Exclusive::begin()?;
    for index in 0..SLOTS {
        let mut state = [0u64];
        let at = field(name, index, std::mem::offset_of!(Slot, state));
        memory::read(name.pid, at, &mut state)?;
        if state[0] != FREE {
            continue;
        }
        let put = |offset: usize, bytes: *const u8, length: usize| {
            let to = field(name, index, offset);
            memory::put(name.pid, to, bytes as u64, length)
        };
        let length = size_of::<Request>();
        put(
            std::mem::offset_of!(Slot, request),
            std::ptr::from_ref(request).cast(),
            length,
        )?;
        put(std::mem::offset_of!(Slot, data), data.as_ptr(), data.len())?;
        put(
            std::mem::offset_of!(Slot, compare),
            compare.as_ptr(),
            compare.len(),
        )?;
        put_word(name, at, ASKED)?;
        return Ok(Some(index));
    }
    Ok(None)
}

/// The answer to a request, with the read bytes. Frees the slot. `None` while there is no answer.
pub(crate) fn answer(
    name: &Name,
    index: usize,
    length: usize,
) -> Result<Option<Result<Vec<u8>, i32>>, i32> {
    let at = field(name, index, std::mem::offset_of!(Slot, state));
    let mut words = [0u64; 2];
    memory::read(name.pid, at, &mut words)?;
    if words[0] != ANSWERED {
        return Ok(None);
    }
    let answer = match words[1] {
        0 => {
            let mut bytes = vec![0u8; length];
            let from = field(name, index, std::mem::offset_of!(Slot, data));
            memory::get(name.pid, from, bytes.as_mut_ptr() as u64, length)?;
            Ok(bytes)
        }
        code => Err(code as i32),
    };
    put_word(name, at, FREE)?;
    Ok(Some(answer))
}

/// Serves the requests to this process.
pub(crate) fn serve() {
    static SERVING: Mutex<()> = Mutex::new(());
    let _one = match SERVING.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(e)) => e.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    for slot in &INBOX {
        // Acquire pairs with the peer's writes before its last word; the kernel keeps their order.
        if slot.state.load(Ordering::Acquire) != ASKED {
            continue;
        }
        // SAFETY: the slot belongs to this process until it is answered.
        let done = unsafe {
            fulfil(
                &*slot.request.get(),
                &mut *slot.data.get(),
                &*slot.compare.get(),
            )
        };
        slot.answer
            .store(done.err().unwrap_or(0) as u64, Ordering::Relaxed);
        slot.state.store(ANSWERED, Ordering::Release);
    }
}

/// A thread that serves requests.
pub(crate) struct Agent {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    pub(crate) fn start() -> Agent {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let serving = move || {
            while !asked.load(Ordering::Relaxed) {
                serve();
                std::thread::sleep(PAUSE);
            }
        };
        Agent {
            stop,
            thread: Some(std::thread::spawn(serving)),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn fulfil(request: &Request, data: &mut [u8], compare: &[u8]) -> Result<(), i32> {
    let gone = ffi::FI_EKEYREJECTED as i32;
    let memory = device::of_key(request.domain, request.key).ok_or(gone)?;
    let data = data.get_mut(..request.length as usize).ok_or(gone)?;
    match request.work {
        0 => memory.write(request.address, data),
        1 => memory.read(request.address, data),
        _ => {
            let _alone = Exclusive::begin()?;
            let mut old = vec![0u8; data.len()];
            memory.read(request.address, &mut old)?;
            let new = arithmetic::apply_all(
                request.datatype as u32,
                request.op as u32,
                &old,
                data,
                compare,
            );
            data.copy_from_slice(&old);
            memory.write(request.address, &new)
        }
    }
}
