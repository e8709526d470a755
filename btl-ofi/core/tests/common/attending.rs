//! Transports that make progress in their own thread while the test does other work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use btl_ofi::Transport;

use super::numbers::Numbers;

/// Runs `run` while another thread makes progress of `t`.
pub(crate) fn attended<T>(t: &Transport, run: impl FnOnce() -> T) -> T {
    beside(thread::yield_now, t, run)
}

/// Runs `run` while another thread makes progress of `t` at random intervals, which may exceed the time
/// for which others wait.
pub(crate) fn attended_at_times<T>(t: &Transport, run: impl FnOnce() -> T) -> T {
    let mut numbers = Numbers(1);
    let pause = move || {
        if numbers.below(64) == 0 {
            thread::sleep(Duration::from_micros(numbers.below(200) as u64));
            return;
        }
        let until = Instant::now() + Duration::from_nanos(numbers.below(6000) as u64);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    };
    beside(pause, t, run)
}

fn beside<T>(mut between: impl FnMut() + Send, t: &Transport, run: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                t.progress();
                between();
            }
        });
        // The flag is set even if the test fails, because the scope would otherwise wait forever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|e| std::panic::resume_unwind(e))
    })
}
