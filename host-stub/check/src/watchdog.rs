//! Gives up on a run in which a test does not end, so that a check never hangs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::CHECKS_FAILED;
use super::report::Tally;
use host_stub::job::Job;

/// A thread that ends the job if a test takes too long.
pub(super) struct Watchdog {
    tests: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the watch with `seconds` for every test. If a test is given up, the outcome so far is
    /// printed.
    pub(super) fn start(job: &Arc<Job>, seconds: u64, tally: Arc<Mutex<Tally>>) -> Watchdog {
        let (sender, receiver) = channel::<String>();
        let limit = Duration::from_secs(seconds.max(1));
        let job = Arc::clone(job);
        let thread = std::thread::spawn(move || {
            let mut current: Option<(String, Instant)> = None;
            loop {
                let left = current.as_ref().map_or(limit, |(_, started)| {
                    limit.saturating_sub(started.elapsed())
                });
                match receiver.recv_timeout(left) {
                    Ok(name) => current = Some((name, Instant::now())),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        if let Some((name, started)) = current.take() {
                            give_up(&job, &tally, &name, started.elapsed());
                        }
                    }
                }
            }
        });
        Watchdog {
            tests: Some(sender),
            thread: Some(thread),
        }
    }

    /// Starts the time of a test.
    pub(super) fn watch(&self, name: &str) {
        if let Some(tests) = &self.tests {
            // The thread ends only after the sender is dropped.
            let _ = tests.send(name.to_owned());
        }
    }

    /// Ends the watch after the last test.
    pub(super) fn stop(self) {}
}

impl Drop for Watchdog {
    /// Runs also if the check ends by an error. Otherwise the thread would drop the job at the process's end,
    /// and close its transport after libfabric has unloaded the provider.
    fn drop(&mut self) {
        self.tests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Ends the job and prints the outcome so far. This rank's other thread is stuck, so the process
/// ends, too.
fn give_up(job: &Job, tally: &Mutex<Tally>, name: &str, took: Duration) {
    let reason = format!(
        "rank {}: {name} did not end within {} s",
        job.rank(),
        took.as_secs()
    );
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    let printed = tally
        .add(name, took, vec![reason.clone()])
        .and_then(|()| tally.print_end());
    if let Err(error) = printed {
        tracing::warn!("the outcome could not be printed: {error}");
    }
    job.abort(CHECKS_FAILED, &reason);
    // SAFETY: the call takes no pointers. `exit` would run handlers that close libraries while the
    // stuck thread uses them. Printed lines are flushed already.
    unsafe { libc::_exit(CHECKS_FAILED.into()) };
}
