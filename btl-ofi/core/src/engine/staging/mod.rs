//! Operations on device memory, with any provider.
//!
//! A device region is *direct* if the provider registers it (`FI_HMEM`), otherwise *staged*. A staged local buffer goes through
//! bounce buffers (`hmem::bounce`, `local`). Commands on a staged window use its owner's mailbox (`hmem::mailbox`,
//! `hmem::server`): origins write into the mailbox with the transport's own puts, and the owner's responder (`op::responder`)
//! executes the commands like those of rings and messages. `channel` is the origin's side of a mailbox. `staged` holds the
//! operations in progress, and `state` drives them. Every copy goes through `mem::copy`, which uses the user's overrides or
//! this crate's own functions (`mem::cuda`). No code here dereferences a device pointer.
//!
//! Operations on host memory never run this code. A device region's handle is not a live handle of host memory,
//! so its operations arrive here (`dispatch`) instead of being refused.

mod channel;
mod dispatch;
mod entry;
mod local;
mod staged;
mod state;
mod wire;

pub(crate) use state::Hmem;
pub(crate) use wire::told;
