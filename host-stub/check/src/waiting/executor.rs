//! As little of an executor as futures need: one thread, a queue of those that were woken.

use super::*;

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// Which futures were woken.
#[derive(Default)]
struct Woken {
    queue: Mutex<VecDeque<usize>>,
    some: Condvar,
}

/// Puts a future's number into the queue.
struct Number {
    woken: Arc<Woken>,
    number: usize,
}

impl Wake for Number {
    fn wake(self: Arc<Self>) {
        let mut queue = self
            .woken
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !queue.contains(&self.number) {
            queue.push_back(self.number);
        }
        drop(queue);
        self.woken.some.notify_one();
    }
}

/// A future of a test.
pub(super) type Task<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// Runs futures to their ends, all on this thread. The first error is given after that.
pub(super) fn run_all<'a>(tasks: impl IntoIterator<Item = Task<'a>>) -> Outcome {
    let woken = Arc::new(Woken::default());
    let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
    let wakers: Vec<Waker> = (0..tasks.len())
        .map(|number| {
            Waker::from(Arc::new(Number {
                woken: Arc::clone(&woken),
                number,
            }))
        })
        .collect();
    wakers.iter().for_each(Waker::wake_by_ref);
    let (mut open, mut outcome) = (tasks.len(), Ok(()));
    while open > 0 {
        let mut queue = woken.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let number = loop {
            match queue.pop_front() {
                Some(number) => break number,
                None => {
                    queue = woken
                        .some
                        .wait(queue)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(queue);
        let (Some(place), Some(waker)) = (tasks.get_mut(number), wakers.get(number)) else {
            continue;
        };
        let polled = place
            .as_mut()
            .map(|task| task.as_mut().poll(&mut TaskContext::from_waker(waker)));
        if let Some(Poll::Ready(ended)) = polled {
            *place = None;
            open -= 1;
            outcome = outcome.and(ended);
        }
    }
    outcome
}

/// Runs one future to its end.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    struct Flag(AtomicU32, std::thread::Thread);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(1, Ordering::Release);
            self.1.unpark();
        }
    }
    let flag = Arc::new(Flag(AtomicU32::new(0), std::thread::current()));
    let waker = Waker::from(Arc::clone(&flag));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            return output;
        }
        while flag.0.swap(0, Ordering::Acquire) == 0 {
            std::thread::park();
        }
    }
}
