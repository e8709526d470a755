//! The mailbox: requests to a target's agent for work on its staged windows, and the replies.
//!
//! A mailbox is host memory of the target, registered with its first staged region. It consists of a header and
//! lanes. A requester takes a lane (compare-and-swap of the owner word), writes requests into its slots with puts,
//! reads the replies with gets, and gives the lane back. The requester starts every transfer. The target reads and
//! writes only its own memory, so it needs no path back to the requester, and its agent makes no provider call.
//!
//! Bytes of one put may become visible in any order, and a get may read while the agent writes. Requests and replies
//! therefore carry a hash of their words; a reader ignores one whose hash does not match yet. Data too long for a
//! request goes to the slot's data buffer and is complete before its request is put.
//!
//! ```text
//! header: MAGIC, lanes, bytes of a slot's data buffer
//! lane:   owner word: LOCKED and the holder's cookie while taken, and the number of the last request
//!         SLOTS replies of 4 words: number and status, result, hash
//!         SLOTS requests of 32 words
//!         SLOTS data buffers
//! ```

use plugin_api::{AtomicOp, Datatype};

use crate::peer::liveness::ProcessId;

/// First word of the header; its digits change with the layout.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"BTLHMB02");
/// Bytes of the header.
pub(crate) const HEADER: usize = 64;
/// Requests that one lane may have outstanding.
pub(crate) const SLOTS: usize = 8;
/// Most bytes of a slot's data buffer. A few fit in a core's cache between the device copy and the transfer, and the
/// cost per message does not matter at this size.
pub(crate) const FRAGMENT: usize = 256 << 10;
/// Words of a request; the first [`HEAD`] precede its inline data.
pub(crate) const REQUEST: usize = 32;
/// Words before a request's inline data.
pub(crate) const HEAD: usize = 8;
/// Most bytes of inline data.
pub(crate) const INLINE: usize = (REQUEST - HEAD) * 8;
/// Words of a reply.
pub(crate) const REPLY: usize = 4;
/// Lanes of a mailbox: the number of requesters served at a time.
pub(crate) const LANES: usize = 8;
/// Set in the owner word while the lane is taken.
pub(crate) const LOCKED: u64 = 1 << 63;
/// The low half of the owner word: the number of the last request.
const NUMBER: u64 = 0xffff_ffff;

/// The request number `by` after `number`; numbers wrap around. A request uses slot `number % SLOTS`.
pub(crate) fn after(number: u64, by: usize) -> u64 {
    (number + by as u64) & NUMBER
}

/// The requester that holds a lane: its process and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// See [`crate::peer::liveness::node`].
    pub(crate) node: u64,
    pub(crate) process: ProcessId,
}

impl Holder {
    /// Identifies the holder in the owner word, in 31 bits.
    fn cookie(self) -> u64 {
        let ProcessId { pid, started } = self.process;
        let process = u64::from(pid) << 32 | u64::from(started);
        hash([self.node, process].iter()) >> 33 << 32
    }

    /// The owner word of a lane that this holder has taken.
    pub(crate) fn taken(self, number: u64) -> u64 {
        LOCKED | self.cookie() | number & NUMBER
    }

    /// Whether an owner word says that this holder has the lane.
    pub(crate) fn has(self, word: u64) -> bool {
        word & LOCKED != 0 && word & !LOCKED & !NUMBER == self.cookie()
    }
}

impl Default for Holder {
    fn default() -> Holder {
        Holder {
            node: 0,
            process: ProcessId { pid: 0, started: 0 },
        }
    }
}

const REPLIES: usize = 64;
const REQUESTS: usize = 512;
const DATA: usize = 4096;

/// Layout of a mailbox: offsets of its parts, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) lanes: usize,
    pub(crate) fragment: usize,
}

impl Plan {
    /// A mailbox of `lanes` lanes, with fragments of at most `limit` bytes.
    pub(crate) fn new(lanes: usize, limit: usize) -> Plan {
        Plan {
            lanes: lanes.max(1),
            // A multiple of every element size.
            fragment: (FRAGMENT.min(limit) / 64 * 64).max(64),
        }
    }

    /// The plan in a target's header.
    pub(crate) fn read(header: &[u64]) -> Option<Plan> {
        match *header {
            [MAGIC, lanes, fragment, ..] => Some(Plan {
                lanes: usize::try_from(lanes)
                    .ok()
                    .filter(|l| (1..=4096).contains(l))?,
                fragment: usize::try_from(fragment)
                    .ok()
                    .filter(|p| (64..=FRAGMENT).contains(p) && p.is_multiple_of(64))?,
            }),
            _ => None,
        }
    }

    pub(crate) fn lane(&self, lane: usize) -> usize {
        HEADER + lane * (DATA + SLOTS * self.fragment)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lane(self.lanes)
    }

    pub(crate) fn owner(&self, lane: usize) -> usize {
        self.lane(lane)
    }

    pub(crate) fn reply(&self, lane: usize, slot: usize) -> usize {
        self.lane(lane) + REPLIES + slot * REPLY * 8
    }

    pub(crate) fn request(&self, lane: usize, slot: usize) -> usize {
        self.lane(lane) + REQUESTS + slot * REQUEST * 8
    }

    pub(crate) fn data(&self, lane: usize, slot: usize) -> usize {
        self.lane(lane) + DATA + slot * self.fragment
    }
}

const _: () = assert!(REPLIES + SLOTS * REPLY * 8 <= REQUESTS);
const _: () = assert!(REQUESTS + SLOTS * REQUEST * 8 <= DATA);

/// The work of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Copies data to the device.
    Put,
    /// Copies data from the device.
    Get,
    /// An atomic; `fetch` if it returns the old values.
    Atomic {
        datatype: Datatype,
        op: AtomicOp,
        fetch: bool,
    },
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Its number in the lane, from 1; see [`after`].
    pub(crate) number: u64,
    /// The requester.
    pub(crate) holder: Holder,
    pub(crate) task: Task,
    /// The region, by the generation in its handle.
    pub(crate) region: u32,
    /// Device address.
    pub(crate) address: u64,
    /// Bytes at that address.
    pub(crate) size: u64,
    /// Comparand of a compare-and-swap.
    pub(crate) compare: u64,
    /// Whether the request holds the operands or data.
    pub(crate) inline: bool,
}

/// The words of a request, as transferred.
pub(crate) type Words = [u64; REQUEST];

impl Request {
    /// Words of inline data.
    fn inline_words(&self) -> usize {
        if self.inline {
            (self.size as usize).div_ceil(8)
        } else {
            0
        }
    }

    /// Writes all words except the inline data, which the caller has written. Returns the number of bytes to put.
    pub(crate) fn seal(&self, words: &mut Words) -> usize {
        let (kind, datatype, op) = match self.task {
            Task::Put => (1, 0, 0),
            Task::Get => (2, 0, 0),
            Task::Atomic {
                datatype,
                op,
                fetch,
            } => (3 + u64::from(fetch), datatype as u64, op as u64),
        };
        words[0] = self.number;
        let ProcessId { pid, started } = self.holder.process;
        words[1] = kind
            | datatype << 8
            | op << 16
            | u64::from(self.inline) << 24
            | u64::from(started) << 32;
        words[2] = u64::from(self.region) | u64::from(pid) << 32;
        words[3] = self.address;
        words[4] = self.size;
        words[5] = self.compare;
        words[6] = self.holder.node;
        let used = HEAD + self.inline_words();
        words[7] = hash(words[..7].iter().chain(&words[HEAD..used]));
        used * 8
    }

    /// Decodes the request with this number; `None` until it is complete.
    pub(crate) fn open(number: u64, words: &Words) -> Option<Request> {
        if words[0] != number {
            return None;
        }
        let code = |shift: u32| (words[1] >> shift) as u32 & 0xff;
        let task = match code(0) {
            1 => Task::Put,
            2 => Task::Get,
            kind @ (3 | 4) => Task::Atomic {
                datatype: Datatype::try_from(code(8)).ok()?,
                op: AtomicOp::try_from(code(16)).ok()?,
                fetch: kind == 4,
            },
            _ => return None,
        };
        let request = Request {
            number,
            holder: Holder {
                node: words[6],
                process: ProcessId {
                    pid: (words[2] >> 32) as u32,
                    started: (words[1] >> 32) as u32,
                },
            },
            task,
            region: words[2] as u32,
            address: words[3],
            size: words[4],
            compare: words[5],
            inline: code(24) != 0,
        };
        if request.inline && request.size > INLINE as u64 {
            return None;
        }
        let used = HEAD + request.inline_words();
        (words[7] == hash(words[..7].iter().chain(&words[HEAD..used]))).then_some(request)
    }
}

/// Encodes a reply: the status of a request and a short result.
pub(crate) fn seal_reply(number: u64, status: i32, result: u64) -> [u64; REPLY] {
    let head = (number << 32) | u64::from(status as u32);
    [head, result, hash([&head, &result].into_iter()), 0]
}

/// Decodes the reply to the request with this number; `None` until it is complete.
pub(crate) fn open_reply(number: u64, words: &[u64]) -> Option<(i32, u64)> {
    let [head, result, check, ..] = *words else {
        return None;
    };
    let whole = head >> 32 == number & 0xffff_ffff && check == hash([&head, &result].into_iter());
    whole.then_some((head as u32 as i32, result))
}

/// Detects a mixture of old and new words. (Multiplication by an odd constant and rotation, as in FxHash.)
fn hash<'a>(words: impl Iterator<Item = &'a u64>) -> u64 {
    words.fold(0x51_7c_c1_b7_27_22_0a_95, |h: u64, w| {
        (h.rotate_left(23) ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(task: Task, inline: bool) -> Request {
        Request {
            number: 7,
            holder: Holder {
                node: 1 << 60 | 5,
                process: ProcessId {
                    pid: 4_000_000,
                    started: u32::MAX,
                },
            },
            task,
            region: 3,
            address: 0x1000,
            size: 24,
            compare: 5,
            inline,
        }
    }

    #[test]
    fn requests_survive_encoding() {
        let atomic = Task::Atomic {
            datatype: Datatype::Double,
            op: AtomicOp::Sum,
            fetch: true,
        };
        for task in [Task::Put, Task::Get, atomic] {
            for inline in [false, true] {
                let mut words = [9; REQUEST];
                let bytes = request(task, inline).seal(&mut words);
                assert_eq!(bytes, if inline { 88 } else { 64 });
                assert_eq!(Request::open(7, &words), Some(request(task, inline)));
                assert_eq!(Request::open(8, &words), None);
            }
        }
    }

    #[test]
    fn an_incomplete_request_is_ignored() {
        let mut new = [9; REQUEST];
        request(Task::Put, true).seal(&mut new);
        // Any word may become visible last.
        for late in 0..11 {
            let mut words = new;
            words[late] = words[late].wrapping_sub(1);
            assert_eq!(Request::open(7, &words), None, "word {late}");
        }
    }

    #[test]
    fn an_owner_word_names_the_holder() {
        let holder = request(Task::Put, true).holder;
        let word = holder.taken(after(u64::from(u32::MAX), 3));
        assert_eq!(word & NUMBER, 2);
        assert!(holder.has(word));
        assert!(!holder.has(word & !LOCKED));
        let process = ProcessId {
            pid: 4_000_001,
            ..holder.process
        };
        assert!(!Holder { process, ..holder }.has(word));
    }

    #[test]
    fn replies_survive_encoding() {
        let words = seal_reply(9, -18, 44);
        assert_eq!(open_reply(9, &words), Some((-18, 44)));
        assert_eq!(open_reply(8, &words), None);
        assert_eq!(open_reply(9, &[words[0], 45, words[2], 0]), None);
    }

    #[test]
    fn parts_of_the_mailbox_do_not_overlap() {
        let plan = Plan::new(3, 1000);
        assert_eq!(plan.fragment, 960);
        assert!(plan.reply(0, SLOTS) <= plan.request(0, 0));
        assert!(plan.request(0, SLOTS) <= plan.data(0, 0));
        assert_eq!(plan.data(0, SLOTS), plan.lane(1));
        let header = [MAGIC, 3, 960, 0, 0, 0, 0, 0];
        assert_eq!(Plan::read(&header), Some(plan));
        assert_eq!(Plan::read(&[MAGIC, 0, 960]), None);
        assert_eq!(Plan::read(&[MAGIC, 3, 1 << 40]), None);
    }
}
