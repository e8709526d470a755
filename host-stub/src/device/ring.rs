//! The ring of commands by which a device starts operations. The ring is host memory that the device can write; a
//! [`Proxy`](crate::win::Proxy) on the host reads it. `host_xpu_device.h` is the device's side of the same layout; this module
//! has the same functions for a thread of the host.
//!
//! A producer draws a ticket and waits until the answer to the slot's last command was taken. Then the producer writes its
//! command, and publishes it by storing the ticket plus one. The proxy begins commands in the order of their tickets. When a
//! command is complete, the proxy answers it by storing the ticket plus one beside the status. The thread that waits for the
//! ticket takes the answer, which frees the slot: an answer is never overwritten before it was read. The proxy itself takes the
//! answer of an untracked command.
//!
//! The host trusts no data that a device may write: it keeps the number of slots and the next ticket itself, and closes a ring
//! whose slots hold values that no producer writes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The kinds of commands that a device may send; the codes are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CommandKind {
    /// Write `count` elements at `local` to the target.
    Put = 1,
    /// Read `count` elements of the target to `local`.
    Get = 2,
    /// Update `count` elements with those at `local`.
    Accumulate = 3,
    /// Update one element with `operand`, and return the old value in the answer.
    FetchOp = 4,
    /// Replace one element by `operand` if it equals `compare`, and return the old value.
    CompareSwap = 5,
    /// Wait for all earlier commands of the ring to the target. The flush fails if an untracked
    /// command failed.
    Flush = 6,
}

impl CommandKind {
    pub(crate) fn of(code: u32) -> Option<CommandKind> {
        [
            CommandKind::Put,
            CommandKind::Get,
            CommandKind::Accumulate,
            CommandKind::FetchOp,
            CommandKind::CompareSwap,
            CommandKind::Flush,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == code)
    }
}

/// A command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// A [`CommandKind`], below 2^31.
    pub kind: u32,
    /// Whether no thread waits for the answer; a later flush of the target then reports a failure.
    pub untracked: bool,
    /// The number of the window at the proxy.
    pub window: u32,
    /// The target's rank.
    pub target: u32,
    /// The element type in libfabric's code, the same as C's HOST_UINT64 and the others.
    pub datatype: u32,
    /// The operation by its index in [`Op::ALL`](crate::win::Op::ALL), the same as C's HOST_SUM and the
    /// others.
    pub op: u32,
    /// The displacement at the target.
    pub displacement: u64,
    /// The local buffer: a device pointer, or a location from `encode_location`.
    pub local: u64,
    /// The number of elements.
    pub count: u64,
    /// The operand, in the low bytes.
    pub operand: u64,
    /// The comparand of a compare-and-swap, in the low bytes.
    pub compare: u64,
}

/// One slot of 128 bytes; the device's half and the host's half each have their own cache line.
#[repr(C, align(128))]
pub(super) struct Slot {
    /// The ticket of the command in the slot, plus one.
    published: AtomicU64,
    command: [AtomicU64; 7],
    /// The ticket of the last command that is complete, plus one.
    done: AtomicU64,
    /// The fetched value.
    result: AtomicU64,
    /// The status of the command: 0, or a negative errno.
    status: AtomicI32,
    /// The ticket of the last command whose answer was taken, plus one.
    taken: AtomicU64,
}

const _: () = assert!(std::mem::offset_of!(Slot, done) == 64 && size_of::<Slot>() == 128);
const _: () = assert!(std::mem::offset_of!(Slot, taken) == 88);

/// The beginning of every ring: the device's half, and the host's half.
#[repr(C, align(128))]
struct Header {
    /// The next ticket.
    tickets: AtomicU64,
    /// The number of slots; a power of two. The device reads this field; the host does not.
    slots: u64,
    unused: [u64; 6],
    /// Not 0 once the ring is no longer served.
    closed: AtomicU64,
    /// The number of commands that succeeded.
    succeeded: AtomicU64,
    /// The number of commands that failed.
    failed: AtomicU64,
}

const _: () = assert!(std::mem::offset_of!(Header, closed) == 64 && size_of::<Header>() == 128);

/// The bit beside the kind that marks an untracked command.
const UNTRACKED: u32 = 1 << 31;

/// The answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// 0, or one of libfabric's negative errno values.
    pub status: i32,
    /// The fetched value.
    pub result: u64,
}

impl Completion {
    /// The answer to a command of a ring that is not served.
    const CANCELED: Completion = Completion {
        status: -libc::ECANCELED,
        result: 0,
    };
}

/// The content of the next slot.
pub(crate) enum Next {
    /// No command yet.
    Nothing,
    /// A command.
    Command(Command),
    /// A value that no producer writes.
    Garbage(u64),
}

/// A ring. A ring has any number of producers and one proxy.
pub struct Ring {
    base: NonNull<u8>,
    layout: Layout,
    slots: usize,
}

// SAFETY: all accesses to the memory are atomic.
unsafe impl Send for Ring {}
// SAFETY: all accesses to the memory are atomic.
unsafe impl Sync for Ring {}

impl Ring {
    /// Makes a ring of at least `slots` slots.
    pub fn new(slots: usize) -> Ring {
        let slots = slots.clamp(1, 1 << 16).next_power_of_two();
        let bytes = size_of::<Header>() + slots * size_of::<Slot>();
        let layout = Layout::from_size_align(bytes.next_multiple_of(4096), 4096)
            .unwrap_or(Layout::new::<Header>());
        // SAFETY: the layout's size is not 0.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the header lies at the start, and no other code knows the memory yet.
        unsafe { (*base.cast::<Header>().as_ptr()).slots = slots as u64 };
        Ring {
            base,
            layout,
            slots,
        }
    }

    /// The first byte and the length of the memory, for code that maps the memory for a device.
    pub fn memory(&self) -> (*mut u8, usize) {
        (self.base.as_ptr(), self.layout.size())
    }

    fn header(&self) -> &Header {
        // SAFETY: `new` wrote the header, and the fields that change are atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    fn slot(&self, ticket: u64) -> &Slot {
        let index = (ticket as usize) & (self.slots - 1);
        // SAFETY: the slots lie inside the memory, which `new` zeroed; all fields are atomics.
        unsafe {
            let first = self.base.as_ptr().add(size_of::<Header>()).cast::<Slot>();
            &*first.add(index)
        }
    }

    /// Publishes a command; waits for a slot if none is free. Returns the ticket, for which a thread must call
    /// [`wait`](Self::wait) unless the command is untracked. All threads together may have as many open tickets as the ring
    /// has slots. A further command waits, perhaps for an answer that its own thread has to take.
    pub fn submit(&self, command: &Command) -> u64 {
        let ticket = self.header().tickets.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(ticket);
        let before = self.before(ticket);
        // Acquire pairs with the Release in `test` and `answer`: the slot's last answer was read.
        while before > 0 && slot.taken.load(Ordering::Acquire) < before {
            if self.is_closed() {
                return ticket;
            }
            std::thread::yield_now();
        }
        for (to, word) in slot.command.iter().zip(words(command)) {
            to.store(word, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in `next`: the command is complete in the slot.
        slot.published.store(ticket + 1, Ordering::Release);
        ticket
    }

    /// Waits until a command is complete, and takes its answer; called once for each ticket. The status
    /// -ECANCELED says that the ring was closed before.
    pub fn wait(&self, ticket: u64) -> Completion {
        loop {
            if let Some(completion) = self.test(ticket) {
                return completion;
            }
            std::thread::yield_now();
        }
    }

    /// The same as [`wait`](Self::wait) without blocking: `None` while the command is outstanding.
    pub fn test(&self, ticket: u64) -> Option<Completion> {
        let slot = self.slot(ticket);
        // This read precedes the read of the slot, because the ring is closed after its last
        // answer.
        let closed = self.is_closed();
        // Acquire pairs with the Release in `answer`.
        if slot.done.load(Ordering::Acquire) < ticket + 1 {
            return closed.then_some(Completion::CANCELED);
        }
        let completion = Completion {
            status: slot.status.load(Ordering::Relaxed),
            result: slot.result.load(Ordering::Relaxed),
        };
        // Release pairs with the Acquire in `submit`: the slot's next command comes after this.
        slot.taken.store(ticket + 1, Ordering::Release);
        Some(completion)
    }

    /// Whether the ring is closed: the proxy serves it no longer, and unanswered commands get no
    /// answer.
    pub fn is_closed(&self) -> bool {
        // Acquire pairs with the Release in `close`.
        self.header().closed.load(Ordering::Acquire) != 0
    }

    /// The numbers of succeeded and of failed commands.
    pub fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        let header = self.header();
        (count(&header.succeeded), count(&header.failed))
    }

    /// The value that the slot of a ticket held published before: the ticket of its last command
    /// plus one.
    fn before(&self, ticket: u64) -> u64 {
        (ticket + 1).saturating_sub(self.slots as u64)
    }

    /// The command of a ticket, if it is published.
    pub(crate) fn next(&self, ticket: u64) -> Next {
        let slot = self.slot(ticket);
        // Acquire pairs with the Release in `submit`.
        match slot.published.load(Ordering::Acquire) {
            found if found == ticket + 1 => {}
            found if found == self.before(ticket) => return Next::Nothing,
            found => return Next::Garbage(found),
        }
        let mut found = [0; 7];
        for (word, from) in found.iter_mut().zip(&slot.command) {
            *word = from.load(Ordering::Relaxed);
        }
        Next::Command(command(found))
    }

    /// Answers a command. For an untracked command, the call also takes the answer.
    pub(crate) fn answer(&self, ticket: u64, completion: Completion, untracked: bool) {
        let header = self.header();
        let counter = match completion.status {
            0 => &header.succeeded,
            _ => &header.failed,
        };
        // Release pairs with the Acquire in `counts`: a thread that sees the count also sees the command's effects. Only
        // the proxy changes the counters.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
        let slot = self.slot(ticket);
        slot.status.store(completion.status, Ordering::Relaxed);
        slot.result.store(completion.result, Ordering::Relaxed);
        // Release pairs with the Acquire in `test`.
        slot.done.store(ticket + 1, Ordering::Release);
        if untracked {
            slot.taken.store(ticket + 1, Ordering::Release);
        }
    }

    /// Marks the ring as no longer served.
    pub(crate) fn close(&self) {
        // Release pairs with the Acquire in `is_closed`: the answers come before.
        self.header().closed.store(1, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and is freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// The words of a command: kind and window, target and type, operation, then the 64-bit fields.
fn words(c: &Command) -> [u64; 7] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [
        pair(c.kind | if c.untracked { UNTRACKED } else { 0 }, c.window),
        pair(c.target, c.datatype | c.op << 8),
        c.displacement,
        c.local,
        c.count,
        c.operand,
        c.compare,
    ]
}

fn command(words: [u64; 7]) -> Command {
    let [first, second, displacement, local, count, operand, compare] = words;
    let high = (second >> 32) as u32;
    Command {
        kind: first as u32 & !UNTRACKED,
        untracked: first as u32 & UNTRACKED != 0,
        window: (first >> 32) as u32,
        target: second as u32,
        datatype: high & 0xff,
        op: high >> 8,
        displacement,
        local,
        count,
        operand,
        compare,
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
