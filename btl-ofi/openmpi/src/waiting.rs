//! The descriptors that found no room, in the order of their sends. Each endpoint has a queue of its own, so that a peer
//! without room delays its own messages only.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::Endpoint;
use plugin_api::Status;

use crate::fragments::Fragment;

/// A descriptor that waits for room, and the tag of its message.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) fragment: NonNull<Fragment>,
    pub(crate) tag: u8,
}

/// What waits for room at one endpoint; never empty.
struct Queue {
    endpoint: NonNull<Endpoint>,
    waiting: VecDeque<Waiting>,
}

/// The queues of a module.
#[derive(Default)]
pub(crate) struct Queues {
    queues: Mutex<Vec<Queue>>,
    /// The length of `queues`.
    count: AtomicUsize,
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the count for those that do not lock.
    fn note_count(&self, queues: &[Queue]) {
        self.count.store(queues.len(), Ordering::Relaxed);
    }

    /// Whether descriptors wait for room.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether descriptors wait for room at this endpoint: later messages to it have to wait behind them.
    #[inline]
    pub(crate) fn any_for(&self, endpoint: NonNull<Endpoint>) -> bool {
        self.any() && self.lock().iter().any(|queue| queue.endpoint == endpoint)
    }

    /// Adds a descriptor behind all that wait for the endpoint.
    pub(crate) fn push(&self, endpoint: NonNull<Endpoint>, waiting: Waiting) {
        let mut queues = self.lock();
        match queues.iter_mut().find(|queue| queue.endpoint == endpoint) {
            Some(queue) => queue.waiting.push_back(waiting),
            None => queues.push(Queue {
                endpoint,
                waiting: VecDeque::from([waiting]),
            }),
        }
        self.note_count(&queues);
    }

    /// Posts what waits, each endpoint's in order and until it has no room. Calls `done`, without the lock, for each
    /// descriptor that is complete. Returns their number.
    pub(crate) fn resume(
        &self,
        post: impl Fn(NonNull<Endpoint>, Waiting) -> Status,
        done: impl Fn(NonNull<Endpoint>, Waiting, Status),
    ) -> usize {
        let mut n = 0;
        let mut at = 0;
        loop {
            let mut queues = self.lock();
            let Some(queue) = queues.get_mut(at) else {
                return n;
            };
            let endpoint = queue.endpoint;
            let Some(&first) = queue.waiting.front() else {
                at += 1;
                continue;
            };
            let status = post(endpoint, first);
            if status.is_again() {
                at += 1;
                continue;
            }
            queue.waiting.pop_front();
            if queue.waiting.is_empty() {
                queues.remove(at);
            }
            self.note_count(&queues);
            drop(queues);
            n += 1;
            done(endpoint, first, status);
        }
    }

    /// Takes out what waits for an endpoint.
    pub(crate) fn remove(&self, endpoint: NonNull<Endpoint>) -> VecDeque<Waiting> {
        let mut queues = self.lock();
        let Some(at) = queues.iter().position(|queue| queue.endpoint == endpoint) else {
            return VecDeque::new();
        };
        let queue = queues.remove(at);
        self.note_count(&queues);
        queue.waiting
    }

    /// Takes out everything.
    pub(crate) fn clear(&self) -> Vec<Waiting> {
        let mut queues = self.lock();
        let all = queues.drain(..).flat_map(|queue| queue.waiting).collect();
        self.note_count(&queues);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::num::NonZeroUsize;

    use super::*;

    /// An endpoint that is compared only.
    fn endpoint(number: usize) -> NonNull<Endpoint> {
        NonNull::without_provenance(NonZeroUsize::new(number).expect("not 0"))
    }

    /// A descriptor that is recognised by its tag.
    fn message(tag: u8) -> Waiting {
        let fragment = NonNull::dangling();
        Waiting { fragment, tag }
    }

    /// Resumes with room at all endpoints but `full`. Returns the tags that were sent.
    fn resume(queues: &Queues, full: &[NonNull<Endpoint>]) -> Vec<u8> {
        let sent = RefCell::new(Vec::new());
        let post = |to, _| match full.contains(&to) {
            true => Status::TEMP_OUT_OF_RESOURCE,
            false => Status::SUCCESS,
        };
        let n = queues.resume(post, |_, waiting, _| sent.borrow_mut().push(waiting.tag));
        let sent = sent.into_inner();
        assert_eq!(n, sent.len());
        sent
    }

    #[test]
    fn an_endpoint_without_room_delays_no_other() {
        let queues = Queues::default();
        let [a, b, c] = [1, 2, 3].map(endpoint);
        for (to, tag) in [(b, 1), (a, 2), (b, 3), (c, 4), (a, 5)] {
            queues.push(to, message(tag));
        }
        assert!(queues.any_for(a) && queues.any_for(b) && queues.any_for(c));
        assert_eq!(resume(&queues, &[b]), [2, 5, 4], "a and c have room");
        assert!(!queues.any_for(a), "nothing waits for it any more");
        assert!(queues.any_for(b), "its messages have to wait behind");
        queues.push(b, message(6));
        assert_eq!(resume(&queues, &[]), [1, 3, 6], "in the order of the sends");
        assert!(!queues.any());
    }

    #[test]
    fn a_released_endpoint_takes_its_own_descriptors_along() {
        let queues = Queues::default();
        let [a, b] = [1, 2].map(endpoint);
        for (to, tag) in [(a, 1), (b, 2), (a, 3)] {
            queues.push(to, message(tag));
        }
        let unsent: Vec<u8> = queues.remove(a).iter().map(|w| w.tag).collect();
        assert_eq!(unsent, [1, 3]);
        assert!(queues.remove(a).is_empty());
        assert_eq!(resume(&queues, &[]), [2]);
        assert!(!queues.any());
    }
}
