//! Updates that nothing waits for: the origin's side. For the target they are as any other.

use std::ptr::NonNull;

use plugin_api::{AtomicKind, Status};

use super::Origin;
use super::current::NONE;
use crate::fabric::msg::Messages;
use crate::fabric::msg::batch::Batch;
use crate::fabric::msg::line::{Asker, Line, MOST_WAITING};
use crate::fabric::msg::port::Port;
use crate::fabric::msg::wire::Form;
use crate::op::responder::Command;
use crate::peer::endpoint::Endpoint;

impl Messages {
    /// Adds an update of one word that nothing waits for: it is in no count, and a refusal by the target is ignored. Sends it
    /// as soon as the line allows. Returns its batch, for [`hand_over`](Self::hand_over). An error comes before side effects.
    ///
    /// # Safety
    /// `endpoint` is live until [`remove`](Self::remove).
    pub(crate) unsafe fn update_unreported(
        &mut self,
        endpoint: NonNull<Endpoint>,
        command: &Command,
        operand: u64,
    ) -> Result<u32, Status> {
        // SAFETY: the caller guarantees the endpoint.
        unsafe {
            self.origin
                .update_unreported(&self.port, endpoint, command, operand)
        }
    }

    /// Sends what waits to be sent to a peer. Returns whether the batch is sent, or gone with a failed peer.
    pub(crate) fn hand_over(&mut self, endpoint: NonNull<Endpoint>, batch: u32) -> bool {
        self.origin.hand_over(&self.port, endpoint, batch)
    }
}

impl Origin {
    /// [`Messages::update_unreported`](Messages::update_unreported).
    ///
    /// # Safety
    /// As there.
    unsafe fn update_unreported(
        &mut self,
        port: &Port,
        endpoint: NonNull<Endpoint>,
        command: &Command,
        operand: u64,
    ) -> Result<u32, Status> {
        let number = self.line_to(endpoint);
        let waiting = self.lines[number as usize].as_ref().map(|l| &l.waiting);
        if waiting.is_some_and(|waiting| waiting.len() >= MOST_WAITING) {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        let form = Form::word(AtomicKind::Update);
        // A batch of its own kind, so that its failure, of which nobody is told, is no other operation's.
        let has_room = |batch: &Batch| batch.has_only_unreported() && batch.has_room(&form);
        let (batch, _) = self.batch_for(port, endpoint, has_room)?;
        self.batches[batch as usize].push_unreported((command, &form), operand);
        let number = self.batches[batch as usize].line;
        if let Some(line) = &mut self.lines[number as usize] {
            // Complete, so that no other operation joins it.
            line.waiting.extend(line.current.take());
            self.last.batch = NONE;
        }
        self.send_line(port, number, Asker::Send);
        Ok(batch)
    }

    /// [`Messages::hand_over`](Messages::hand_over).
    fn hand_over(&mut self, port: &Port, endpoint: NonNull<Endpoint>, batch: u32) -> bool {
        let Some(&number) = self.by_endpoint.get(&endpoint).filter(|_| !port.closed) else {
            return true;
        };
        self.send_line(port, number, Asker::Send);
        let waits = |line: &Line| line.waiting.contains(&batch);
        !self.lines[number as usize].as_ref().is_some_and(waits)
    }
}
