//! The parts that all operations share: contexts with their locks, outstanding counts, the ends of records, reports of
//! failures, and [`Core`](state::Core), which holds these parts and is passed to carriers. This module does not depend on a
//! carrier's protocol, a route, or [`Transport`](crate::Transport).

mod addresses;
mod completions;
pub(crate) mod context;
pub(crate) mod count;
mod delivering;
pub(crate) mod failures;
pub(crate) mod fork;
pub(crate) mod peers;
mod quiet;
pub(crate) mod receive;
pub(crate) mod slow;
pub(crate) mod state;
