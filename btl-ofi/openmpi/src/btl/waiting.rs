//! The descriptors and transfers that found no room, in the order of their calls. Each endpoint has its own queue, so a peer
//! without room delays only its own queue.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use btl_ofi::Endpoint;
use plugin_api::Status;

/// The entries that wait for room at one endpoint; empty only while the endpoint is released.
struct Queue<T> {
    endpoint: NonNull<Endpoint>,
    waiting: VecDeque<T>,
    /// Whether a thread posts the first descriptor, without the lock. The descriptor stays here meanwhile, so that later
    /// messages wait behind it.
    posting: bool,
    /// Number of releases of the endpoint under way: nothing is added meanwhile.
    releases: u32,
}

impl<T> Queue<T> {
    fn new(endpoint: NonNull<Endpoint>) -> Queue<T> {
        Queue {
            endpoint,
            waiting: VecDeque::new(),
            posting: false,
            releases: 0,
        }
    }
}

/// The queues of a module. `T` is a descriptor and the arguments of its post.
pub(crate) struct Queues<T> {
    queues: Mutex<Vec<Queue<T>>>,
    /// The length of `queues`.
    count: AtomicUsize,
}

// SAFETY: the queues only copy their pointers. The descriptors are used by the thread that posts or has removed them.
unsafe impl<T> Send for Queues<T> {}
// SAFETY: the list is locked, and one thread at a time posts a queue's first descriptor.
unsafe impl<T> Sync for Queues<T> {}

fn find<T>(queues: &[Queue<T>], endpoint: NonNull<Endpoint>) -> Option<usize> {
    queues.iter().position(|queue| queue.endpoint == endpoint)
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Queues {
            queues: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }
}

impl<T: Copy> Queues<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<Queue<T>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the count for readers without the lock.
    fn note_count(&self, queues: &[Queue<T>]) {
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
        if !self.any() {
            return false;
        }
        let queues = self.lock();
        find(&queues, endpoint).is_some_and(|at| !queues[at].waiting.is_empty())
    }

    /// Whether `asked` holds for the first entry that waits for this endpoint, or with `None` for the first
    /// entry of any endpoint.
    pub(crate) fn has_first(
        &self,
        endpoint: Option<NonNull<Endpoint>>,
        asked: impl Fn(&T) -> bool,
    ) -> bool {
        let of = |queue: &&Queue<T>| endpoint.is_none_or(|endpoint| queue.endpoint == endpoint);
        let first = |queue: &Queue<T>| queue.waiting.front().is_some_and(&asked);
        self.any() && self.lock().iter().filter(of).any(first)
    }

    /// The place of an endpoint's queue, which is made if there is none.
    fn place(&self, queues: &mut Vec<Queue<T>>, endpoint: NonNull<Endpoint>) -> usize {
        find(queues, endpoint).unwrap_or_else(|| {
            queues.push(Queue::new(endpoint));
            self.note_count(queues);
            queues.len() - 1
        })
    }

    /// Adds a descriptor behind all that wait for the endpoint. Returns false, having done nothing, if the endpoint is being
    /// released.
    pub(crate) fn push(&self, endpoint: NonNull<Endpoint>, waiting: T) -> bool {
        let mut queues = self.lock();
        let at = self.place(&mut queues, endpoint);
        let open = queues[at].releases == 0;
        if open {
            queues[at].waiting.push_back(waiting);
        }
        open
    }

    /// Posts the waiting entries: of each endpoint in their order, until it has no room. Calls `done` for each
    /// descriptor that is complete. Returns their number.
    ///
    /// Neither function runs under the lock: a failed post runs callbacks, in which Open MPI may send.
    pub(crate) fn resume(
        &self,
        post: impl Fn(NonNull<Endpoint>, T) -> Status,
        done: impl Fn(NonNull<Endpoint>, T, Status),
    ) -> usize {
        let mut n = 0;
        let mut at = 0;
        loop {
            let (endpoint, first) = {
                let mut queues = self.lock();
                let Some(queue) = queues.get_mut(at) else {
                    return n;
                };
                match queue.waiting.front() {
                    Some(&first) if !queue.posting => {
                        queue.posting = true;
                        (queue.endpoint, first)
                    }
                    _ => {
                        at += 1;
                        continue;
                    }
                }
            };
            let status = post(endpoint, first);
            if let Some(next) = self.posted(endpoint, status) {
                at = next;
            }
            if !status.is_again() {
                n += 1;
                done(endpoint, first, status);
            }
        }
    }

    /// Ends a post of `resume`: removes the descriptor, or keeps it if there was no room. Returns the queue that is next.
    fn posted(&self, endpoint: NonNull<Endpoint>, status: Status) -> Option<usize> {
        let mut queues = self.lock();
        // Other queues may have come and gone during the post; `close` has left this one here.
        let at = find(&queues, endpoint)?;
        let queue = &mut queues[at];
        queue.posting = false;
        if status.is_again() {
            return Some(at + 1);
        }
        queue.waiting.pop_front();
        if queue.waiting.is_empty() {
            queues.remove(at);
        }
        self.note_count(&queues);
        Some(at)
    }

    /// Removes the entries that wait for an endpoint that is to be released. Nothing is added until
    /// [`open`](Self::open), so no thread posts to it any more. Waits for a thread that is posting, so a callback
    /// must not call it.
    pub(crate) fn close(&self, endpoint: NonNull<Endpoint>) -> VecDeque<T> {
        loop {
            let mut queues = self.lock();
            let at = self.place(&mut queues, endpoint);
            let queue = &mut queues[at];
            if !queue.posting {
                queue.releases += 1;
                return std::mem::take(&mut queue.waiting);
            }
            drop(queues);
            thread::yield_now();
        }
    }

    /// Ends a [`close`](Self::close): the endpoint was released, and another endpoint may get its address.
    pub(crate) fn open(&self, endpoint: NonNull<Endpoint>) {
        let mut queues = self.lock();
        if let Some(at) = find(&queues, endpoint) {
            queues[at].releases = queues[at].releases.saturating_sub(1);
            if queues[at].releases == 0 && queues[at].waiting.is_empty() {
                queues.remove(at);
                self.note_count(&queues);
            }
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) -> Vec<T> {
        let mut queues = self.lock();
        let all = queues.drain(..).flat_map(|queue| queue.waiting).collect();
        self.note_count(&queues);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ptr;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use super::*;

    /// An endpoint that is compared only.
    fn endpoint(number: usize) -> NonNull<Endpoint> {
        NonNull::new(ptr::without_provenance_mut(number)).expect("not 0")
    }

    /// Resumes with room at all endpoints but `full`. Returns the tags that were sent.
    fn resume(queues: &Queues<u8>, full: &[NonNull<Endpoint>]) -> Vec<u8> {
        let sent = RefCell::new(Vec::new());
        let post = |to, _| match full.contains(&to) {
            true => Status::TEMP_OUT_OF_RESOURCE,
            false => Status::SUCCESS,
        };
        let n = queues.resume(post, |_, waiting, _| sent.borrow_mut().push(waiting));
        let sent = sent.into_inner();
        assert_eq!(n, sent.len());
        sent
    }

    #[test]
    fn an_endpoint_without_room_delays_no_other() {
        let queues = Queues::default();
        let [a, b, c] = [1, 2, 3].map(endpoint);
        for (to, tag) in [(b, 1), (a, 2), (b, 3), (c, 4), (a, 5)] {
            assert!(queues.push(to, tag));
        }
        assert!(queues.any_for(a) && queues.any_for(b) && queues.any_for(c));
        assert_eq!(resume(&queues, &[b]), [2, 5, 4], "a and c have room");
        assert!(!queues.any_for(a), "nothing waits for it any more");
        assert!(queues.any_for(b), "its messages have to wait behind");
        assert!(queues.push(b, 6));
        assert_eq!(resume(&queues, &[]), [1, 3, 6], "in the order of the sends");
        assert!(!queues.any());
    }

    #[test]
    fn the_first_of_a_queue_is_found() {
        let queues = Queues::default();
        let [a, b] = [1, 2].map(endpoint);
        assert!(!queues.has_first(None, |_| true));
        for (to, tag) in [(a, 4), (a, 1), (b, 5)] {
            assert!(queues.push(to, tag));
        }
        assert!(queues.has_first(Some(a), |tag| *tag == 4));
        assert!(!queues.has_first(Some(b), |tag| *tag < 5));
        assert!(queues.has_first(None, |tag| *tag == 5));
        assert!(!queues.has_first(None, |tag| *tag == 1), "behind another");
    }

    #[test]
    fn a_released_endpoint_takes_its_own_descriptors_along() {
        let queues = Queues::default();
        let [a, b] = [1, 2].map(endpoint);
        for (to, tag) in [(a, 1), (b, 2), (a, 3)] {
            assert!(queues.push(to, tag));
        }
        let unsent: Vec<u8> = queues.close(a).iter().copied().collect();
        assert_eq!(unsent, [1, 3]);
        assert_eq!(resume(&queues, &[]), [2]);
        queues.open(a);
        assert!(!queues.any());
    }

    #[test]
    fn nothing_waits_for_an_endpoint_that_is_being_released() {
        let queues = Queues::default();
        let a = endpoint(1);
        // Two releases, because the process was added again meanwhile.
        assert!(queues.close(a).is_empty() && queues.close(a).is_empty());
        assert!(!queues.push(a, 1), "it would be sent after the release");
        assert!(!queues.any_for(a), "what finds room goes at once");
        queues.open(a);
        assert!(!queues.push(a, 2), "one release is left");
        assert!(resume(&queues, &[]).is_empty());
        queues.open(a);
        assert!(!queues.any());
        assert!(queues.push(a, 3), "another endpoint at its address");
        assert_eq!(resume(&queues, &[]), [3]);
    }

    #[test]
    fn callbacks_of_a_post_may_send_and_make_progress() {
        let queues = Queues::default();
        let [a, b] = [1, 2].map(endpoint);
        assert!(queues.push(a, 1) && queues.push(b, 2));
        let nested = RefCell::new(Vec::new());
        let full = |to, waiting: u8| {
            if waiting == 1 {
                assert!(queues.queues.try_lock().is_ok(), "posted under the lock");
                assert!(queues.any_for(a), "later messages wait behind this one");
                assert!(queues.push(a, 3));
                nested.borrow_mut().extend(resume(&queues, &[]));
            }
            assert_eq!(to, a, "the nested call has sent the other");
            Status::TEMP_OUT_OF_RESOURCE
        };
        assert_eq!(queues.resume(full, |_, _, _| ()), 0);
        assert_eq!(nested.into_inner(), [2], "nobody overtakes the first one");
        assert_eq!(resume(&queues, &[]), [1, 3], "and it stays the first");
        assert!(!queues.any());
    }

    #[test]
    fn an_endpoint_is_released_after_a_post_to_it() {
        let queues = Queues::default();
        assert!(queues.push(endpoint(1), 1));
        let over = AtomicBool::new(false);
        let (begin, begun) = mpsc::channel();
        thread::scope(|scope| {
            let post = |_, _| {
                scope.spawn({
                    let (queues, over, begin) = (&queues, &over, begin.clone());
                    move || {
                        begin.send(()).expect("the post waits");
                        let unsent = queues.close(endpoint(1));
                        assert!(over.load(Ordering::Relaxed), "released during a post");
                        assert_eq!(unsent.len(), 0, "it was sent");
                    }
                });
                begun.recv().expect("the thread runs");
                for _ in 0..1000 {
                    thread::yield_now();
                }
                over.store(true, Ordering::Relaxed);
                Status::SUCCESS
            };
            assert_eq!(queues.resume(post, |_, _, _| ()), 1);
        });
    }
}
