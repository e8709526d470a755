//! The ring of commands through which a device starts operations: host memory that the device can
//! write, read by a [`Proxy`](crate::win::Proxy) on the host. `host_stub_device.cuh` is the device's side of
//! the same layout; here is the same for a thread of the host.
//!
//! A producer draws a ticket, waits until the answer to the slot's last command was taken, writes its
//! command, and publishes it by storing the ticket plus one. The proxy does commands in the order of
//! their tickets, and answers by storing the ticket plus one beside the status. Whoever waits for the
//! ticket takes the answer, which frees the slot: an answer is never overwritten before it was read.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What a device may ask for; the codes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CommandKind {
    /// Write `count` elements at `local` to the target. Done when handed over.
    Put = 1,
    /// Read `count` elements of the target to `local`. Done when handed over.
    Get = 2,
    /// Update `count` elements with those at `local`. Done when handed over.
    Accumulate = 3,
    /// Update one element with `operand`, and fetch what was there into the answer.
    FetchOp = 4,
    /// Replace one element by `operand` if it equals `compare`, and fetch what was there.
    CompareSwap = 5,
    /// Complete everything to the target.
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
    /// A [`CommandKind`].
    pub kind: u32,
    /// The window, by its index among those of the proxy.
    pub window: u32,
    /// The target's rank.
    pub target: u32,
    /// The element type, with libfabric's code.
    pub datatype: u32,
    /// The operation, by its index in [`Op::ALL`](crate::win::Op::ALL).
    pub op: u32,
    /// Displacement at the target.
    pub displacement: u64,
    /// The local buffer: a device pointer, or a location from `encode_location`.
    pub local: u64,
    /// Elements.
    pub count: u64,
    /// The operand, in the low bytes.
    pub operand: u64,
    /// What a compare-and-swap compares with, in the low bytes.
    pub compare: u64,
}

/// One slot: 128 bytes, the device's half and the host's each in a cache line of their own.
#[repr(C, align(128))]
pub(super) struct Slot {
    /// The ticket of the command in it, plus one.
    published: AtomicU64,
    command: [AtomicU64; 7],
    /// The ticket of the last command that is done, plus one.
    done: AtomicU64,
    /// What was fetched.
    result: AtomicU64,
    /// Its status: 0, or a negative one.
    status: AtomicI32,
    /// The ticket of the last command whose answer was taken, plus one.
    taken: AtomicU64,
}

const _: () = assert!(std::mem::offset_of!(Slot, done) == 64 && size_of::<Slot>() == 128);
const _: () = assert!(std::mem::offset_of!(Slot, taken) == 88);

/// What every ring begins with.
#[repr(C, align(128))]
struct Header {
    /// The next ticket.
    tickets: AtomicU64,
    /// Slots; a power of two.
    slots: u64,
}

/// The answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// 0, or a negative [`Status`](plugin_api::Status).
    pub status: i32,
    /// What was fetched.
    pub result: u64,
}

/// A ring. Any number of producers, one proxy.
pub struct Ring {
    base: NonNull<u8>,
    layout: Layout,
    slots: usize,
}

// SAFETY: reached through atomics only.
unsafe impl Send for Ring {}
// SAFETY: as for Send.
unsafe impl Sync for Ring {}

impl Ring {
    /// A ring of at least `slots` slots.
    pub fn new(slots: usize) -> Ring {
        let slots = slots.clamp(1, 1 << 16).next_power_of_two();
        let bytes = size_of::<Header>() + slots * size_of::<Slot>();
        let layout = Layout::from_size_align(bytes.next_multiple_of(4096), 4096)
            .unwrap_or(Layout::new::<Header>());
        // SAFETY: the layout has more than no bytes.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the header lies at the start; nobody else knows of it.
        unsafe { (*base.cast::<Header>().as_ptr()).slots = slots as u64 };
        Ring {
            base,
            layout,
            slots,
        }
    }

    /// First byte and length of the memory, for whoever maps it for a device.
    pub fn memory(&self) -> (*mut u8, usize) {
        (self.base.as_ptr(), self.layout.size())
    }

    fn header(&self) -> &Header {
        // SAFETY: written when made; what changes are atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    fn slot(&self, ticket: u64) -> &Slot {
        let index = (ticket as usize) & (self.slots - 1);
        // SAFETY: inside the memory, zeroed when made; all of it is atomics.
        unsafe {
            let first = self.base.as_ptr().add(size_of::<Header>()).cast::<Slot>();
            &*first.add(index)
        }
    }

    /// Publishes a command; waits for a slot if none is free. Returns its ticket, for which somebody
    /// has to [`wait`](Self::wait): a thread may have as many tickets open as there are slots.
    pub fn submit(&self, command: &Command) -> u64 {
        let ticket = self.header().tickets.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(ticket);
        if let Some(before) = (ticket + 1).checked_sub(self.slots as u64) {
            // Acquire pairs with the Release in `wait`: the slot's last answer was read.
            while before > 0 && slot.taken.load(Ordering::Acquire) < before {
                std::thread::yield_now();
            }
        }
        for (to, word) in slot.command.iter().zip(words(command)) {
            to.store(word, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in `next`: the command is whole.
        slot.published.store(ticket + 1, Ordering::Release);
        ticket
    }

    /// Waits until a command is done, and takes its answer; once for each ticket.
    pub fn wait(&self, ticket: u64) -> Completion {
        let slot = self.slot(ticket);
        // Acquire pairs with the Release in `answer`.
        while slot.done.load(Ordering::Acquire) < ticket + 1 {
            std::thread::yield_now();
        }
        let completion = Completion {
            status: slot.status.load(Ordering::Relaxed),
            result: slot.result.load(Ordering::Relaxed),
        };
        // Release pairs with the Acquire in `submit`: the next command of the slot comes after this.
        slot.taken.store(ticket + 1, Ordering::Release);
        completion
    }

    /// The command of a ticket, once it is published.
    pub(crate) fn next(&self, ticket: u64) -> Option<Command> {
        let slot = self.slot(ticket);
        // Acquire pairs with the Release in `submit`.
        if slot.published.load(Ordering::Acquire) != ticket + 1 {
            return None;
        }
        let mut found = [0; 7];
        for (word, from) in found.iter_mut().zip(&slot.command) {
            *word = from.load(Ordering::Relaxed);
        }
        Some(command(found))
    }

    pub(crate) fn answer(&self, ticket: u64, completion: Completion) {
        let slot = self.slot(ticket);
        slot.status.store(completion.status, Ordering::Relaxed);
        slot.result.store(completion.result, Ordering::Relaxed);
        // Release pairs with the Acquire in `wait`.
        slot.done.store(ticket + 1, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// The words of a command: kind and window, target and type, operation, then the 64-bit fields.
fn words(c: &Command) -> [u64; 7] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [
        pair(c.kind, c.window),
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
        kind: first as u32,
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
mod tests {
    use super::*;

    #[test]
    fn commands_come_out_in_order_and_whole() {
        let ring = Ring::new(4);
        std::thread::scope(|scope| {
            for producer in 0..3u64 {
                let ring = &ring;
                scope.spawn(move || {
                    for i in 0..200u64 {
                        let command = Command {
                            kind: CommandKind::Put as u32,
                            window: 3,
                            target: producer as u32,
                            datatype: 7,
                            op: 2,
                            displacement: i,
                            local: 1 << 63,
                            count: i + 1,
                            operand: i * producer,
                            compare: 9,
                        };
                        let ticket = ring.submit(&command);
                        assert_eq!(ring.wait(ticket).result, i + 100 * producer);
                    }
                });
            }
            let mut next = [0u64; 3];
            for ticket in 0..600 {
                let command = loop {
                    match ring.next(ticket) {
                        Some(command) => break command,
                        None => std::thread::yield_now(),
                    }
                };
                let producer = u64::from(command.target);
                let i = &mut next[producer as usize];
                assert_eq!((command.displacement, command.count), (*i, *i + 1));
                assert_eq!(
                    (command.operand, command.op, command.datatype),
                    (*i * producer, 2, 7)
                );
                ring.answer(
                    ticket,
                    Completion {
                        status: 0,
                        result: *i + 100 * producer,
                    },
                );
                *i += 1;
            }
        });
    }
}
