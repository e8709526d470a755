//! The reasons why a process could not join a job, or why the job failed.

use plugin_api::Status;

use crate::base::params::ParamsError;
use crate::bootstrap::BootstrapError;
use crate::crt::RuntimeError;
use crate::loader::{Failure, LoadError, Transport, TransportError};

/// Why a job could not be joined, or went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A source of parameters is wrong.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// A parameter of the host has a value that means nothing.
    #[error(transparent)]
    Param(#[from] mca_params::Error),
    /// The other processes cannot be reached out of band.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The plugin cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A call of the transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The progress thread cannot be started.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The transport has no way to a rank.
    #[error("rank {rank}: the transport {transport:?} cannot reach it")]
    Unreachable {
        /// The rank.
        rank: u32,
        /// The transport.
        transport: Transport,
    },
    /// Nobody has that rank.
    #[error("rank {rank}: wanted a rank below {size}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The job's size.
        size: u32,
    },
    /// A layer above did not do its part: the world could not be freed in good order, or the ranks of a
    /// window could not exchange what they have to.
    #[error(transparent)]
    Layer(Box<dyn std::error::Error + Send + Sync>),
    /// Something sent did not arrive.
    #[error("rank {rank}: flush before leaving the job returned {status}{}", cause(.failure))]
    Flush {
        /// This rank.
        rank: u32,
        /// What flush returned.
        status: Status,
        /// What the transport reported before.
        failure: Option<Failure>,
    },
}

fn cause(failure: &Option<Failure>) -> String {
    failure
        .as_ref()
        .map_or_else(String::new, |failure| format!(" ({failure})"))
}
