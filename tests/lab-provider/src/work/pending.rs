//! The operations of a queue between their post and their completion: the script of delays, orders,
//! silences and failures.

use std::collections::VecDeque;
use std::ffi::c_void;

use libfabric_sys as ffi;

use crate::base::config::Config;
use crate::base::random::Random;
use crate::base::report::{self, COUNTS, count};
use crate::reach::inbox;
use crate::work::operation::{Operation, Work};
use crate::work::receiver::Receiver;

/// The number of queue reads after which a write without requested delivery takes effect.
const LATE: u64 = 20;

/// A successful completion that has not been returned.
pub(crate) enum Ready {
    /// The completion of an operation, with its user's context.
    Operation(u64),
    /// The completion of a receive: its user's context, and the received bytes.
    Received(u64, usize),
    /// A completion of no operation.
    Stray,
}

/// A silent peer.
pub(crate) struct Silent {
    /// The position in the address vector.
    position: u64,
    pid: u64,
    /// The read of the queue at which the peer comes back.
    until: u64,
}

/// The state of a queue.
pub(crate) struct State {
    pub(crate) pending: VecDeque<Operation>,
    pub(crate) ready: VecDeque<Ready>,
    /// Completed operations whose bytes are not delivered, and whose delivery was not requested.
    pub(crate) late: Vec<Operation>,
    pub(crate) errors: VecDeque<ffi::fi_cq_err_entry>,
    /// Endpoints whose receives complete here.
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) random: Random,
    pub(crate) reads: u64,
    pub(crate) posted: u64,
    /// The number of posts, accepted or not.
    pub(crate) tries: u64,
    /// The number of posts that are still to be refused.
    pub(crate) burst: u64,
    /// The number of posts of sends, accepted or not, and the number of accepted sends.
    pub(crate) sends: u64,
    pub(crate) sends_taken: u64,
    pub(crate) silent: Option<Silent>,
}

// SAFETY: the pointers in error entries are the user's contexts, which are never dereferenced.
unsafe impl Send for State {}

impl State {
    pub(crate) fn new(seed: u64) -> State {
        State {
            pending: VecDeque::new(),
            ready: VecDeque::new(),
            late: Vec::new(),
            errors: VecDeque::new(),
            receivers: Vec::new(),
            random: Random::new(seed),
            reads: 0,
            posted: 0,
            tries: 0,
            burst: 0,
            sends: 0,
            sends_taken: 0,
            silent: None,
        }
    }
}

impl State {
    /// The number of operations that are accepted and not completed.
    pub(crate) fn outstanding(&self) -> usize {
        let receives: usize = self.receivers.iter().map(|r| r.posted.len()).sum();
        self.pending.len() + receives
    }

    /// Whether an outstanding operation has this context.
    pub(crate) fn uses(&self, context: u64) -> bool {
        let posted = self.receivers.iter().flat_map(|r| &r.posted);
        self.pending
            .iter()
            .chain(posted)
            .any(|o| o.context == context)
    }

    /// Performs a pending operation; if atomics, sends or reads are ordered, performs the earlier ones
    /// first.
    pub(crate) fn perform(&mut self, index: usize, config: &Config) -> Option<Result<(), i32>> {
        let atomic = |o: &Operation| matches!(o.work, Work::Atomic { .. });
        if config.ordered && atomic(&self.pending[index]) {
            for earlier in 0..index {
                if atomic(&self.pending[earlier]) && self.pending[earlier].fails.is_none() {
                    let _ = self.pending[earlier].perform(config);
                }
            }
        }
        let read = self.pending[index].work == Work::Read;
        if read && config.read_order && !self.write_earlier(index, config) {
            return None;
        }
        let send = self.pending[index].work == Work::Send;
        if send && config.send_order && !self.send_earlier(index, config) {
            return None;
        }
        self.perform_alone(index, config)
    }

    /// Performs the writes that were posted before a read to the same peer; false while the peer has to make one
    /// of them.
    fn write_earlier(&mut self, index: usize, config: &Config) -> bool {
        let (endpoint, position) = (self.pending[index].endpoint, self.pending[index].position);
        let goes_before = |o: &Operation| {
            o.work == Work::Write
                && (o.endpoint, o.position) == (endpoint, position)
                && o.fails.is_none()
        };
        let completed = self.late.iter_mut();
        let mut earlier = completed.chain(self.pending.range_mut(..index));
        earlier.all(|o| !goes_before(o) || o.perform(config).is_some())
    }

    /// Performs the sends that were posted before to the same peer; false while its mailbox is
    /// full.
    fn send_earlier(&mut self, index: usize, config: &Config) -> bool {
        (0..index).all(|earlier| {
            !self.pending[earlier].goes_with(&self.pending[index])
                || self.perform_alone(earlier, config).is_some()
        })
    }

    /// Delays a send and the sends that go with it for the rest of this read.
    fn hold_up(&mut self, index: usize) {
        let same = |o: &Operation| o.goes_with(&self.pending[index]);
        let held: Vec<usize> = (0..self.pending.len())
            .filter(|i| same(&self.pending[*i]))
            .collect();
        for index in held {
            self.pending[index].held = Some(self.reads);
        }
    }

    /// Performs one operation. An operation that the script fails has no effect or its whole
    /// effect.
    fn perform_alone(&mut self, index: usize, config: &Config) -> Option<Result<(), i32>> {
        let operation = &mut self.pending[index];
        if operation.held == Some(self.reads) {
            return None;
        }
        if let Some(code) = operation.fails {
            let whole =
                operation.is_asked() || (operation.done.is_none() && self.random.below(2) == 0);
            // An operation that has asked its peer waits for the answer, because the peer would
            // otherwise keep the request.
            if whole && operation.perform(config).is_none() {
                self.hold_up(index);
                return None;
            }
            operation.done = Some(Err(code));
            return operation.done;
        }
        let done = operation.perform(config);
        if done.is_none() {
            self.hold_up(index);
        }
        done
    }

    pub(crate) fn fall_silent(&mut self, position: u64, pid: u64, back: u64) {
        count(&COUNTS.faults);
        let until = if back == 0 {
            u64::MAX
        } else {
            self.reads + back
        };
        self.silent = Some(Silent {
            position,
            pid,
            until,
        });
    }

    pub(crate) fn is_silent(&self, position: u64) -> bool {
        let silent = self.silent.as_ref();
        silent.is_some_and(|s| s.position == position && self.reads < s.until)
    }

    /// The process that is silent now.
    pub(crate) fn silent_process(&self) -> Option<u64> {
        let silent = self.silent.as_ref().filter(|s| self.reads < s.until);
        silent.map(|s| s.pid)
    }

    /// The next operation to complete.
    pub(crate) fn choose(&mut self, reorder: bool) -> Option<usize> {
        let reads = self.reads;
        let audible = self.pending.iter().enumerate();
        // A full mailbox delays only the sends to it.
        let mut audible =
            audible.filter(|(_, o)| !self.is_silent(o.position) && o.held != Some(self.reads));
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
        // Peers are asked only for device memory.
        if config.hmem {
            inbox::serve();
        }
        self.deliver_late(config);
        if config.hmem {
            // Answers are taken in any order, so that the next operation to complete finds room for its
            // request.
            for operation in &mut self.pending {
                if operation.is_asked() && operation.fails.is_none() {
                    let _ = operation.perform(config);
                }
            }
        }
        self.collect(config);
        // The sides take turns, so that neither starves if there is little room.
        if self.reads.is_multiple_of(2) {
            self.receive(config, room);
            self.complete_pending(config, room);
        } else {
            self.complete_pending(config, room);
            self.receive(config, room);
        }
    }

    fn complete_pending(&mut self, config: &Config, room: usize) {
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
                if self.pending[index].held == Some(self.reads) {
                    continue;
                }
                // The peer has not answered yet; the other operations are checked at the next read.
                self.pending[index].due = self.reads + 1;
                break;
            };
            let Some(mut operation) = self.pending.remove(index) else {
                break;
            };
            // SAFETY: the operation was armed when it was posted, and is not complete yet.
            unsafe { operation.inspect(config) };
            if let Err(code) = done {
                self.fail(&operation, code);
                break;
            }
            self.succeed(&operation, config);
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
