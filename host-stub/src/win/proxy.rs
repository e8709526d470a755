//! The host's side of a device's ring ([`Ring`]): executes the commands of devices on the windows that it
//! was given, as a part of the job's progress.
//!
//! Each command becomes a request, so no command except a flush waits for another. Compare-and-swap has no
//! request form, so the proxy waits for it.

mod command;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::command::UnderWay;
use super::{WinError, WinResult, Window, is_kept};
use crate::base::{Turn, Turns};
use crate::crt::{Source, Until, watched};
use crate::device::{Command, Completion, Level, Next, Ring};
use crate::job::Job;

/// A window that stays as long as the proxy may use it.
type Held = dyn Deref<Target = Window> + Send + Sync;

/// The number of failed commands of a ring that are logged; a device may send any number.
const LOGGED: u64 = 3;

/// Serves one ring until the proxy is dropped. Every progress call of the job serves the ring, including those
/// of waiting calls and of the progress thread. The drop closes the ring; commands without an answer then
/// never get one.
///
/// Code that progress calls must not drop the proxy, for example the end of a detached request.
pub struct Proxy {
    served: Arc<Served>,
    source: Arc<dyn Source>,
}

/// The maximum number of commands begun at one visit, so that a device that never stops asking leaves time
/// for the rest of the job.
const BATCH: u32 = 64;

/// A ring and its proxy's data.
struct Served {
    job: Arc<Job>,
    ring: Arc<Ring>,
    level: Level,
    /// Whether this object counts itself among the engine's busy sources.
    open: AtomicBool,
    /// A [`Turns`] instead of a mutex, because a command may wait while its thread holds the state.
    state: Turns<State>,
}

#[derive(Default)]
struct State {
    /// The ticket of the next command.
    next: u64,
    /// Unanswered commands, in the order of their tickets. Declared before the windows, which the commands' requests
    /// borrow.
    under_way: Vec<UnderWay>,
    /// Failures of untracked commands that no flush has reported: window, rank, status. The list keeps the first
    /// failure of each target.
    lost: Vec<(u32, u32, i32)>,
    /// Windows are only added.
    windows: Vec<Arc<Held>>,
}

impl Proxy {
    /// Serves a ring, with at most `level` of device support. [`WinError::BadArgument`]: the level is below 3,
    /// so devices cannot start operations.
    pub fn new(job: &Arc<Job>, ring: &Arc<Ring>, level: Level) -> WinResult<Proxy> {
        let level = level.min(job.device_support().level);
        if level < Level::DeviceOnDevice {
            return Err(Box::new(WinError::BadArgument {
                call: "proxy",
                reason: format!("devices start operations from level 3 on; this is level {level}"),
            }));
        }
        let served = Arc::new(Served {
            job: Arc::clone(job),
            ring: Arc::clone(ring),
            level,
            open: AtomicBool::new(true),
            state: Turns::default(),
        });
        let source: Arc<dyn Source> = served.clone();
        let engine = job.runtime().engine();
        engine.add_source(Arc::clone(&source));
        engine.busy().set(true);
        engine.awaited();
        Ok(Proxy { served, source })
    }

    /// Lets commands use a window. The window's lock or lock_all epoch must be open when the commands come.
    /// Returns the number by which commands name the window.
    pub fn add_window(
        &self,
        window: impl Deref<Target = Window> + Send + Sync + 'static,
    ) -> WinResult<u32> {
        let mut state = self.served.take();
        let number = u32::try_from(state.windows.len()).map_err(|_| {
            Box::new(WinError::BadArgument {
                call: "proxy",
                reason: String::from("a ring has no room for another window"),
            })
        })?;
        state.windows.push(Arc::new(window));
        Ok(number)
    }

    /// Closes the proxy: waits for the outstanding operations, answers them, and closes the ring. The
    /// ring itself answers later operations.
    pub fn close(&self) {
        let engine = self.served.job.runtime().engine();
        engine.remove_source(&self.source);
        let mut state = self.served.take();
        watched(|| state.finish(&self.served.ring));
        self.served.close();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (succeeded, failed) = self.served.ring.counts();
        write!(f, "Proxy({succeeded} commands succeeded, {failed} failed)")
    }
}

impl Served {
    fn take(&self) -> Turn<'_, State> {
        loop {
            if let Some(state) = self.state.try_take() {
                return state;
            }
            // A failed transport makes no progress, but another thread that holds the state releases it.
            let free = Until(|| self.state.is_free());
            if self.job.runtime().engine().wait(&free).is_err() {
                std::thread::yield_now();
            }
        }
    }

    fn close(&self) {
        self.ring.close();
        if self.open.swap(false, Ordering::Relaxed) {
            self.job.runtime().engine().busy().set(false);
        }
    }
}

impl Source for Served {
    fn progress(&self) -> bool {
        let Some(mut state) = self.state.try_take() else {
            // Another thread holds the state, or this thread runs inside a command that waits.
            return false;
        };
        // The thread may hold the progress token, and must not wait for other threads.
        watched(|| {
            let ended = state.end_complete(&self.ring);
            if is_kept() {
                return ended;
            }
            state.begin_next(self) | ended
        })
    }
}

impl State {
    /// Begins published commands.
    fn begin_next(&mut self, served: &Served) -> bool {
        if !served.open.load(Ordering::Relaxed) {
            return false;
        }
        let first = self.next;
        for _ in 0..BATCH {
            let command = match served.ring.next(self.next) {
                Next::Nothing => break,
                Next::Command(command) => command,
                Next::Garbage(found) => {
                    tracing::error!(
                        "a device wrote {found:#x} where its command {} should be; its ring is closed",
                        self.next
                    );
                    self.finish(&served.ring);
                    served.close();
                    break;
                }
            };
            let ticket = self.next;
            self.next += 1;
            match self.begin(served, &command, ticket) {
                Ok(Some(under_way)) => self.under_way.push(under_way),
                Ok(None) => {}
                Err(error) => self.fail(&served.ring, &command, ticket, &error),
            }
        }
        // Commands on directly accessible memory are complete already.
        let moved = self.next != first;
        if moved {
            self.end_complete(&served.ring);
        }
        moved
    }

    /// Answers complete commands.
    fn end_complete(&mut self, ring: &Ring) -> bool {
        let mut moved = false;
        let mut waited = Vec::new();
        for mut under_way in std::mem::take(&mut self.under_way) {
            let target = under_way.target();
            if !under_way.is_over(&waited) {
                waited.push(target);
                self.under_way.push(under_way);
                continue;
            }
            moved = true;
            let completion = under_way.end(|| self.take_lost(target));
            self.answer(ring, &under_way, completion);
        }
        moved
    }

    /// Waits for all outstanding commands, and answers them.
    fn finish(&mut self, ring: &Ring) {
        for mut under_way in std::mem::take(&mut self.under_way) {
            let target = under_way.target();
            let completion = under_way.finish(|| self.take_lost(target));
            self.answer(ring, &under_way, completion);
        }
    }

    fn answer(&mut self, ring: &Ring, under_way: &UnderWay, completion: Completion) {
        if under_way.untracked && completion.status < 0 {
            self.lose(under_way.target(), completion.status);
        }
        ring.answer(under_way.ticket, completion, under_way.untracked);
    }

    /// Answers a command that could not begin.
    fn fail(&mut self, ring: &Ring, command: &Command, ticket: u64, error: &WinError) {
        let (_, failed) = ring.counts();
        if failed < LOGGED {
            tracing::warn!("command {ticket} of a device failed: {error}");
        }
        let status = command::errno(error);
        if command.untracked {
            self.lose((command.window, command.target), status);
        }
        let completion = Completion { status, result: 0 };
        ring.answer(ticket, completion, command.untracked);
    }

    /// Keeps the failure of an untracked command for the next flush of its target, if the target is
    /// valid.
    fn lose(&mut self, (window, rank): (u32, u32), status: i32) {
        let known = self.windows.get(window as usize);
        let is_target = known.is_some_and(|window| (rank as usize) < window.size());
        let told = |lost: &(u32, u32, i32)| (lost.0, lost.1) == (window, rank);
        if is_target && !self.lost.iter().any(told) {
            self.lost.push((window, rank, status));
        }
    }

    fn take_lost(&mut self, target: (u32, u32)) -> i32 {
        let found = self.lost.iter().position(|lost| (lost.0, lost.1) == target);
        found.map_or(0, |index| self.lost.swap_remove(index).2)
    }
}
