//! Operations by messages between processors (`fabric::msg`). Messages belong to the first context. The context's lock
//! guards messages, and its queue completes them.

mod abandon;
mod heartbeat;
mod poll;
pub(crate) mod post;
mod trials;
