//! Transport operations under way, counted by their callbacks.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use plugin_api::{Endpoint, Handle, Module, Status};

/// What the callbacks of some operations count. Its address is their context, so it stays where it
/// is until the last has run.
#[derive(Default)]
pub(crate) struct Track {
    under_way: AtomicU32,
    failed: AtomicI32,
}

impl Track {
    /// An operation is about to be posted.
    #[inline]
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// An operation has ended, or was not taken.
    #[inline]
    pub(crate) fn end(&self, status: i32) {
        if status < 0 {
            // An earlier failure is kept.
            let _ = self
                .failed
                .compare_exchange(0, status, Ordering::Relaxed, Ordering::Relaxed);
        }
        // Pairs with the Acquire load in `is_idle`: what the operation fetched is there.
        self.under_way.fetch_sub(1, Ordering::Release);
    }

    /// Whether nothing is under way.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// The first failure since the last call.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<Status> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(Status(self.failed.swap(0, Ordering::Relaxed))),
        }
    }

    /// The first failure, without taking it.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Status> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Status(code)),
        }
    }

    /// What a callback gets.
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

/// Tracks that stay where they are and are used again.
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
    /// A track with nothing under way.
    pub(crate) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Box::default());
            self.all.len() - 1
        })
    }

    pub(crate) fn track(&self, index: usize) -> &Track {
        &self.all[index]
    }

    /// Gives a track back that is idle. One that is not is kept from use for ever: its operations
    /// were given up.
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
