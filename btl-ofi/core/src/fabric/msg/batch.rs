//! A batch: the commands for one target that gather until they are sent, and what is to be done when they are answered.

use std::ptr::{self, NonNull};

use plugin_api::Status;

use crate::fabric::msg::wire::{self, Form, Header, Kind, LONG_WORDS, MOST_WORDS};
use crate::op::completion::Finished;
use crate::op::request::Operands;
use crate::op::responder::{Command, NOTIFY, SEND};
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Phase;

/// Words that a batch has room for when it is made; most batches are short.
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

/// Numbers of untracked operations, by the phases in which they count: those of the context, in each those of the peer.
type Untracked = [[u32; 2]; 2];

/// A batch of one line.
#[derive(Default)]
pub(crate) struct Batch {
    /// The message.
    pub(super) words: Vec<u64>,
    entries: u32,
    /// The entries that are sends.
    sends: u32,
    /// Words of results.
    results: u32,
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

/// Operations that are over, to be reported once the lock is released.
#[derive(Default)]
pub(crate) struct Ended {
    /// Those with a callback that were executed.
    pub(crate) finished: Vec<Finished>,
    /// Those that were refused, with the reason.
    pub(crate) refused: Vec<(Finished, Status)>,
    /// Untracked operations that are over, failed ones included.
    pub(crate) untracked: Vec<(Tag, u32)>,
    /// Numbers of untracked operations that failed, with the reason.
    pub(crate) lost: Vec<(Tag, u32, Status)>,
}

impl Batch {
    /// Makes the batch empty, for a line. `address` is this process's, for an origin's first batch.
    pub(super) fn begin(&mut self, (line, cookie): (u32, u64), address: Option<&[u8]>) {
        self.words.clear();
        self.words.reserve(FIRST_WORDS);
        self.words.resize(Header::WORDS, 0);
        if let Some(address) = address {
            wire::push_address(&mut self.words, address);
        }
        self.entries = 0;
        self.sends = 0;
        self.results = 0;
        self.region = (0, 0);
        self.pending.clear();
        self.untracked = Untracked::default();
        self.over = false;
        (self.line, self.cookie) = (line, cookie);
    }

    /// Gives back the memory of a batch that is not in use.
    #[cold]
    pub(super) fn give_memory_back(&mut self) {
        self.words = Vec::new();
        self.pending = Vec::new();
    }

    /// Whether it has sends only, none of which waits for an answer.
    pub(super) fn has_only_sends(&self) -> bool {
        self.entries == self.sends
    }

    /// Whether it has no entries. Only heartbeats and messages of another kind are sent so.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether a command of this form has room.
    #[inline(always)]
    pub(super) fn has_room(&self, form: &Form) -> bool {
        let failures = self.entries as usize + 1;
        let answer = Header::WORDS + self.results as usize + form.results + failures;
        self.words.len() + form.words() <= MOST_WORDS && answer <= MOST_WORDS
    }

    /// Whether a send of this form has room: a batch with nothing else may be as long as the longest send.
    pub(super) fn has_room_for_send(&self, form: &Form) -> bool {
        self.has_room(form)
            || self.has_only_sends() && self.words.len() + form.words() <= LONG_WORDS
    }

    /// Adds a command that has room, with its operands. One of [`count`](Self::count) and [`expect`](Self::expect) follows.
    ///
    /// # Safety
    /// The operands are readable for `size` bytes, for which the form was made.
    #[inline(always)]
    pub(super) unsafe fn push(
        &mut self,
        (command, form): (&Command, &Form),
        (operands, size): (Operands, usize),
    ) {
        // SAFETY: the function writes all words of operands, for which there is room. The caller guarantees the operands.
        let write = |at: *mut u64| unsafe {
            if form.operands == 1 && size == size_of::<u64>() {
                at.write(match operands {
                    Operands::Value(value) => value,
                    Operands::Buffer(buffer) => buffer.cast::<u64>().read_unaligned(),
                });
            } else if form.operands > 0 {
                // The last word may be filled in part only.
                at.add(form.operands - 1).write(0);
                let value;
                let from = match operands {
                    Operands::Value(word) => {
                        value = word;
                        (&raw const value).cast::<u8>()
                    }
                    Operands::Buffer(buffer) => buffer.cast::<u8>(),
                };
                ptr::copy_nonoverlapping(from, at.cast::<u8>(), size);
            }
        };
        // SAFETY: the command has room, and `write` writes its operands.
        unsafe { self.push_with((command, form), write) };
    }

    /// Adds a put that has room together with a notification, and both. They are one operation, which the notification's
    /// answer ends. One of [`count`](Self::count) and [`expect`](Self::expect) follows.
    ///
    /// # Safety
    /// The operands are readable for `size` bytes, for which the form was made.
    pub(super) unsafe fn push_notified(
        &mut self,
        put: (&Command, &Form),
        operands: (Operands, usize),
        (counter, add): (&Command, u64),
    ) {
        let counter = Command {
            what: NOTIFY,
            ..*counter
        };
        let add = (Operands::Value(add), size_of::<u64>());
        // SAFETY: the caller guarantees the operands and the room; a notification has one word of operands.
        unsafe {
            self.push(put, operands);
            self.push((&counter, &Form::NOTICE), add);
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
        let write = |at: *mut u64| {
            if let Some(last) = form.operands.checked_sub(1) {
                // SAFETY: there is room for all words; the last one may be filled in part only.
                unsafe { at.add(last).write(0) };
            }
            fill(at.cast());
        };
        // SAFETY: the send has room, and the caller guarantees that `fill` writes its bytes.
        unsafe { self.push_with((&command, &form), write) };
        self.sends += 1;
    }

    /// Adds a command whose operands `write` writes.
    ///
    /// # Safety
    /// The command has room; `write` writes all words of operands that its form counts.
    #[inline(always)]
    unsafe fn push_with(
        &mut self,
        (command, form): (&Command, &Form),
        write: impl FnOnce(*mut u64),
    ) {
        let before = self.words.len();
        if self.words.capacity() - before < form.words() {
            self.make_room(form.words());
        }
        // SAFETY: there is room for the form's words, of which the entry and `write` write all.
        unsafe {
            let at = self.words.as_mut_ptr().add(before);
            let at = wire::write_entry(at, command, form, &mut self.region);
            write(at);
            let end = at.add(form.operands);
            self.words
                .set_len(end.offset_from_unsigned(self.words.as_ptr()));
        }
        self.results += form.results as u32;
        self.entries += 1;
    }

    /// Makes room for a whole batch, which has more than a few entries, and for this many more words.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, words: usize) {
        let rest = MOST_WORDS.saturating_sub(self.words.len());
        self.words.reserve(rest.max(words));
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
            at: self.results - form.results as u32,
            size: if form.results > 0 { size as u32 } else { 0 },
            result,
            finished,
        });
    }

    /// Writes the header; the batch is then complete.
    pub(super) fn seal(&mut self, kind: Kind, (cookie, client): (u64, u32), sequence: u32) {
        self.sequence = sequence;
        self.unanswered = kind == Kind::Unanswered;
        Header {
            kind,
            cookie,
            line: self.line,
            client,
            sequence,
            entries: self.entries,
            results: self.results,
        }
        .write(&mut self.words);
    }

    /// Whether an answer has as many results as this batch asks for.
    pub(super) fn is_answered_by(&self, answer: &Header, words: &[u64]) -> bool {
        let failures = answer.entries as usize;
        answer.results == self.results
            && answer.entries <= self.entries
            && words.len() == Header::WORDS + failures + self.results as usize
    }

    /// Ends the operations with their answer, whose [form is right](Self::is_answered_by): writes the results, and notes
    /// how each operation is to be reported.
    pub(super) fn answer(
        &mut self,
        endpoint: NonNull<Endpoint>,
        failures: &[u64],
        results: &[u64],
        ended: &mut Ended,
    ) {
        let mut failures = failures
            .iter()
            .map(|word| (*word as u32, Status((word >> 32) as i32)))
            .peekable();
        let mut unnamed = 0;
        let mut why = Status::ERROR;
        for p in self.pending.drain(..) {
            // Failures of untracked operations before this one.
            while failures
                .next_if(|(entry, _)| *entry < p.entry)
                .is_some_and(|(_, status)| {
                    why = status;
                    true
                })
            {
                unnamed += 1;
            }
            match failures.next_if(|(entry, _)| *entry == p.entry) {
                Some((_, status)) => ended.refused.push((p.finished, failed(status))),
                None => {
                    let from = results[p.at as usize..].as_ptr().cast::<u8>();
                    // SAFETY: the issuer keeps the buffer writable until the operation is over. The results have as many
                    // words as this batch asks for, which cover those of each operation.
                    unsafe { ptr::copy_nonoverlapping(from, p.result, p.size as usize) };
                    match p.finished.function {
                        Some(_) => ended.finished.push(p.finished),
                        None => ended.untracked.push((p.finished.tag, 1)),
                    }
                }
            }
        }
        for (_, status) in failures {
            (unnamed, why) = (unnamed + 1, status);
        }
        if unnamed > 0 {
            ended
                .lost
                .push((Tag::new(endpoint, 0, 0), unnamed, failed(why)));
        }
        self.count_untracked(endpoint, ended);
    }

    /// Ends the operations as failed.
    pub(super) fn fail(&mut self, endpoint: NonNull<Endpoint>, status: Status, ended: &mut Ended) {
        let refused = self.pending.drain(..).map(|p| (p.finished, status));
        ended.refused.extend(refused);
        let unnamed: u32 = self.untracked.iter().flatten().sum();
        if unnamed > 0 {
            ended.lost.push((Tag::new(endpoint, 0, 0), unnamed, status));
        }
        self.count_untracked(endpoint, ended);
    }

    fn count_untracked(&mut self, endpoint: NonNull<Endpoint>, ended: &mut Ended) {
        for (context, of_peer) in (0..).zip(std::mem::take(&mut self.untracked)) {
            for (peer, n) in (0..).zip(of_peer) {
                if n > 0 {
                    ended.untracked.push((Tag::new(endpoint, context, peer), n));
                }
            }
        }
    }
}

/// The status of an operation that a target says has failed.
fn failed(status: Status) -> Status {
    if status.is_ok() || status.is_again() {
        Status::ERROR
    } else {
        status
    }
}
