//! An endpoint's mailbox: peers put messages for the endpoint there, at an address that they know,
//! until the endpoint's process reads the queue of its receives.
//!
//! A peer puts a message into a free slot under the node's lock, and fills in its sequence number, so
//! that the slots have an order. While all slots are full, a send waits at its sender. The mailbox
//! makes no progress on its own, not even under automatic progress.

use std::alloc::{self, Layout};
use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use libfabric_sys as ffi;

use crate::base::report::violation;
use crate::reach::memory::{self, Exclusive};
use crate::reach::name::Name;

/// The number of messages that a mailbox holds.
pub(crate) const SLOTS: usize = 32;
/// The maximum bytes of a message.
const LARGEST: usize = 1 << 20;

const FREE: u64 = 0;
const FULL: u64 = 1;

/// A peer's description of its message. `state` is written last.
#[repr(C)]
struct Head {
    state: AtomicU64,
    sequence: AtomicU64,
    length: AtomicU64,
    /// Process and endpoint of the sender.
    source: [AtomicU64; 2],
}

const WORDS: usize = size_of::<Head>() / 8;

#[repr(C)]
pub(crate) struct Mailbox {
    /// The number of the endpoint that owns the mailbox; 0 for none.
    owner: AtomicU64,
    /// The sequence number of the next message.
    next: AtomicU64,
    heads: [Head; SLOTS],
    data: [UnsafeCell<[u8; LARGEST]>; SLOTS],
}

/// Words of a mailbox before the data.
const PREFIX: usize = 2 + SLOTS * WORDS;

const _: () = assert!(PREFIX * 8 == offset_of!(Mailbox, data));

// SAFETY: the data of a slot belongs to peers while the slot is FREE, and to `collect`, which takes
// `OPEN`, while the slot is FULL.
unsafe impl Sync for Mailbox {}

/// A received message.
pub(crate) struct Message {
    pub(crate) sequence: u64,
    pub(crate) source: [u64; 2],
    pub(crate) bytes: Vec<u8>,
}

/// Mailboxes of closed endpoints, which later endpoints reuse, because memory that peers write to
/// is never freed.
static SPARE: Mutex<Vec<&'static Mailbox>> = Mutex::new(Vec::new());
static NEXT_OWNER: AtomicU64 = AtomicU64::new(1);
/// The lock that `collect` holds.
static OPEN: Mutex<()> = Mutex::new(());

fn spare() -> std::sync::MutexGuard<'static, Vec<&'static Mailbox>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mailbox for a new endpoint.
pub(crate) fn open() -> &'static Mailbox {
    let mailbox = spare().pop().unwrap_or_else(|| {
        let layout = Layout::new::<Mailbox>();
        // SAFETY: the layout's size is not 0, and zeroes are a valid Mailbox: no owner, and every
        // slot is FREE. The memory is never freed. Pages that no message reaches are never touched.
        unsafe {
            let new = alloc::alloc_zeroed(layout).cast::<Mailbox>();
            if new.is_null() {
                alloc::handle_alloc_error(layout);
            }
            &*new
        }
    });
    let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
    mailbox.owner.store(owner, Ordering::Release);
    mailbox
}

impl Mailbox {
    /// The mailbox's address, which peers know.
    pub(crate) fn place(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// The number of the endpoint that owns the mailbox.
    pub(crate) fn owner(&self) -> u64 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Refuses messages from now on, and discards those that have arrived.
    pub(crate) fn close(&'static self) {
        // Without the lock, a peer could fill a slot that the next owner reads.
        let alone = Exclusive::begin();
        self.owner.store(0, Ordering::Release);
        for head in &self.heads {
            head.state.store(FREE, Ordering::Release);
        }
        drop(alone);
        spare().push(self);
    }

    /// Takes the messages out, in the order of their arrival.
    pub(crate) fn collect(&self) -> Vec<Message> {
        let _one = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut came = Vec::new();
        for (head, data) in self.heads.iter().zip(&self.data) {
            // Acquire pairs with the peer's writes before its last word; the kernel keeps their
            // order.
            if head.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            let length = head.length.load(Ordering::Relaxed) as usize;
            // SAFETY: the slot is FULL, so peers do not access its data until it is FREE.
            let bytes = unsafe { &*data.get() };
            came.push(Message {
                sequence: head.sequence.load(Ordering::Relaxed),
                source: std::array::from_fn(|i| head.source[i].load(Ordering::Relaxed)),
                bytes: bytes[..length.min(LARGEST)].to_vec(),
            });
            head.state.store(FREE, Ordering::Release);
        }
        came.sort_by_key(|message| message.sequence);
        came
    }
}

/// Puts a message into a peer's mailbox; false while the mailbox is full.
pub(crate) fn deposit(name: &Name, endpoint: u64, bytes: &[u8]) -> Result<bool, i32> {
    if name.mailbox == 0 {
        violation("a message to an endpoint that was opened without FI_MSG");
        return Err(ffi::FI_EOPNOTSUPP as i32);
    }
    if bytes.len() > LARGEST {
        return Err(ffi::FI_EMSGSIZE as i32);
    }
    let _alone = Exclusive::begin()?;
    let mut words = [0u64; PREFIX];
    memory::read(name.pid, name.mailbox, &mut words)?;
    let [owner, next, heads @ ..] = words;
    if owner != name.endpoint {
        // The endpoint is closed, but its process lives.
        return Err(ffi::FI_EHOSTUNREACH as i32);
    }
    let Some(index) = heads.chunks_exact(WORDS).position(|head| head[0] == FREE) else {
        return Ok(false);
    };
    let put = |offset: usize, from: *const u8, length: usize| {
        let to = name.mailbox + offset as u64;
        memory::put(name.pid, to, from as u64, length)
    };
    let data = offset_of!(Mailbox, data) + index * LARGEST;
    put(data, bytes.as_ptr(), bytes.len())?;
    let head = offset_of!(Mailbox, heads) + index * size_of::<Head>();
    let pid = u64::from(std::process::id());
    let said = [next, bytes.len() as u64, pid, endpoint];
    let sequence = offset_of!(Head, sequence);
    put(head + sequence, said.as_ptr().cast(), size_of_val(&said))?;
    let word = |offset: usize, value: u64| put(offset, (&raw const value).cast(), 8);
    word(offset_of!(Mailbox, next), next + 1)?;
    word(head + offset_of!(Head, state), FULL)?;
    Ok(true)
}
