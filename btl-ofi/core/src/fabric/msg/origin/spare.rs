//! Batches that are not in use, with and without memory for their words.

use crate::fabric::msg::batch::Batch;
use crate::fabric::msg::origin::Origin;

/// Most free batches, and answers, that keep their memory: more are needed only where many peers are told something at once.
pub(in crate::fabric::msg) const SPARE: usize = 64;

impl Origin {
    /// A batch that is not in use.
    pub(super) fn take_batch(&mut self) -> u32 {
        let free = self.free_batches.pop().or_else(|| self.bare_batches.pop());
        free.unwrap_or_else(|| {
            self.batches.push(Batch::default());
            self.batches.len() as u32 - 1
        })
    }

    /// Makes a batch free whose message the provider does not read.
    pub(super) fn free_batch(&mut self, number: u32) {
        if self.free_batches.len() < SPARE {
            self.free_batches.push(number);
        } else {
            self.batches[number as usize].give_memory_back();
            self.bare_batches.push(number);
        }
    }

    /// The provider no longer reads a batch.
    pub(in crate::fabric::msg) fn sent(&mut self, number: u32) {
        let batch = &mut self.batches[number as usize];
        batch.held = false;
        if batch.over {
            self.free_batch(number);
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
