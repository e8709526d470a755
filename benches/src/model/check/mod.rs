//! Runs of the model's operations and epochs on pretended nodes, and the comparison of their counters with the model.
//!
//! All ranks are processes of this machine. `host_ranks_per_node` has the host see several nodes, and `btl_ofi_same_node` off has
//! the transport reach every rank by messages, so that all of it is counted.

mod cases;
mod exchanges;
mod judge;
mod rank;
mod wire;

use std::ffi::OsString;
use std::path::Path;

use host_stub::launcher::{LaunchOptions, launch};

use crate::traffic::Job;

/// Names the plugin in the environment of ranks.
const PLUGIN: &str = "MODEL_PLUGIN";
/// The provider of the runs, on every libfabric that is supported.
const PROVIDER: &str = "tcp;ofi_rxm";
/// `btl_ofi_message_limit` of the runs.
const LIMIT: u64 = 4096;

/// Runs as a rank that [`check`] launched.
pub(crate) fn rank() -> Result<(), String> {
    rank::run().map_err(|e| e.to_string())
}

/// Launches a job whose ranks are this program with these arguments, each of which has it call [`rank()`].
pub(crate) fn check(
    job: Job,
    arguments: Vec<OsString>,
    plugin: Option<&Path>,
) -> Result<(), String> {
    let ranks = u32::try_from(job.ranks).map_err(|e| e.to_string())?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut options = LaunchOptions::new(ranks, program);
    options.arguments = arguments;
    options
        .environment
        .extend(plugin.map(|path| (PLUGIN.into(), path.into())));
    let settings = [
        ("btl_ofi_provider_include", PROVIDER.to_owned()),
        ("btl_ofi_same_node", "off".to_owned()),
        ("btl_ofi_message_limit", LIMIT.to_string()),
        ("host_ranks_per_node", job.per_node.to_string()),
        // No message asks for a late answer: ranks that share a processor are often late.
        ("btl_ofi_peer_check_interval", "60000".to_owned()),
    ];
    options.settings = settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let outcome = launch(&options).map_err(|e| e.to_string())?;
    match outcome.failure {
        None => Ok(()),
        Some(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model and runs of 2 to 16 ranks have the same counts; `./dev bench model --check` has up to 64.
    #[test]
    fn runs_have_the_counts_of_the_model() {
        let arguments = [
            "--exact",
            "check::tests::a_rank",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ];
        let plugin = integration_tests::fixtures::ofi_plugin();
        for (ranks, per_node) in [(2, 1), (6, 2), (7, 1), (16, 4)] {
            let job = Job { ranks, per_node };
            let arguments = arguments.map(OsString::from).to_vec();
            check(job, arguments, Some(plugin)).unwrap();
        }
    }

    #[test]
    #[ignore = "a rank of the test above"]
    fn a_rank() {
        rank().unwrap();
    }
}
