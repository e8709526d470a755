//! Runs the transport with the lab provider (`tests/lab-provider`) in separate processes, because
//! libfabric looks for providers once per process.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod dice;
pub(crate) mod group;
pub(crate) mod judge;
pub(crate) mod model;
pub(crate) mod prelude;
pub(crate) mod said;

use std::any::type_name;
use std::collections::HashMap;
use std::io::Read;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use lab_fi as _;

use crate::common::BLOCKED;

const ROLE: &str = "BTL_OFI_LAB_ROLE";
const REPORT: &str = "LAB_REPORT";
const STATS: &str = "LAB_STATS";
const TRACE: &str = "LAB_TRACE";
const SUMMARY: &str = "LAB_SUMMARY";

/// The counts of one or many runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// The number of configurations that were run.
    pub(crate) run: u64,
    /// The number of configurations that the transport refused, as it should.
    pub(crate) refused: u64,
    /// The number of faults that the provider made.
    pub(crate) faults: u64,
    /// The number of operations that were checked against the model.
    pub(crate) checked: u64,
    /// The number of checked operations that were reported as failed.
    pub(crate) failed: u64,
    /// The number of operations that were neither completed nor reported, or were reported twice.
    pub(crate) lost: u64,
    /// The number of processes that did not end correctly, including their checked operations.
    pub(crate) broken: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, o: Tally) {
        self.run += o.run;
        self.refused += o.refused;
        self.faults += o.faults;
        self.checked += o.checked;
        self.failed += o.failed;
        self.lost += o.lost;
        self.broken += o.broken;
    }
}

impl Tally {
    /// Prints the line with the counts, which the parent adds up.
    fn tell(&self) {
        println!(
            "@tally {} {} {} {} {}",
            self.run, self.refused, self.checked, self.failed, self.lost
        );
    }

    /// Prints the summary of a matrix, bypassing the harness's capture, and writes it to the file
    /// `LAB_SUMMARY`; then asserts that no operation was lost.
    pub(crate) fn summary(&self, name: &str) {
        let broken = match self.broken {
            0 => String::new(),
            n => format!(", {n} processes failed"),
        };
        announce(&format!(
            "{name}: {} combinations run, {} refused, {} faults injected, {} operations checked \
             ({} done, {} reported failed){broken}, lost: {}\n",
            self.run,
            self.refused,
            self.faults,
            self.checked,
            self.checked.saturating_sub(self.failed + self.lost),
            self.failed,
            self.lost
        ));
        self.insist(name);
    }

    /// Asserts that no operation was lost. The program printed each loss when it found the loss.
    pub(crate) fn insist(&self, name: &str) {
        assert_eq!((self.lost, self.broken), (0, 0), "{name}: see above");
    }
}

/// Prints the summary line of a matrix, bypassing the harness's capture, and writes it to the file
/// `LAB_SUMMARY`.
pub(crate) fn announce(line: &str) {
    use std::io::Write;
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    // The file is for `./dev`, which shows these lines together at its end.
    if let Some(path) = env::var_os(SUMMARY) {
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Every supported combination: the two old words, and all sums of today's four bits. The bit for
/// collective operations requires nothing of a transport without them, so it occurs alone and beside
/// all others.
pub(crate) fn registration_modes() -> Vec<String> {
    let bits = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];
    let sums = (0..1 << bits.len()).map(|set: u32| {
        let chosen = bits.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0);
        chosen.map(|(_, b)| *b).collect::<Vec<_>>().join(",")
    });
    let collective = [
        "COLLECTIVE",
        "COLLECTIVE,VIRT_ADDR,ALLOCATED,PROV_KEY,ENDPOINT",
    ];
    let old = ["BASIC", "SCALABLE"];
    let others = collective.into_iter().chain(old);
    sums.chain(others.map(String::from)).collect()
}

/// The limit on the processor time of a test in a separate process.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

impl From<()> for Tally {
    /// One run.
    fn from((): ()) -> Tally {
        Tally {
            run: 1,
            ..Tally::default()
        }
    }
}

/// Runs `run` once for each role in a separate process, two processes at a time, and adds up their counts. Returns `None`
/// in such a process.
///
/// Each process runs the calling test, whose name is that of the closure `run`.
pub(crate) fn isolated_as<R: Into<Tally>, F: FnOnce(&str) -> R>(
    roles: &[impl AsRef<str> + Sync],
    run: F,
) -> Option<Tally> {
    start(type_name::<F>(), roles, |role| run(role).into())
}

/// Runs `run` in a separate process, and asserts that no operation was lost.
pub(crate) fn alone<R: Into<Tally>, F: FnOnce() -> R>(run: F) {
    if let Some(tally) = start(type_name::<F>(), &[""], |_| run().into()) {
        tally.insist(type_name::<F>());
    }
}

fn start(
    closure: &str,
    roles: &[impl AsRef<str> + Sync],
    run: impl FnOnce(&str) -> Tally,
) -> Option<Tally> {
    if let Some(role) = role() {
        run(&role).tell();
        return None;
    }
    let (_, test) = closure.split_once("::").unwrap();
    let test = test.trim_end_matches("::{{closure}}");
    let next = AtomicUsize::new(0);
    let mut total = Tally::default();
    thread::scope(|s| {
        let workers = [(); 2].map(|()| {
            s.spawn(|| {
                let mut tally = Tally::default();
                while let Some(role) = roles.get(next.fetch_add(1, Ordering::Relaxed)) {
                    tally += child(test, role.as_ref(), LIMIT);
                }
                tally
            })
        });
        for worker in workers {
            total += worker.join().unwrap();
        }
    });
    Some(total)
}

/// The first seed and the number of seeds, from the environment; the defaults are 1 and `many`. The same seed
/// gives the same faults.
pub(crate) fn seeds(many: u64) -> (u64, u64) {
    let number = |name| env::var(name).ok().and_then(|s| s.parse().ok());
    (
        number("LAB_SEED").unwrap_or(1),
        number("LAB_SEEDS").unwrap_or(many),
    )
}

/// Runs `run` for each seed, with `batch` seeds in a process. After each seed, no operation may be lost, no rule of the
/// provider broken, and no descriptor left.
pub(crate) fn isolated_seeds<F: FnMut(u64) -> Tally>(
    (first, many): (u64, u64),
    batch: u64,
    mut run: F,
) -> Option<Tally> {
    let batches = (0..many).step_by(batch as usize);
    let roles: Vec<_> = batches
        .map(|done| format!("{} {}", first + done, batch.min(many - done)))
        .collect();
    start(type_name::<F>(), &roles, |role| {
        let (first, count) = role.split_once(' ').unwrap();
        let (first, count): (u64, u64) = (first.parse().unwrap(), count.parse().unwrap());
        let mut open = None;
        for seed in first..first + count {
            let tally = run(seed);
            tally.tell();
            // The assertion runs after each seed, so the last printed seed is the failed one.
            tally.insist("this seed");
            assert_eq!(violations(), "", "the provider's user broke its rules");
            let opened = *open.get_or_insert_with(descriptors);
            assert_eq!(opened, descriptors(), "descriptors");
        }
        // Each seed has printed its counts.
        Tally::default()
    })
}

/// The role of this process, if it is a child.
fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// Changes the provider's shape. Only a child may call this, between two transports.
pub(crate) fn shape(pairs: &[(&str, &str)]) {
    let stale = env::vars().map(|(name, _)| name);
    let kept = [REPORT, STATS, TRACE, SUMMARY];
    let stale = stale.filter(|n| n.starts_with("LAB_") && !kept.contains(&n.as_str()));
    for name in stale.collect::<Vec<_>>() {
        // SAFETY: a child runs one test, and between transports no other code reads the
        // environment.
        unsafe { env::remove_var(name) };
    }
    for (name, value) in pairs {
        // SAFETY: a child runs one test, and between transports no other code reads the
        // environment.
        unsafe { env::set_var(format!("LAB_{name}"), value) };
    }
}

/// The violations that the provider has reported so far; only in a child.
pub(crate) fn violations() -> String {
    let path = env::var_os(REPORT).unwrap();
    fs::read_to_string(path).unwrap_or_default()
}

/// The provider's counts in this process until its last fabric was closed; only in a child.
pub(crate) fn stats() -> HashMap<String, u64> {
    let path = env::var_os(STATS).unwrap();
    let lines = fs::read_to_string(path).unwrap_or_default();
    let last = counts(lines.lines().last().unwrap_or_default());
    last.into_iter().map(|(n, v)| (n.to_owned(), v)).collect()
}

/// The number of open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A private folder that holds the provider under the name that libfabric looks for.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("btl-ofi-lab-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let tests = env::current_exe().unwrap();
        let built = tests.parent().unwrap().join("liblab_fi.so");
        assert!(built.exists(), "{} was not built", built.display());
        std::os::unix::fs::symlink(built, folder.join("liblab-fi.so")).unwrap();
        Folder(folder)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn counts(line: &str) -> HashMap<&str, u64> {
    let pairs = line.split(' ').filter_map(|word| word.split_once('='));
    pairs
        .filter_map(|(n, v)| Some((n, v.parse().ok()?)))
        .collect()
}

fn command(test: &str, role: &str, folder: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .args(["--test-threads", "1"])
        .env(ROLE, role)
        .env("FI_PROVIDER_PATH", folder)
        .env(REPORT, folder.join("report"))
        .env(STATS, folder.join("stats"))
        // The variable hides GPUs, so every machine gives the same results.
        .env("CUDA_VISIBLE_DEVICES", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs `test` of this file in a separate process with a role, for a bounded time. The process counts
/// as broken, and its output is printed, unless it passes, the provider reports no violation, and
/// every object is closed.
#[must_use]
fn child(test: &str, role: &str, limit: Duration) -> Tally {
    let folder = Folder::new();
    let (status, out, err) = spoken(&mut command(test, role, &folder.0), limit);
    let mut tally = told(&out);
    let last = out
        .lines()
        .rfind(|l| l.contains("@at"))
        .unwrap_or("(nothing)");
    let mut wrong = Vec::new();
    match status {
        Some(status) if status.success() => {}
        Some(status) => wrong.push(format!("{status}; last: {last}\n{out}\n{err}")),
        None => wrong.push(format!("not done, limit {limit:?}; last: {last}\n{err}")),
    }
    let lost = |l: &&str| l.contains("@lost");
    wrong.extend(out.lines().filter(lost).map(str::to_owned));
    let report = folder.read("report");
    if !report.is_empty() {
        wrong.push(format!("the provider's user broke its rules: {report}"));
    }
    let stats = folder.read("stats");
    let ends = stats.lines().filter(|l| l.starts_with("end "));
    let ends: Vec<_> = ends.map(counts).collect();
    if ends.is_empty() {
        wrong.push("the provider was not unloaded in order".to_owned());
    }
    for end in ends {
        if (end["open"], end["violations"]) != (0, 0) {
            wrong.push(format!("something was left: {end:?}"));
        }
        tally.faults += end["faults"];
    }
    if tally.run + tally.refused == 0 {
        wrong.push(format!("nothing was run\n{out}"));
    }
    if !wrong.is_empty() {
        tally.broken = 1;
        eprintln!("{test}, {role}: {}", wrong.join("\n"));
    }
    tally
}

/// The processor time of a process that has not been waited for.
fn worked_by(pid: u32) -> Duration {
    let mut clock = 0;
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both arguments are writable.
    let rc = unsafe {
        match libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) {
            0 => libc::clock_gettime(clock, &mut now),
            code => code,
        }
    };
    assert_eq!(rc, 0, "processor time of {pid}");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Runs a command until it has used `limit` of processor time, or until [`BLOCKED`] has passed. Returns the command's exit
/// status, if the command ended, and its output.
fn spoken(command: &mut Command, limit: Duration) -> (Option<ExitStatus>, String, String) {
    let mut child = command.spawn().unwrap();
    let reader = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut text = String::new();
            let _ = from.read_to_string(&mut text);
            text
        })
    };
    let out = reader(Box::new(child.stdout.take().unwrap()));
    let err = reader(Box::new(child.stderr.take().unwrap()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if worked_by(child.id()) >= limit || begun.elapsed() >= BLOCKED {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    (status, out.join().unwrap(), err.join().unwrap())
}

/// Adds up the counts in a child's output.
fn told(out: &str) -> Tally {
    let mut tally = Tally::default();
    for line in out.lines() {
        // The harness prints text before the child's first line, without a newline.
        let Some((_, numbers)) = line.split_once("@tally ") else {
            continue;
        };
        let n: Vec<u64> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
        tally += Tally {
            run: n[0],
            refused: n[1],
            checked: n[2],
            failed: n[3],
            lost: n[4],
            ..Tally::default()
        };
    }
    tally
}
