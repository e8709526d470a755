//! Reclaims rings that were never given back, because their processes were killed or left commands without an answer. If no
//! other ring is free, a process claims such a ring once the responder has left it too.
//!
//! **Arbitration.** The claim word of such a ring stays taken, and the holder's word decides. A process clears the holder's
//! word before it gives its ring back. So a word that names a dead process proves that the process still had the ring when it
//! died. One compare-and-swap on this word gives the ring to one of the processes that find this.
//!
//! **Position.** The last owner's position is lost with its process. The slots show the position: each holds the position of
//! its last command.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use crate::base::mapping::Mapped;
use crate::peer::liveness::{ProcessId, State};
use crate::sm::ring::{POSITIONS, RINGS};
use crate::sm::segment::{Claim, DESERTED, Front, Place, Ring, SLOTS, map_ring};

impl Place {
    /// Claims a ring whose process is dead, or left the ring for good.
    #[cold]
    pub(super) fn reclaim(self, file: &File, front: Mapped<Front>) -> io::Result<Claim> {
        for index in 0..RINGS {
            // Acquire pairs with the Release in `claim` and `desert`.
            let found = front.holders[index].load(Ordering::Acquire);
            if found == 0 || found != DESERTED && process_of(found).state() != State::Gone {
                continue;
            }
            let ring = map_ring(file, index)?;
            if ring.has_unanswered() {
                // The process may have ended before it notified the responder of a command.
                front.bells.ring(index);
                continue;
            }
            let own = holder_of(ProcessId::own());
            // AcqRel pairs with the Release in `claim` and `desert`, and with the Acquire in `is_deserted`.
            let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
            let taken = front.holders[index].compare_exchange(found, own, set, fetch);
            if taken.is_err() {
                continue;
            }
            // The new owner must read this again: before it took the ring, another process may have used
            // the ring and left it with the same holder word.
            let Some((position, spent)) = ring.left_at() else {
                // Release pairs with the Acquire in another process's `reclaim`.
                front.holders[index].store(found, Ordering::Release);
                continue;
            };
            for owner in &front.owners {
                owner.free(index);
            }
            return Ok(Claim {
                front,
                ring,
                pool: None,
                index,
                place: self,
                position,
                spent,
            });
        }
        Err(io::Error::other("all rings are taken"))
    }
}

/// The holder word of a process.
pub(super) fn holder_of(process: ProcessId) -> u64 {
    u64::from(process.pid) | u64::from(process.started) << 32
}

/// The process that a holder word names.
pub(super) fn process_of(holder: u64) -> ProcessId {
    ProcessId {
        pid: holder as u32,
        started: (holder >> 32) as u32,
    }
}

impl Ring {
    /// The position at which the next owner begins, and the number of slots before it that hold revoked commands. `None`
    /// while the responder may still execute a command, or if a faulty process wrote to the slots.
    fn left_at(&self) -> Option<(u32, u32)> {
        let (first, _) = self.slots[0].left_at()?;
        let (mut most, mut spent) = (0, 0);
        for slot in &self.slots {
            let (next, is_revoked) = slot.left_at()?;
            spent += u32::from(is_revoked);
            let ahead = next.wrapping_sub(first) % POSITIONS;
            if ahead < SLOTS {
                most = most.max(ahead);
            }
        }
        let next = first.wrapping_add(most) % POSITIONS;
        let mut slots = (0..).zip(&self.slots);
        let are_sound = slots.all(|(index, slot)| {
            let behind = next.wrapping_sub(index + 1) % SLOTS;
            let expected = next.wrapping_sub(behind) % POSITIONS;
            match slot.left_at() {
                // The responder answers in order, so only the last slots may hold revoked commands.
                Some((at, true)) => at == expected && behind < spent,
                // In the first lap of a ring, nothing was posted to its last slots.
                Some((at, false)) => at == expected || at == 0 && next < SLOTS,
                None => false,
            }
        });
        are_sound.then_some((next, spent))
    }
}
