//! Puts and gets through a ring. `carrier::ring::transfers` decides when and why.

use std::ptr;
use std::time::{Duration, Instant};

use plugin_api::Status;

use super::autotune::{Autotune, Way};
use super::commands::refusal;
use super::{Done, Requester, Use, no_operation};
use crate::base::cma::{self, Refused};
use crate::op::completion::Finished;
use crate::op::request::{Operands, Request};
use crate::peer::counters::add;
use crate::peer::route::Transfers;
use crate::sm::ring::Command;
use crate::sm::segment::SLOTS;

/// Maximum time that a ring put or ring get waits for the responder: about as long as CMA takes.
const RING_TIMEOUT: Duration = Duration::from_micros(2);
/// Maximum time that a large get waits for a fragment. The responder needs a while to copy a fragment.
const FRAGMENT_TIMEOUT: Duration = Duration::from_micros(5);
/// Number of polls for an answer between two clock reads.
const RING_POLLS: u32 = 8;
/// Backoff after the responder was too slow for a transfer, counted in transfers that CMA makes: its first value,
/// and its maximum. For ring puts and ring gets, the lost time equals the time of CMA; for large gets, it hardly
/// matters.
const RING_BACKOFF: (u32, u32) = (16, 4096);
const GET_BACKOFF: (u32, u32) = (2, 64);

/// Backoff of the ring after the responder was too slow.
#[derive(Clone, Copy, Debug, Default)]
struct Backoff {
    /// Number of transfers that CMA makes before the ring is tried again.
    skips: u32,
    /// The last backoff.
    backoff: u32,
}

impl Backoff {
    fn back_off(&mut self, (least, most): (u32, u32)) {
        self.backoff = self.backoff.saturating_mul(2).clamp(least, most);
        self.skips = self.backoff;
    }

    /// Whether to try the ring for this transfer. A transfer that does not try the ring counts against the backoff if it
    /// is `last`: if no other path asks for it again.
    #[inline]
    fn tries(&mut self, last: impl FnOnce() -> bool) -> bool {
        if self.skips > 0 {
            self.skips -= u32::from(last());
            return false;
        }
        true
    }
}

/// A wait for an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wait {
    polls: u32,
    since: Option<Instant>,
}

impl Wait {
    /// Counts a poll without an answer. Returns whether the wait exceeds `timeout`. Reads the clock at every `nth`
    /// poll.
    #[inline]
    fn is_over(&mut self, nth: u32, timeout: Duration) -> bool {
        self.polls = self.polls.wrapping_add(1);
        self.polls.is_multiple_of(nth)
            && self.since.get_or_insert_with(Instant::now).elapsed() >= timeout
    }
}

/// Measurements of how fast the responder answers transfers.
#[derive(Default)]
pub(super) struct Tuning {
    /// Backoff of ring puts and ring gets.
    ring_backoff: Backoff,
    /// Backoff of the ring in large gets.
    get_backoff: Backoff,
    /// Measurements of large gets of short, middle and long size.
    autotunes: [Autotune; 3],
    /// The wait for the oldest ring put or get.
    pub(super) wait: Wait,
}

/// Outcome of a revoked transfer.
enum Outcome {
    /// The transfer has ended.
    Ended(Finished, Result<(), Status>),
    /// CMA is refused; the transfer is queued for the responder.
    Queued(Refused),
}

/// Size in bytes of a fragment of a large get: an eighth of a block, so that both sides copy at the same time.
const FRAGMENT: usize = 8 * 1024;
/// Number of polls for the answer to a fragment between two clock reads.
const FRAGMENT_POLLS: u32 = 32;

impl Requester {
    /// Whether to try the ring for a put or get. If the ring is not tried, CMA makes the transfer: immediately if this
    /// is the `last` check for the transfer, otherwise on a path that checks again.
    #[inline]
    pub(crate) fn tries_ring(&mut self, last: impl FnOnce() -> bool) -> bool {
        self.tuning.ring_backoff.tries(last)
    }

    /// Whether to try the ring for a larger get. All slots in use must be spent.
    pub(crate) fn tries_fragments(&mut self) -> bool {
        self.outstanding() == 0
            && self.area.may_have_block()
            && self.tuning.get_backoff.tries(|| true)
    }

    /// The path for a larger get of `size` bytes, and whether to time the get.
    pub(crate) fn get_way(&mut self, size: usize) -> (Way, bool) {
        self.autotune(size).next()
    }

    /// Measurements for gets of about `size` bytes.
    fn autotune(&mut self, size: usize) -> &mut Autotune {
        let [short, middle, long] = &mut self.tuning.autotunes;
        if size <= 32 << 10 {
            short
        } else if size <= 256 << 10 {
            middle
        } else {
            long
        }
    }

    /// Records the time of a get for which [`get_way`](Self::get_way) requested it.
    pub(crate) fn record_time(&mut self, way: Way, size: usize, time: Duration) {
        self.autotune(size).record_time(way, size, time);
    }

    /// Ends the backoff and the wait, because the responder answered a ring put or ring get in time.
    #[inline]
    pub(super) fn answered_in_time(&mut self) {
        (self.tuning.ring_backoff, self.tuning.wait) = (Backoff::default(), Wait::default());
    }

    /// Revokes all transfers if the responder's answer is overdue and CMA can make them.
    #[inline(never)]
    pub(super) fn consider_revoking(&mut self, done: &mut Done) {
        if !self.queued.is_empty() {
            self.post_fragments();
        }
        if self.tuning.wait.is_over(RING_POLLS, RING_TIMEOUT) && self.may_revoke(done) {
            self.revoke(done);
        }
    }

    /// Whether CMA can still access the peer's memory. A slow responder may be dead, and another process
    /// may have its id.
    #[cold]
    #[inline(never)]
    fn may_revoke(&mut self, done: &mut Done) -> bool {
        // SAFETY: the endpoint outlives its ring, so the pointer is valid.
        let peer = unsafe { self.endpoint.as_ref() };
        if peer.failure().is_some() || peer.transfers() != Transfers::Kernel {
            return false;
        }
        let refused = match self.probe.map(|probe| probe.is_in(peer.pid())) {
            Some(Ok(true)) => return true,
            Some(Err(refused)) => refused,
            Some(Ok(false)) | None => Refused(libc::EFAULT),
        };
        done.doubted = Some((self.endpoint, refused));
        self.tuning.wait = Wait::default();
        false
    }

    /// Makes the transfers that the responder has not begun by CMA, while `done` has room.
    #[cold]
    #[inline(never)]
    fn revoke(&mut self, done: &mut Done) {
        self.tuning.ring_backoff.back_off(RING_BACKOFF);
        let mut position = self.head;
        while position != self.tail && done.has_room() {
            match self.make_by_kernel(position) {
                None => {}
                Some(Outcome::Ended(finished, Ok(()))) => done.push(finished),
                Some(Outcome::Ended(finished, Err(status))) => {
                    done.refused = Some((finished, status))
                }
                // CMA is refused, so the responder makes this transfer and the later ones.
                Some(Outcome::Queued(refused)) => {
                    done.doubted = Some((self.endpoint, refused));
                    self.tuning.wait = Wait::default();
                    return;
                }
            }
            position = position.wrapping_add(1);
        }
        // Transfers for which `done` has no room follow at the next call.
        if position == self.tail {
            self.tuning.wait = Wait::default();
        }
    }

    /// Makes the transfer at this position by CMA, if there is one that the responder has not begun.
    fn make_by_kernel(&mut self, position: u32) -> Option<Outcome> {
        // SAFETY: `post_as` or `new` initialised all positions from `head` to `tail`; the caller passes one of these
        // positions.
        let pending = unsafe { self.pending[(position % SLOTS) as usize].assume_init_mut() };
        let slot = self.claim.ring().slot(position);
        let put = match pending.used {
            Use::Apply
            | Use::Atomic
            | Use::GetFragment
            | Use::QueuedFragment
            | Use::Revoked
            | Use::Held => {
                return None;
            }
            Use::Put => true,
            Use::Get => false,
        };
        // The command is read before the revocation, because the responder may then overwrite its words with
        // the answer at once.
        let mut command = slot.command();
        if !slot.revoke(position) {
            return None;
        }
        pending.used = Use::Revoked;
        self.transfers -= 1;
        self.spent += 1;
        let size = usize::from(pending.size);
        let local = if !put {
            pending.result
        } else if size <= size_of::<u64>() {
            (&raw mut command.value).cast()
        } else {
            match self.area.at(pending.payload, size) {
                Some(at) => at.cast(),
                // This cannot happen, because the bytes fitted when the command was posted.
                None => return Some(Outcome::Ended(pending.finished, Err(Status::ERROR))),
            }
        };
        // SAFETY: the endpoint outlives its ring, so the pointer is valid.
        let peer = unsafe { self.endpoint.as_ref() };
        add(&self.counters.of_first(peer).revoked, 1, false);
        let pid = peer.pid();
        // SAFETY: the data of a put lies in `command` or in the payload, which the responder does not access because
        // the command is revoked. The caller of `transfer` guarantees that the buffer of a get is writable until
        // completion. `command.address` is in the peer's address space, and the kernel checks that it is mapped.
        let copied = unsafe {
            if put {
                cma::write(pid, local, command.address, size)
            } else {
                cma::read(pid, local, command.address, size)
            }
        };
        let finished = pending.finished;
        match copied {
            Err(refused) if refused.is_lasting() => {
                // SAFETY: for a put, `local` is the data that was just passed to `cma::write`; for a get, it is the
                // buffer that the caller of `transfer` guarantees until completion.
                let queued = unsafe { self.queue_revoked(put, command, (local, size), finished) };
                Some(match queued {
                    Ok(()) => Outcome::Queued(refused),
                    Err(status) => Outcome::Ended(finished, Err(status)),
                })
            }
            // The operation is over: its status must not mean that the caller should retry.
            copied => {
                let status = |refused: Refused| match refused.status() {
                    again if again.is_again() => Status::ERROR,
                    status => status,
                };
                Some(Outcome::Ended(finished, copied.map_err(status)))
            }
        }
    }

    /// Gets the first `size` bytes of a get in fragments, while the responder answers fast. Returns the number of
    /// received bytes. `meanwhile` is called at each poll without an answer. All slots in use must be spent.
    ///
    /// # Errors
    /// The status with which the responder refused a fragment. This status refuses the whole get, so the caller must
    /// not try another path.
    ///
    /// # Safety
    /// The result of `request` is writable for `size` bytes.
    pub(crate) unsafe fn get_fragments(
        &mut self,
        request: &Request,
        size: usize,
        mut meanwhile: impl FnMut(),
    ) -> Result<usize, Status> {
        let command = Command::of(&request.command);
        let (mut asked, mut got, mut refused) = (0, 0, None);
        let mut wait = Wait::default();
        while got < size {
            asked = self.ask_fragments(command, asked, size);
            if self.is_empty() {
                // The area has no room, and no slot in use will free room.
                break;
            }
            let slot = self.claim.ring().slot(self.head);
            match slot.answered(self.head) {
                Some(answer) => {
                    let pending = self.take();
                    wait = Wait::default();
                    if pending.used.is_spent() {
                        continue;
                    }
                    refused = refusal(&answer);
                    if refused.is_some() {
                        break;
                    }
                    let fragment = usize::from(pending.size);
                    let Some(from) = self.result(&pending, &answer) else {
                        break;
                    };
                    let to = request.result.cast::<u8>().wrapping_add(got);
                    // SAFETY: fragments are answered in order and `got + fragment` does not exceed `size`; the caller
                    // guarantees `size` bytes of the result. The responder has answered, so it no longer writes this
                    // part of the payload.
                    unsafe { ptr::copy_nonoverlapping(from, to, fragment) };
                    got += fragment;
                }
                None => {
                    meanwhile();
                    if wait.is_over(FRAGMENT_POLLS, FRAGMENT_TIMEOUT) {
                        if got == 0 {
                            self.tuning.get_backoff.back_off(GET_BACKOFF);
                        }
                        break;
                    }
                }
            }
        }
        if got > 0 {
            self.tuning.get_backoff = Backoff::default();
        }
        self.abandon_fragments();
        self.area.settle(&self.claim);
        match refused {
            Some(status) => Err(status),
            None => Ok(got),
        }
    }

    /// Posts fragments of the bytes at `asked` and beyond while there is room. Returns the end of
    /// the posted fragments.
    fn ask_fragments(&mut self, command: Command, mut asked: usize, size: usize) -> usize {
        while asked < size {
            let fragment = FRAGMENT.min(size - asked);
            let Ok(room) = self.reserve(fragment, false) else {
                break;
            };
            let command = Command {
                address: command.address + asked as u64,
                count: fragment as u32,
                ..command
            };
            let (none, record) = (Operands::Buffer(ptr::null()), no_operation(self.endpoint));
            // SAFETY: operands and result are NULL, so no buffer is accessed; the data is copied below.
            unsafe {
                self.post_as(
                    Use::GetFragment,
                    command,
                    none,
                    room,
                    ptr::null_mut(),
                    record,
                )
            };
            asked += fragment;
        }
        asked
    }

    /// Abandons the fragments without an answer. The responder may still write to the payload of fragments that
    /// it has begun.
    fn abandon_fragments(&mut self) {
        let mut position = self.head;
        while position != self.tail {
            if self.pending(position).used == Use::GetFragment {
                self.abandon_slot(position);
            }
            position = position.wrapping_add(1);
        }
    }
}
