//! Messages without entries, by which an origin learns whether a connection still stands, or takes its leave.

use std::collections::HashSet;
use std::ptr::NonNull;

use crate::fabric::msg::line::Line;
use crate::fabric::msg::origin::Origin;
use crate::fabric::msg::port::{EAGAIN, Port};
use crate::fabric::msg::wire::{Header, Kind};
use crate::op::marked::Message;
use crate::peer::endpoint::Endpoint;

impl Origin {
    /// Sends a message without entries to each peer from which an answer is due, to learn whether the connection still
    /// stands: its error then names the line.
    #[cold]
    pub(in crate::fabric::msg) fn send_alive(&mut self, port: &Port) {
        // One at a time: a target that takes nothing leaves the provider's queue to others.
        let sent = self.batches.iter().filter(|b| b.held && b.is_empty());
        let sent: HashSet<u64> = sent.map(|batch| batch.cookie).collect();
        for number in 0..self.lines.len() {
            if let Some(mut line) = self.lines[number].take() {
                if line.is_to_knock() && !sent.contains(&line.cookie) {
                    let rc =
                        self.send_empty(port, &line, (number as u32, number as u32), Kind::Alive);
                    line.stuck = rc == EAGAIN;
                }
                self.lines[number] = Some(line);
            }
        }
    }

    /// Peers for which the provider took no message when it was asked last.
    pub(in crate::fabric::msg) fn stuck(&self) -> impl Iterator<Item = NonNull<Endpoint>> {
        let stuck = self.lines.iter().flatten().filter(|line| line.stuck);
        stuck.map(|line| line.endpoint)
    }

    /// Sends a message without entries, and returns the provider's code. An error is told to the line `to_tell`.
    pub(super) fn send_empty(
        &mut self,
        port: &Port,
        line: &Line,
        (number, to_tell): (u32, u32),
        kind: Kind,
    ) -> isize {
        let batch = self.take_batch();
        let message = &mut self.batches[batch as usize];
        message.begin((to_tell, line.cookie), None, self.answer);
        Header {
            kind,
            cookie: line.cookie,
            line: number,
            client: line.client,
            sequence: 0,
            entries: 0,
            results: 0,
        }
        .write(&mut message.words);
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
                if rc != EAGAIN && kind == Kind::Alive {
                    self.broken.push((line.endpoint, rc));
                }
            }
        }
        rc
    }
}
