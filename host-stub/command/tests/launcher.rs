//! Ends of jobs: without failure, by a rank's death, by the launcher's death; nothing is left
//! behind.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{HOST_STUB, Killed, Place, eventually, host_stub, lives};
use integration_tests::process::{self, Outcome};

/// `await N` in a rank's script: waits until N processes have written their numbers.
const AWAIT: &str = r#"await() {
    until [ "$(cat "$PLACE"/pid* 2>/dev/null | wc -l)" -ge "$1" ]; do sleep 0.02; done
}
"#;

/// `host-stub launch` of a shell script, which leaves its files in `place`.
fn launch(place: &Place, ranks: u32, script: &str) -> Command {
    launch_with(&[], place, ranks, script)
}

/// As [`launch`], with options of the launcher.
fn launch_with(options: &[&str], place: &Place, ranks: u32, script: &str) -> Command {
    let script = format!("{AWAIT}{script}");
    let mut command = host_stub(["launch", "-n", &ranks.to_string()]);
    command
        .args(options)
        .args(["--", "sh", "-c", &script])
        .env("PLACE", &place.0);
    command
}

fn run(place: &Place, ranks: u32, script: &str) -> Outcome {
    process::run(&mut launch(place, ranks, script))
}

/// The process numbers that ranks wrote to files, once there are `count`.
fn pids(place: &Place, count: usize) -> Vec<i32> {
    let mut found = Vec::new();
    eventually("every process has written its number", || {
        found = place
            .entries()
            .iter()
            .filter(|name| name.starts_with("pid"))
            .filter_map(|name| {
                let text = std::fs::read_to_string(place.0.join(name)).ok()?;
                text.strip_suffix('\n')?.parse().ok()
            })
            .collect();
        found.len() == count
    });
    found
}

/// Each rank leaves its process id, and the id of a child.
const PAIR: &str = r#"
    cd "$PLACE"
    echo $$ > pid-$HOST_STUB_RANK
    sh -c 'echo $$ > pid-child-$HOST_STUB_RANK; exec sleep 60' &
"#;

/// As [`PAIR`], and the number of a child in another session.
const FAMILY: &str = r#"
    cd "$PLACE"
    echo $$ > pid-$HOST_STUB_RANK
    sh -c 'echo $$ > pid-child-$HOST_STUB_RANK; exec sleep 60' &
    setsid sh -c 'echo $$ > pid-far-$HOST_STUB_RANK; exec sleep 60' &
"#;

#[test]
fn ranks_learn_who_they_are_and_end_well() {
    let place = Place::new("well");
    let run = run(&place, 3, "echo $HOST_STUB_RANK/$HOST_STUB_SIZE");
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    let mut lines: Vec<String> = run.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0/3", "1/3", "2/3"]);
    assert_eq!(run.stderr, "");
}

#[test]
fn settings_travel_to_the_ranks() {
    let place = Place::new("settings");
    let provider = ["--provider", "tcp;ofi_rxm"];
    let options = [
        &provider[..],
        &["--mca", "a_b", "-1"],
        &["--mca", "c", "x y"],
    ];
    let script = "echo \"$HOST_STUB_MCA\"";
    let run = process::run(&mut launch_with(&options.concat(), &place, 1, script));
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    let pairs: Vec<(String, String)> = serde_json::from_str(&run.stdout).expect("JSON");
    let expected = [
        ("btl_ofi_provider_include", "tcp;ofi_rxm"),
        ("a_b", "-1"),
        ("c", "x y"),
    ];
    assert_eq!(
        pairs,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[test]
fn output_is_tagged_on_request() {
    let place = Place::new("tags");
    let script = "echo one; printf two; echo three >&2";
    let run = process::run(&mut launch_with(&["--tag-output"], &place, 2, script));
    let mut lines: Vec<String> = run.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["[0] one", "[0] two", "[1] one", "[1] two"]);
    assert!(run.stderr.contains("[1] three\n"), "{}", run.stderr);
}

/// More than one pipe holds, and less than the pipes of the rank and of the launcher hold together.
const BYTES: usize = 100_000;

/// A job whose output is tagged and not read until its only rank has ended.
fn unread(place: &Place, stdout: Stdio) -> Killed {
    let script =
        format!("echo $$ > \"$PLACE/pid\"; head -c {BYTES} /dev/zero | tr '\\0' x | fold -w 1000");
    let mut command = launch_with(&["--tag-output"], place, 1, &script);
    let child = Killed(command.stdout(stdout).spawn().expect("spawn"));
    let rank = pids(place, 1)[0];
    eventually("the rank has ended", || !lives(rank));
    child
}

#[test]
fn tagged_output_waits_for_its_reader() {
    let place = Place::new("slow-reader");
    let mut child = unread(&place, Stdio::piped());
    // Longer than a pipe may stay open after its rank's end.
    std::thread::sleep(Duration::from_millis(1500));
    let mut text = String::new();
    let mut stdout = child.0.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut text).expect("read");
    assert_eq!(text.matches('x').count(), BYTES);
    assert_eq!(child.0.wait().expect("wait").code(), Some(0));
}

/// Another process that shares the launcher's output stream may have made it non-blocking.
#[test]
fn tagged_output_waits_for_its_reader_where_the_stream_would_not() {
    let place = Place::new("would-not-block");
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    // SAFETY: the call takes integers, and the descriptor is open.
    let rc = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    assert_eq!(rc, 0);
    let mut child = unread(&place, writer.into());
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(text.matches('x').count(), BYTES);
    assert_eq!(text.matches("[0] ").count(), BYTES / 1000);
    assert_eq!(child.0.wait().expect("wait").code(), Some(0));
}

#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let place = Place::new("no-threads");
    let mut command = launch_with(&["--tag-output"], &place, 2, "touch \"$PLACE/ran\"");
    // No processor has addresses for a stack of this size.
    let run = process::run(command.env("RUST_MIN_STACK", (1_u64 << 60).to_string()));
    assert_eq!(run.status.code(), Some(6), "{}", run.stderr);
    let message = run.stderr;
    assert!(
        message.contains("cannot start `sh` as rank 0: "),
        "{message}"
    );
    assert_eq!(place.entries(), [""; 0]);
}

#[test]
fn a_signal_ends_the_wait_for_a_reader() {
    let place = Place::new("no-reader");
    let mut child = unread(&place, Stdio::piped());
    // SAFETY: the call takes no pointers; the child is not reaped yet.
    unsafe { libc::kill(child.0.id() as i32, libc::SIGTERM) };
    let mut status = None;
    eventually("the launcher has ended", || {
        status = child.0.try_wait().expect("wait");
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(143));
}

#[test]
fn a_rank_killed_by_a_signal_ends_the_job() {
    for (signal, code, name) in [
        (9, 137, "SIGKILL"),
        (11, 139, "SIGSEGV"),
        (6, 134, "SIGABRT"),
    ] {
        let place = Place::new(name);
        let script = format!(
            "{FAMILY} await 9
             if [ $HOST_STUB_RANK = 1 ]; then kill -{signal} $$; fi; sleep 60"
        );
        let run = run(&place, 3, &script);
        assert_eq!(run.status.code(), Some(code), "{}", run.stderr);
        let message = run.stderr;
        assert!(message.contains("rank 1"), "{message}");
        assert!(message.contains(name), "{message}");
        for pid in pids(&place, 9) {
            assert!(!lives(pid), "process {pid} outlived its job");
        }
    }
}

/// Some parents leave SIGCHLD ignored: then no process could wait for a child, including the ranks.
#[test]
fn an_ignored_sigchld_is_none_of_the_jobs() {
    let place = Place::new("sigchld");
    let mut command = launch(&place, 2, "grep SigIgn /proc/self/status; exit 3");
    // SAFETY: signal may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    let run = process::run(&mut command);
    assert_eq!(run.status.code(), Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("code 3"), "{}", run.stderr);
    for line in run.stdout.lines() {
        let ignored = line.trim_start_matches("SigIgn:").trim();
        let ignored = u64::from_str_radix(ignored, 16).expect("a mask");
        assert_eq!(ignored & (1 << (libc::SIGCHLD - 1)), 0, "{line}");
    }
}

#[test]
fn a_rank_that_fails_ends_the_job_with_its_code() {
    let place = Place::new("fails");
    let run = run(
        &place,
        3,
        "if [ $HOST_STUB_RANK = 2 ]; then exit 42; fi; sleep 1000",
    );
    assert_eq!(run.status.code(), Some(42), "{}", run.stderr);
    assert!(run.stderr.contains("rank 2"), "{}", run.stderr);
    assert!(run.stderr.contains("code 42"), "{}", run.stderr);
}

#[test]
fn ranks_that_ignore_sigterm_are_killed_in_time() {
    let place = Place::new("stubborn");
    let run = run(
        &place,
        3,
        "trap '' TERM; echo $$ > \"$PLACE/pid-$HOST_STUB_RANK\"
         if [ $HOST_STUB_RANK = 0 ]; then await 3; exit 1; fi
         while :; do sleep 1; done",
    );
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    for pid in pids(&place, 3) {
        assert!(!lives(pid), "process {pid} outlived its job");
    }
}

#[test]
fn ranks_may_tidy_up_on_sigterm() {
    let place = Place::new("tidy");
    let run = run(
        &place,
        2,
        "cd \"$PLACE\"
         if [ $HOST_STUB_RANK = 0 ]; then while ! [ -e ready ]; do sleep 0.02; done; exit 1; fi
         trap 'echo done > tidied; exit 0' TERM; touch ready; while :; do sleep 0.05; done",
    );
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert!(place.entries().contains(&"tidied".to_owned()));
}

#[test]
fn what_a_rank_leaves_running_ends_with_the_job() {
    let place = Place::new("left");
    let script = format!(
        "{FAMILY} while ! [ -s pid-far-$HOST_STUB_RANK -a -s pid-child-$HOST_STUB_RANK ]; \
         do sleep 0.02; done"
    );
    let run = run(&place, 2, &script);
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    for pid in pids(&place, 6) {
        assert!(!lives(pid), "process {pid} outlived its job");
    }
}

#[test]
fn a_signal_to_the_launcher_ends_the_job() {
    for (signal, code) in [
        (libc::SIGINT, 130),
        (libc::SIGTERM, 143),
        (libc::SIGHUP, 129),
    ] {
        let place = Place::new(&format!("interrupt-{signal}"));
        let mut command = launch(&place, 2, &format!("{FAMILY} sleep 60"));
        let mut child = Killed(command.stderr(Stdio::null()).spawn().expect("spawn"));
        let pids = pids(&place, 6);
        // SAFETY: the call takes no pointers; the child is not reaped yet.
        unsafe { libc::kill(child.0.id() as i32, signal) };
        let mut status = None;
        eventually("the launcher has ended", || {
            status = child.0.try_wait().expect("wait");
            status.is_some()
        });
        assert_eq!(status.and_then(|status| status.code()), Some(code));
        for pid in pids {
            assert!(!lives(pid), "process {pid} outlived its job");
        }
    }
}

#[test]
fn a_killed_launcher_takes_the_group_with_it() {
    let place = Place::new("killed");
    let mut child = Killed(
        launch(&place, 2, &format!("{PAIR} sleep 60"))
            .spawn()
            .expect("spawn"),
    );
    let pids = pids(&place, 4);
    child.0.kill().expect("kill");
    child.0.wait().expect("wait");
    eventually("every process is gone", || {
        pids.iter().all(|pid| !lives(*pid))
    });
}

#[test]
fn programs_that_cannot_run_are_named() {
    let place = Place::new("cannot-run");
    let mut command = host_stub(["launch", "-n", "2", "--", "/no/such/program"]);
    let run = process::run(command.env("PLACE", &place.0));
    assert_eq!(run.status.code(), Some(127));
    assert!(run.stderr.contains("/no/such/program"), "{}", run.stderr);
    let file = place.0.join("plain");
    std::fs::write(&file, "text").expect("write");
    let mut command = host_stub(["launch", "-n", "2", "--"]);
    let run = process::run(command.arg(&file).env("PLACE", &place.0));
    assert_eq!(run.status.code(), Some(126));
}

#[test]
fn numbers_of_ranks_that_are_none_are_refused() {
    for ranks in ["0", "4097", "-1", "two"] {
        let run = process::run(&mut host_stub(["launch", "-n", ranks, "--", "true"]));
        assert_eq!(run.status.code(), Some(2), "{ranks}: {}", run.stderr);
    }
    // The argument is refused as an invalid number, not as another option.
    for command in [&["launch"][..], &["check"], &["bench", "put"]] {
        let refused = process::run(host_stub(command).args(["--np", "-1"]));
        let said = refused.stderr;
        assert!(said.contains("-1 is not in 0.."), "{command:?}: {said}");
    }
}

#[test]
fn json_tells_how_each_rank_ended() {
    let place = Place::new("json");
    let script = "test $HOST_STUB_RANK = 0 || exit 3; sleep 60";
    let run = process::run(&mut launch_with(&["--json"], &place, 2, script));
    let outcome: serde_json::Value = serde_json::from_str(&run.stderr).expect("JSON");
    assert_eq!(outcome["code"], 3);
    assert_eq!(outcome["failed_rank"], 1);
    assert_eq!(outcome["ranks"][1]["end"]["exit"], 3);
    assert_eq!(outcome["ranks"][0]["end"]["signal"], libc::SIGTERM);
}

/// A job inside a rank of another job: the end of the outer job ends the inner job, by its guard if its launcher cannot.
#[test]
fn nested_jobs_end_with_the_outer_one() {
    let quick = ("", "exec sleep 60");
    let stubborn = ("trap \"\" TERM;", "while :; do sleep 1; done");
    for (trap, inner) in [quick, stubborn] {
        let place = Place::new("nested");
        let script = format!(
            "if [ $HOST_STUB_RANK = 1 ]; then await 2; exit 7; fi
             exec {HOST_STUB} launch -n 2 -- sh -c '
                {trap} echo $$ > \"$PLACE/pid-$HOST_STUB_RANK\"; {inner}'"
        );
        let run = run(&place, 2, &script);
        assert_eq!(run.status.code(), Some(7), "{}", run.stderr);
        let pids = pids(&place, 2);
        eventually("every process is gone", || {
            pids.iter().all(|pid| !lives(*pid))
        });
    }
}
