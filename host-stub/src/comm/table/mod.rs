//! The table of a communicator's collectives ([`CollTable`]): the arguments of its functions (`args`, `blocks`), the
//! communicator as the calling rank sees it (`view`), the requests of nonblocking calls (`request`; `layered` for requests that
//! layers run, `placed` and `staged` for buffers of devices), the tables of a process (`tables`), and the way in which layers
//! change a communicator's table (`overriding`).
//!
//! The host's own functions are above, in [`crate::coll`], which provides the first table.

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
