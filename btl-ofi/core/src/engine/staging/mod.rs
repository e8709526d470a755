//! Device memory, reached by whatever provider there is.
//!
//! A region is *direct* where the provider takes its registration (`FI_HMEM`), and *staged* otherwise:
//! local buffers then go through bounce buffers (`bounce`, `local`), and a staged window is worked by
//! its owner's `agent`, to which initiators write requests through the transport's own puts, into a
//! `mailbox`; `channel` is their side of it. `staged` holds the operations under way and drives them.
//! Every copy goes through `copy`: the user's overrides, or the functions that we have ourselves
//! (`cuda`). No device pointer is dereferenced here.
//!
//! Nothing of this is on the way of host memory: the handle of a device region is not a live handle
//! of host memory, so operations come here where they would otherwise be refused.

mod channel;
mod elsewhere;
mod entry;
mod local;
mod staged;
mod state;
mod wire;

pub(crate) use staged::{Action, Ask, NOWHERE};
pub(crate) use state::Hmem;
