//! A batch: commands that gather for one target until they are sent, and the steps that follow their answer.

mod ending;

use std::ptr;

pub(crate) use self::ending::Ended;
use crate::base::hints::branch;
use crate::fabric::msg::wire::{
    self, Form, Header, Introduction, Kind, LARGE_OPERANDS, LONG_WORDS, MOST_WORDS,
};
use crate::fabric::policy::in_window;
use crate::op::completion::Finished;
use crate::op::request::{Operands, Request};
use crate::op::responder::{Command, NOTIFY, SEND};
use crate::peer::outstanding::Phase;

/// Words that a new batch has room for; most batches are short.
const FIRST_WORDS: usize = 128;

/// An operation of a batch that has a callback or a result.
struct Pending {
    /// Its number in the batch.
    entry: u32,
    /// Where its result begins among the words of results, and the number of its bytes; 0 if it has none.
    at: u32,
    size: u32,
    /// Where the result goes.
    result: *mut u8,
    finished: Finished,
}

impl Pending {
    /// Words of its result.
    fn words(&self) -> u32 {
        self.size.div_ceil(size_of::<u64>() as u32)
    }
}

/// Numbers of untracked operations in each phase that counts them: the context's phases and, within each, the peer's.
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
    /// The message.
    pub(super) words: Vec<u64>,
    /// What it counts in the window of its line, once it was sent.
    pub(super) counted: usize,
    /// Most words of the batch, and as many of them as there is memory for; most words if what it takes beyond is large.
    most: usize,
    limit: usize,
    longest: usize,
    /// Most words of the answer, without its header.
    most_answered: u32,
    entries: u32,
    /// The entries that are sends, which are not reported.
    sends: u32,
    /// Words of results, and one for each entry: those of the answer if all entries fail.
    answered: u32,
    /// Key and cookie of the last command's region; no cookie is 0.
    region: (u64, u64),
    pending: Vec<Pending>,
    untracked: Untracked,
    pub(super) sequence: u32,
    /// Whether the answer to a later batch covers it ([`Kind::Unanswered`]).
    pub(super) unanswered: bool,
    /// Whether the provider still reads the message.
    pub(super) held: bool,
    /// Whether its operations are over although the provider still reads the message.
    pub(super) over: bool,
    /// The line that sends it: its number and its cookie, since another line may have the number later.
    pub(super) line: u32,
    pub(super) cookie: u64,
}

// SAFETY: the pointers are data for the issuers of the operations. They are followed only under the context's lock.
unsafe impl Send for Batch {}

impl Batch {
    /// Makes the batch empty, for a line. `origin` is this process, for an origin's first batch. The batch and its answer have at
    /// most `most` words each, the batch `longest` with [large commands](Self::has_long_room).
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
        self.sends = 0;
        self.answered = 0;
        self.region = (0, 0);
        self.pending.clear();
        self.untracked = Untracked::default();
        self.over = false;
        (self.line, self.cookie) = (line, cookie);
    }

    /// Takes the memory of a batch whose message the provider does not read, and that has no operations; `None` if it has none.
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

    /// Whether nobody waits for the answer to any of its entries.
    pub(super) fn has_only_sends(&self) -> bool {
        self.entries == self.sends
    }

    /// What its message counts in the window of a line.
    #[inline]
    pub(super) fn in_window(&self) -> usize {
        in_window(size_of_val(&*self.words))
    }

    /// Whether it has no entries. Only heartbeats and messages of another kind are sent so.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether a command of this form has room, and memory is there for it, so that [`push`](Self::push) makes no call, nor
    /// [`expect`](Self::expect), if that `is_expected`.
    #[inline(always)]
    pub(super) fn takes_at_once(&self, form: &Form, is_expected: bool) -> bool {
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

    /// Whether a send of this form has room: a batch with nothing else may be as long as the longest send.
    pub(super) fn has_room_for_send(&self, form: &Form) -> bool {
        self.has_room(form)
            || self.has_only_sends()
                && self.words.len() + form.words() <= LONG_WORDS
                && self.has_room_in_answer(form)
    }

    /// Adds a command that has room, with its operands. One of [`count`](Self::count) and [`expect`](Self::expect) follows.
    ///
    /// # Safety
    /// The operands are readable for `size` bytes, for which the form was made.
    #[inline(always)]
    pub(crate) unsafe fn push(
        &mut self,
        (command, form): (&Command, &Form),
        (operands, size): (Operands, usize),
    ) {
        // SAFETY: the command has room, of which `write_operands` writes the operands. The caller guarantees the operands.
        unsafe {
            let at = self.begin_entry(command, form);
            write_operands(at, form, (operands, size));
            self.end_entry(at, form);
        }
    }

    /// Adds a put that has room together with a notification, and both. They are one operation, which the notification's
    /// answer ends. One of [`count`](Self::count) and [`expect`](Self::expect) follows.
    ///
    /// # Safety
    /// The operands of the put, whose form it is, are readable. The notification has one word by value.
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
        // SAFETY: there is room for all words, of which the last one may be filled in part only. The caller guarantees that
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

    /// Writes a command without its operands, whose place it returns. [`end_entry`](Self::end_entry) follows.
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

    /// Counts a command whose operands were written to this place.
    ///
    /// # Safety
    /// [`begin_entry`](Self::begin_entry) returned the place, and all words of operands were written.
    #[inline(always)]
    unsafe fn end_entry(&mut self, operands: *mut u64, form: &Form) {
        // SAFETY: the words before this place and those of the operands were written, in the memory of `words`.
        unsafe {
            let end = operands.add(form.operands);
            self.words
                .set_len(end.offset_from_unsigned(self.words.as_ptr()));
        }
        self.answered += 1 + form.results as u32;
        self.entries += 1;
    }

    /// Makes room for this many more words: for a whole packet, as a batch of more than a few entries mostly is, then for a full batch,
    /// then for the longest one.
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

    /// Counts the last command as an untracked operation, by the phases of context and peer.
    #[inline(always)]
    pub(crate) fn count(&mut self, context: Phase, peer: Phase) {
        self.untracked[(context & 1) as usize][(peer & 1) as usize] += 1;
    }

    /// The operation of the last command is `finished` when it is answered, and its result goes to `result`.
    ///
    /// # Safety
    /// `result` is NULL, or writable for `size` bytes until the operation is over. The form is that of the command.
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

    /// Writes the header, for the target that has this key; the batch is then complete.
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
        // The last word may be filled in part only.
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
