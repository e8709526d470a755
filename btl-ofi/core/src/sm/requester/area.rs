//! Where operands and results of one ring lie at its target: a block of the target's pool, or the ring's own
//! payload, used as a ring of bytes.
//!
//! An area is chosen when nothing is in use, and kept until nothing is again. A block is the larger and the
//! quicker to fill; when every block is in use, what fits goes to the ring's own payload. What does not fit
//! is for the kernel to make, or, if only the target can execute it, gets a longer payload of its own. So no
//! operation waits for another initiator, which may not progress for long.

use std::ptr;

use plugin_api::Status;

use super::LINE;
use crate::sm::pool::{BLOCKS, Word};
use crate::sm::segment::{Claim, OWN, OWN_SHORT, PAYLOAD};

/// Payloads needed before the blocks are searched again, after a search that found none: at first, and at most if
/// it is so again and again.
const WITHOUT: (u32, u32) = (16, 256);
/// Blocks in use whose owner is looked for after such a search.
const LOOKS: usize = 4;

/// One ring's payload, and how much of it is in use.
pub(super) struct Area {
    start: *mut u8,
    /// What the target calls its start.
    code: u32,
    size: u32,
    /// Where the oldest bytes in use begin, where the next go, and how many are in use, with those left out at the end
    /// of a lap.
    from: u32,
    to: u32,
    used: u32,
    /// The block of the pool that this ring had last, and its word then.
    block: Option<(usize, Word)>,
    /// Whether the area is that block, and others must not take it.
    held: bool,
    /// Bytes of the ring's own payload.
    own: usize,
    /// Payloads to do without a search, and how many it was the last time.
    without: u32,
    penalty: u32,
    /// The block whose owner is looked for next.
    looked: usize,
}

impl Area {
    pub(super) fn new() -> Area {
        Area {
            start: ptr::null_mut(),
            code: 0,
            size: 0,
            from: 0,
            to: 0,
            used: 0,
            block: None,
            held: false,
            own: OWN_SHORT,
            without: 0,
            penalty: 0,
            looked: 0,
        }
    }

    /// Room for `size` bytes: what the target calls it, and where it is. `must` if only the target can make the
    /// operation: OUT_OF_RESOURCE then means that memory is exhausted, and else that the kernel is to make it.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        claim: &mut Claim,
        size: usize,
        must: bool,
    ) -> Result<(u32, *mut u8), Status> {
        if self.used == 0 && !self.held && !self.retake(claim) {
            self.choose(claim, size, must)?;
        }
        let start = self.fitting(self.to, size);
        let skipped = if start == self.to {
            0
        } else {
            self.size - self.to
        };
        if size > self.size as usize || self.used + skipped + rounded(size) > self.size {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        Ok((self.code + start, self.start.wrapping_add(start as usize)))
    }

    /// Where `size` bytes go when `at` is free: there, or at the start of the next lap.
    fn fitting(&self, at: u32, size: usize) -> u32 {
        if at as usize + size > self.size as usize {
            0
        } else {
            at
        }
    }

    /// Uses the `size` bytes that were just [reserved](Self::reserve).
    #[inline]
    pub(super) fn begin(&mut self, size: usize) {
        let start = self.fitting(self.to, size);
        if start != self.to {
            self.used += self.size - self.to;
        }
        self.to = start + rounded(size);
        self.used += rounded(size);
    }

    /// The oldest `size` bytes are no longer in use, once what is in them was read.
    #[inline]
    pub(super) fn end(&mut self, size: usize) {
        let start = self.fitting(self.from, size);
        if start != self.from {
            self.used -= self.size - self.from;
        }
        self.from = start + rounded(size);
        self.used -= rounded(size);
    }

    /// Where the `size` bytes are that the target calls `payload`.
    #[inline]
    pub(super) fn at(&self, payload: u32, size: usize) -> Option<*mut u8> {
        let offset = payload.wrapping_sub(self.code) as usize;
        // No overflow: an operation has at most 64 KiB.
        (offset + size <= self.size as usize).then(|| self.start.wrapping_add(offset))
    }

    /// Lets other rings take the block if nothing is in use.
    #[inline]
    pub(super) fn settle(&mut self, claim: &Claim) {
        if self.held && self.used == 0 {
            self.release(claim);
        }
    }

    /// Lets other rings take the block.
    #[inline]
    pub(super) fn release(&mut self, claim: &Claim) {
        if self.held
            && let Some((block, word)) = &mut self.block
        {
            *word = claim.owners()[*block % BLOCKS].release(*word);
            self.held = false;
        }
    }

    /// Whether a block is to be had, or worth a search.
    pub(super) fn may_have_block(&mut self) -> bool {
        if self.without == 0 || self.held {
            return true;
        }
        self.without -= 1;
        false
    }

    /// Takes the block of last time again, if this was the area and no other ring took it since.
    #[inline]
    fn retake(&mut self, claim: &Claim) -> bool {
        if let Some((block, word)) = &mut self.block
            && let Some(busy) = claim.owners()[*block % BLOCKS].retake(*word)
        {
            *word = busy;
            self.held = true;
            (self.from, self.to) = (0, 0);
            return true;
        }
        false
    }

    /// Finds an area for an operation of `size` bytes.
    #[cold]
    #[inline(never)]
    fn choose(&mut self, claim: &mut Claim, size: usize, must: bool) -> Result<(), Status> {
        self.block = None;
        if self.without > 0 {
            self.without -= 1;
        } else if let Some((block, word, start)) = self.take_block(claim) {
            (self.block, self.held, self.penalty) = (Some((block, word)), true, 0);
            self.set(start, (block * PAYLOAD) as u32, PAYLOAD);
            return Ok(());
        } else {
            let (least, most) = WITHOUT;
            self.penalty = self.penalty.saturating_mul(2).clamp(least, most);
            self.without = self.penalty;
        }
        if size > self.own {
            if !must {
                return Err(Status::OUT_OF_RESOURCE);
            }
            let own = claim.allocate_own(size);
            self.own = own.map_err(|_| Status::OUT_OF_RESOURCE)?;
        }
        self.set(claim.ring().own(), OWN, self.own);
        Ok(())
    }

    fn set(&mut self, start: *mut u8, code: u32, size: usize) {
        (self.start, self.code, self.size) = (start, code, size as u32);
        (self.from, self.to) = (0, 0);
    }

    /// Takes a block: one that was never used, else an idle one, else one that was left in use by a process that is
    /// gone.
    fn take_block(&mut self, claim: &mut Claim) -> Option<(usize, Word, *mut u8)> {
        let ring = claim.index();
        for new in [true, false] {
            for block in (ring..ring + BLOCKS).map(|b| b % BLOCKS) {
                let found = claim.owners()[block].read();
                if found.is_busy() || found.is_allocated() == new {
                    continue;
                }
                if let Some(word) = claim.owners()[block].take(found, ring) {
                    return use_block(claim, block, word);
                }
            }
        }
        for _ in 0..LOOKS {
            let block = self.looked % BLOCKS;
            self.looked = block + 1;
            let found = claim.owners()[block].read();
            if found.is_busy()
                && claim.is_deserted(found.ring()).unwrap_or(false)
                && let Some(word) = claim.owners()[block].take(found, ring)
            {
                return use_block(claim, block, word);
            }
        }
        None
    }
}

/// Makes a block that was just taken usable; lets go of it if memory is exhausted.
fn use_block(claim: &mut Claim, block: usize, word: Word) -> Option<(usize, Word, *mut u8)> {
    let allocated = word.is_allocated() || claim.allocate_block(block).is_ok();
    let start = if allocated {
        claim.block(block).ok()
    } else {
        None
    };
    let Some(start) = start else {
        claim.owners()[block].release(word);
        return None;
    };
    Some((block, claim.owners()[block].allocated(word), start))
}

fn rounded(size: usize) -> u32 {
    size.next_multiple_of(LINE) as u32
}
