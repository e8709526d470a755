//! The reasons why a process could not join a job, or why the job failed.

use plugin_api::Status;

use crate::base::params::ParamsError;
use crate::bootstrap::BootstrapError;
use crate::crt::RuntimeError;
use crate::loader::{Failure, LoadError, Transport, TransportError};

/// The reason why a job could not be joined, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A source of parameters is invalid.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// A parameter of the host has an invalid value.
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
    /// The transport cannot reach a rank.
    #[error("rank {rank}: the transport {transport:?} cannot reach it")]
    Unreachable {
        /// The rank.
        rank: u32,
        /// The transport.
        transport: Transport,
    },
    /// The job has no such rank.
    #[error("rank {rank}: wanted a rank below {size}")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The job's size.
        size: u32,
    },
    /// A layer failed: the world could not be freed, or the ranks of a window could not exchange their
    /// data.
    #[error(transparent)]
    Layer(Box<dyn std::error::Error + Send + Sync>),
    /// A flush failed, so sent data did not arrive.
    #[error("rank {rank}: flush before leaving the job returned {status}{}", cause(.failure))]
    Flush {
        /// This rank.
        rank: u32,
        /// The return value of flush.
        status: Status,
        /// The failure that the transport reported before.
        failure: Option<Failure>,
    },
}

fn cause(failure: &Option<Failure>) -> String {
    failure
        .as_ref()
        .map_or_else(String::new, |failure| format!(" ({failure})"))
}
