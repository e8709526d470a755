//! The peers that a flush of all has to look at: those to which something was issued since they were last found settled.
//!
//! A peer is listed after its count was raised, and taken off the list only by a look at its counts that follows. So a
//! thread that finds its peer listed finds it there when it flushes, whatever other threads flush meanwhile.

use std::sync::PoisonError;

use super::sync::{AtomicUsize, Mutex, Ordering, fence};

/// Whether a peer is listed.
#[derive(Default)]
pub(super) struct Listed(AtomicUsize);

impl Listed {
    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        // SeqCst, as the count that the caller raised: either this sees that the peer was taken off, or who took it off
        // sees the count.
        self.0.load(Ordering::SeqCst) != 0
    }
}

/// Ranks that are listed, each once.
#[derive(Default)]
pub(super) struct BusyPeers(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    ranks: Vec<usize>,
    /// What the last flush of all used, for the next.
    spare: Vec<usize>,
}

impl BusyPeers {
    fn with<T>(&self, run: impl FnOnce(&mut Lists) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lists a peer whose count was raised.
    #[cold]
    #[inline(never)]
    pub(super) fn list(&self, rank: usize, listed: &Listed) {
        self.with(|lists| {
            if !listed.is_set() {
                lists.ranks.push(rank);
                listed.0.store(1, Ordering::SeqCst);
            }
        });
    }

    /// Takes those off that are settled, and gives the others. `peer` gives whether a rank is listed, and whether it is
    /// settled.
    pub(super) fn unsettled<'a>(
        &self,
        peer: impl Fn(usize) -> Option<(&'a Listed, bool)>,
    ) -> Vec<usize> {
        self.with(|lists| {
            lists.ranks.retain(|rank| match peer(*rank) {
                None => false,
                Some((_, false)) => true,
                Some((listed, true)) => {
                    listed.0.store(0, Ordering::SeqCst);
                    fence(Ordering::SeqCst);
                    // Another thread may have issued something that found it listed.
                    let stays = peer(*rank).is_some_and(|(_, settled)| !settled);
                    if stays {
                        listed.0.store(1, Ordering::SeqCst);
                    }
                    stays
                }
            });
            let mut ranks = std::mem::take(&mut lists.spare);
            ranks.clone_from(&lists.ranks);
            ranks
        })
    }

    /// Takes back what [`unsettled`](Self::unsettled) gave.
    pub(super) fn give_back(&self, ranks: Vec<usize>) {
        self.with(|lists| lists.spare = ranks);
    }
}
