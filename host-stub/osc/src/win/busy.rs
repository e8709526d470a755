//! The peers that a flush of all ranks must check: operations were issued to them since they were last found settled.
//!
//! A peer is listed after its count was raised, and leaves the list only by a later check of its counts. So a thread
//! that finds its peer listed still finds it listed when it flushes, even if other threads flush in between.

use std::sync::PoisonError;

use super::sync::{AtomicUsize, Mutex, Ordering, fence};

/// Whether a peer is listed.
#[derive(Default)]
pub(super) struct Listed(AtomicUsize);

impl Listed {
    #[inline(always)]
    pub(super) fn is_set(&self) -> bool {
        // SeqCst, like the raise of the count by the caller: either this thread sees that the peer was removed, or the
        // removing thread sees the count.
        self.0.load(Ordering::SeqCst) != 0
    }
}

/// Ranks that are listed, each once.
#[derive(Default)]
pub(super) struct BusyPeers(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    ranks: Vec<usize>,
    /// The buffer of the last flush of all, for reuse by the next one.
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

    /// Removes the settled peers from the list, and returns the others. `peer` returns a rank's listed flag, and whether
    /// the rank is settled.
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
                    // Another thread may have issued an operation while the peer was still listed.
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

    /// Takes back the list that [`unsettled`](Self::unsettled) returned.
    pub(super) fn give_back(&self, ranks: Vec<usize>) {
        self.with(|lists| lists.spare = ranks);
    }
}
