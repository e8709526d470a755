//! Unused batches, and memory for their messages.

use crate::fabric::msg::batch::Batch;
use crate::fabric::msg::origin::Origin;
use crate::fabric::msg::places::SPARE;

impl Origin {
    /// Takes an unused batch, or makes a new one.
    pub(super) fn take_batch(&mut self) -> u32 {
        let number = self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(Batch::default());
            self.batches.len() as u32 - 1
        });
        if let Some(memory) = self.spare.pop() {
            self.batches[number as usize].use_memory(memory);
        }
        number
    }

    /// Returns a batch to the unused ones. The provider does not read its message.
    pub(super) fn free_batch(&mut self, number: u32) {
        self.keep_memory(number);
        self.free_batches.push(number);
    }

    /// Keeps the memory of a batch that no longer needs it, so that other batches can use it.
    fn keep_memory(&mut self, number: u32) {
        if let Some(memory) = self.batches[number as usize].take_memory()
            && self.spare.len() < SPARE
        {
            self.spare.push(memory);
        }
    }

    /// Handles the end of a send: the provider no longer reads the batch.
    pub(crate) fn sent(&mut self, number: u32) {
        let batch = &mut self.batches[number as usize];
        batch.held = false;
        if batch.over {
            self.free_batch(number);
        } else if batch.unanswered {
            // The batch has no operations, and the answer that covers it may come late.
            self.keep_memory(number);
        }
    }

    /// Records that the operations of a batch are over.
    pub(super) fn end_batch(&mut self, number: u32) {
        let batch = &mut self.batches[number as usize];
        batch.over = true;
        if !batch.held {
            self.free_batch(number);
        }
    }
}
