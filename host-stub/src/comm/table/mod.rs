//! The table that the collectives of a communicator go through ([`CollTable`]): the arguments of its functions
//! (`args`, `blocks`), the communicator as the calling rank sees it (`view`), what the
//! nonblocking ones return (`request`; `layered` for requests that layers run, `placed` and `staged` for buffers of devices), which tables a process has (`tables`), and how layers change the one of a
//! communicator (`overriding`).
//!
//! What the host's own functions do is above, in [`crate::coll`], which gives the first table.

mod args;
mod blocks;
mod checks;
mod functions;
mod layered;
mod overriding;
mod placed;
mod request;
mod staged;
mod tables;
mod view;

pub use args::{CollArgs, Collective};
pub use blocks::BlockList;
pub use functions::{Blocking, CollTable, Collectives, LayerData, Nonblocking};
pub(crate) use layered::Layered;
pub use layered::Pending;
pub(crate) use overriding::Visit;
pub(crate) use placed::{Place, find, placed};
pub use request::CollRequest;
pub(crate) use staged::{Staged, give_back};
pub(crate) use tables::{Stack, Tables};
pub(crate) use view::View;
