//! Operations by messages between processors (`fabric::msg`). Messages belong to the first context. The context's lock
//! guards messages, and the context's queue completes messages.

mod heartbeat;
mod poll;
pub(crate) mod post;
mod trials;
