//! A batch: commands for one target that are sent together, and the steps that follow their answer.

mod ending;

use std::ptr;

pub(crate) use self::ending::Ended;
use crate::base::hints::branch;
use crate::fabric::msg::wire::{
    self, Form, Header, Introduction, Kind, LARGE_OPERANDS, LONG_WORDS, MOST_WORDS,
};
use crate::op::completion::Finished;
use crate::op::request::{Operands, Request};
use crate::op::responder::{Command, NOTIFY, SEND};
use crate::peer::outstanding::Phase;

/// Words that a new batch has room for; most batches are short.
const FIRST_WORDS: usize = 128;

/// An operation of a batch that has a callback or a result.
struct Pending {
    /// The operation's number in the batch.
    entry: u32,
    /// The first word of its result among the words of results, and the result's size in bytes; 0 if it
    /// has none.
    at: u32,
    size: u32,
    /// The destination of the result.
    result: *mut u8,
    finished: Finished,
}

impl Pending {
    /// Size of its result in words.
    fn words(&self) -> u32 {
        self.size.div_ceil(size_of::<u64>() as u32)
    }
}

/// Counts of untracked operations by phase: the index is the context's phase, then the peer's.
type Untracked = [[u32; 2]; 2];

/// Memory for the message of a batch, and for its operations that have a callback or a result.
#[derive(Default)]
pub(super) struct Memory {
    words: Vec<u64>,
    pending: Vec<Pending>,
}

/// A batch of a line.
#[derive(Default)]
pub(crate) struct Batch {
    /// The words of the message.
    pub(super) words: Vec<u64>,
    /// The bytes of the message after it was sent. Its words may be gone before its answer comes.
    pub(super) bytes: usize,
    /// Maximum words of the batch; the part of them for which memory is allocated; and the maximum words if the commands
    /// beyond are large.
    most: usize,
    limit: usize,
    longest: usize,
    /// Maximum words of the answer, without its header.
    most_answered: u32,
    entries: u32,
    /// Number of entries that are sends; they have no completion.
    sends: u32,
    /// Number of entries when nobody waited for them.
    unawaited: u32,
    /// Words of results plus one word per entry, which names the entry if it fails.
    answered: u32,
    /// Key and cookie of the last command's region. A cookie is never 0.
    region: (u64, u64),
    pending: Vec<Pending>,
    untracked: Untracked,
    pub(super) sequence: u32,
    /// Whether the answer to a later batch covers this batch ([`Kind::Unanswered`]).
    pub(super) unanswered: bool,
    /// Whether the provider still reads the message.
    pub(super) held: bool,
    /// Whether the batch's operations are over although the provider still reads the message.
    pub(super) over: bool,
    /// The number and the cookie of the line that sends the batch. The cookie is needed because another line may get
    /// the number later.
    pub(super) line: u32,
    pub(super) cookie: u64,
}

// SAFETY: the pointers are data for the issuers of the operations, and are dereferenced only under the context's lock.
unsafe impl Send for Batch {}

impl Batch {
    /// Begins an empty batch for a line. `origin` is this process if this is the origin's first batch. The batch and its
    /// answer have at most `most` words each; with [large commands](Self::has_long_room), the batch has at most `longest`
    /// words.
    pub(super) fn begin(
        &mut self,
        (line, cookie): (u32, u64),
        origin: Option<&Introduction>,
        (most, longest): (usize, usize),
    ) {
        self.words.clear();
        self.words.reserve(FIRST_WORDS);
        (self.most, self.longest) = (most, longest);
        self.limit = self.words.capacity().min(most);
        self.most_answered = (most - Header::WORDS) as u32;
        self.words.resize(Header::WORDS, 0);
        if let Some(origin) = origin {
            wire::push_introduction(&mut self.words, origin);
        }
        self.entries = 0;
        (self.sends, self.unawaited) = (0, 0);
        self.answered = 0;
        self.region = (0, 0);
        self.pending.clear();
        self.untracked = Untracked::default();
        self.over = false;
        (self.line, self.cookie) = (line, cookie);
    }

    /// Takes the memory of a batch that has no operations and whose message the provider does not read; `None` if the batch
    /// has no memory.
    pub(super) fn take_memory(&mut self) -> Option<Memory> {
        let words = std::mem::take(&mut self.words);
        let pending = std::mem::take(&mut self.pending);
        (words.capacity() > 0).then_some(Memory { words, pending })
    }

    /// Gives memory to a batch that has none.
    pub(super) fn use_memory(&mut self, Memory { words, pending }: Memory) {
        (self.words, self.pending) = (words, pending);
    }

    /// Words of results.
    #[inline(always)]
    fn results(&self) -> u32 {
        self.answered - self.entries
    }

    /// Whether the answer has results.
    pub(super) fn has_results(&self) -> bool {
        self.results() > 0
    }

    /// Whether all entries are sends, so that no caller waits for the answer.
    pub(super) fn has_only_sends(&self) -> bool {
        self.entries == self.sends
    }

    /// Operations that are not over. Sends are not counted.
    pub(super) fn operations(&self) -> u32 {
        let untracked: u32 = self.untracked.iter().flatten().sum();
        self.pending.len() as u32 + untracked
    }

    /// Whether the batch has no entries. Only heartbeats and messages of other kinds are sent without entries.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether a command of this form has room and memory. Then [`push`](Self::push) makes no call, and with `is_expected`
    /// neither does [`expect`](Self::expect).
    #[inline(always)]
    pub(crate) fn takes_at_once(&self, form: &Form, is_expected: bool) -> bool {
        branch();
        if self.words.len() + form.words() > self.limit {
            return false;
        }
        branch();
        if !self.has_room_in_answer(form) {
            return false;
        }
        branch();
        !is_expected || self.pending.len() < self.pending.capacity()
    }

    /// Whether a command of this form has room.
    #[inline(always)]
    pub(super) fn has_room(&self, form: &Form) -> bool {
        self.words.len() + form.words() <= self.most && self.has_room_in_answer(form)
    }

    /// Whether a command of this form is large and has room in the longest batch.
    pub(super) fn has_long_room(&self, form: &Form) -> bool {
        form.operands >= LARGE_OPERANDS
            && self.words.len() + form.words() <= self.longest
            && self.has_room_in_answer(form)
    }

    #[inline(always)]
    fn has_room_in_answer(&self, form: &Form) -> bool {
        self.answered + (form.results as u32) < self.most_answered
    }

    /// Whether a send of this form has room. A batch that has no other entry may be as long as the longest
    /// send.
    pub(super) fn has_room_for_send(&self, form: &Form) -> bool {
        self.has_room(form)
            || self.has_only_sends()
                && self.words.len() + form.words() <= LONG_WORDS
                && self.has_room_in_answer(form)
    }

    /// Adds a command that has room, with its operands. The caller must then call [`count`](Self::count) or
    /// [`expect`](Self::expect).
    ///
    /// # Safety
    /// The operands are readable for `size` bytes, and the form was made for this size.
    #[inline(always)]
    pub(crate) unsafe fn push(
        &mut self,
        (command, form): (&Command, &Form),
        (operands, size): (Operands, usize),
    ) {
        // SAFETY: the command has room, and `write_operands` writes its operands. The caller guarantees the operands.
        unsafe {
            let at = self.begin_entry(command, form);
            write_operands(at, form, (operands, size));
            self.end_entry(at, form);
        }
    }

    /// Adds a put and a notification; the two together have room. The put and the notification are one operation, which
    /// ends with the notification's answer. The caller must then call [`count`](Self::count) or
    /// [`expect`](Self::expect).
    ///
    /// # Safety
    /// The operands of the put are readable, and `form` is the form of the put. The notification has one word by value.
    pub(super) unsafe fn push_notified(
        &mut self,
        (put, form): (&Request, &Form),
        notice: &Request,
    ) {
        let counter = Command {
            what: NOTIFY,
            ..notice.command
        };
        // SAFETY: the caller guarantees the operands and the room; a notification has one word of operands.
        unsafe {
            self.push((&put.command, form), (put.operands, put.size));
            self.push((&counter, &Form::NOTICE), (notice.operands, notice.size));
        }
    }

    /// Adds a send that has room. `fill` writes its bytes.
    ///
    /// # Safety
    /// `fill` writes `size` bytes.
    #[inline]
    pub(super) unsafe fn push_send(&mut self, tag: u8, size: usize, fill: impl FnOnce(*mut u8)) {
        let (key, cookie) = self.region;
        let command = Command {
            what: SEND,
            count: size as u32,
            address: u64::from(tag),
            key,
            cookie,
            compare: 0,
        };
        let form = Form::of_send(size);
        // SAFETY: there is room for all words; `fill` may write only a part of the last word. The caller guarantees that
        // `fill` writes its bytes.
        unsafe {
            let at = self.begin_entry(&command, &form);
            if let Some(last) = form.operands.checked_sub(1) {
                at.add(last).write(0);
            }
            fill(at.cast());
            self.end_entry(at, &form);
        }
        self.sends += 1;
    }

    /// Writes a command without its operands, and returns the operands' place. The caller must then call
    /// [`end_entry`](Self::end_entry).
    ///
    /// # Safety
    /// The command has room.
    #[inline(always)]
    unsafe fn begin_entry(&mut self, command: &Command, form: &Form) -> *mut u64 {
        let before = self.words.len();
        if before + form.words() > self.limit {
            self.make_room(form.words());
        }
        // SAFETY: there is room for the form's words.
        unsafe {
            let at = self.words.as_mut_ptr().add(before);
            wire::write_entry(at, command, form, &mut self.region)
        }
    }

    /// Counts a command after its operands were written to this place.
    ///
    /// # Safety
    /// [`begin_entry`](Self::begin_entry) returned the place, and all words of operands were written.
    #[inline(always)]
    unsafe fn end_entry(&mut self, operands: *mut u64, form: &Form) {
        // SAFETY: all words of the message up to the end of these operands were written, in the memory of
        // `words`.
        unsafe {
            let end = operands.add(form.operands);
            self.words
                .set_len(end.offset_from_unsigned(self.words.as_ptr()));
        }
        self.answered += 1 + form.results as u32;
        self.entries += 1;
    }

    /// Makes room for `words` more words. Grows first to a packet, because a batch of several entries mostly takes one,
    /// then to a full batch, then to the longest batch.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, words: usize) {
        let used = self.words.len();
        let whole = match used + words {
            needed if needed <= MOST_WORDS => MOST_WORDS,
            needed if needed <= self.most => self.most,
            _ => self.longest,
        };
        self.words
            .reserve_exact(whole.saturating_sub(used).max(words));
        self.limit = self.words.capacity().min(self.most);
    }

    /// Counts the last command as an untracked operation in these phases of the context and the peer.
    #[inline(always)]
    pub(crate) fn count(&mut self, context: Phase, peer: Phase) {
        self.untracked[(context & 1) as usize][(peer & 1) as usize] += 1;
    }

    /// Registers the end of the last command: its answer ends the operation `finished`, and its result goes
    /// to `result`.
    ///
    /// # Safety
    /// `result` is NULL, or writable for `size` bytes until the operation is over. `form` is the form of the
    /// command.
    #[inline(always)]
    pub(crate) unsafe fn expect(
        &mut self,
        (form, size): (&Form, usize),
        result: *mut u8,
        finished: Finished,
    ) {
        self.pending.push(Pending {
            entry: self.entries - 1,
            at: self.results() - form.results as u32,
            size: if form.results > 0 { size as u32 } else { 0 },
            result,
            finished,
        });
    }

    /// Writes the header for the target with this key. The batch is then complete.
    pub(super) fn seal(
        &mut self,
        kind: Kind,
        (key, cookie, client): (u64, u64, u32),
        sequence: u32,
    ) {
        self.sequence = sequence;
        self.unanswered = kind == Kind::Unanswered;
        Header {
            kind,
            cookie,
            line: self.line,
            client,
            sequence,
            entries: self.entries,
            results: self.results(),
        }
        .write(key, &mut self.words);
    }
}

/// Writes all words of an entry's operands.
///
/// # Safety
/// There is room for the form's operands, which are readable for `size` bytes.
#[inline(always)]
unsafe fn write_operands(at: *mut u64, form: &Form, (operands, size): (Operands, usize)) {
    // SAFETY: the caller guarantees the room and the operands.
    unsafe {
        if size == size_of::<u64>() && form.operands == 1 {
            at.write(match operands {
                Operands::Value(value) => value,
                Operands::Buffer(buffer) => buffer.cast::<u64>().read_unaligned(),
            });
            return;
        }
        if form.operands == 0 {
            return;
        }
        // The operands may fill only a part of the last word.
        at.add(form.operands - 1).write(0);
        match operands {
            Operands::Value(value) => {
                ptr::copy_nonoverlapping((&raw const value).cast(), at.cast::<u8>(), size);
            }
            Operands::Buffer(buffer) => {
                ptr::copy_nonoverlapping(buffer.cast(), at.cast::<u8>(), size);
            }
        }
    }
}

#[cfg(test)]
mod tests;
