//! The first communicator, and the host's defaults for it: its collectives, and its layer for a node.

use std::sync::Arc;

use super::defaults::FUNCTIONS;
use super::node::{self, NODE_COLLECTIVES};
use crate::comm::{Comm, CommResult, Defaults, Register, is_set};
use crate::job::Job;

const DEFAULTS: Defaults = Defaults {
    functions: FUNCTIONS,
    layers,
};

fn layers(job: &Job) -> CommResult<Register> {
    Ok(match is_set(job, &NODE_COLLECTIVES)? {
        true => node::register,
        false => |_| {},
    })
}

impl Comm {
    /// Returns the communicator of all ranks of the job. The first call is collective, and makes
    /// the communicator; later calls return the same communicator.
    pub fn world(job: &Arc<Job>) -> CommResult<Comm> {
        Comm::world_over(job, &DEFAULTS)
    }
}
