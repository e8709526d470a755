//! Unused batches, and memory for their messages.

use crate::fabric::msg::batch::Batch;
use crate::fabric::msg::origin::Origin;
use crate::fabric::msg::places::SPARE;

impl Origin {
    /// A batch that is not in use.
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

    /// Makes a batch free whose message the provider does not read.
    pub(super) fn free_batch(&mut self, number: u32) {
        self.keep_memory(number);
        self.free_batches.push(number);
    }

    /// Keeps the memory of a batch that no longer needs it for other batches.
    fn keep_memory(&mut self, number: u32) {
        if let Some(memory) = self.batches[number as usize].take_memory()
            && self.spare.len() < SPARE
        {
            self.spare.push(memory);
        }
    }

    /// The provider no longer reads a batch.
    pub(crate) fn sent(&mut self, number: u32) {
        let batch = &mut self.batches[number as usize];
        batch.held = false;
        if batch.over {
            self.free_batch(number);
        } else if batch.unanswered {
            // It has no operations, and the answer that covers it may come late.
            self.keep_memory(number);
        }
    }

    /// Notes that the operations of a batch are over.
    pub(super) fn end_batch(&mut self, number: u32) {
        let batch = &mut self.batches[number as usize];
        batch.over = true;
        if !batch.held {
            self.free_batch(number);
        }
    }
}
