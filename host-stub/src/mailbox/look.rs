//! Looks at other ranks: whether they run, and which failures they announce to ranks that wait for them.

use std::sync::atomic::{AtomicU8, Ordering};

use plugin_api::Status;

use super::layout::FLAGS;
use super::line::{Mailbox, posted};
use super::track::track_done;

/// Where in the word of a look the rank says that it has lost something on its way to the other.
const LOST: usize = 4;
/// Where in that word its own look reads the other's such byte to, ...
const LOST_THERE: usize = 0;
/// ... and the byte with the flag that it asks for.
const FLAGS_THERE: usize = 1;

/// The byte of a flag among the flags, and its bit there.
const fn place_of(flag: u16) -> (usize, u8) {
    let flag = flag as usize % FLAGS;
    (flag / 8, 1 << (flag % 8))
}

impl Mailbox {
    /// A byte of the word of looks at a rank.
    #[inline]
    fn look_byte(&self, to: usize, byte: usize) -> &AtomicU8 {
        debug_assert!(to < self.lines.len() && byte < size_of::<u64>());
        // SAFETY: a byte of a rank's word in the region, which this rank and its looks alone write.
        unsafe { AtomicU8::from_ptr(self.looks.add(to).cast::<u8>().add(byte)) }
    }

    /// The byte that says whether this rank has given up telling another something, for its looks.
    #[inline]
    pub(super) fn lost(&self, to: usize) -> &AtomicU8 {
        self.look_byte(to, LOST)
    }

    fn flags(&self, byte: usize) -> &AtomicU8 {
        debug_assert!(byte < FLAGS / 8);
        let flags = self.words(self.layout.flags(), FLAGS / 64).as_ptr();
        // SAFETY: one of the bytes of the flags in the region, which only this rank writes.
        unsafe { AtomicU8::from_ptr(flags.cast_mut().cast::<u8>().add(byte)) }
    }

    /// Raises a flag for the looks of all ranks, for good.
    #[cold]
    pub(crate) fn raise(&self, flag: u16) {
        let (byte, bit) = place_of(flag);
        self.flags(byte).fetch_or(bit, Ordering::Relaxed);
    }

    /// Whether this rank has raised a flag.
    #[inline]
    pub(crate) fn has_raised(&self, flag: u16) -> bool {
        let (byte, bit) = place_of(flag);
        self.flags(byte).load(Ordering::Relaxed) & bit != 0
    }

    /// Has the looks of a rank fail, which may be waiting for what this rank will never send it.
    #[cold]
    pub(crate) fn give_up(&self, to: usize) {
        self.lost(to).store(1, Ordering::Relaxed);
    }

    /// Reads two bytes of a rank's region: a peer that is gone shows itself when something is asked of it. One says whether
    /// it has given up telling this rank something, the other whether it has raised a flag: one of `flags`, of which each
    /// has its turn. Says what the last look found: nothing, a flag that is raised, that the rank is gone, or that a put
    /// failed; none while a look is under way.
    pub(crate) fn look(&mut self, to: usize, flags: &[u16]) -> Option<Result<Option<u16>, Status>> {
        let line = &self.lines[to];
        // Not taken, so every later look finds it: no message arrives behind one that is lost.
        if let Some(status) = line.failure() {
            return Some(Err(status));
        }
        if !line.looking.is_idle() {
            return None;
        }
        let lost = self.look_byte(to, LOST_THERE).load(Ordering::Relaxed);
        let byte = self.look_byte(to, FLAGS_THERE).load(Ordering::Relaxed);
        let raised = |flag: &u16| byte & place_of(*flag).1 != 0;
        let found = match (line.looking.take_failure(), lost) {
            (Some(status), _) => Err(status),
            (None, 0) => Ok(line.asked.filter(raised)),
            (None, _) => Err(Status::UNREACH),
        };
        let later = |flag: &&u16| line.asked.is_some_and(|asked| **flag > asked);
        let next = flags.iter().find(later).or(flags.first()).copied();
        let word = 8 * self.layout.look(self.me);
        let mut posted = self.read(to, word + LOST, LOST_THERE);
        let mut asked = None;
        if let (Ok(true), Some(flag)) = (posted, next) {
            let at = 8 * self.layout.flags() + place_of(flag).0;
            posted = self.read(to, at, FLAGS_THERE);
            asked = next.filter(|_| posted == Ok(true));
        }
        self.lines[to].asked = asked;
        Some(match (found, posted) {
            (Ok(_), Err(status)) => Err(status),
            (found, _) => found,
        })
    }

    /// Gets a byte of a rank's region into a byte of the word of looks at it; false when the transport is busy.
    fn read(&self, to: usize, from: usize, into: usize) -> Result<bool, Status> {
        let line = &self.lines[to];
        line.looking.begin();
        // SAFETY: as in `put`; the byte is only written by looks, of which one is under way at a time.
        let status = unsafe {
            self.transport.get(
                line.endpoint,
                self.look_byte(to, into).as_ptr(),
                line.base + from as u64,
                self.handle(),
                line.handle.as_ptr(),
                1,
                Some(track_done),
                line.looking.context(),
                std::ptr::null_mut(),
            )
        };
        posted(status, &line.looking)
    }
}
