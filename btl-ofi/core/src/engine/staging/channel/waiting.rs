//! Fragments that have no request yet.
//!
//! A fragment gets a request, with a number and a slot, once its data is in host memory. The owner executes requests in the
//! order of their numbers. A request that waited for a stream of the program would therefore delay all later requests, and
//! its lane all other origins. Atomics keep the order in which they were issued. Other fragments may overtake: the oldest
//! fragment whose data is ready goes first.

use std::collections::VecDeque;

use plugin_api::AtomicOp;

use super::jobs::fetched;
use crate::engine::staging::staged::{Staged, StagedOps, Work};
use crate::hmem::bounce::{Bounce, Pool};
use crate::hmem::mailbox::{FRAGMENT, INLINE, SLOTS};
use crate::op::request::Action;

/// Maximum bytes of fragments in progress in one lane. Larger amounts would evict each other from the
/// cache.
const UNDER_WAY: usize = 4 * FRAGMENT;

/// An operation: its sequence number in issue order, and its index.
type Entry = (u64, usize);

/// A fragment, with its bounce buffer if it needs one.
pub(super) struct Draft {
    issued: u64,
    is_atomic: bool,
    pub(super) op: usize,
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) bounce: Option<Bounce>,
    /// Whether a stream is copying the fragment's data to the buffer.
    is_copied: bool,
}

/// Fragments that have requests: their number and their bytes.
pub(super) type InSlots = (usize, usize);

/// Operations with fragments that have not begun, and fragments that have begun.
#[derive(Default)]
pub(super) struct Waiting {
    issued: u64,
    atomics: VecDeque<Entry>,
    /// Puts whose data a stream copies.
    copied: VecDeque<Entry>,
    others: VecDeque<Entry>,
    /// Fragments of `atomics` and `copied` that have begun and have no request yet.
    drafts: VecDeque<Draft>,
}

/// Whether a fragment's request carries the data itself.
pub(super) fn is_inline(op: &Staged, len: usize) -> bool {
    !reads(op) && len <= INLINE
}

/// Whether an operation sends no data.
pub(super) fn reads(op: &Staged) -> bool {
    let read = AtomicOp::Read;
    matches!(op.action, Action::Get) || matches!(op.action, Action::Atomic { op, .. } if op == read)
}

/// Whether a stream copies the data of the next fragment, of `len` bytes.
fn is_streamed(op: &Staged, len: usize) -> bool {
    !reads(op) && !is_inline(op, len) && op.local.reads_later(len)
}

/// Begins the next fragment of an operation: takes a bounce buffer if the fragment needs one, and starts the copy of its
/// data. Returns `None` if no buffer is free or if the copy failed. After a failed copy, the operation holds the failure.
fn begin((issued, index): Entry, op: &mut Staged, len: usize, pool: &mut Pool) -> Option<Draft> {
    let sends = !reads(op) && !is_inline(op, len) && op.local.host(op.next).is_none();
    let returns = matches!(op.action, Action::Get) || op.action.fetches();
    let mut draft = Draft {
        issued,
        is_atomic: matches!(op.action, Action::Atomic { .. }),
        op: index,
        offset: op.next,
        len,
        bounce: None,
        is_copied: false,
    };
    if sends || (returns && len > 8 && fetched(op).host(0).is_none()) {
        draft.bounce = Some(pool.lend(op.endpoint)?);
    }
    if let Some(bounce) = draft.bounce.as_mut().filter(|_| sends) {
        // SAFETY: the buffer has room for a fragment; the source is valid for the whole operation. Both stay until
        // the copy is over, because the draft does.
        match unsafe { op.local.start_read(op.next, bounce.pointer(), len) } {
            Ok(copy) => {
                draft.is_copied = copy.is_some();
                bounce.keep_for(copy);
            }
            Err(error) => {
                op.failed_copy(error);
                draft.bounce.into_iter().for_each(|b| pool.give_back(b));
                return None;
            }
        }
    }
    op.next += len;
    op.live += 1;
    Some(draft)
}

impl Waiting {
    pub(super) fn push(&mut self, index: usize, op: &Staged) {
        let queue = match op.action {
            Action::Atomic { .. } => &mut self.atomics,
            _ if is_streamed(op, op.size) => &mut self.copied,
            _ => &mut self.others,
        };
        queue.push_back((self.issued, index));
        self.issued += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        let queues = [&self.atomics, &self.copied, &self.others];
        queues.iter().all(|queue| queue.is_empty()) && self.drafts.is_empty()
    }

    /// Whether a fragment can get a request now.
    pub(super) fn wants_slot(&self, ops: &mut StagedOps, most: usize) -> bool {
        !self.others.is_empty() || self.ready().is_some() || self.plain_atomic(ops, most).is_some()
    }

    /// The oldest draft whose data is in host memory.
    fn ready(&self) -> Option<(u64, usize)> {
        let first_atomic = self.drafts.iter().position(|draft| draft.is_atomic);
        let drafts = self.drafts.iter().enumerate();
        let ready =
            drafts.filter(|(i, d)| !d.is_copied && (!d.is_atomic || Some(*i) == first_atomic));
        ready.map(|(i, d)| (d.issued, i)).min()
    }

    /// The next atomic, if no stream copies its data.
    fn plain_atomic(&self, ops: &mut StagedOps, most: usize) -> Option<Entry> {
        let entry = *self.atomics.front()?;
        let op = ops.at(entry.1)?;
        let is_next = !self.drafts.iter().any(|draft| draft.is_atomic);
        (is_next && !is_streamed(op, op.fragment(most))).then_some(entry)
    }

    /// Takes the fragment, of at most `most` bytes, that gets the next request. Returns `None` if no fragment has its
    /// data in host memory.
    pub(super) fn take(
        &mut self,
        work: &mut Work,
        most: usize,
        (_, bytes): InSlots,
    ) -> Option<Draft> {
        let ready = self.ready();
        let mut plain = [
            self.plain_atomic(&mut work.ops, most),
            self.others.front().copied(),
        ];
        plain.sort_unstable();
        for entry in plain.into_iter().flatten() {
            if ready.is_some_and(|(issued, _)| issued < entry.0) {
                break;
            }
            let Some(op) = work.ops.at(entry.1) else {
                continue;
            };
            let len = op.fragment(most);
            if bytes > 0 && bytes + len > UNDER_WAY {
                continue;
            }
            if let Some(draft) = begin(entry, op, len, &mut work.pool) {
                return Some(draft);
            }
        }
        // A ready draft is taken even if an earlier operation found no buffer, because drafts may hold all buffers.
        self.drafts.remove(ready?.1)
    }

    /// Begins to copy the data of a fragment of at most `most` bytes, if there are a fragment and room. Returns whether
    /// the call made a step.
    pub(super) fn fetch(&mut self, work: &mut Work, most: usize, (number, bytes): InSlots) -> bool {
        if self.drafts.len() + number >= SLOTS {
            return false;
        }
        let begun: usize = self.drafts.iter().map(|draft| draft.len).sum();
        let bytes = bytes + begun;
        let mut entries = [self.atomics.front(), self.copied.front()];
        entries.sort_unstable();
        for &entry in entries.into_iter().flatten() {
            let Some(op) = work.ops.at(entry.1) else {
                continue;
            };
            let len = op.fragment(most);
            // A plain atomic gets its request in issue order (`take`).
            let is_plain_atomic =
                matches!(op.action, Action::Atomic { .. }) && !is_streamed(op, len);
            if is_plain_atomic || (bytes > 0 && bytes + len > UNDER_WAY) {
                continue;
            }
            match begin(entry, op, len, &mut work.pool) {
                Some(draft) => {
                    self.drafts.push_back(draft);
                    return true;
                }
                None if !op.status.is_ok() => return true,
                None => {}
            }
        }
        false
    }

    /// Polls the copies in progress, and removes operations that have nothing left here. Returns
    /// the number of steps.
    pub(super) fn look(&mut self, work: &mut Work) -> usize {
        let (mut steps, mut at) = (0, 0);
        while let Some(draft) = self.drafts.get_mut(at) {
            let Some(op) = work.ops.at(draft.op) else {
                self.drafts.remove(at);
                continue;
            };
            if let Some(bounce) = draft.bounce.as_mut().filter(|_| draft.is_copied) {
                let Some(copied) = bounce.copied() else {
                    // SAFETY: endpoints live as long as operations to them.
                    unsafe { op.endpoint.as_ref() }.waits_for_copy();
                    at += 1;
                    continue;
                };
                draft.is_copied = false;
                steps += 1;
                if let Err(error) = copied {
                    op.failed_copy(error);
                }
            }
            if op.status.is_ok() {
                at += 1;
                continue;
            }
            if let Some(draft) = self.drafts.remove(at) {
                work.end_fragment(draft.op, draft.bounce);
            }
        }
        steps + self.settle(work)
    }

    /// Removes operations that have no fragment left to begin. This is done at once: after such an operation is over,
    /// another operation may get its index.
    pub(super) fn settle(&mut self, work: &mut Work) -> usize {
        let mut steps = 0;
        for queue in [&mut self.atomics, &mut self.copied, &mut self.others] {
            while let Some(&(_, index)) = queue.front() {
                let op = work.ops.at(index);
                if op.as_ref().is_some_and(|op| op.next < op.size) {
                    break;
                }
                queue.pop_front();
                steps += 1;
                if op.is_some_and(|op| op.is_over()) {
                    work.over.push_back(index);
                }
            }
        }
        steps
    }

    /// Fails every operation that has fragments here. Each operation ends when its copies end.
    pub(super) fn fail(&self, ops: &mut StagedOps, mut fail: impl FnMut(&mut Staged)) {
        let queues = [&self.atomics, &self.copied, &self.others];
        let waiting = queues.into_iter().flatten().map(|(_, index)| *index);
        let begun = self.drafts.iter().map(|draft| draft.op);
        for index in waiting.chain(begun) {
            if let Some(op) = ops.at(index) {
                fail(op);
            }
        }
    }
}
