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

/// Nobody waits.
const IDLE: u32 = 0;
/// A signal waits for its waiter.
const SIGNALLED: u32 = 1;
/// A thread waits.
const THREAD: u32 = 2;
/// A task is about to wait; its name is being written.
const NAMING: u32 = 3;
/// A task waits, and its name can be read.
const TASK: u32 = 4;
/// Ended by [`Cond::destroy`].
const DEAD: u32 = 5;
/// The signal came, and the thread that signalled is in the runtime's `resume`, with the task in hand: the waiter
/// does not leave before the end of that. Plus [`SIGNALLED`]: the next signal came meanwhile.
const RESUMING: u32 = 6;

const RESUMED_AGAIN: u32 = RESUMING + SIGNALLED;

const STATE: u32 = 7;
const ATTACHED: u32 = 1 << 3;
const ATTACHED_MASK: u32 = 0x7ff8;
const NUDGED: u32 = 1 << 15;
const SIGNAL: u32 = 1 << 16;

/// Why a condition refuses. It is left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// Two waits in a row.
    #[error(
        "crt_wait on a condition that is waited on already: a condition belongs to one thread or task"
    )]
    TwoWaits,
    /// Two signals in a row.
    #[error("crt_signal on a condition that was signalled already: signals and waits alternate")]
    TwoSignals,
    /// The end of a condition that is still needed.
    #[error(
        "the condition is waited on, or attached to a request that is not complete; it lives on"
    )]
    InUse,
    /// The condition was ended.
    #[error("the condition was destroyed")]
    Destroyed,
    /// Attached to as many requests as can be counted.
    #[error("the condition is attached to 4095 requests, and cannot be to one more")]
    TooMany,
    /// A wait by a thread that may not call; found in the checking mode, where it would block.
    #[error(transparent)]
    Level(#[from] LevelError),
}

/// How the wait of a condition began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The signal had come already.
    Over,
    /// To be waited for; the value names the signal.
    Waiting(Signal),
}

/// The signal that a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(u32);

/// A condition, as C sees it: `crt_cond_t`. All bytes zero is a new one. Belongs to one thread or
/// task, which waits; anyone signals. It stays where it is while it is waited on or attached.
#[repr(C)]
pub struct Cond {
    word: AtomicU32,
    reserved: u32,
    /// The task that waits, in state [`TASK`].
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
    /// A condition that is on, and not signalled.
    pub fn new() -> Cond {
        Cond {
            word: AtomicU32::new(IDLE),
            reserved: 0,
            task: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Whether nobody waits.
    pub fn is_on(&self) -> bool {
        matches!(self.word.load(Ordering::Acquire) & STATE, IDLE | SIGNALLED)
    }

    /// Changes the word as `next` says; gives the word before. Acquire and Release in one, so that
    /// what the signaller did before is seen by the waiter after.
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
                // A refusal counts only of the newest word, and the thread that takes the pending signal
                // here sees what the refused one did before: a load alone could be of long ago.
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

    /// The first half of a wait: takes a signal that has come, or turns the condition off.
    /// `as_task`: [`name_task`](Self::name_task) comes next.
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

    /// Takes a signal that has come, as a whole wait; false when none has.
    #[inline]
    pub(crate) fn take_signal(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        // A failure, because of another bit, leaves it to `begin`.
        word & STATE == SIGNALLED
            && self
                .word
                .compare_exchange(word, word - SIGNALLED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Says which task waits. False when the signal came meanwhile: the wait is over.
    pub(crate) fn name_task(&self, signal: Signal, task: *mut c_void) -> bool {
        self.task.store(task, Ordering::Relaxed);
        // Release with the name, for the signaller's Acquire.
        self.change(|word| {
            if word & STATE == NAMING && word & !(SIGNAL - 1) == signal.0 {
                Ok(word - NAMING + TASK)
            } else {
                Err(Misuse::TwoSignals)
            }
        })
        .is_ok()
    }

    /// Whether the signal of a wait has come. Then the wait is over.
    #[inline]
    pub(crate) fn has_come(&self, signal: Signal) -> bool {
        self.word.load(Ordering::Acquire) & !(SIGNAL - 1) != signal.0
    }

    /// Sleeps as a thread until the signal comes, or a nudge, at most for `limit`. True when the
    /// signal has come; else the wait goes on.
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

    /// Forgets a nudge. True when the signal of a wait has come.
    pub(crate) fn take_nudge(&self, signal: Signal) -> bool {
        let word = self.word.fetch_and(!NUDGED, Ordering::AcqRel);
        word & !(SIGNAL - 1) != signal.0
    }

    /// Wakes the waiter without a signal, or keeps it from falling asleep once. The caller sees to it that
    /// the waiter does not leave meanwhile.
    pub(crate) fn nudge(&self) {
        let before = self.change(|word| Ok(word | NUDGED));
        match before.unwrap_or(IDLE) & STATE {
            THREAD => futex_wake(std::ptr::from_ref(&self.word).cast()),
            TASK => super::resume(self.named()),
            _ => {}
        }
    }

    /// The task that waits, for one that has found it in a change of the word, whose Acquire comes before
    /// this; a waiter that stays until then writes no other.
    fn named(&self) -> *mut c_void {
        self.task.load(Ordering::Relaxed)
    }

    /// Turns the condition on, and lets the thread or task go on that waited. The condition may be gone
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
                // The last use of the condition. Release: pairs with `settle`.
                self.word.fetch_sub(RESUMING, Ordering::Release);
            }
            SIGNALLED | RESUMED_AGAIN => return Err(Misuse::TwoSignals),
            _ => {}
        }
        Ok(())
    }

    /// For a task whose wait is over: waits until nobody is about to resume it. Afterwards it may end, and
    /// its runtime may take back what the name stands for.
    pub(crate) fn settle(&self) {
        // Acquire: pairs with the end of `turn_on`.
        while matches!(
            self.word.load(Ordering::Acquire) & STATE,
            RESUMING | RESUMED_AGAIN
        ) {
            yield_now();
        }
    }

    /// Signals.
    #[inline]
    pub(crate) fn raise(&self) -> Result<(), Misuse> {
        self.turn_on(0)
    }

    /// Signals for a request that the condition was attached to, and detaches it from that.
    #[inline]
    pub(crate) fn raise_attached(&self) -> Result<(), Misuse> {
        self.turn_on(ATTACHED)
    }

    /// Counts a request that will signal.
    pub(crate) fn attach(&self) -> Result<(), Misuse> {
        self.change(|word| match word & STATE {
            DEAD => Err(Misuse::Destroyed),
            _ if word & ATTACHED_MASK == ATTACHED_MASK => Err(Misuse::TooMany),
            _ => Ok(word + ATTACHED),
        })
        .map(drop)
    }

    /// Whether a request is to signal yet.
    #[inline]
    pub(crate) fn is_attached(&self) -> bool {
        // Acquire: pairs with the signal, which ends the attachment in the same instruction.
        self.word.load(Ordering::Acquire) & ATTACHED_MASK != 0
    }

    /// Takes a request off the count that will not signal.
    pub(crate) fn detach(&self) {
        // Cannot fail: who detaches was counted.
        let _ = self.change(|word| match word & ATTACHED_MASK {
            0 => Err(Misuse::Destroyed),
            _ => Ok(word - ATTACHED),
        });
    }

    /// Ends the condition. [`Misuse::InUse`]: it is waited on, or attached to a request; it lives on.
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
