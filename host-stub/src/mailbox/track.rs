//! Outstanding transport operations, counted by their callbacks.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use plugin_api::{Endpoint, Handle, Module, Status};

/// The counter of some operations, which their callbacks update. The track's address is the
/// callbacks' context, so the track does not move until the last callback has run.
#[derive(Default)]
pub(crate) struct Track {
    under_way: AtomicU32,
    failed: AtomicI32,
}

impl Track {
    /// Counts an operation that is about to be posted.
    #[inline]
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that an operation has ended, or was not accepted.
    #[inline]
    pub(crate) fn end(&self, status: i32) {
        if status < 0 {
            // The track keeps the first failure.
            let _ = self
                .failed
                .compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
        }
        // Pairs with the Acquire load in `is_idle`: a thread that sees the count also sees the
        // fetched bytes.
        self.under_way.fetch_sub(1, Ordering::Release);
    }

    /// Whether no operation is outstanding.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// Takes the first failure since the last call.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<Status> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(Status(self.failed.swap(0, Ordering::Relaxed))),
        }
    }

    /// Returns the first failure without taking it.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Status> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Status(code)),
        }
    }

    /// The context argument of the callbacks.
    #[inline]
    pub(crate) fn context(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// The callback of tracked operations.
pub(crate) unsafe extern "C" fn track_done(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    status: i32,
) {
    // SAFETY: the context is a Track that the posting code keeps alive until its count is 0 again.
    unsafe { &*context.cast::<Track>() }.end(status.min(0));
}

/// Tracks that do not move and are reused.
#[derive(Default)]
pub(crate) struct Tracks {
    #[allow(
        clippy::vec_box,
        reason = "callbacks hold the addresses, and the list grows"
    )]
    all: Vec<Box<Track>>,
    free: Vec<usize>,
}

impl Tracks {
    /// Returns a track without outstanding operations.
    pub(crate) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Box::default());
            self.all.len() - 1
        })
    }

    pub(crate) fn track(&self, index: usize) -> &Track {
        &self.all[index]
    }

    /// Returns a track to the free list if it is idle. A track that is not idle is never reused,
    /// because its operations were given up.
    pub(crate) fn give_back(&mut self, index: usize) {
        let track = &self.all[index];
        if track.is_idle() {
            track.take_failure();
            self.free.push(index);
        }
    }
}

impl Drop for Tracks {
    fn drop(&mut self) {
        for track in self.all.drain(..) {
            if !track.is_idle() {
                // A callback may still come.
                Box::leak(track);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_counts_and_keeps_the_first_failure() {
        let mut tracks = Tracks::default();
        let index = tracks.take();
        let track = tracks.track(index);
        track.begin();
        track.begin();
        track.end(-3);
        assert!(!track.is_idle());
        track.end(-4);
        assert!(track.is_idle());
        assert_eq!(track.take_failure(), Some(Status(-3)));
        assert_eq!(track.take_failure(), None);
        tracks.give_back(index);
        assert_eq!(tracks.take(), index);
    }

    #[test]
    fn a_busy_track_is_not_used_again() {
        let mut tracks = Tracks::default();
        let index = tracks.take();
        tracks.track(index).begin();
        tracks.give_back(index);
        assert_ne!(tracks.take(), index);
        tracks.track(index).end(0);
    }
}
