//! The format of messages between two transports.
//!
//! A message is a sequence of 64-bit words in the byte order of the machine, which is the same for all processes of a
//! job. A message begins with a [`Header`]. The header's first word is the key of the receiver, which the receiver
//! published with its address. A sender without this key is no process of the job, and the rest of its message is not
//! read. A *batch* carries commands to a target. In its first batch, an origin sends its own key and the address of its
//! endpoint behind the header. Then the entries follow. An *answer* covers one batch. Behind its header come the failed
//! entries, one word each (number, status), and then the results of all successful entries that have results, in order.
//! A *receipt* reports a target's progress with a line. Answers may follow a batch in one message of the provider.
//!
//! The words of an entry are: code and count (one word); address, key and cookie of the region, unless the region is
//! that of the previous entry ([`SAME_REGION`]); for a compare-and-swap, the value to compare with; and the operands,
//! padded to whole words. A send names no region and has its tag in place of the address. An apply has the bytes of its
//! operands and results in place of the count (`op::apply`). A notification has one operand, which the target adds to
//! the counter at its address. If the previous entry failed, the notification fails with the same status, and the
//! answer names only the notification as failed.
//!
//! All of these bytes come from another process, so [`Entries`] checks each length before it is used.

mod entries;

use plugin_api::{AtomicKind, AtomicOp};

pub(super) use self::entries::Entries;
use crate::op::apply::Carried;
use crate::op::responder::{self, APPLY, Command, GET, NOTIFY, PUT, SEND};

/// Maximum bytes that one command carries to the target; for an atomic, also back.
pub(crate) const LARGEST: usize = 12 * 1024;
/// The ratio between the largest get and the largest put, and the bytes of the largest get.
pub(crate) const GETS_OVER_PUTS: usize = 4;
pub(super) const LARGEST_GET: usize = GETS_OVER_PUTS * LARGEST;
/// Words of the longest batch if messages of several packets cost more. This batch holds a header, the longest address
/// of an endpoint, and one largest command. With its own header, rxm sends up to 16 KiB as one packet, which costs the
/// least.
pub(crate) const MOST_WORDS: usize = 2000;
/// Words of the longest answer otherwise. This answer holds a header, three gets of 16 KiB or one largest get, and for
/// each get one word that names it if it fails. Batches are then of the same length: four largest commands in one
/// message.
pub(crate) const MOST_ANSWER: usize =
    Header::WORDS + LARGEST_GET / 8 + GETS_OVER_PUTS * LONGEST_ENTRY;
/// Words of the longest batch of large commands: 128 KiB with the provider's header.
pub(crate) const LONG_BATCH: usize = (128 * 1024 - 64) / 8;
/// A command with at least this many words of operands is large.
pub(super) const LARGE_OPERANDS: usize = 128;
/// Bytes of the longest send: 128 KiB and the host's header. Over net, a message of this size takes 0.6 times as long as a
/// read that the receiver begins after it learns of the message.
pub(crate) const LARGEST_SEND: usize = 128 * 1024 + 256;
/// Words of the longest message with sends; a batch that has only sends may be as long.
pub(super) const LONG_WORDS: usize = MOST_WORDS + (LARGEST_SEND - LARGEST) / 8;
/// Longest address of an endpoint, in bytes.
const LONGEST_ADDRESS: usize = 1024;

const _: () = assert!(
    Header::WORDS + 2 + LONGEST_ADDRESS / 8 + 2 * LONGEST_ENTRY + 1 + LARGEST / 8 <= MOST_WORDS,
    "one command and a notification fit in a batch"
);
const _: () = assert!(MOST_WORDS <= MOST_ANSWER && MOST_ANSWER <= LONG_BATCH);
const _: () = assert!(LONG_BATCH <= LONG_WORDS);
/// Words of an entry without its operands.
const LONGEST_ENTRY: usize = 5;
/// Words of an entry that name its region. These words are absent if the previous entry has the same
/// region.
pub(crate) const REGION_WORDS: usize = 2;

/// The second word's lower half: the letters BTM and the version of this format.
const MAGIC: u32 = u32::from_le_bytes(*b"BTM\x0a");

/// Set in the code of an entry that has the region of the previous entry.
const SAME_REGION: u32 = 1 << 31;

/// The client number in a batch whose origin does not know its client number yet.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Commands to the target.
    Batch = 1,
    /// The answer to a batch.
    Answer = 2,
    /// The answer to a batch with invalid content; none of its entries was executed.
    Refusal = 3,
    /// The origin will send no more batches.
    Farewell = 4,
    /// Asks for a receipt. The origin also learns whether the connection still works. If the origin does not know its
    /// client number yet, its key and the address of its endpoint follow the header.
    Alive = 5,
    /// Only sends. This kind gets no answer: the answer to a later batch covers it.
    Unanswered = 6,
    /// Tells an origin which of its batches were executed, and how many answers are still to come.
    Receipt = 7,
    /// As [`Batch`](Self::Batch), and nobody waits for the answer now: the answer may be piggybacked on a later message.
    Patient = 8,
}

/// The beginning of each message, behind the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(super) kind: Kind,
    /// A random number that the origin chose for its line to the target.
    pub(super) cookie: u64,
    /// The origin's number of the line, and the target's number of the client at the line's other end.
    pub(super) line: u32,
    pub(super) client: u32,
    /// In a batch, its number on the line; in a receipt, the number of the first batch that was not executed.
    pub(super) sequence: u32,
    /// In a batch, the number of entries; in an answer, the number of failed entries; in a receipt, the number of answers
    /// that have not left.
    pub(super) entries: u32,
    /// In a batch or answer, the words of results in the answer. In a question, its number, which begins at 1; in a
    /// receipt, the number of the question, or 0 without a question.
    pub(super) results: u32,
}

/// The reason why a message is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The sender does not know this process's key.
    Stranger,
    /// The message is malformed.
    Wrong(&'static str),
}

/// A message's header, its words, and the words behind the message.
type Read<'a> = (Header, &'a mut [u64], &'a mut [u64]);

impl Header {
    /// Words of the header, with the key.
    pub(crate) const WORDS: usize = 6;

    /// Writes the header of a message whose other words are complete, for the process with this
    /// key.
    pub(super) fn write(&self, key: u64, words: &mut [u64]) {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let length = words.len() as u32;
        words[0] = key;
        words[1] = pair(MAGIC, self.kind as u32);
        words[2] = self.cookie;
        words[3] = pair(self.line, self.client);
        words[4] = pair(self.sequence, self.entries);
        words[5] = pair(length, self.results);
    }

    /// Reads the header of the first message among `bytes` received bytes, which must carry this process's `key`. Returns
    /// the header, the message's words, and the words behind them. Bytes that an earlier message left in the buffer are not
    /// read.
    pub(super) fn read(buffer: &mut [u64], bytes: usize, key: u64) -> Result<Read<'_>, Unread> {
        let low = |word: u64| word as u32;
        let high = |word: u64| (word >> 32) as u32;
        let words = buffer.get_mut(..bytes / size_of::<u64>());
        let words = words.ok_or(Unread::Stranger)?;
        let Some(&[first, second, cookie, fourth, fifth, sixth]) = words.first_chunk() else {
            return Err(Unread::Stranger);
        };
        if first != key {
            return Err(Unread::Stranger);
        }
        if low(second) != MAGIC {
            return Err(Unread::Wrong(
                "it does not begin like a message of this version",
            ));
        }
        let kind = match high(second) {
            1 => Kind::Batch,
            2 => Kind::Answer,
            3 => Kind::Refusal,
            4 => Kind::Farewell,
            5 => Kind::Alive,
            6 => Kind::Unanswered,
            7 => Kind::Receipt,
            8 => Kind::Patient,
            _ => return Err(Unread::Wrong("it is of an unknown kind")),
        };
        let header = Header {
            kind,
            cookie,
            line: low(fourth),
            client: high(fourth),
            sequence: low(fifth),
            entries: high(fifth),
            results: high(sixth),
        };
        let length = low(sixth) as usize;
        if !bytes.is_multiple_of(size_of::<u64>()) || length < Self::WORDS {
            return Err(Unread::Wrong("it has another length than it says"));
        }
        let split = words.split_at_mut_checked(length);
        let (words, behind) = split.ok_or(Unread::Wrong("it is shorter than it says"))?;
        Ok((header, words, behind))
    }
}

/// The data that an origin sends to a target that may not have connected it: the origin's key and the
/// address of its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) key: u64,
    pub(super) address: Vec<u8>,
}

/// Appends an origin's introduction to the header of its first batch.
pub(super) fn push_introduction(words: &mut Vec<u64>, origin: &Introduction) {
    words.push(origin.key);
    words.push(origin.address.len() as u64);
    for chunk in origin.address.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        words.push(u64::from_ne_bytes(word));
    }
}

/// The introduction at the beginning of `words`, and the number of words that it takes.
pub(super) fn take_introduction(words: &[u64]) -> Result<(Introduction, usize), &'static str> {
    let Some((&[key, length], words)) = words.split_first_chunk() else {
        return Err("it has no address");
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length == 0 || length > LONGEST_ADDRESS {
        return Err("its address has an impossible length");
    }
    let used = length.div_ceil(8);
    let words = words.get(..used).ok_or("its address is cut off")?;
    let mut address: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    address.truncate(length);
    Ok((Introduction { key, address }, 2 + used))
}

/// The parts of a command's layout that its code and count determine.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    compares: bool,
    /// Words of operands.
    pub(super) operands: usize,
    /// Words of results.
    pub(crate) results: usize,
}

impl Form {
    /// The form of a command of this process. The command is known to be executable; `size` is the size of
    /// its elements in bytes.
    #[inline(always)]
    pub(crate) fn known(what: u32, size: usize) -> Form {
        // This takes fewer instructions than `div_ceil`. The addition does not overflow, because the size is
        // far from the largest number.
        let words = size.wrapping_add(7) >> 3;
        let part = |has| if has { words } else { 0 };
        let kind = what >> 16;
        Form {
            compares: kind == AtomicKind::Compare as u32,
            operands: part(what != GET && what & 0xff != AtomicOp::Read as u32 || what == PUT),
            results: part(what != PUT && kind != AtomicKind::Update as u32),
        }
    }

    /// The form of an AMO, which has one operand.
    #[inline(always)]
    pub(crate) fn word(kind: AtomicKind) -> Form {
        Form {
            compares: kind == AtomicKind::Compare,
            operands: 1,
            results: usize::from(kind != AtomicKind::Update),
        }
    }

    /// The form of a notification.
    pub(crate) const NOTICE: Form = Form {
        compares: false,
        operands: 1,
        results: 0,
    };

    /// The form of a put together with the notification behind it, as if both were one command. The result of this
    /// command is the word that names the notification if it fails.
    pub(super) fn with_notice(self) -> Form {
        Form {
            operands: self.operands + Form::NOTICE.words(),
            results: 1,
            ..self
        }
    }

    /// The form of a send of `size` bytes.
    #[inline(always)]
    pub(super) fn of_send(size: usize) -> Form {
        Form {
            compares: false,
            operands: size.div_ceil(8),
            results: 0,
        }
    }

    /// The form of an apply.
    #[inline]
    pub(crate) fn of_apply(carried: Carried) -> Form {
        Form {
            compares: false,
            operands: carried.operands.div_ceil(8),
            results: carried.results.div_ceil(8),
        }
    }

    /// The form of a command; `None` if no such command can be executed.
    #[inline]
    pub(super) fn of(what: u32, count: u32) -> Option<Form> {
        let count = count as usize;
        if what >= SEND {
            return match what {
                SEND if count <= LARGEST_SEND => Some(Form::of_send(count)),
                NOTIFY if count == 1 => Some(Form::NOTICE),
                APPLY => {
                    let carried = Carried::of(count as u32);
                    carried.is_possible().then(|| Form::of_apply(carried))
                }
                _ => None,
            };
        }
        let mut most = LARGEST;
        let (size, form) = match what {
            PUT => (count, (false, true, false)),
            GET => {
                most = LARGEST_GET;
                (count, (false, false, true))
            }
            _ => {
                let (kind, datatype, op) = responder::decode(what)?;
                let form = (
                    kind == AtomicKind::Compare,
                    op != AtomicOp::Read,
                    kind != AtomicKind::Update,
                );
                (count * datatype.size(), form)
            }
        };
        if size == 0 || size > most {
            return None;
        }
        let words = size.div_ceil(8);
        let (compares, has_operands, has_results) = form;
        let part = |has| if has { words } else { 0 };
        Some(Form {
            compares,
            operands: part(has_operands),
            results: part(has_results),
        })
    }
}

/// Writes an entry without its operands, and returns the place of the operands. `region` is the previous entry's region,
/// and is set to the region of this entry.
///
/// # Safety
/// There is room for the form's [words](Form::words).
#[inline(always)]
pub(super) unsafe fn write_entry(
    at: *mut u64,
    c: &Command,
    form: &Form,
    region: &mut (u64, u64),
) -> *mut u64 {
    let first = u64::from(c.what) | u64::from(c.count) << 32;
    // SAFETY: the caller guarantees room for all of these words.
    unsafe {
        at.add(1).write(c.address);
        let mut next = at.add(2);
        if *region == (c.key, c.cookie) {
            at.write(first | u64::from(SAME_REGION));
        } else {
            *region = (c.key, c.cookie);
            at.write(first);
            next.write(c.key);
            next.add(1).write(c.cookie);
            next = next.add(2);
        }
        if form.compares {
            next.write(c.compare);
            next = next.add(1);
        }
        next
    }
}

impl Form {
    /// Words of the entry if it has to name its region.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        2 + REGION_WORDS + usize::from(self.compares) + self.operands
    }
}

/// Bytes of the longest message that every provider must accept. `two_sided` says whether messages
/// contain sends.
pub(crate) fn longest(two_sided: bool) -> usize {
    8 * if two_sided { LONG_WORDS } else { MOST_WORDS }
}
