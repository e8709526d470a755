//! The receiving side of an endpoint: posted receives, and messages that wait for one.

use std::collections::VecDeque;
use std::ffi::c_void;

use libfabric_sys as ffi;

use crate::base::config::Config;
use crate::base::random::Random;
use crate::base::report::{COUNTS, count};
use crate::reach::mailbox::Mailbox;
use crate::work::operation::{Operation, Work};
use crate::work::pending::{Ready, State};

/// The numbers of receives begin here, and no other operation has such a number.
const NUMBERS: u64 = 1 << 63;

/// A message that was taken out of the mailbox.
struct Arrived {
    source: [u64; 2],
    bytes: Vec<u8>,
    /// The read of the queue from which on a receive may get the message.
    due: u64,
}

/// The values that decide which messages are due.
struct Now {
    /// The number of queue reads.
    reads: u64,
    /// The silent process, which delivers no messages.
    silent: Option<u64>,
}

/// An endpoint that receives.
pub(crate) struct Receiver {
    pub(crate) endpoint: usize,
    mailbox: &'static Mailbox,
    pub(crate) posted: VecDeque<Operation>,
    arrived: VecDeque<Arrived>,
    /// The number of posted receives, accepted or not.
    tries: u64,
}

impl Receiver {
    pub(crate) fn new(endpoint: usize, mailbox: &'static Mailbox) -> Receiver {
        Receiver {
            endpoint,
            mailbox,
            posted: VecDeque::new(),
            arrived: VecDeque::new(),
            tries: 0,
        }
    }

    /// The number of the next receive; `None` refuses the receive.
    pub(crate) fn admit(&mut self, config: &Config) -> Option<u64> {
        self.tries += 1;
        let every = config.faults.recv_again;
        if every != 0 && self.tries.is_multiple_of(every) {
            count(&COUNTS.faults);
            return None;
        }
        (self.posted.len() < config.rx_size).then_some(NUMBERS | self.tries)
    }

    fn collect(&mut self, reads: u64, random: &mut Random, config: &Config) {
        for message in self.mailbox.collect() {
            let wait = match config.faults.delay {
                0 => 0,
                delay => random.below(delay + 1),
            };
            self.arrived.push_back(Arrived {
                source: message.source,
                bytes: message.bytes,
                due: reads + wait,
            });
        }
    }

    /// The message that the next receive gets: the first that is due. With `reorder`, any due
    /// message; if sends are ordered, only the oldest of each sender.
    fn choose(&self, now: &Now, random: &mut Random, config: &Config) -> Option<usize> {
        let due = |index: &usize| {
            let message = &self.arrived[*index];
            let mut earlier = self.arrived.iter().take(*index);
            message.due <= now.reads
                && now.silent != Some(message.source[0])
                && !(config.send_order && earlier.any(|m| m.source == message.source))
        };
        let mut candidates = (0..self.arrived.len()).filter(due);
        if config.send_order && !config.faults.reorder {
            return candidates.next();
        }
        let candidates: Vec<usize> = candidates.collect();
        let pick = random.below(candidates.len() as u64) as usize;
        candidates.get(pick).copied()
    }

    /// The next receive that has its message.
    fn matched(
        &mut self,
        now: &Now,
        random: &mut Random,
        config: &Config,
    ) -> Option<(Operation, Vec<u8>)> {
        if self.posted.is_empty() {
            return None;
        }
        let message = self.arrived.remove(self.choose(now, random, config)?)?;
        Some((self.posted.pop_front()?, message.bytes))
    }
}

impl State {
    /// Takes arrived messages out of the mailboxes, so that peers find room.
    pub(crate) fn collect(&mut self, config: &Config) {
        for receiver in &mut self.receivers {
            receiver.collect(self.reads, &mut self.random, config);
        }
    }

    /// Completes receives until `room` completions are ready, one failed, or no message is due.
    pub(crate) fn receive(&mut self, config: &Config, room: usize) {
        let now = Now {
            reads: self.reads,
            silent: self.silent_process(),
        };
        for index in 0..self.receivers.len() {
            while self.ready.len() < room && self.errors.is_empty() {
                let receiver = &mut self.receivers[index];
                let matched = receiver.matched(&now, &mut self.random, config);
                let Some((receive, bytes)) = matched else {
                    break;
                };
                self.complete(receive, &bytes, config);
            }
        }
    }

    fn complete(&mut self, mut receive: Operation, bytes: &[u8], config: &Config) {
        let fits = bytes.len().min(receive.length);
        let done = receive.land(&bytes[..fits]);
        // SAFETY: the receive was armed when it was posted, and is not complete yet.
        unsafe { receive.inspect(config) };
        let lost = bytes.len() - fits;
        receive.length = fits;
        match done {
            Ok(()) if lost == 0 => self.succeed(&receive, config),
            Ok(()) => self.errors.push_back(ffi::fi_cq_err_entry {
                op_context: receive.context as *mut c_void,
                flags: u64::from(ffi::FI_MSG | ffi::FI_RECV),
                len: fits,
                olen: lost,
                err: ffi::FI_ETRUNC as i32,
                prov_errno: ffi::FI_ETRUNC as i32,
                ..Default::default()
            }),
            Err(code) => self.fail(&receive, code),
        }
    }

    /// Records the completion of a successful operation.
    pub(crate) fn succeed(&mut self, operation: &Operation, config: &Config) {
        let lost = self.random.per_mille(config.faults.null_ok);
        if lost {
            count(&COUNTS.faults);
        }
        let context = if lost { 0 } else { operation.context };
        self.ready.push_back(match operation.work {
            Work::Receive => Ready::Received(context, operation.length),
            _ => Ready::Operation(context),
        });
        if self.random.per_mille(config.faults.stray) {
            count(&COUNTS.faults);
            self.ready.push_back(Ready::Stray);
        }
    }
}
