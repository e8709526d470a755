//! What the launcher told a process through its environment.

use std::path::PathBuf;

use super::BootstrapError;
use super::protocol::MAX_RANKS;

/// Path of the launcher's socket.
pub const SOCKET_ENV: &str = "HOST_STUB_SOCKET";
/// This process's rank.
pub const RANK_ENV: &str = "HOST_STUB_RANK";
/// Ranks of the job.
pub const SIZE_ENV: &str = "HOST_STUB_SIZE";
/// The job's name.
pub const JOB_ENV: &str = "HOST_STUB_JOB";

/// What the launcher told this process through its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// [`SOCKET_ENV`].
    pub socket: PathBuf,
    /// [`RANK_ENV`].
    pub rank: u32,
    /// [`SIZE_ENV`].
    pub size: u32,
    /// [`JOB_ENV`].
    pub job: String,
}

impl Environment {
    /// Reads it; none when there is no [`SOCKET_ENV`], so nobody launched this process.
    pub fn read() -> Result<Option<Self>, BootstrapError> {
        Self::from_lookup(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// Reads it through a function that gives a variable's value.
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, BootstrapError> {
        let Some(socket) = lookup(SOCKET_ENV).filter(|socket| !socket.is_empty()) else {
            return Ok(None);
        };
        let wrong = |name, wanted| BootstrapError::Environment {
            name,
            wanted,
            found: lookup(name).map_or("nothing".to_owned(), |value| format!("`{value}`")),
        };
        let number = |name| lookup(name).and_then(|value| value.parse::<u32>().ok());
        let size = number(SIZE_ENV)
            .filter(|size| (1..=MAX_RANKS).contains(size))
            .ok_or_else(|| wrong(SIZE_ENV, "a number of ranks"))?;
        let rank = number(RANK_ENV)
            .filter(|rank| *rank < size)
            .ok_or_else(|| wrong(RANK_ENV, "a rank below the job's size"))?;
        let job = lookup(JOB_ENV)
            .filter(|job| {
                !job.is_empty() && job.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            })
            .ok_or_else(|| wrong(JOB_ENV, "a job's name"))?;
        Ok(Some(Environment {
            socket: PathBuf::from(socket),
            rank,
            size,
            job,
        }))
    }
}
