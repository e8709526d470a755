//! What a queue's operations do between their post and their completion: the script of delays, orders,
//! silences and failures.

use std::collections::VecDeque;
use std::ffi::c_void;

use libfabric_sys as ffi;

use crate::config::Config;
use crate::inbox;
use crate::operation::{Operation, Work};
use crate::random::Random;
use crate::report::{self, COUNTS, count};

/// Reads of the queue after which a write that nobody asked to be delivered happens.
const LATE: u64 = 20;

/// A successful completion, not yet handed out.
pub(crate) enum Ready {
    /// An operation's, with what its user gets as context.
    Operation(u64),
    /// Nobody's.
    Stray,
}

/// What a queue holds.
pub(crate) struct State {
    pub(crate) pending: VecDeque<Operation>,
    pub(crate) ready: VecDeque<Ready>,
    /// Completed, not delivered, and not asked to be.
    pub(crate) late: Vec<Operation>,
    pub(crate) errors: VecDeque<ffi::fi_cq_err_entry>,
    pub(crate) random: Random,
    pub(crate) reads: u64,
    pub(crate) posted: u64,
    /// Posts, taken or not.
    pub(crate) tries: u64,
    /// Posts still to turn away.
    pub(crate) burst: u64,
    /// The peer that went silent, by its position, and the read at which it comes back.
    pub(crate) silent: Option<(u64, u64)>,
}

// SAFETY: the pointers in error entries are the user's contexts, which are not followed.
unsafe impl Send for State {}

impl State {
    pub(crate) fn new(seed: u64) -> State {
        State {
            pending: VecDeque::new(),
            ready: VecDeque::new(),
            late: Vec::new(),
            errors: VecDeque::new(),
            random: Random::new(seed),
            reads: 0,
            posted: 0,
            tries: 0,
            burst: 0,
            silent: None,
        }
    }
}

impl State {
    /// Performs a pending operation; where atomics are ordered, those before it first. One that the
    /// script fails has no effect or its whole effect.
    pub(crate) fn perform(&mut self, index: usize, config: &Config) -> Option<Result<(), i32>> {
        let atomic = |o: &Operation| matches!(o.work, Work::Atomic { .. });
        if config.ordered && atomic(&self.pending[index]) {
            for earlier in 0..index {
                if atomic(&self.pending[earlier]) && self.pending[earlier].fails.is_none() {
                    let _ = self.pending[earlier].perform(config);
                }
            }
        }
        let operation = &mut self.pending[index];
        if let Some(code) = operation.fails {
            let whole =
                operation.is_asked() || (operation.done.is_none() && self.random.below(2) == 0);
            // A peer that was asked is waited for: it would keep the request otherwise.
            if whole && operation.perform(config).is_none() {
                return None;
            }
            operation.done = Some(Err(code));
            return operation.done;
        }
        operation.perform(config)
    }

    pub(crate) fn fall_silent(&mut self, position: u64, back: u64) {
        count(&COUNTS.faults);
        let until = if back == 0 {
            u64::MAX
        } else {
            self.reads + back
        };
        self.silent = Some((position, until));
    }

    pub(crate) fn is_silent(&self, position: u64) -> bool {
        self.silent
            .is_some_and(|(silent, until)| silent == position && self.reads < until)
    }

    /// The next operation to complete.
    pub(crate) fn choose(&mut self, reorder: bool) -> Option<usize> {
        let reads = self.reads;
        let audible = self.pending.iter().enumerate();
        let mut audible = audible.filter(|(_, o)| !self.is_silent(o.position));
        if !reorder {
            return audible
                .next()
                .filter(|(_, o)| o.due <= reads)
                .map(|(i, _)| i);
        }
        let due: Vec<usize> = audible
            .filter(|(_, o)| o.due <= reads)
            .map(|(i, _)| i)
            .collect();
        let pick = self.random.below(due.len() as u64) as usize;
        due.get(pick).copied()
    }

    pub(crate) fn deliver_late(&mut self, config: &Config) {
        let reads = self.reads;
        for operation in self.late.iter_mut().filter(|o| o.due + LATE <= reads) {
            let _ = operation.perform(config);
        }
        self.late.retain(|o| o.done.is_none());
    }
}

impl State {
    /// Completes operations until `room` are ready, one failed, or none is due.
    pub(crate) fn advance(&mut self, config: &Config, room: usize) {
        self.reads += 1;
        // Peers are asked for what is on their devices only.
        if config.hmem {
            inbox::serve();
        }
        self.deliver_late(config);
        if config.hmem {
            // Answers are taken in any order, so that the one that is next to complete finds room to ask.
            for operation in &mut self.pending {
                if operation.is_asked() && operation.fails.is_none() {
                    let _ = operation.perform(config);
                }
            }
        }
        while self.ready.len() < room && self.errors.is_empty() {
            let Some(index) = self.choose(config.faults.reorder) else {
                break;
            };
            let promised = self.pending[index].delivered;
            let performed = if promised || self.pending[index].fails.is_some() {
                self.perform(index, config)
            } else {
                Some(Ok(()))
            };
            let Some(done) = performed else {
                // The peer has still to answer; the others are looked at next time.
                self.pending[index].due = self.reads + 1;
                break;
            };
            let Some(mut operation) = self.pending.remove(index) else {
                break;
            };
            // SAFETY: the operation was armed when it was posted, and is not complete yet.
            unsafe { operation.inspect(config) };
            operation.count(&done);
            if let Err(code) = done {
                self.fail(&operation, code);
                break;
            }
            if operation.completes {
                let lost = self.random.per_mille(config.faults.null_ok);
                if lost {
                    count(&COUNTS.faults);
                }
                let context = if lost { 0 } else { operation.context };
                self.ready.push_back(Ready::Operation(context));
                if self.random.per_mille(config.faults.stray) {
                    count(&COUNTS.faults);
                    self.ready.push_back(Ready::Stray);
                }
            } else {
                count(&COUNTS.completed);
            }
            if !promised {
                operation.due = self.reads;
                self.late.push(operation);
            }
        }
    }

    pub(crate) fn fail(&mut self, operation: &Operation, code: i32) {
        let context = if operation.nameless {
            0
        } else {
            operation.context
        };
        self.errors.push_back(ffi::fi_cq_err_entry {
            op_context: context as *mut c_void,
            err: code,
            prov_errno: code,
            ..Default::default()
        });
        if operation.fails.is_some() {
            count(&COUNTS.faults);
            report::trace(|| {
                format!(
                    "failed {:?} number {} at {:#x} ({} bytes) with error {code}{}",
                    operation.work,
                    operation.number,
                    operation.address,
                    operation.length,
                    if operation.nameless { ", nameless" } else { "" }
                )
            });
        }
    }
}
