//! Every parameter of the host, for lists of parameters and for finding unknown names. The layer that reads a parameter
//! declares it. Removed parameters are listed here too.

use mca_params::{Declaration, Removed};

use crate::base::log::VERBOSE;
use crate::coll::node::NODE_COLLECTIVES;
use crate::crt::{CHECK, PROGRESS_THREAD, PROGRESS_THREAD_CORE};
use crate::device::{CUDA, LEVEL, PRETENDED, PRETENDED_BYTES};
use crate::job::{RANKS_PER_NODE, TRACE};
use crate::win::{HUGE_PAGES, TABLE};

/// The prefix of the host's parameter names; no other component's parameters have this prefix.
pub const PREFIX: &str = "host_";

/// All parameters of the host.
pub static DECLARATIONS: [&Declaration; 13] = [
    &VERBOSE,
    &PROGRESS_THREAD,
    &PROGRESS_THREAD_CORE,
    &CHECK,
    &NODE_COLLECTIVES,
    &TABLE,
    &HUGE_PAGES,
    &CUDA,
    &LEVEL,
    &PRETENDED,
    &PRETENDED_BYTES,
    &RANKS_PER_NODE,
    &TRACE,
];

/// The parameters that the host no longer has. A setting of a removed parameter ends the job with
/// the reason.
pub static REMOVED: [Removed; 4] = [
    Removed::new(
        "host_coll_hierarchy",
        "collectives over several nodes have no stages; override those that need them by a layer (host_comm_hooks_register)",
    ),
    Removed::new("host_registration_cache_entries", NO_CACHE),
    Removed::new("host_registration_cache_bytes", NO_CACHE),
    Removed::new(
        "host_wait_report",
        "long waits are not reported; a debugger shows where each thread waits",
    ),
];

const NO_CACHE: &str = "local buffers are not registered, so nothing is kept; leave it out";
