//! A rank of a job that `mpirun`, `prterun`, `srun` or another launcher with a PMIx server started.
//!
//! libpmix is not linked. The library is opened when the environment names such a launcher. `abi` and `client` are its
//! interface, and `quirks` lists differences among its versions and among servers; `exchange` uses it to implement a
//! [`Bootstrap`].

mod abi;
mod client;
mod exchange;
mod nodes;
mod quirks;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::protocol::{MAX_ITEM, check_item};
use super::{Bootstrap, BootstrapError, Lost, Progress, turn};
use crate::base::Turns;
use client::{Client, Item, Owner};
use exchange::Exchange;

/// The launcher's name of the job.
pub const NAMESPACE_ENV: &str = "PMIX_NAMESPACE";
/// This process's rank.
pub const RANK_ENV: &str = "PMIX_RANK";
/// The beginning of the names of variables with the server's address. There is one for each version
/// of the protocol.
pub const SERVER_ENV: &str = "PMIX_SERVER_URI";

/// Maximum time that the caller waits for the server to end the job. After that, the caller exits
/// by itself.
const ABORT_LIMIT: Duration = Duration::from_secs(5);

/// Whether a launcher with a PMIx server started this process. If the local launcher started this
/// process inside such a job, the process belongs to the local launcher. So the caller must check
/// for that launcher first.
pub fn launched() -> bool {
    is_launched(std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()))
}

/// The same check on given names of variables.
fn is_launched(names: impl Iterator<Item = String>) -> bool {
    let mut found = (false, false, false);
    for name in names {
        found.0 |= name == NAMESPACE_ENV;
        found.1 |= name == RANK_ENV;
        found.2 |= name.starts_with(SERVER_ENV);
    }
    found == (true, true, true)
}

/// A rank of a job with a PMIx server.
pub struct Pmix {
    client: Arc<Client>,
    size: u32,
    job: String,
    nodes: Vec<u32>,
    /// Taken for a whole fence or exchange. An exchange makes progress, which may run another task of the
    /// same thread.
    exchange: Turns<Exchange>,
    left: AtomicBool,
    lost: OnceLock<Lost>,
}

impl Pmix {
    /// Opens libpmix, connects to the server, and learns the ranks of the job.
    pub fn join() -> Result<Self, BootstrapError> {
        let client = Client::connect()?;
        let size = match client.get(Owner::Job, abi::JOB_SIZE, false)? {
            Some(Item::Number(size)) if size > client.rank() => size,
            found => {
                return Err(BootstrapError::PmixJob {
                    what: "a size above this rank's number under pmix.job.size",
                    found: format!("{found:?} for rank {}", client.rank()),
                });
            }
        };
        let mut exchange = Exchange::default();
        Ok(Pmix {
            size,
            job: job_name(&client.namespace()),
            nodes: nodes::find(&client, size, &mut exchange)?,
            client: Arc::new(client),
            exchange: Turns::new(exchange),
            left: AtomicBool::new(false),
            lost: OnceLock::new(),
        })
    }

    /// Refuses calls after the end of the job.
    fn joined(&self, what: &'static str) -> Result<(), BootstrapError> {
        if self.left.load(Ordering::Acquire) {
            return Err(BootstrapError::Left { what });
        }
        Ok(())
    }
}

/// The job's name, reduced to letters, digits and `-`.
fn job_name(namespace: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = namespace.chars().map(allowed).collect();
    format!("pmix-{name}")
}

impl Bootstrap for Pmix {
    fn rank(&self) -> u32 {
        self.client.rank()
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn fence(&self, progress: Progress<'_>) -> Result<(), BootstrapError> {
        let _exchange = turn(&self.exchange, &self.lost, progress)?;
        self.joined("fence")?;
        self.client.fence(progress, &self.lost)
    }

    fn allgather(
        &self,
        data: &[u8],
        progress: Progress<'_>,
    ) -> Result<Vec<Vec<u8>>, BootstrapError> {
        check_item(data)?;
        let mut exchange = turn(&self.exchange, &self.lost, progress)?;
        self.joined("allgather")?;
        exchange.run(
            &self.client,
            self.size,
            data,
            MAX_ITEM,
            progress,
            &self.lost,
        )
    }

    fn give_up_when(&self, lost: Lost) {
        let _ = self.lost.set(lost);
    }

    fn node(&self, rank: u32) -> u32 {
        // The job has no larger rank. Such a rank shares memory with none.
        self.nodes.get(rank as usize).copied().unwrap_or(u32::MAX)
    }

    fn abort(&self, code: u8, message: &str) {
        // A launcher may or may not print the message, so this log line always does.
        tracing::error!("ends the job with code {code}: {message}");
        if self.left.load(Ordering::Acquire) {
            return;
        }
        // A server that does not answer must not keep a process that wants to exit.
        let (sender, answer) = channel();
        let client = Arc::clone(&self.client);
        let text = format!("rank {}: {message}\n", self.rank());
        std::thread::spawn(move || sender.send(client.abort(code, &text)));
        match answer.recv_timeout(ABORT_LIMIT) {
            Ok(Ok(())) => {}
            // The caller then exits with an exit code, which also ends the job.
            Ok(Err(error)) => tracing::error!("cannot tell the launcher to end the job: {error}"),
            Err(_) => tracing::error!(
                "the launcher did not answer PMIx_Abort within {} s",
                ABORT_LIMIT.as_secs()
            ),
        }
    }

    fn finalize(&self) -> Result<(), BootstrapError> {
        let _exchange = turn(&self.exchange, &self.lost, &mut || {})?;
        self.joined("finalize")?;
        // From here on, no thread calls the library, whatever it returns.
        self.left.store(true, Ordering::Release);
        self.client.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_known_by_all_of_its_variables() {
        let all = ["PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI41"];
        let launched = |names: &[&str]| is_launched(names.iter().map(|name| (*name).to_owned()));
        assert!(launched(&all));
        assert!(!launched(&all[..2]));
        assert!(!launched(&all[1..]));
        assert!(!launched(&[all[0], all[2], "PMIX_RANKS"]));
    }

    #[test]
    fn names_of_jobs_are_plain() {
        assert_eq!(job_name("688848897"), "pmix-688848897");
        assert_eq!(job_name("prterun-vm-17@1"), "pmix-prterun-vm-17-1");
    }
}
