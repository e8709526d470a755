//! A killed rank is in one window of the others, but not in another window. The window without the killed rank still
//! works; calls on the other window fail and leave no locks behind.

use std::io::Write;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use host_stub::win::{Assertion, Datatype, Info, Layout, LockKind, TableChoice, Window};
use host_stub::{Comm, Job, JobOptions};
use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::process::run;

/// A delay that is longer than a wait takes to check the job.
const LATE: Duration = Duration::from_millis(500);
const NONE: Assertion = Assertion::empty();

/// The variable that selects the work of the ranks in the window with the killed rank.
const EPOCH_ENV: &str = "TEST_EPOCH";
pub(crate) const EPOCHS: [&str; 2] = ["locks", "fence"];

/// Runs the ranks over a provider.
pub(crate) fn ranks(provider: &str, epoch: &str) {
    let mut command = Command::new(host_stub());
    command
        .args(["launch", "-n", "3", "--enable-recovery", "--plugin"])
        .arg(ofi_plugin())
        .args(["--provider", provider, "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "rank_beside_a_killed_one", "--ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .env(EPOCH_ENV, epoch)
        .envs(["FI_TCP_IFACE", "FI_SOCKETS_IFACE"].map(|name| (name, "lo")));
    let outcome = run(&mut command);
    let passed = outcome.stdout.matches("@passed").count();
    assert_eq!(
        passed,
        2,
        "{epoch} over {provider}: {}",
        outcome.transcript()
    );
}

/// Whether a process has ended, according to the system alone; without progress, this rank does not detect
/// the end itself.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    matches!(state, None | Some(b'Z' | b'X'))
}

/// Puts to the other rank of the window; rank `late` is late.
fn serves_on(pair: &Window, rank: usize, late: usize) {
    let row = Layout::contiguous(Datatype::Uint8, 8);
    let other = 1 - rank;
    let target = row.at(other, 0);
    let value = [rank as u8 + 1; 8];
    if rank == late {
        sleep(LATE);
    }
    pair.post(&[other], NONE).unwrap();
    pair.start(&[other], NONE).unwrap();
    // SAFETY: the value lives until `complete`.
    unsafe { pair.put(value.as_ptr(), &row, target) }.unwrap();
    pair.complete().unwrap();
    pair.wait().unwrap();
    let mut found = [0; 8];
    pair.read_local(0, &mut found).unwrap();
    assert_eq!(found, [other as u8 + 1; 8]);
}

/// The program of a rank. Ranks 0 and 1 have their own window, and one with rank 2.
pub(crate) fn rank() {
    let job = Job::init(JobOptions::default()).unwrap();
    let rank = job.rank() as usize;
    let world = Comm::world(&job).unwrap();
    let info = Info::new().with_table(TableChoice::Btl);
    let color = (rank < 2).then_some(0);
    let comm = world.split(color, 0).unwrap();
    let pair = comm.map(|comm| Window::allocate_with(&comm, 64, 8, &info).unwrap());
    let all = Window::allocate_with(&job, 64, 8, &info).unwrap();
    let pids = job.allgather(&std::process::id().to_ne_bytes()).unwrap();
    let victim = u32::from_ne_bytes(pids[2][..].try_into().unwrap());
    let fences = std::env::var(EPOCH_ENV).unwrap() == EPOCHS[1];
    if fences {
        // The transport has the resources for the next notices, so it accepts them.
        all.fence(NONE).unwrap();
    }
    job.barrier().unwrap();
    let Some(pair) = pair else {
        // SAFETY: the signal goes to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        return;
    };
    while !is_gone(victim) {
        sleep(Duration::from_millis(1));
    }
    if fences {
        // Rank 1 has a notice for the killed rank.
        assert!(all.fence(NONE).is_err());
    } else if rank == 0 {
        // No operation goes to the killed rank, so this rank does not detect its end.
        all.lock_all(NONE).unwrap();
        all.unlock_all().unwrap();
        // The rank detects the loss while it waits for that lock.
        assert!(all.lock(LockKind::Exclusive, 2, NONE).is_err());
        all.lock(LockKind::Exclusive, 0, NONE).unwrap();
        all.unlock(0).unwrap();
    }
    while job.lost().is_none() {
        job.transport().progress();
    }
    for late in [1, 0] {
        serves_on(&pair, rank, late);
    }
    // The line bypasses the harness's capture, in one write.
    std::io::stdout().write_all(b"@passed\n").unwrap();
    // The windows are not freed, as after any failure.
    drop((pair, all, world));
    let _ = job.finalize();
}
