//! The mailbox: the carrier of commands on staged device memory, and of their answers.
//!
//! A mailbox is host memory of the target, registered with its first staged region. A mailbox consists of a header and
//! lanes. A requester takes a lane (compare-and-swap of the owner word), writes requests into its slots with puts,
//! reads the replies with gets, and gives the lane back. The requester starts every transfer. The target reads and
//! writes only its own memory, so it needs no path back to the requester, and calls nothing of the provider.
//!
//! Bytes of one put may become visible in any order, and a get may read while the target writes. Requests and replies
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

use crate::op::responder::Command;
use crate::peer::liveness::ProcessId;

/// First word of the header. The word's digits change together with the layout.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"BTLHMB04");
/// Bytes of the header.
pub(crate) const HEADER: usize = 64;
/// Maximum outstanding requests of one lane.
pub(crate) const SLOTS: usize = 8;
/// Maximum bytes of a slot's data buffer. A few buffers of this size fit in a core's cache between the device copy
/// and the transfer, and the cost per message is negligible.
pub(crate) const FRAGMENT: usize = 256 << 10;
/// Words of a request; the first [`HEAD`] precede its inline data.
pub(crate) const REQUEST: usize = 32;
/// Words before a request's inline data.
pub(crate) const HEAD: usize = 7;
/// Maximum bytes of inline data.
pub(crate) const INLINE: usize = (REQUEST - HEAD) * 8;
/// Words of a reply.
pub(crate) const REPLY: usize = 4;
/// Lanes of a mailbox, which is the number of requesters that are served at a time.
pub(crate) const LANES: usize = 8;
/// Set in the owner word while the lane is taken.
pub(crate) const LOCKED: u64 = 1 << 63;
/// The low half of the owner word: the number of the last request.
const NUMBER: u64 = 0xffff_ffff;

/// The request number that is `by` after `number`; numbers wrap around. A request uses slot `number %
/// SLOTS`.
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

    /// Whether an owner word says that this holder has taken the lane.
    pub(crate) fn has(self, word: u64) -> bool {
        word & LOCKED != 0 && word & !LOCKED & !NUMBER == self.cookie()
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
    /// A mailbox of `lanes` lanes, with fragments of at most `limit` bytes, but at least of the size of a request. An
    /// origin that cannot transfer a whole request does not use the mailbox.
    pub(crate) fn new(lanes: usize, limit: usize) -> Plan {
        Plan {
            lanes: lanes.max(1),
            // The size is a multiple of every element size.
            fragment: (FRAGMENT.min(limit) / 64 * 64).max(REQUEST * 8),
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
                    .filter(|p| (REQUEST * 8..=FRAGMENT).contains(p) && p.is_multiple_of(64))?,
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

/// A request: a command in a slot of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The request's number in the lane, from 1; see [`after`].
    pub(crate) number: u64,
    pub(crate) command: Command,
    /// Bytes of data or operands in the request itself; 0 if they are in the slot's data buffer, or if there are
    /// none.
    pub(crate) inline: usize,
}

/// The words of a request, as transferred.
pub(crate) type Words = [u64; REQUEST];

/// Bits of the second word that hold the command's code. The eight bits above the code hold the number of inline
/// bytes.
const CODE: u64 = 0xff_ffff;

const _: () = assert!(INLINE <= u8::MAX as usize);

impl Request {
    /// Number of words in use, including the inline data.
    fn used(&self) -> usize {
        HEAD + self.inline.div_ceil(8)
    }

    /// Writes all words except the inline data, which the caller has written. Returns the number of bytes to put.
    pub(crate) fn seal(&self, words: &mut Words) -> usize {
        let c = &self.command;
        words[0] = self.number;
        words[1] = u64::from(c.what) & CODE | (self.inline as u64) << 24 | u64::from(c.count) << 32;
        words[2] = c.address;
        words[3] = c.key;
        words[4] = c.cookie;
        words[5] = c.compare;
        let used = self.used();
        words[HEAD - 1] = hash(words[..HEAD - 1].iter().chain(&words[HEAD..used]));
        used * 8
    }

    /// Decodes the request with this number; `None` until the request is complete. The command is not
    /// checked.
    pub(crate) fn open(number: u64, words: &Words) -> Option<Request> {
        if words[0] != number {
            return None;
        }
        let request = Request {
            number,
            command: Command {
                what: (words[1] & CODE) as u32,
                count: (words[1] >> 32) as u32,
                address: words[2],
                key: words[3],
                cookie: words[4],
                compare: words[5],
            },
            inline: (words[1] >> 24 & 0xff) as usize,
        };
        if request.inline > INLINE {
            return None;
        }
        let used = request.used();
        let whole = hash(words[..HEAD - 1].iter().chain(&words[HEAD..used]));
        (words[HEAD - 1] == whole).then_some(request)
    }
}

/// Encodes a reply: the status of a request and a short result.
pub(crate) fn seal_reply(number: u64, status: i32, result: u64) -> [u64; REPLY] {
    let head = (number << 32) | u64::from(status as u32);
    [head, result, hash([&head, &result].into_iter()), 0]
}

/// Decodes the reply to the request with this number; `None` until the reply is complete.
pub(crate) fn open_reply(number: u64, words: &[u64]) -> Option<(i32, u64)> {
    let [head, result, check, ..] = *words else {
        return None;
    };
    let whole = head >> 32 == number & 0xffff_ffff && check == hash([&head, &result].into_iter());
    whole.then_some((head as u32 as i32, result))
}

/// A hash that detects a mixture of old and new words. (Multiplication by an odd constant and rotation, as
/// in FxHash.)
fn hash<'a>(words: impl Iterator<Item = &'a u64>) -> u64 {
    words.fold(0x51_7c_c1_b7_27_22_0a_95, |h: u64, w| {
        (h.rotate_left(23) ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

#[cfg(test)]
mod tests {
    use plugin_api::{AtomicKind, AtomicOp, Datatype};

    use super::*;
    use crate::op::responder::{self, GET, PUT};

    fn request(what: u32, inline: usize) -> Request {
        Request {
            number: 7,
            command: Command {
                what,
                count: u32::MAX,
                address: 0x1000,
                key: 11,
                cookie: 1 << 63 | 3,
                compare: 5,
            },
            inline,
        }
    }

    #[test]
    fn requests_survive_encoding() {
        let fetch = responder::what(
            AtomicKind::Fetch,
            Datatype::Double as u32,
            AtomicOp::Sum as u32,
        );
        for what in [PUT, GET, fetch] {
            for (inline, bytes) in [(0, 56), (24, 80), (INLINE, 256)] {
                let mut words = [9; REQUEST];
                assert_eq!(request(what, inline).seal(&mut words), bytes);
                assert_eq!(Request::open(7, &words), Some(request(what, inline)));
                assert_eq!(Request::open(8, &words), None);
            }
        }
        let mut words = [9; REQUEST];
        request(PUT, INLINE).seal(&mut words);
        words[1] += 1 << 24;
        assert_eq!(Request::open(7, &words), None, "more than a request holds");
    }

    #[test]
    fn an_incomplete_request_is_ignored() {
        let mut new = [9; REQUEST];
        request(PUT, 24).seal(&mut new);
        // Any of the words may be the last to become visible.
        for late in 0..10 {
            let mut words = new;
            words[late] = words[late].wrapping_sub(1);
            assert_eq!(Request::open(7, &words), None, "word {late}");
        }
    }

    #[test]
    fn an_owner_word_names_the_holder() {
        let holder = Holder {
            node: 1 << 60 | 5,
            process: ProcessId {
                pid: 4_000_000,
                started: u32::MAX,
            },
        };
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
        assert_eq!(Plan::read(&[MAGIC, 3, 192]), None);
        // The server copies inline data of a request into a data buffer.
        assert!(Plan::new(1, 64).fragment >= INLINE);
    }
}
