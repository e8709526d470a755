//! The payload area of one ring: a block of the responder's pool, or the ring's own payload, used as a circular
//! buffer for operands and results.
//!
//! An area is chosen when no bytes are in use, and kept until no bytes are in use again. A block is larger and faster
//! to fill. When every block is busy, operations that fit use the ring's own payload. The kernel makes the transfers
//! that do not fit; for an operation that only the responder can execute, the own payload grows. So no
//! operation waits for another requester, which may not make progress for long.

use std::ptr;

use plugin_api::Status;

use super::LINE;
use crate::sm::pool::{BLOCKS, Word};
use crate::sm::segment::{Claim, OWN, OWN_SHORT, PAYLOAD};

/// Backoff of the search for a block, counted in payloads: its first value after a failed search, and
/// its maximum.
const SEARCH_BACKOFF: (u32, u32) = (16, 256);
/// Maximum busy blocks per search whose owners are checked for liveness.
const OWNER_CHECKS: usize = 4;

/// One ring's payload area, and the part of it in use.
pub(super) struct Area {
    start: *mut u8,
    /// Payload code of the first byte (`Command::payload`).
    code: u32,
    size: u32,
    /// Start of the oldest bytes in use; start of the next bytes; and number of bytes in use, including the bytes
    /// that were skipped at the end of a lap.
    from: u32,
    to: u32,
    used: u32,
    /// The ring's last block, and the block's word at that time.
    block: Option<(usize, Word)>,
    /// Whether the area is that block and the block is busy.
    held: bool,
    /// Number of allocated bytes of the ring's own payload.
    own: usize,
    /// Number of payloads before the next search, and the last backoff.
    skips: u32,
    backoff: u32,
    /// The block whose owner will be checked next.
    next_check: usize,
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
            skips: 0,
            backoff: 0,
            next_check: 0,
        }
    }

    /// Reserves `size` bytes. Returns their payload code and their address. `must` means that only the responder can
    /// execute the operation. OUT_OF_RESOURCE means that memory is exhausted; without `must`, it means that CMA
    /// should be used.
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

    /// Start of `size` bytes from `at` on: `at`, or the start of the next lap if the bytes do not
    /// fit before the end.
    fn fitting(&self, at: u32, size: usize) -> u32 {
        if at as usize + size > self.size as usize {
            0
        } else {
            at
        }
    }

    /// Marks the `size` bytes of the last [`reserve`](Self::reserve) as used.
    #[inline]
    pub(super) fn begin(&mut self, size: usize) {
        let start = self.fitting(self.to, size);
        if start != self.to {
            self.used += self.size - self.to;
        }
        self.to = start + rounded(size);
        self.used += rounded(size);
    }

    /// Frees the oldest `size` bytes. The content of these bytes was read.
    #[inline]
    pub(super) fn end(&mut self, size: usize) {
        let start = self.fitting(self.from, size);
        if start != self.from {
            self.used -= self.size - self.from;
        }
        self.from = start + rounded(size);
        self.used -= rounded(size);
    }

    /// Address of the `size` bytes with the code `payload`.
    #[inline]
    pub(super) fn at(&self, payload: u32, size: usize) -> Option<*mut u8> {
        let offset = payload.wrapping_sub(self.code) as usize;
        // This cannot overflow, because an operation has at most 64 KiB.
        (offset + size <= self.size as usize).then(|| self.start.wrapping_add(offset))
    }

    /// Makes the block idle if no bytes are in use.
    #[inline]
    pub(super) fn settle(&mut self, claim: &Claim) {
        if self.held && self.used == 0 {
            self.release(claim);
        }
    }

    /// Makes the block idle.
    #[inline]
    pub(super) fn release(&mut self, claim: &Claim) {
        if self.held
            && let Some((block, word)) = &mut self.block
        {
            *word = claim.owners()[*block % BLOCKS].release(*word);
            self.held = false;
        }
    }

    /// Whether the area is a block, or whether a search for a block is due. Counts down the backoff
    /// otherwise.
    pub(super) fn may_have_block(&mut self) -> bool {
        if self.skips == 0 || self.held {
            return true;
        }
        self.skips -= 1;
        false
    }

    /// Takes the last block again, if the last area was a block and no other ring has taken it
    /// since.
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

    /// Chooses an area for an operation of `size` bytes.
    #[cold]
    #[inline(never)]
    fn choose(&mut self, claim: &mut Claim, size: usize, must: bool) -> Result<(), Status> {
        self.block = None;
        if self.skips > 0 {
            self.skips -= 1;
        } else if let Some((block, word, start)) = self.take_block(claim) {
            (self.block, self.held, self.backoff) = (Some((block, word)), true, 0);
            self.set(start, (block * PAYLOAD) as u32, PAYLOAD);
            return Ok(());
        } else {
            let (least, most) = SEARCH_BACKOFF;
            self.backoff = self.backoff.saturating_mul(2).clamp(least, most);
            self.skips = self.backoff;
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

    /// Takes a block: first a block without pages, then an idle block, then a busy block whose process
    /// is dead.
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
        for _ in 0..OWNER_CHECKS {
            let block = self.next_check % BLOCKS;
            self.next_check = block + 1;
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

/// Allocates and maps a block that was just taken. If this fails, makes the block idle again.
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
