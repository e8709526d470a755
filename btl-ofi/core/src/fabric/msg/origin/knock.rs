//! Messages without entries: an origin asks a target for the state of its line, or tells the target that it leaves. A batch
//! may be lost without an error. Over TCP, a send is complete when its bytes are in the socket; if the connection breaks
//! then, the next send makes another connection. So if an answer is late, or if no answer covers some batches, the origin
//! asks for a receipt. Messages may overtake each other. So a batch that was sent, or its answer, counts as lost only if
//! the receipts for two questions lack it, and the second question was asked after the first was answered.

use std::collections::HashSet;
use std::ptr::NonNull;

use crate::fabric::msg::line::Line;
use crate::fabric::msg::origin::{Broken, Origin};
use crate::fabric::msg::port::{EAGAIN, Port};
use crate::fabric::msg::wire::{Header, Kind, UNKNOWN};
use crate::op::marked::Message;
use crate::peer::endpoint::Endpoint;

/// Maximum number of lines that one check asks although no answer is due on them. Later checks ask the other lines.
const MOST_QUIET: usize = 8;

impl Origin {
    /// Asks each peer with unanswered batches for a receipt. Without `all`, asks only peers whose answer is due. If
    /// the connection is broken, the error of this message identifies the line.
    #[cold]
    pub(in crate::fabric::msg) fn send_alive(&mut self, port: &Port, all: bool) {
        // Only one question per line is outstanding, so a target that takes nothing leaves the provider's queue to others.
        let sent = self.batches.iter().filter(|b| b.held && b.is_empty());
        let sent: HashSet<u64> = sent.map(|batch| batch.cookie).collect();
        let mut quiet = if all { 0 } else { MOST_QUIET };
        for number in 0..self.lines.len() {
            if let Some(mut line) = self.lines[number].take() {
                let may_ask = line.is_due() || quiet < MOST_QUIET;
                if may_ask && line.is_to_knock() && !sent.contains(&line.cookie) {
                    quiet += usize::from(!line.is_due());
                    self.ask_for_receipt(port, &mut line, number as u32);
                }
                self.lines[number] = Some(line);
            }
        }
    }

    fn ask_for_receipt(&mut self, port: &Port, line: &mut Line, number: u32) {
        let rc = self.send_empty(port, line, (number, number), Kind::Alive);
        line.stuck = rc == EAGAIN;
        if rc == 0 {
            line.left = self.first_held(line);
            line.question = line.question.wrapping_add(1);
        }
    }

    /// Handles a receipt.
    #[cold]
    pub(crate) fn told(&mut self, header: &Header) -> Result<(), &'static str> {
        let line = self.lines.get_mut(header.line as usize);
        let line = line.and_then(Option::as_mut);
        let Some(line) = line.filter(|line| line.cookie == header.cookie) else {
            // The receipt's line was removed.
            return Ok(());
        };
        if is_before(line.sequence, header.sequence) {
            return Err("it covers batches that were not sent");
        }
        line.stuck = false;
        let batches = &self.batches;
        let batch = |n: u32| &batches[n as usize];
        let is_executed = |n: u32| is_before(batch(n).sequence, header.sequence);
        let executed = line.unanswered.iter().take_while(|n| is_executed(**n));
        let executed = executed.count();
        line.take_covered(executed, |n| batch(n).unanswered, &mut self.answered);
        for number in &self.answered {
            line.has_arrived(batch(*number).bytes);
        }
        if header.results != 0 && header.results == line.question {
            let answers_come = header.entries > 0;
            let is_missing = |n: &&u32| {
                is_before(batch(**n).sequence, line.left) && !(is_executed(**n) && answers_come)
            };
            let missing = line.unanswered.iter().find(is_missing);
            let missing = missing.map(|n| batch(*n).sequence);
            if missing.is_some() && missing == line.missing {
                self.broken.push((line.endpoint, Broken::Lost));
            }
            line.missing = missing;
        }
        while let Some(number) = self.answered.pop() {
            self.end_batch(number);
        }
        Ok(())
    }

    /// Peers for which the provider refused the last message for lack of room.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = NonNull<Endpoint>> {
        let stuck = self.lines.iter().flatten().filter(|line| line.stuck);
        stuck.map(|line| line.endpoint)
    }

    /// Sends a message without entries on line `number`, and returns the provider's code. A later error of the
    /// message is reported on the line `to_tell`.
    pub(super) fn send_empty(
        &mut self,
        port: &Port,
        line: &Line,
        (number, to_tell): (u32, u32),
        kind: Kind,
    ) -> isize {
        let batch = self.take_batch();
        let message = &mut self.batches[batch as usize];
        let is_question = kind == Kind::Alive;
        let own = (is_question && line.client == UNKNOWN).then_some(&self.own);
        message.begin((to_tell, line.cookie), own, self.lengths);
        Header {
            kind,
            cookie: line.cookie,
            line: number,
            client: line.client,
            sequence: 0,
            entries: 0,
            results: if is_question {
                line.question.wrapping_add(1)
            } else {
                0
            },
        }
        .write(line.key, &mut message.words);
        let rc = port.send(
            &self.batches[batch as usize].words,
            line.address,
            Message::Batch(batch),
        );
        match rc {
            0 => {
                self.batches[batch as usize].held = true;
                self.batches[batch as usize].over = true;
            }
            rc => {
                self.free_batch(batch);
                if rc != EAGAIN && is_question {
                    self.broken.push((line.endpoint, Broken::Code(rc)));
                }
            }
        }
        rc
    }
}

/// Whether batch number `one` comes before batch number `other`.
pub(super) fn is_before(one: u32, other: u32) -> bool {
    (other.wrapping_sub(one) as i32) > 0
}
