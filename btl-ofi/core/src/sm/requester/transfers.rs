//! Puts and gets through a ring (`ring_transfers` says when and why).

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use plugin_api::Status;

use super::autotune::{Autotune, Way};
use super::{Done, Operands, Requester, Room, Use, nobodys, refusal};
use crate::base::cma::{self, Refused};
use crate::op::record::Finished;
use crate::peer::endpoint::Copies;
use crate::sm::ring::Command;
use crate::sm::segment::SLOTS;

/// What the target is to do with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Put,
    Get,
}

/// How long a small transfer waits for the target, about as long as the kernel takes for it.
const PATIENCE: Duration = Duration::from_micros(2);
/// How long a large get waits for a fragment, which takes the target a while to copy.
const FRAGMENT_PATIENCE: Duration = Duration::from_micros(5);
/// Looks for an answer between two at the clock.
const LOOK: u32 = 8;
/// Transfers that the kernel makes after the target was too slow for one, the first time and at most if it is so
/// again and again: of small ones, for which that took as long as the kernel, and of large gets, for which it hardly
/// matters.
const SMALL_ONES: (u32, u32) = (16, 4096);
const LARGE_GETS: (u32, u32) = (2, 64);

/// Whether a target is quick enough to be tried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// Transfers for the kernel, before the target is tried again.
    skips: u32,
    /// How many it was the last time.
    penalty: u32,
}

impl Backoff {
    /// The target was too slow.
    fn fall(&mut self, (least, most): (u32, u32)) {
        self.penalty = self.penalty.saturating_mul(2).clamp(least, most);
        self.skips = self.penalty;
    }

    #[inline]
    fn tries(&mut self) -> bool {
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        true
    }
}

/// A wait for an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wait {
    looks: u32,
    since: Option<Instant>,
}

impl Wait {
    /// There is no answer yet; whether that has lasted too long. The clock is read every `nth` time.
    #[inline]
    fn is_over(&mut self, nth: u32, patience: Duration) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks.is_multiple_of(nth)
            && self.since.get_or_insert_with(Instant::now).elapsed() >= patience
    }
}

/// What became of a transfer that was revoked.
enum Made {
    /// It is over.
    Ended(Finished, Result<(), Status>),
    /// The kernel refuses to reach the peer, so it is for the target after all.
    Queued(Refused),
}

/// Bytes of a fragment of a large get: as many as fit in a block eight times, so that both sides copy.
const FRAGMENT: usize = 8 * 1024;
/// Looks for the answer to a fragment between two at the clock.
const FRAGMENT_LOOK: u32 = 32;

impl Requester {
    /// Whether a small transfer is to be tried with the target, rather than left to the kernel.
    #[inline]
    pub(crate) fn tries_small(&mut self) -> bool {
        self.small.tries()
    }

    /// Likewise a larger get. Nothing may be outstanding here then but what is spent.
    pub(crate) fn tries_fragments(&mut self) -> bool {
        self.outstanding() == 0 && self.area.may_have_block() && self.large.tries()
    }

    /// Who makes a larger get of so many bytes, and whether it is to be timed.
    pub(crate) fn get_way(&mut self, size: usize) -> (Way, bool) {
        self.autotune(size).next()
    }

    /// What is known of the two ways for gets of about so many bytes.
    fn autotune(&mut self, size: usize) -> &mut Autotune {
        let [short, middle, long] = &mut self.autotunes;
        if size <= 32 << 10 {
            short
        } else if size <= 256 << 10 {
            middle
        } else {
            long
        }
    }

    /// A get that [was to be timed](Self::get_way) took so long.
    pub(crate) fn took(&mut self, way: Way, size: usize, time: Duration) {
        self.autotune(size).took(way, size, time);
    }

    /// The target answered a small transfer in time.
    #[inline]
    pub(super) fn answered_in_time(&mut self) {
        (self.small, self.wait) = (Backoff::default(), Wait::default());
    }

    /// Posts a put from `local`, or a get to it, for which `shm_room` was just [made](Self::reserve).
    ///
    /// # Safety
    /// `local` is readable, or writable, for the room's size; for a get until the operation is done.
    #[inline]
    pub(crate) unsafe fn transfer(
        &mut self,
        direction: Direction,
        command: Command,
        local: *mut c_void,
        room: Room,
        finished: Finished,
    ) {
        let none = ptr::null_mut();
        let (used, from, to) = match direction {
            Direction::Put => (Use::Put, local, none),
            Direction::Get => (Use::Get, none, local),
        };
        self.transfers += 1;
        // SAFETY: as the caller vouches.
        unsafe { self.post_as(used, command, Operands::Buffer(from), room, to, finished) };
    }

    /// Revokes all transfers if there was no answer for too long, and the kernel can make them.
    #[inline(never)]
    pub(super) fn consider_revoking(&mut self, done: &mut Done) {
        if !self.queued.is_empty() {
            self.post_fragments();
        }
        if self.wait.is_over(LOOK, PATIENCE) && self.may_revoke(done) {
            self.revoke(done);
        }
    }

    /// Whether the kernel reaches the peer, and its memory is still its own: where it is too slow, it may be gone.
    #[cold]
    #[inline(never)]
    fn may_revoke(&mut self, done: &mut Done) -> bool {
        // SAFETY: endpoints outlive their rings.
        let peer = unsafe { self.endpoint.as_ref() };
        if peer.failure().is_some() || peer.copies() != Copies::Kernel {
            return false;
        }
        let refused = match self.probe.map(|probe| probe.is_in(peer.pid())) {
            Some(Ok(true)) => return true,
            Some(Err(refused)) => refused,
            Some(Ok(false)) | None => Refused(libc::EFAULT),
        };
        done.doubted = Some((self.endpoint, refused));
        self.wait = Wait::default();
        false
    }

    /// Has the kernel make the transfers that the target did not begin, as far as `done` has room.
    #[cold]
    #[inline(never)]
    fn revoke(&mut self, done: &mut Done) {
        self.small.fall(SMALL_ONES);
        let mut position = self.head;
        while position != self.tail && done.has_room() {
            match self.make(position) {
                None => {}
                Some(Made::Ended(finished, Ok(()))) => done.push(finished),
                Some(Made::Ended(finished, Err(status))) => done.refused = Some((finished, status)),
                // The others are left to the target, and so is this one, once more.
                Some(Made::Queued(refused)) => {
                    done.doubted = Some((self.endpoint, refused));
                    self.wait = Wait::default();
                    return;
                }
            }
            position = position.wrapping_add(1);
        }
        // What did not fit comes next time.
        if position == self.tail {
            self.wait = Wait::default();
        }
    }

    /// Has the kernel make the transfer at this position, if there is one that the target has not begun.
    fn make(&mut self, position: u32) -> Option<Made> {
        // SAFETY: positions from `head` to `tail` were written by `post_as` or `new`.
        let pending = unsafe { self.pending[(position % SLOTS) as usize].assume_init_mut() };
        let slot = self.claim.ring().slot(position);
        let put = match pending.used {
            Use::Atomic | Use::GetFragment | Use::QueuedFragment | Use::Revoked | Use::Held => {
                return None;
            }
            Use::Put => true,
            Use::Get => false,
        };
        // Before it is revoked: the target's answer to that may be there at once, in the same words.
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
                // There was room when it was posted.
                None => return Some(Made::Ended(pending.finished, Err(Status::ERROR))),
            }
        };
        // SAFETY: endpoints outlive their rings.
        let pid = unsafe { self.endpoint.as_ref() }.pid();
        // SAFETY: the bytes of a put lie in the command or the payload, which the target does not touch now
        // that the command is revoked; `transfer`'s caller vouched for where those of a get go. What the
        // address names is the target's, which is checked to be mapped.
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
                // SAFETY: the same bytes.
                let queued = unsafe { self.queue_revoked(put, command, (local, size), finished) };
                Some(match queued {
                    Ok(()) => Made::Queued(refused),
                    Err(status) => Made::Ended(finished, Err(status)),
                })
            }
            copied => Some(Made::Ended(finished, copied.map_err(Refused::status))),
        }
    }

    /// Gets the beginning of `size` bytes to `local`, by fragments, as long as the target is quick; gives how many
    /// bytes. `command` names all of them. `meanwhile` is called while there is nothing to do. Nothing may be
    /// outstanding here but what is spent.
    ///
    /// # Errors
    /// The status with which the target refused a fragment, and so the get: nobody else is to make it.
    ///
    /// # Safety
    /// `local` is writable for `size` bytes.
    pub(crate) unsafe fn get_fragments(
        &mut self,
        command: Command,
        local: *mut c_void,
        size: usize,
        mut meanwhile: impl FnMut(),
    ) -> Result<usize, Status> {
        let (mut asked, mut got, mut refused) = (0, 0, None);
        let mut wait = Wait::default();
        while got < size {
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
                let (none, nobody) = (Operands::Buffer(ptr::null()), nobodys(self.endpoint));
                // SAFETY: there are no operands, and the result is taken below.
                unsafe {
                    self.post_as(
                        Use::GetFragment,
                        command,
                        none,
                        room,
                        ptr::null_mut(),
                        nobody,
                    )
                };
                asked += fragment;
            }
            if self.is_empty() {
                // There is no room, and nothing here that will make some.
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
                    let to = local.cast::<u8>().wrapping_add(got);
                    // SAFETY: fragments come in order, and together are `size` bytes; the payload is ours
                    // again, since the command was answered.
                    unsafe { ptr::copy_nonoverlapping(from, to, fragment) };
                    got += fragment;
                }
                None => {
                    meanwhile();
                    if wait.is_over(FRAGMENT_LOOK, FRAGMENT_PATIENCE) {
                        if got == 0 {
                            self.large.fall(LARGE_GETS);
                        }
                        break;
                    }
                }
            }
        }
        if got > 0 {
            self.large = Backoff::default();
        }
        self.give_up_fragments();
        self.area.settle(&self.claim);
        match refused {
            Some(status) => Err(status),
            None => Ok(got),
        }
    }

    /// Gives up the fragments that were not answered. The target may still read for those that it has begun, into
    /// their part of the payload.
    fn give_up_fragments(&mut self) {
        let mut position = self.head;
        while position != self.tail {
            if self.pending(position).used == Use::GetFragment {
                self.give_up(position);
            }
            position = position.wrapping_add(1);
        }
    }
}
