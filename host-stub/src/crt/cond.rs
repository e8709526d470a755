//! Conditions: a thread or a task sleeps on a condition until a completion signals it.
//!
//! Wait and signal alternate, starting with wait. The condition is *on* at first; a wait turns it off and blocks
//! until a signal turns it on. A signal may come before its waiter sleeps, even before the call of wait. One such
//! signal is kept (the queue has length one), and the wait returns at once. The whole state is one word, so the
//! instruction that would otherwise succeed also detects misuse, and leaves the word unchanged:
//!
//! | bits | |
//! | --- | --- |
//! | 0 to 2 | the state |
//! | 3 to 14 | requests that the condition is attached to |
//! | 15 | whether the waiter was nudged: woken to look around, without a signal |
//! | 16 to 31 | signals so far, so that a waiter knows its own signal from a later one |

use std::ffi::c_void;
use std::time::Duration;

use super::level::LevelError;
use super::sync::{AtomicPtr, AtomicU32, Ordering, futex_wait, futex_wake, yield_now};

/// No thread or task waits.
const IDLE: u32 = 0;
/// A signal came before the wait.
const SIGNALLED: u32 = 1;
/// A thread waits.
const THREAD: u32 = 2;
/// A task is about to wait, and its name is being written.
const NAMING: u32 = 3;
/// A task waits, and its name is readable.
const TASK: u32 = 4;
/// [`Cond::destroy`] ended the condition.
const DEAD: u32 = 5;
/// The signal came, and the signalling thread is inside the runtime's `resume` with the task. The waiter does not
/// leave before `resume` returns. `RESUMING` plus [`SIGNALLED`]: the next signal came during `resume`.
const RESUMING: u32 = 6;

const RESUMED_AGAIN: u32 = RESUMING + SIGNALLED;

const STATE: u32 = 7;
const ATTACHED: u32 = 1 << 3;
const ATTACHED_MASK: u32 = 0x7ff8;
const NUDGED: u32 = 1 << 15;
const SIGNAL: u32 = 1 << 16;

/// The reason why a condition refuses a call. The refused call leaves the condition unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// Two waits without a signal between them.
    #[error(
        "crt_wait on a condition that is waited on already: a condition belongs to one thread or task"
    )]
    TwoWaits,
    /// Two signals without a wait between them.
    #[error("crt_signal on a condition that was signalled already: signals and waits alternate")]
    TwoSignals,
    /// The condition cannot be destroyed, because it is in use.
    #[error(
        "the condition is waited on, or attached to a request that is not complete; it lives on"
    )]
    InUse,
    /// The condition was destroyed.
    #[error("the condition was destroyed")]
    Destroyed,
    /// The condition is attached to the maximum number of requests.
    #[error("the condition is attached to 4095 requests, and cannot be to one more")]
    TooMany,
    /// The thread level does not allow this thread to wait. Only the checking mode detects this,
    /// and only when the wait would block.
    #[error(transparent)]
    Level(#[from] LevelError),
}

/// The result of beginning a wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The signal came before the wait.
    Over,
    /// The wait has begun; the value names the signal to wait for.
    Waiting(Signal),
}

/// The signal that ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(u32);

/// A condition in C's layout: `crt_cond_t`. A condition whose bytes are all zero is new. A
/// condition belongs to one thread or task, which waits; any thread may signal. A condition does
/// not move while a thread or task waits on it, or while it is attached.
#[repr(C)]
pub struct Cond {
    word: AtomicU32,
    reserved: u32,
    /// The waiting task, valid in state [`TASK`].
    task: AtomicPtr<c_void>,
}

impl Default for Cond {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Cond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("Cond")
            .field("on", &self.is_on())
            .field("attached", &((word & ATTACHED_MASK) / ATTACHED))
            .finish_non_exhaustive()
    }
}

impl Cond {
    /// A condition that is on and has no signal.
    pub fn new() -> Cond {
        Cond {
            word: AtomicU32::new(IDLE),
            reserved: 0,
            task: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Whether no thread or task waits.
    pub fn is_on(&self) -> bool {
        matches!(self.word.load(Ordering::Acquire) & STATE, IDLE | SIGNALLED)
    }

    /// Replaces the word by the result of `next`; returns the word before. The exchange is both
    /// Acquire and Release, so the waiter sees the signaller's earlier writes.
    fn change(&self, mut next: impl FnMut(u32) -> Result<u32, Misuse>) -> Result<u32, Misuse> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let changed = match next(word) {
                Ok(after) => self.word.compare_exchange_weak(
                    word,
                    after,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ),
                // Only the newest word can justify a refusal, because a plain load may return an old
                // word. The exchange also makes the signaller's writes visible to the thread that takes
                // the pending signal.
                Err(misuse) => match self.word.fetch_or(0, Ordering::AcqRel) {
                    newest if newest == word => return Err(misuse),
                    newest => Err(newest),
                },
            };
            match changed {
                Ok(before) => return Ok(before),
                Err(found) => word = found,
            }
        }
    }

    /// The first half of a wait: takes a signal that has come, or turns the condition off. With
    /// `as_task`, the caller calls [`name_task`](Self::name_task) next.
    #[inline]
    pub(crate) fn begin(&self, as_task: bool) -> Result<Begun, Misuse> {
        let before = self.change(|word| match word & STATE {
            IDLE => Ok(word + if as_task { NAMING } else { THREAD }),
            SIGNALLED => Ok(word - SIGNALLED),
            DEAD => Err(Misuse::Destroyed),
            _ => Err(Misuse::TwoWaits),
        })?;
        Ok(match before & STATE {
            SIGNALLED => Begun::Over,
            _ => Begun::Waiting(Signal(before & !(SIGNAL - 1))),
        })
    }

    /// Performs a whole wait if a signal has come; false if no signal has come.
    #[inline]
    pub(crate) fn take_signal(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        // If another bit changed, the exchange fails and `begin` takes the signal.
        word & STATE == SIGNALLED
            && self
                .word
                .compare_exchange(word, word - SIGNALLED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Stores the name of the waiting task. False if the signal came meanwhile: the wait is over.
    pub(crate) fn name_task(&self, signal: Signal, task: *mut c_void) -> bool {
        self.task.store(task, Ordering::Relaxed);
        // Release publishes the name to the signaller's Acquire.
        self.change(|word| {
            if word & STATE == NAMING && word & !(SIGNAL - 1) == signal.0 {
                Ok(word - NAMING + TASK)
            } else {
                Err(Misuse::TwoSignals)
            }
        })
        .is_ok()
    }

    /// Whether the signal of a wait has come. The wait is over once the signal has come.
    #[inline]
    pub(crate) fn has_come(&self, signal: Signal) -> bool {
        self.word.load(Ordering::Acquire) & !(SIGNAL - 1) != signal.0
    }

    /// Sleeps as a thread until a signal or a nudge comes, at most for `limit`. True if the signal
    /// has come; otherwise the wait continues.
    pub(crate) fn sleep(&self, signal: Signal, limit: Option<Duration>) -> bool {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word & !(SIGNAL - 1) != signal.0 {
                return true;
            }
            if word & NUDGED != 0 {
                return self.take_nudge(signal);
            }
            futex_wait(&self.word, word, limit);
            if limit.is_some() {
                return self.take_nudge(signal);
            }
        }
    }

    /// Clears a nudge. True if the signal of the wait has come.
    pub(crate) fn take_nudge(&self, signal: Signal) -> bool {
        let word = self.word.fetch_and(!NUDGED, Ordering::AcqRel);
        word & !(SIGNAL - 1) != signal.0
    }

    /// Wakes the waiter without a signal, or prevents the waiter's next sleep. The caller keeps the waiter
    /// from leaving during the call.
    pub(crate) fn nudge(&self) {
        let before = self.change(|word| Ok(word | NUDGED));
        match before.unwrap_or(IDLE) & STATE {
            THREAD => futex_wake(std::ptr::from_ref(&self.word).cast()),
            TASK => super::resume(self.named()),
            _ => {}
        }
    }

    /// The waiting task. The caller has found the state [`TASK`] in a change of the word, whose Acquire
    /// precedes this load; the waiter writes no other name before the caller is done.
    fn named(&self) -> *mut c_void {
        self.task.load(Ordering::Relaxed)
    }

    /// Turns the condition on, and wakes the waiting thread or task. The condition may no longer exist
    /// when this returns.
    #[inline]
    fn turn_on(&self, detach: u32) -> Result<(), Misuse> {
        let address = std::ptr::from_ref(&self.word).cast::<u32>();
        let before = self.change(|word| {
            let after = word.wrapping_add(SIGNAL) - detach;
            match word & STATE {
                IDLE | RESUMING => Ok(word - detach + SIGNALLED),
                SIGNALLED | RESUMED_AGAIN if detach == 0 => Err(Misuse::TwoSignals),
                SIGNALLED | RESUMED_AGAIN => Ok(word - detach),
                DEAD => Err(Misuse::Destroyed),
                TASK => Ok((after & !STATE) + RESUMING),
                _ => Ok((after & !STATE) + IDLE),
            }
        })?;
        match before & STATE {
            THREAD => futex_wake(address),
            TASK => {
                super::resume(self.named());
                // This is the last use of the condition. Release pairs with the Acquire in
                // `settle`.
                self.word.fetch_sub(RESUMING, Ordering::Release);
            }
            SIGNALLED | RESUMED_AGAIN => return Err(Misuse::TwoSignals),
            _ => {}
        }
        Ok(())
    }

    /// Waits until no thread is about to resume the task; the task's wait is already over. Afterwards the
    /// task may end, and its runtime may free the object behind the task's name.
    pub(crate) fn settle(&self) {
        // Acquire pairs with the Release at the end of `turn_on`.
        while matches!(
            self.word.load(Ordering::Acquire) & STATE,
            RESUMING | RESUMED_AGAIN
        ) {
            yield_now();
        }
    }

    /// Signals the condition.
    #[inline]
    pub(crate) fn raise(&self) -> Result<(), Misuse> {
        self.turn_on(0)
    }

    /// Signals the condition for a request that it is attached to, and detaches the request.
    #[inline]
    pub(crate) fn raise_attached(&self) -> Result<(), Misuse> {
        self.turn_on(ATTACHED)
    }

    /// Counts a request that will signal the condition.
    pub(crate) fn attach(&self) -> Result<(), Misuse> {
        self.change(|word| match word & STATE {
            DEAD => Err(Misuse::Destroyed),
            _ if word & ATTACHED_MASK == ATTACHED_MASK => Err(Misuse::TooMany),
            _ => Ok(word + ATTACHED),
        })
        .map(drop)
    }

    /// Whether a request has yet to signal the condition.
    #[inline]
    pub(crate) fn is_attached(&self) -> bool {
        // Acquire pairs with the signal, which ends the attachment in the same instruction.
        self.word.load(Ordering::Acquire) & ATTACHED_MASK != 0
    }

    /// Removes a request that will not signal from the count.
    pub(crate) fn detach(&self) {
        // The change cannot fail, because the caller's request was counted.
        let _ = self.change(|word| match word & ATTACHED_MASK {
            0 => Err(Misuse::Destroyed),
            _ => Ok(word - ATTACHED),
        });
    }

    /// Destroys the condition. [`Misuse::InUse`]: a thread or task waits, or a request is attached;
    /// the condition stays.
    pub fn destroy(&self) -> Result<(), Misuse> {
        self.change(|word| match (word & STATE, word & ATTACHED_MASK) {
            (DEAD, _) => Err(Misuse::Destroyed),
            (IDLE | SIGNALLED, 0) => Ok(word & !STATE | DEAD),
            _ => Err(Misuse::InUse),
        })
        .map(drop)
    }

    /// Makes a destroyed condition new.
    pub fn renew(&self) -> Result<(), Misuse> {
        self.change(|word| match word & STATE {
            DEAD => Ok(word & !STATE),
            _ => Err(Misuse::InUse),
        })
        .map(drop)
    }
}
