//! Memory for the contexts of messages, of which providers claim 64 bytes each (`FI_CONTEXT`, `FI_CONTEXT2`).

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::op::marked::{Claimed, Message};

/// The contexts of a carrier's messages, each at the place of its number. A number is in use for one message at a time. No
/// context is freed before the carrier, because the provider may write to it until then.
#[derive(Default)]
pub(super) struct Claims {
    receives: Vec<NonNull<Claimed>>,
    batches: Vec<NonNull<Claimed>>,
    answers: Vec<NonNull<Claimed>>,
}

impl Claims {
    /// The context of a message.
    pub(super) fn context(&mut self, message: Message) -> *mut c_void {
        let (places, number, at): (_, _, fn(u32) -> Message) = match message {
            Message::Receive(number) => (&mut self.receives, number, Message::Receive),
            Message::Batch(number) => (&mut self.batches, number, Message::Batch),
            Message::Answer(number) => (&mut self.answers, number, Message::Answer),
        };
        while places.len() <= number as usize {
            let claimed = Claimed::new(at(places.len() as u32));
            places.push(NonNull::from(Box::leak(Box::new(claimed))));
        }
        Claimed::context(places[number as usize])
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let places = self.receives.iter().chain(&self.batches);
        for place in places.chain(&self.answers) {
            // SAFETY: `context` leaked a box, and `drop` runs once.
            drop(unsafe { Box::from_raw(place.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_keeps_its_own_context() {
        let mut claims = Claims::default();
        let messages = [
            Message::Answer(5),
            Message::Receive(5),
            Message::Batch(0),
            Message::Batch(5),
        ];
        let contexts = messages.map(|message| claims.context(message));
        for number in 0..1000 {
            claims.context(Message::Batch(number));
        }
        assert_eq!(contexts, messages.map(|message| claims.context(message)));
        for (at, context) in contexts.iter().enumerate() {
            assert!(!contexts[..at].contains(context));
        }
    }
}
