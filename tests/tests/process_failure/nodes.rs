//! A rank dies in a collective over several nodes, which the default table serves: all others learn of it, also those that do
//! not wait for it.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use host_stub::comm::CommError;
use host_stub::win::{Datatype, Op};
use host_stub::{Comm, Job, JobOptions};
use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::process::run;

const LIMIT: Duration = Duration::from_secs(120);

/// The one that dies: the last of the second of two nodes.
const VICTIM: u32 = 3;
/// Collectives before that.
const BEFORE: u64 = 5;

/// Runs the ranks over a provider, on nodes that are pretended.
pub(crate) fn ranks(provider: &str) {
    let mut command = Command::new(host_stub());
    command
        .args(["launch", "-n", "4", "--enable-recovery", "--plugin"])
        .arg(ofi_plugin())
        .args(["--provider", provider])
        .args(["--mca", "host_ranks_per_node", "2", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "rank_of_a_node", "--ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .envs(["FI_TCP_IFACE", "FI_SOCKETS_IFACE"].map(|name| (name, "lo")));
    let outcome = run(&mut command, LIMIT);
    let passed = outcome.stdout.matches("@passed").count();
    assert_eq!(passed, 3, "{provider}: {}", outcome.transcript());
}

/// A rank's part.
pub(crate) fn rank() {
    let job = Job::init(JobOptions::default()).unwrap();
    let world = Comm::world(&job).unwrap();
    let sum = || {
        let (one, mut sum) = (1_u64, 0_u64);
        let (send, recv) = ((&raw const one).cast(), (&raw mut sum).cast());
        // SAFETY: one element each, which live until the call returns; too short to be fetched later.
        let done = unsafe { world.allreduce(send, recv, 1, Datatype::Uint64, Op::Sum) };
        done.map(|()| sum)
    };
    for _ in 0..BEFORE {
        assert_eq!(sum().unwrap(), 4);
    }
    if job.rank() == VICTIM {
        // SAFETY: a signal to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        return;
    }
    let error = sum().expect_err("a rank is gone");
    let named = matches!(
        error,
        CommError::Peer { .. } | CommError::Job { .. } | CommError::Broken { .. }
    );
    assert!(named, "{error:?}");
    let failed = world.barrier();
    assert!(
        matches!(failed, Err(CommError::Broken { .. })),
        "{failed:?}"
    );
    // Past the harness's capture, in one write.
    std::io::stdout().write_all(b"@passed\n").unwrap();
    drop(world);
    let _ = job.finalize();
}
