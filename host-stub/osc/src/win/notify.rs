//! Puts with notification, and waiting for them. Such puts are not part of MPI (mpi-forum issue 59
//! requests them).
//!
//! Each rank of a window has [`COUNTERS`] counters, which begin at zero and only grow. The counters lie in the
//! control block. The transport, or the origin in a segment, raises a counter after the bytes were written. These calls are not entries of the window's table. So layers do not see these calls, except
//! transfers of several pieces, which use the table's put and flush.

use std::sync::atomic::Ordering;

use super::btl::notify as remote;
use super::checked::KeyRoom;
use super::control::COUNTERS;
use super::dynamic::region_cache::KeyUse;
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::op::{RmaOp, Target};
use super::window::Window;
use crate::door::is_looked_for;

const PUT: &str = "put_notify";

fn known(call: &'static str, counter: usize) -> WinResult<()> {
    if counter < COUNTERS {
        return Ok(());
    }
    Err(Box::new(WinError::BadArgument {
        call,
        reason: format!("counter {counter} of {COUNTERS}"),
    }))
}

impl Window {
    /// As [`put`](Self::put), and adds one to a counter of the target once all bytes of this put are visible there. The
    /// counter thus says how many puts have arrived whole, and tells nothing of their order. The operation is complete,
    /// as any put, after a flush or at the end of the epoch; then it is also counted. A put that fails is not counted.
    ///
    /// A transfer with gaps, of device memory, or longer than one put of the transport, is completed before this
    /// returns. [`WinError::BadArgument`]: there is no such counter, see [`COUNTERS`].
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    pub unsafe fn put_notify(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        counter: usize,
    ) -> WinResult<()> {
        known(PUT, counter)?;
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe { self.put_then_count(origin, layout, target, counter) };
        }
        let entered = self.link.enter(PUT)?;
        let peer = self.allowed(PUT, target.rank, true)?;
        let mut room = KeyRoom::uninit();
        let op = RmaOp::put(PUT, (origin, layout), target);
        let transfer = self.resolve(&op, peer, (&mut room, KeyUse::Once))?;
        if layout.bytes() == 0 {
            return self.count(target.rank, counter);
        }
        if self.parts.shared.is_some() {
            // SAFETY: checked above; the caller vouches for the buffer.
            unsafe { (self.table.put)(self, &transfer) }?;
            return self.count(target.rank, counter);
        }
        if remote::is_one_put(self, &transfer) {
            // SAFETY: checked above; the caller vouches for the buffer.
            return unsafe { remote::put(self, &transfer, counter) };
        }
        drop(entered);
        // SAFETY: as the caller vouches.
        unsafe { self.put_then_count(origin, layout, target, counter) }
    }

    /// A put that is completed first, and then counted.
    #[cold]
    unsafe fn put_then_count(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        counter: usize,
    ) -> WinResult<()> {
        // SAFETY: the caller vouches for the buffer.
        unsafe { self.put(origin, layout, target) }?;
        let _entered = self.link.enter(PUT)?;
        (self.table.flush)(self, PUT, target.rank)?;
        self.count(target.rank, counter)
    }

    /// Raises a counter at a target after operations that are complete there.
    fn count(&self, rank: usize, counter: usize) -> WinResult<()> {
        remote::count(self, self.peer(PUT, rank)?, counter)
    }

    /// The number of puts with notification that have arrived at a counter of this rank. The program may read the bytes
    /// of these puts. Makes progress now and then, so that a program may poll.
    pub fn notifications(&self, counter: usize) -> WinResult<u64> {
        let call = "notifications";
        known(call, counter)?;
        let _entered = self.link.enter(call)?;
        self.link.progress(call)?;
        Ok(self.notified(counter))
    }

    /// Waits until at least `at_least` puts with notification in total have arrived at a counter of this rank. An error if
    /// a rank of the window is lost during the wait.
    pub fn wait_notified(&self, counter: usize, at_least: u64) -> WinResult<()> {
        let call = "wait_notified";
        known(call, counter)?;
        let _entered = self.link.enter(call)?;
        self.link
            .wait_until(call, || self.notified(counter) >= at_least)
    }

    fn notified(&self, counter: usize) -> u64 {
        // Acquire: the bytes of the counted puts are visible after this. The transport, or the origin in the segment, wrote
        // them before it raised the counter.
        let control = &self.parts.control;
        let word = control.word(control.plan().notified(counter));
        word.load(Ordering::Acquire)
    }
}
