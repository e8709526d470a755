//! A carrier's receives: their buffers, and the receives that must still be posted.

use crate::base::error::{CallError, check};
use crate::fabric::msg::port::{EAGAIN, Port};
use crate::fabric::own::OwnMemory;

#[derive(Default)]
pub(super) struct Receives {
    buffers: Vec<OwnMemory>,
    /// Buffers whose receive must be posted.
    unposted: Vec<u32>,
}

impl Receives {
    /// Adds a buffer, and posts its receive.
    pub(super) fn add(&mut self, memory: OwnMemory, port: &Port) -> Result<(), CallError> {
        let number = self.buffers.len() as u32;
        self.buffers.push(memory);
        match self.try_to_post(number, port) {
            0 => Ok(()),
            EAGAIN => {
                self.unposted.push(number);
                Ok(())
            }
            rc => check("fi_recv", rc as i32),
        }
    }

    /// Posts a receive again. If there is no room, the next progress posts the receive.
    pub(super) fn post(&mut self, number: u32, port: &Port) {
        if self.try_to_post(number, port) != 0 {
            self.unposted.push(number);
        }
    }

    fn try_to_post(&mut self, number: u32, port: &Port) -> isize {
        port.receive(&self.buffers[number as usize], number)
    }

    /// Leaves a receive to the next progress, which posts it.
    pub(super) fn post_later(&mut self, number: u32) {
        self.unposted.push(number);
    }

    #[inline]
    pub(super) fn has_unposted(&self) -> bool {
        !self.unposted.is_empty()
    }

    /// Posts the receives that had no room before, until the room ends.
    pub(super) fn post_waiting(&mut self, port: &Port) {
        while let Some(number) = self.unposted.pop() {
            if self.try_to_post(number, port) != 0 {
                self.unposted.push(number);
                break;
            }
        }
    }

    /// Ends all posts. The caller has closed the endpoints.
    pub(super) fn close(&mut self) {
        self.unposted.clear();
    }

    /// The address of a buffer's first word.
    pub(super) fn first_word(&self, number: u32) -> *const u64 {
        self.buffers[number as usize].pointer().cast_const().cast()
    }

    /// The words of a buffer.
    ///
    /// # Safety
    /// No receive is posted to the buffer, and no other reference to its words is used meanwhile. The words are used no
    /// longer than the carrier lives.
    pub(super) unsafe fn words<'a>(&self, number: u32) -> &'a mut [u64] {
        // SAFETY: the buffers live as long as the carrier; the caller guarantees that nothing else uses this one.
        unsafe { &mut *self.buffers[number as usize].words() }
    }
}
