//! One run: a job whose other ranks continue when one fails; the test watches the job to its end.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::usage::shared_memory_files;

use crate::{ATTENDED, Fate};

pub(crate) const KIND: &str = "CHAOS_KIND";
pub(crate) const FATE: &str = "CHAOS_FATE";
pub(crate) const SEED: &str = "CHAOS_RUN_SEED";

/// The number of ranks of a job.
const RANKS: usize = 3;
/// The peer timeout in milliseconds, for runs with stopped ranks.
const TIMEOUT: &str = "600";
/// The time in which the next event must happen ...
const PATIENCE: Duration = Duration::from_secs(30);
/// ... and the processor time of all ranks together in which it must happen, because on a busy
/// machine they may get almost none. If the ranks do not use this processor time, the test waits
/// this many times [`PATIENCE`].
const WORK: Duration = Duration::from_secs(6);
const AT_MOST: u32 = 6;
/// The time in which killed processes must be gone, after the end of the launcher.
const GOING: Duration = Duration::from_secs(5);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) fate: Fate,
    pub(crate) kind: &'static str,
    pub(crate) table: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) seed: u64,
}

/// The results of runs.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) signals: usize,
    pub(crate) errors: usize,
    pub(crate) returned: usize,
    /// The number of survivors without an error.
    pub(crate) lost: usize,
    /// The number of remains of the jobs.
    pub(crate) behind: usize,
    pub(crate) slowest: Duration,
    /// The descriptions of runs that did not end as they must.
    pub(crate) wrong: Vec<String>,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Seen) {
        self.signals += other.signals;
        self.errors += other.errors;
        self.returned += other.returned;
        self.lost += other.lost;
        self.behind += other.behind;
        self.slowest = self.slowest.max(other.slowest);
        self.wrong.extend_from_slice(&other.wrong);
    }
}

/// The output lines of the ranks, and the facts that they state.
struct Watch {
    lines: Receiver<String>,
    /// The files in `/dev/shm` before the run.
    files: Vec<String>,
    log: Vec<String>,
    pids: HashMap<usize, i32>,
    signalled: Option<u64>,
    errors: HashMap<usize, u64>,
    /// The ranks that have left, with the descriptors that they opened and did not close.
    left: HashMap<usize, Vec<String>>,
}

/// A wait that ends when the awaited event had its chance.
struct Wait {
    began: Instant,
    /// The processor time of the ranks at the beginning of the wait.
    worked: Duration,
}

impl Wait {
    fn begin(watch: &Watch) -> Wait {
        Wait {
            began: Instant::now(),
            worked: watch.worked(),
        }
    }

    fn is_over(&self, watch: &Watch) -> bool {
        let waited = self.began.elapsed();
        let worked = watch.worked().saturating_sub(self.worked);
        waited >= PATIENCE && (worked >= WORK || waited >= PATIENCE * AT_MOST)
    }
}

impl Watch {
    /// Reads lines until `done` returns true; false if this takes too long, or all ranks have ended
    /// before.
    fn until(&mut self, done: impl Fn(&Watch) -> bool) -> bool {
        let wait = Wait::begin(self);
        while !done(self) {
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => self.take(line),
                Err(RecvTimeoutError::Timeout) if !wait.is_over(self) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }

    /// The processor time of the ranks that have not ended.
    fn worked(&self) -> Duration {
        // SAFETY: the only argument is a number.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        let of = |pid: &i32| -> Option<u64> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // utime and stime are the 14th and 15th field; the 2nd is a name that may contain any
            // character.
            let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
            let mut next = || fields.next()?.parse::<u64>().ok();
            Some(next()? + next()?)
        };
        let sum: u64 = self.pids.values().filter_map(of).sum();
        Duration::from_millis(sum * 1000 / ticks)
    }

    fn take(&mut self, line: String) {
        // The harness of the rank prints text before the rank's lines, without a newline.
        if let Some((_, said)) = line.split_once('@') {
            let mut words = said.split(' ');
            let what = words.next().unwrap_or_default();
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            match (what, number(), number()) {
                ("ready", Some(rank), Some(pid)) => {
                    self.pids.insert(rank as usize, pid as i32);
                }
                ("signal", Some(at), _) => self.signalled = Some(at),
                ("error", Some(rank), Some(at)) => {
                    self.errors.insert(rank as usize, at);
                }
                ("left", Some(rank), _) => {
                    let (_, open) = said.split_once(':').unwrap_or_default();
                    let open = open.split(';').filter(|d| !d.is_empty());
                    self.left
                        .insert(rank as usize, open.map(str::to_owned).collect());
                }
                _ => {}
            }
        }
        self.log.push(line);
    }

    /// The rank that was struck, once every other rank has reported an error.
    fn victim(&self) -> Option<usize> {
        let mut silent = (0..RANKS).filter(|rank| !self.left.contains_key(rank));
        silent.next().filter(|_| silent.next().is_none())
    }
}

fn relay(from: impl Read + Send + 'static, to: std::sync::mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { break };
            if to.send(line).is_err() {
                break;
            }
        }
    });
}

/// Runs a case, and describes every deviation.
pub(crate) fn run(case: &Case) -> Seen {
    let timeout = match case.fate {
        Fate::Killed => "0",
        Fate::Stopped => TIMEOUT,
    };
    let progress_thread = if case.kind == ATTENDED { "1" } else { "0" };
    let files = shared_memory_files();
    let mut child = Command::new(host_stub())
        .args(["launch", "-n", &RANKS.to_string(), "--enable-recovery"])
        .arg("--plugin")
        .arg(ofi_plugin())
        .args(["--provider", case.provider])
        .args(["--mca", "host_win_table", case.table])
        .args(["--mca", "host_progress_thread", progress_thread])
        .args(["--mca", "btl_ofi_peer_timeout", timeout, "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "rank_that_fails_or_survives", "--ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .env("OMPI_MCA_mca_base_param_files", "none")
        // CUDA's driver keeps files open.
        .env("OMPI_MCA_host_cuda", "0")
        .envs(["FI_TCP_IFACE", "FI_SOCKETS_IFACE", "FI_UDP_IFACE"].map(|name| (name, "lo")))
        .env(KIND, case.kind)
        .env(FATE, format!("{:?}", case.fate))
        .env(SEED, case.seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    relay(child.stdout.take().unwrap(), sender.clone());
    relay(child.stderr.take().unwrap(), sender);
    let mut watch = Watch {
        lines,
        files,
        log: Vec::new(),
        pids: HashMap::new(),
        signalled: None,
        errors: HashMap::new(),
        left: HashMap::new(),
    };
    let mut wrong = Vec::new();
    if !watch.until(|w| w.left.len() == RANKS - 1) {
        wrong.push(String::from("not every survivor gets an error"));
    }
    let mut returned = 0;
    if case.fate == Fate::Stopped
        && let Some(pid) = watch.victim().and_then(|victim| watch.pids.get(&victim))
    {
        // SAFETY: the process is a rank of this run, and the launcher has not reaped it.
        unsafe { libc::kill(*pid, libc::SIGCONT) };
        if watch.until(|w| w.left.len() == RANKS) {
            returned = 1;
        } else {
            wrong.push(String::from("the rank that came back gets no error"));
        }
    }
    let wait = Wait::begin(&watch);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if !wrong.is_empty() || wait.is_over(&watch) => {
                wrong.push(String::from("the job does not end"));
                // SAFETY: the process is this test's child and has not been waited for. The
                // launcher ends its ranks.
                unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
                break child.wait().ok();
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    while watch.until(|_| false) {}
    let code = status.and_then(|s| s.code());
    let expected = match case.fate {
        Fate::Killed => 137,
        // All ranks stop without leaving the job.
        Fate::Stopped => 5,
    };
    if code != Some(expected) {
        wrong.push(format!(
            "the launcher ended with {status:?}, not {expected}"
        ));
    }
    // A killed process needs a moment of processor time to end.
    let ended = Instant::now();
    let mut behind = left_behind(&watch);
    while !behind.is_empty() && ended.elapsed() < GOING {
        thread::sleep(Duration::from_millis(10));
        behind = left_behind(&watch);
    }
    let left = behind.len();
    wrong.extend(behind);
    let struck = watch.signalled.unwrap_or(u64::MAX);
    for (rank, at) in &watch.errors {
        if *at < struck {
            wrong.push(format!("rank {rank} failed before anything happened"));
        }
    }
    if !wrong.is_empty() {
        let what = wrong.join("; ");
        let log = watch.log.join("\n");
        let seed = case.seed;
        wrong = vec![format!(
            "{case:?}: {what}; repeat it with CHAOS_SEED={seed}\n{log}"
        )];
    }
    let survivors = RANKS - 1;
    let errors = watch.errors.len().saturating_sub(returned);
    let slowest = watch.errors.values().map(|at| at.saturating_sub(struck));
    Seen {
        signals: usize::from(watch.signalled.is_some()),
        errors,
        returned,
        lost: survivors.saturating_sub(errors),
        behind: left,
        wrong,
        // The time of a stopped rank that continued does not count, because it gets its error late.
        slowest: if returned == 0 {
            Duration::from_micros(slowest.max().unwrap_or(0))
        } else {
            let mut all: Vec<u64> = slowest.collect();
            all.sort_unstable();
            all.pop();
            Duration::from_micros(all.pop().unwrap_or(0))
        },
    }
}

/// The processes and files that an ended job has left behind.
fn left_behind(watch: &Watch) -> Vec<String> {
    let mut found = Vec::new();
    for (rank, open) in watch.left.iter().filter(|(_, open)| !open.is_empty()) {
        found.push(format!("rank {rank} has still open: {}", open.join(", ")));
    }
    // Files that other programs left before may contain the same number.
    let mut files = shared_memory_files();
    files.retain(|file| !watch.files.contains(file));
    for (rank, pid) in &watch.pids {
        // A zombie has an entry too.
        if Path::new(&format!("/proc/{pid}")).exists() {
            found.push(format!("process {pid} of rank {rank} is still there"));
        }
        let named = |name: &&String| is_of(name, *pid);
        found.extend(files.iter().filter(named).map(|f| format!("/dev/shm/{f}")));
    }
    found
}

/// Whether a file in `/dev/shm` belongs to a process, by its name: `btl_ofi.NODE.PID.STARTED...`
/// for a named endpoint, `PID:DOMAIN:ENDPOINT...` for names of the shm provider.
fn is_of(name: &str, pid: i32) -> bool {
    let number = if name.starts_with("btl_ofi.") {
        name.split('.').nth(2)
    } else {
        name.split_once(':').map(|(number, _)| number)
    };
    number == Some(pid.to_string().as_str())
}
