//! Whole jobs of several processes, over the C plugin: meeting, communication, and failures.
//!
//! Each rank runs one of the tests named `rank_`; the launcher starts the ranks from this
//! executable.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::Write;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::WaitedFor;
use common::ranks::run_with;
use host_stub::bootstrap::local::{RANK_ENV, SOCKET_ENV};
use host_stub::bootstrap::protocol::Request;
use host_stub::loader::UNREPORTED;
use host_stub::{Job, JobOptions};
use integration_tests::fixtures::c_plugin;
use integration_tests::process::Outcome;
use plugin_api::Access;

/// Longer than a run may take.
const LONG: Duration = Duration::from_secs(1000);

/// Runs a `rank_` function as a job.
fn job(ranks: u32, body: &str) -> Outcome {
    job_with(ranks, body, &[])
}

fn job_with(ranks: u32, body: &str, arguments: &[&str]) -> Outcome {
    run_with(&c_plugin(""), ranks, body, &[], arguments)
}

fn own_rank() -> u32 {
    std::env::var(RANK_ENV)
        .expect("a rank")
        .parse()
        .expect("a number")
}

#[test]
fn a_removed_parameter_is_refused_with_what_to_use_instead() {
    const REFUSAL: &str = "parameter host_coll_hierarchy, set by an explicit setting, was removed: collectives over several \
         nodes have no stages";
    let run = job_with(2, "rank_exchanges", &["--mca", "host_coll_hierarchy", "0"]);
    assert_eq!(run.status.code(), Some(2), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains(REFUSAL), "{}", run.stderr);
    // Ranks refuse this plugin under other launchers.
    let mut options = JobOptions::default();
    options
        .settings
        .push(("host_coll_hierarchy".into(), "0".into()));
    let error = Job::init(options).expect_err("refused").to_string();
    assert!(error.contains(REFUSAL), "{error}");
}

#[test]
fn ranks_exchange_and_write_to_each_other() {
    let run = job(4, "rank_exchanges");
    assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout.matches("exchanged").count(), 4);
}

#[test]
#[ignore = "a rank of ranks_exchange_and_write_to_each_other"]
fn rank_exchanges() {
    let job = Job::init(JobOptions::default()).expect("init");
    let (rank, size) = (job.rank(), job.size());
    assert_eq!(size, 4);
    for count in [0, 1, 4096, 1 << 20] {
        let all = job.allgather(&vec![rank as u8; count]).expect("allgather");
        for (other, part) in all.iter().enumerate() {
            assert_eq!(*part, vec![other as u8; count]);
        }
    }
    let mut memory = vec![0_u64; 5];
    // SAFETY: the memory outlives the registration, and is only read after a barrier.
    let region = unsafe {
        job.transport()
            .register(memory.as_mut_ptr().cast(), 40, Access::all())
            .expect("register")
    };
    let mut card = (region.base() as u64).to_le_bytes().to_vec();
    card.extend_from_slice(region.handle_bytes());
    let cards = job.allgather(&card).expect("allgather");
    let source = [u64::from(rank) + 100];
    for (target, card) in cards.iter().enumerate() {
        let (base, handle) = card.split_first_chunk::<8>().expect("a card");
        // A handle is passed at an 8-byte aligned address.
        let handle: Vec<u64> = handle
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect();
        let endpoint = job.endpoint(target as u32).expect("endpoint");
        let put = || {
            // SAFETY: `source` lives until the flush; the target's memory is registered for writes.
            unsafe {
                job.transport().put(
                    endpoint,
                    (source.as_ptr().cast(), std::ptr::null_mut()),
                    (
                        u64::from_le_bytes(*base) + 8 * u64::from(rank),
                        handle.as_ptr().cast(),
                    ),
                    8,
                    UNREPORTED,
                )
            }
        };
        let mut status = put();
        while status.is_again() {
            // A provider may have to connect first.
            job.transport().progress();
            status = put();
        }
        assert!(status.is_ok(), "{status}");
    }
    assert!(job.transport().flush(None).is_ok());
    job.barrier().expect("barrier");
    assert_eq!(memory, [100, 101, 102, 103, 0]);
    assert!(job.endpoint(4).is_err());
    assert_eq!(job.failed(), None);
    drop(region);
    job.finalize().expect("finalize");
    println!("exchanged");
}

#[test]
fn whoever_waits_makes_progress() {
    let run = job(2, "rank_waits");
    assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
}

#[test]
#[ignore = "a rank of whoever_waits_makes_progress"]
fn rank_waits() {
    let job = Job::init(JobOptions::default()).expect("init");
    let progress = WaitedFor::new("jobs");
    if job.rank() == 0 {
        progress.wait();
    }
    let mut calls = 0_u64;
    job.bootstrap()
        .fence(&mut || calls = progress.count(calls))
        .expect("fence");
    job.finalize().expect("finalize");
}

#[test]
fn a_process_may_join_again_after_leaving() {
    let run = job(2, "rank_joins_twice");
    assert_eq!(run.status.code(), Some(0), "{}{}", run.stdout, run.stderr);
}

#[test]
#[ignore = "a rank of a_process_may_join_again_after_leaving"]
fn rank_joins_twice() {
    for _ in 0..2 {
        let job = Job::init(JobOptions::default()).expect("init");
        job.barrier().expect("barrier");
        job.finalize().expect("finalize");
    }
}

/// Checks that a job ended early, in time, with a code and a message.
fn came_apart(run: &Outcome, code: i32, words: &[&str]) {
    let stderr = &run.stderr;
    assert_eq!(run.status.code(), Some(code), "{}{stderr}", run.stdout);
    for word in words {
        assert!(stderr.contains(word), "wanted `{word}` in: {stderr}");
    }
}

#[test]
fn a_rank_that_dies_in_a_barrier_ends_the_job() {
    let run = job(3, "rank_dies");
    came_apart(&run, 137, &["rank 2", "SIGKILL"]);
}

#[test]
#[ignore = "a rank of a_rank_that_dies_in_a_barrier_ends_the_job"]
fn rank_dies() {
    let job = Job::init(JobOptions::default()).expect("init");
    if job.rank() == 2 {
        // SAFETY: the call takes no pointers; it ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let _ = job.barrier();
    std::thread::sleep(LONG);
}

#[test]
fn a_rank_that_leaves_without_a_word_ends_the_job() {
    let run = job(3, "rank_vanishes");
    came_apart(&run, 5, &["rank 1", "without leaving the job"]);
}

#[test]
#[ignore = "a rank of a_rank_that_leaves_without_a_word_ends_the_job"]
fn rank_vanishes() {
    let job = Job::init(JobOptions::default()).expect("init");
    if job.rank() == 1 {
        std::process::exit(0);
    }
    let _ = job.barrier();
}

#[test]
fn a_rank_that_never_joins_ends_the_job_that_waits_for_it() {
    let run = job(3, "rank_never_joins");
    came_apart(&run, 5, &["rank 0", "waited for it"]);
}

#[test]
#[ignore = "a rank of a_rank_that_never_joins_ends_the_job_that_waits_for_it"]
fn rank_never_joins() {
    if own_rank() != 0 {
        let _ = Job::init(JobOptions::default());
    }
}

#[test]
fn a_rank_that_lives_on_without_its_connection_ends_the_job() {
    let run = job(2, "rank_drops_out");
    came_apart(&run, 5, &["rank 1", "closed its connection"]);
}

#[test]
#[ignore = "a rank of a_rank_that_lives_on_without_its_connection_ends_the_job"]
fn rank_drops_out() {
    let job = Job::init(JobOptions::default()).expect("init");
    if job.rank() == 1 {
        drop(job);
    } else {
        let _ = job.barrier();
    }
    std::thread::sleep(LONG);
}

#[test]
fn with_recovery_nobody_waits_for_a_rank_without_a_connection() {
    let run = job_with(2, "rank_is_cut_off", &["--enable-recovery"]);
    came_apart(&run, 5, &["rank 1", "closed its connection"]);
    assert!(run.stdout.contains("told of it"), "{}", run.stdout);
}

#[test]
#[ignore = "a rank of with_recovery_nobody_waits_for_a_rank_without_a_connection"]
fn rank_is_cut_off() {
    let job = Job::init(JobOptions::default()).expect("init");
    let ended = WaitedFor::new("cut-off");
    if job.rank() == 1 {
        drop(job);
        // The process lives until the other rank no longer waits for it.
        ended.wait();
        return;
    }
    assert!(job.barrier().is_err());
    println!("told of it");
    ended.tell();
    // Operations that are left wait for nobody either.
    let _ = job.finalize();
}

#[test]
fn a_rank_may_abort_the_job() {
    let run = job(3, "rank_aborts");
    came_apart(&run, 33, &["rank 1", "code 33", "out of biscuits"]);
}

#[test]
#[ignore = "a rank of a_rank_may_abort_the_job"]
fn rank_aborts() {
    let job = Job::init(JobOptions::default()).expect("init");
    if job.rank() == 1 {
        // While another thread of this rank waits for the others.
        std::thread::scope(|scope| {
            scope.spawn(|| job.barrier());
            std::thread::sleep(Duration::from_millis(200));
            job.abort(33, "out of biscuits");
        });
    }
    std::thread::sleep(LONG);
}

#[test]
fn a_rank_that_breaks_the_protocol_ends_the_job() {
    let run = job(2, "rank_breaks_the_protocol");
    came_apart(&run, 5, &["rank 1", "no request has the code 255"]);
}

#[test]
#[ignore = "a rank of a_rank_that_breaks_the_protocol_ends_the_job"]
fn rank_breaks_the_protocol() {
    let number = std::env::var(SOCKET_ENV).expect("a socket");
    let descriptor = number.split(':').next().and_then(|text| text.parse().ok());
    // SAFETY: this process inherited the socket, and no other code of it uses the socket.
    let mut stream = unsafe { UnixStream::from_raw_fd(descriptor.expect("a number")) };
    let rank = own_rank();
    stream
        .write_all(&Request::Hello { rank }.encode())
        .expect("write");
    if rank == 1 {
        stream.write_all(&[1, 0, 0, 0, 255]).expect("write");
    }
    std::thread::sleep(LONG);
}
