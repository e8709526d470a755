//! Jobs that an unmodified `mpirun` started: meeting through PMIx, communication, and failures.
//!
//! Jobs on two nodes run on this machine: mpirun starts its second daemon through a program that
//! takes the place of ssh. Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{HOST_STUB, Place, WaitedFor};
use host_stub::bootstrap::{self, Bootstrap};
use host_stub::{Job, JobOptions};
use integration_tests::fixtures::{c_plugin, ofi_plugin};
use integration_tests::process::{self, Outcome};
use integration_tests::repository::root;
use test_skips::{Lacking, skipped};

/// After this many seconds mpirun gets a signal to end.
const LIMIT: &str = "500";

/// The nodes on which the ranks run.
#[derive(Clone, Copy, PartialEq)]
enum Nodes {
    One,
    /// The first half of the ranks on one node, the others on the second.
    Two,
}

/// A job under mpirun; a machine without mpirun skips it with a message.
struct Mpirun {
    command: Command,
    /// A folder for mpirun's own files.
    _place: Place,
}

impl Mpirun {
    fn new(test: &str, ranks: u32, nodes: Nodes) -> Option<Self> {
        if Command::new("mpirun").arg("--version").output().is_err() {
            skipped(Lacking::Package, "there is no mpirun (Debian: openmpi-bin)");
            return None;
        }
        let place = Place::new(test);
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT, "mpirun", "--oversubscribe"]);
        command.args(["-n", &ranks.to_string()]);
        if nodes == Nodes::Two {
            let agent = place.0.join("agent");
            // Each node has its own folder: of two daemons that make their folders in the same
            // place at once, one may give up.
            let script = "#!/bin/sh\nexport TMPDIR=\"$TMPDIR/$1\"\nmkdir -p \"$TMPDIR\"\nshift\n\
                          exec /bin/sh -c \"$*\"\n";
            std::fs::write(&agent, script).expect("write");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&agent, mode).expect("set the mode");
            command.arg("--host");
            command.arg(format!("one:{0},two:{0}", ranks / 2));
            command.args(["--mca", "plm_rsh_agent"]).arg(agent);
        }
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["OMPI_", "PMIX_", "PRTE_", "HOST_STUB_"]
                .iter()
                .any(|start| text.starts_with(start))
            {
                command.env_remove(&name);
            }
        }
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_mca_base_param_files", "none")
            .env("FI_TCP_IFACE", "lo")
            .env("TMPDIR", &place.0)
            .stdin(Stdio::null());
        Some(Mpirun {
            command,
            _place: place,
        })
    }

    fn run<S: AsRef<OsStr>>(mut self, program: impl IntoIterator<Item = S>) -> Outcome {
        self.command.args(program);
        process::run(&mut self.command)
    }

    /// Runs a `rank_` function of this file.
    fn run_body(self, body: &str) -> Outcome {
        let this = std::env::current_exe().expect("this executable");
        self.run([
            this.as_os_str(),
            "--exact".as_ref(),
            body.as_ref(),
            "--ignored".as_ref(),
            "--nocapture".as_ref(),
            "--test-threads=1".as_ref(),
        ])
    }
}

fn succeeded(run: &Outcome) {
    assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
}

/// Runs the tests of `check` whose names contain a text.
fn check(test: &str, ranks: u32, nodes: Nodes, provider: &str, only: &str) {
    let Some(mpirun) = Mpirun::new(test, ranks, nodes) else {
        return;
    };
    let run = mpirun.run([
        HOST_STUB.as_ref(),
        "check".as_ref(),
        "--plugin".as_ref(),
        ofi_plugin().as_os_str(),
        "--provider".as_ref(),
        provider.as_ref(),
        "--only".as_ref(),
        only.as_ref(),
    ]);
    succeeded(&run);
    let stdout = run.stdout;
    assert!(stdout.contains(&format!(" {ranks} ranks")), "{stdout}");
    assert!(stdout.contains(&format!("provider {provider}")), "{stdout}");
    let end = stdout.lines().last().unwrap_or_default();
    assert!(end.ends_with(" passed, 0 failed"), "{stdout}");
    assert!(!end.starts_with("0 "), "{stdout}");
}

#[test]
fn two_ranks_over_shm() {
    check("two_ranks_over_shm", 2, Nodes::One, "shm", "put/");
}

#[test]
fn four_ranks_over_shm() {
    check("four_ranks_over_shm", 4, Nodes::One, "shm", "fence");
}

#[test]
fn two_ranks_over_tcp() {
    check("two_ranks_over_tcp", 2, Nodes::One, "tcp;ofi_rxm", "put/");
}

#[test]
fn four_ranks_over_tcp() {
    check("four_ranks_over_tcp", 4, Nodes::One, "tcp;ofi_rxm", "fence");
}

#[test]
fn four_ranks_on_two_nodes_over_tcp() {
    let test = "four_ranks_on_two_nodes_over_tcp";
    check(test, 4, Nodes::Two, "tcp;ofi_rxm", "fence");
}

/// Joins the job of the environment like [`Job`], but without a transport.
fn join() -> std::sync::Arc<dyn Bootstrap> {
    bootstrap::from_environment().expect("join")
}

#[test]
fn ranks_tell_each_other_everything() {
    let test = "ranks_tell_each_other_everything";
    let Some(mpirun) = Mpirun::new(test, 4, Nodes::One) else {
        return;
    };
    let run = mpirun.run_body("rank_tells_everything");
    succeeded(&run);
    assert_eq!(run.stdout.matches("on nodes [0, 0, 0, 0]").count(), 4);
}

#[test]
fn ranks_on_two_nodes_tell_each_other_everything() {
    let test = "ranks_on_two_nodes_tell_each_other_everything";
    let Some(mpirun) = Mpirun::new(test, 4, Nodes::Two) else {
        return;
    };
    let run = mpirun.run_body("rank_tells_everything");
    succeeded(&run);
    assert_eq!(run.stdout.matches("on nodes [0, 0, 1, 1]").count(), 4);
}

/// If the launcher names no hosts, a node knows only its own ranks.
#[test]
fn ranks_without_names_of_hosts_find_the_same_nodes() {
    let test = "ranks_without_names_of_hosts_find_the_same_nodes";
    let Some(mut mpirun) = Mpirun::new(test, 4, Nodes::Two) else {
        return;
    };
    // SAFETY: opening libpmix only runs its constructors, which have no requirements.
    let library = unsafe { libloading::Library::new("libpmix.so.2") };
    let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
    let path = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .find(|path| path.contains("/libpmix.so."));
    let (Ok(_), Some(path)) = (library, path) else {
        skipped(
            Lacking::Package,
            "there is no libpmix.so.2 (Debian: libpmix2)",
        );
        return;
    };
    let source = root().join("tests/c/pmix_without_hosts.c");
    let place = Place::new("pmix_without_hosts");
    let built = process::run(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(place.0.join("libpmix.so.2"))
            .arg(format!("-DREAL=\"{path}\""))
            .arg(source),
    );
    succeeded(&built);
    let others = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let variable = format!("LD_LIBRARY_PATH={}:{others}", place.0.display());
    mpirun.command.args(["-x", &variable]);
    let run = mpirun.run_body("rank_tells_everything");
    succeeded(&run);
    let stdout = run.stdout;
    assert_eq!(
        stdout.matches("on nodes [0, 0, 1, 1]").count(),
        4,
        "{stdout}"
    );
}

#[test]
#[ignore = "a rank of ranks_tell_each_other_everything"]
fn rank_tells_everything() {
    let job = join();
    let (rank, size) = (job.rank(), job.size());
    assert_eq!(size, 4);
    assert!(job.job().starts_with("pmix-"), "{}", job.job());

    // Lengths that differ between ranks and from round to round: nothing, the limits of a fragment,
    // all.
    for (index, count) in [0, 1, 495, 496, 497, 2480, 2481, 40_000, 1 << 20, 3]
        .into_iter()
        .chain((0..60).map(|index| index * 7))
        .enumerate()
    {
        let part = |rank: u32| {
            let count = if (index as u32 + rank).is_multiple_of(3) {
                0
            } else {
                count
            };
            let byte =
                |place: usize| (place as u32).wrapping_mul(31) as u8 ^ (rank as u8 + index as u8);
            (0..count).map(byte).collect::<Vec<u8>>()
        };
        let all = job.allgather(&part(rank), &mut || {}).expect("allgather");
        assert_eq!(all.len(), 4);
        for (other, found) in all.iter().enumerate() {
            assert!(
                *found == part(other as u32),
                "exchange {index} of {count} bytes: rank {other}"
            );
        }
    }
    assert!(job.allgather(&vec![0; (1 << 20) + 1], &mut || {}).is_err());

    let nodes: Vec<u32> = (0..size).map(|rank| job.node(rank)).collect();
    println!("on nodes {nodes:?}");
    job.fence(&mut || {}).expect("fence");
    job.finalize().expect("finalize");
    let late = job.fence(&mut || {}).expect_err("the job was left");
    assert!(late.to_string().contains("left the job"), "{late}");
}

#[test]
fn a_waiting_rank_makes_progress() {
    let Some(mpirun) = Mpirun::new("a_waiting_rank_makes_progress", 2, Nodes::One) else {
        return;
    };
    let run = mpirun.run_body("rank_waits");
    succeeded(&run);
}

#[test]
#[ignore = "a rank of a_waiting_rank_makes_progress"]
fn rank_waits() {
    let job = join();
    for exchange in ["fence", "allgather"] {
        let progress = WaitedFor::new(exchange);
        if job.rank() == 1 {
            progress.wait();
        }
        let mut calls = 0_u64;
        let mut count = || calls = progress.count(calls);
        match exchange {
            "fence" => job.fence(&mut count).expect("fence"),
            _ => drop(job.allgather(b"x", &mut count).expect("allgather")),
        }
    }
    job.finalize().expect("finalize");
}

#[test]
fn a_rank_may_abort_the_job() {
    let Some(mpirun) = Mpirun::new("a_rank_may_abort_the_job", 3, Nodes::One) else {
        return;
    };
    let run = mpirun.run_body("rank_aborts");
    assert_eq!(run.status.code(), Some(33), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("out of biscuits"), "{}", run.stderr);
}

#[test]
#[ignore = "a rank of a_rank_may_abort_the_job"]
fn rank_aborts() {
    // SAFETY: the plugin is built with these tests.
    let options = unsafe { JobOptions::default().plugin(c_plugin("")) };
    let job = Job::init(options).expect("init");
    if job.rank() == 1 {
        // While another thread of this rank waits for the others.
        std::thread::scope(|scope| {
            scope.spawn(|| job.barrier());
            std::thread::sleep(Duration::from_millis(200));
            job.abort(33, "out of biscuits");
            // The aborting rank then exits: mpirun of 4.1.4 sometimes noticed an abort and continued
            // the job.
            std::process::exit(33);
        });
    }
    let _ = job.barrier();
    std::thread::sleep(Duration::from_secs(50));
}

#[test]
fn another_number_of_ranks_is_refused() {
    let Some(mpirun) = Mpirun::new("another_number_of_ranks_is_refused", 2, Nodes::One) else {
        return;
    };
    let plugin = c_plugin("");
    let run = mpirun.run([
        HOST_STUB.as_ref(),
        "check".as_ref(),
        "--np".as_ref(),
        "3".as_ref(),
        "--plugin".as_ref(),
        plugin.as_os_str(),
    ]);
    assert_eq!(run.status.code(), Some(2), "{}{}", run.stdout, run.stderr);
    let stderr = run.stderr;
    assert!(stderr.contains("--np 3 in a job of 2 ranks"), "{stderr}");
}

#[test]
fn the_local_launcher_inside_of_mpirun_is_its_own() {
    let test = "the_local_launcher_inside_of_mpirun_is_its_own";
    let Some(mut mpirun) = Mpirun::new(test, 1, Nodes::One) else {
        return;
    };
    let this = std::env::current_exe().expect("this executable");
    mpirun.command.args([HOST_STUB, "launch", "-n", "3", "--"]);
    mpirun.command.arg(this);
    let run = mpirun.run([
        "--exact",
        "rank_of_the_inner_job",
        "--ignored",
        "--nocapture",
    ]);
    succeeded(&run);
    assert_eq!(
        run.stdout.matches("of 3 ranks").count(),
        3,
        "{}",
        run.stdout
    );
}

#[test]
#[ignore = "a rank of the_local_launcher_inside_of_mpirun_is_its_own"]
fn rank_of_the_inner_job() {
    let job = join();
    println!("of {} ranks", job.size());
    job.fence(&mut || {}).expect("fence");
    job.finalize().expect("finalize");
}

/// `host-stub check` with PMIx's variables, but without a server.
fn pretended(name: &str, value: &str) -> Outcome {
    let mut command = common::host_stub(["check", "--plugin"]);
    command
        .arg(c_plugin(""))
        .env("PMIX_NAMESPACE", "nobody")
        .env("PMIX_RANK", "0")
        .env("PMIX_SERVER_URI41", "nobody.0;tcp4://127.0.0.1:1")
        .env(name, value);
    process::run(&mut command)
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    // SAFETY: opening libpmix only runs its constructors, which have no requirements.
    if unsafe { libloading::Library::new("libpmix.so.2") }.is_err() {
        skipped(
            Lacking::Package,
            "there is no libpmix.so.2 (Debian: libpmix2)",
        );
        return;
    }
    let run = pretended("PMIX_RANK", "0");
    assert_eq!(run.status.code(), Some(5), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("PMIx_Init returned"), "{}", run.stderr);
}

#[test]
fn a_missing_library_is_an_error_that_names_it() {
    // The loader first finds a file of this name that is no library.
    let place = Place::new("no_libpmix");
    std::fs::write(place.0.join("libpmix.so.2"), "not a library").expect("write");
    let run = pretended("LD_LIBRARY_PATH", &place.0.to_string_lossy());
    assert_eq!(run.status.code(), Some(5), "{}{}", run.stdout, run.stderr);
    let stderr = run.stderr;
    assert!(stderr.contains("cannot open libpmix.so.2"), "{stderr}");
    assert!(stderr.contains("PMIX_NAMESPACE"), "{stderr}");
}
