//! One run of `host-stub check`, and the judgement of its end.

use std::collections::HashMap;
use std::fmt;
use std::process::Command;
use std::time::Duration;

use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::lab::Lab;
use integration_tests::process::{self, Outcome};

use crate::script::Script;

/// The limit of a test in seconds, large enough for a busy machine.
const PATIENCE: u64 = 400;
/// The peer timeout in milliseconds, long enough for a busy machine.
const PEER_TIMEOUT: u64 = 2000;
/// The limit of a run.
const LIMIT: Duration = Duration::from_secs(600);

/// The texts by which a rank says that a call reported a failure: a test of the check ended, a window was not
/// made or not freed, a failure ended a wait out of band, or the job was not left.
const REPORTS: [&str; 8] = [
    "ended with a failure that was reported",
    "window creation failed on rank",
    "host-stub: free to rank",
    "transport: ",
    "a notification to another rank was lost",
    "is gone:",
    "the module can no longer be used",
    "flush before leaving the job returned",
];
/// The texts in the output of a rank that ended without a report.
const CRASHES: [&str; 6] = [
    "SIGSEGV",
    "SIGABRT",
    "SIGBUS",
    "SIGILL",
    "SIGFPE",
    "panicked at",
];

/// The results of runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) runs: u64,
    /// The number of runs that ended with a reported failure.
    pub(crate) reported: u64,
    /// The texts of those reports.
    pub(crate) reports: Vec<String>,
    /// The number of tests that passed in the other runs.
    pub(crate) passed: u64,
    faults: u64,
    /// The number of operations that the provider accepted, by its own count ...
    operations: u64,
    /// ... and completed with success ...
    done: u64,
    /// ... or with an error.
    failed: u64,
    /// The number of operations that were outstanding when a reported failure ended their run.
    ended: u64,
    /// The number of operations that a run left outstanding without a report.
    pub(crate) lost: u64,
    /// The descriptions of runs that did not end as they must.
    pub(crate) wrong: Vec<String>,
}

impl Seen {
    pub(crate) fn add(&mut self, o: Seen) {
        self.runs += o.runs;
        self.reported += o.reported;
        self.reports.extend(o.reports);
        self.passed += o.passed;
        self.faults += o.faults;
        self.operations += o.operations;
        self.done += o.done;
        self.failed += o.failed;
        self.ended += o.ended;
        self.lost += o.lost;
        self.wrong.extend(o.wrong);
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} combinations run, {} faults injected, {} operations checked ({} done, {} failed, {} \
             outstanding when a reported failure ended their run; {} tests passed, {} runs ended by a reported \
             failure, {} runs wrong), lost: {}",
            self.runs,
            self.faults,
            self.operations,
            self.done,
            self.failed,
            self.ended,
            self.passed,
            self.reported,
            self.wrong.len(),
            self.lost
        )
    }
}

/// The last counts of each process.
fn counts(lab: &Lab) -> Vec<HashMap<String, u64>> {
    let ends = lab.lines("stats").into_iter();
    ends.filter(|line| line.starts_with("end "))
        .map(|line| {
            let pairs = line.split(' ').filter_map(|word| word.split_once('='));
            pairs
                .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
                .collect()
        })
        // The launcher, and a process that only calls `fi_getinfo`, have no counts.
        .filter(|counts: &HashMap<String, u64>| counts["posted"] > 0 || counts["faults"] > 0)
        .collect()
}

/// The number of operations of a process that neither succeeded nor failed.
fn outstanding(counts: &HashMap<String, u64>) -> Result<u64, String> {
    // Receives that stay posted to the end are no operations of the user.
    let ended = counts["completed"] + counts["failed"] + counts["unmet"];
    let left = counts["posted"].checked_sub(ended);
    left.ok_or_else(|| format!("more operations ended than were posted: {counts:?}"))
}

/// Runs a script and judges its end.
pub(crate) fn run(script: &Script) -> Seen {
    let lab = Lab::default();
    let outcome = process::attempt(&mut command(script, &lab), LIMIT);
    let counts = counts(&lab);
    let sum = |name: &str| counts.iter().map(|c| c[name]).sum::<u64>();
    let mut seen = Seen {
        runs: 1,
        faults: sum("faults"),
        operations: sum("posted"),
        done: sum("completed"),
        failed: sum("failed"),
        ..Seen::default()
    };
    let outstanding = counts.iter().map(outstanding).sum::<Result<u64, _>>();
    let (outstanding, judged) = match outstanding {
        Ok(n) => (n, judge(script, &lab, &counts, &outcome)),
        Err(why) => (0, Err(why)),
    };
    match judged {
        Ok(End::Passed(tests)) => (seen.passed, seen.lost) = (tests, outstanding),
        Ok(End::Reported) => {
            (seen.reported, seen.ended) = (1, outstanding);
            seen.reports.push(outcome.stderr);
        }
        Err(why) => {
            seen.lost = outstanding;
            seen.wrong.push(format!(
                "{why}\nagain with: ./dev soak --one {} --seed {}\n{script:?}\n{}",
                if script.only.is_empty() {
                    "check"
                } else {
                    "short"
                },
                script.seed,
                outcome.transcript()
            ));
        }
    }
    seen
}

/// The possible ends of a run.
enum End {
    /// All tests passed; the number of tests.
    Passed(u64),
    /// A call reported a failure.
    Reported,
}

fn judge(
    script: &Script,
    lab: &Lab,
    counts: &[HashMap<String, u64>],
    outcome: &Outcome,
) -> Result<End, String> {
    let report = lab.lines("report");
    let broken = |line: &String| Err(format!("the provider's rules were broken: {line}"));
    match outcome.status.code() {
        _ if outcome.late => Err(format!("it did not end within {LIMIT:?}")),
        Some(0) => {
            if let Some(line) = report.first() {
                return broken(line);
            }
            if counts.len() != script.ranks || counts.iter().any(|c| c["open"] != 0) {
                return Err("something was left open".to_owned());
            }
            if counts.iter().any(|c| c["failed"] != 0) {
                return Err("an operation failed, and nobody said so".to_owned());
            }
            let last = outcome.stdout.lines().last().unwrap_or_default();
            let passed = last.strip_suffix(" passed, 0 failed");
            match passed.and_then(|n| n.parse().ok()) {
                Some(passed) => Ok(End::Passed(passed)),
                None => Err("it ended well without saying how many tests passed".to_owned()),
            }
        }
        // 5: a rank met the failure while it waited for the other ranks out of band.
        Some(5 | 6) if script.fails => {
            let text = &outcome.stderr;
            if !REPORTS.iter().any(|report| text.contains(report)) {
                return Err("it ended without naming a failure".to_owned());
            }
            // No rank may crash, whatever was reported.
            if let Some(crash) = CRASHES.iter().find(|crash| text.contains(*crash)) {
                return Err(format!("a rank ended by itself: {crash}"));
            }
            // A process that exits immediately leaves its objects open, and its regions end before
            // others know.
            let follows =
                |line: &String| line.contains("never closed") || line.contains("names no region");
            match report.iter().find(|line| !follows(line)) {
                Some(line) => broken(line),
                None => Ok(End::Reported),
            }
        }
        _ => Err("it must end with success, or with a failure that was reported".to_owned()),
    }
}

fn command(script: &Script, lab: &Lab) -> Command {
    let mut command = Command::new(host_stub());
    command
        .args(["check", "--provider", "lab", "--np"])
        .arg(script.ranks.to_string())
        .args(["--threads", &script.threads.to_string()])
        .args(["--seed", &script.seed.to_string()])
        .args(["--timeout", &PATIENCE.to_string()])
        .args(["--only", script.only])
        // Without this table, windows of one node would not use the transport.
        .args(["--mca", "host_win_table", "btl"])
        .args(["--mca", "btl_ofi_num_contexts_per_module"])
        .arg(script.contexts.to_string())
        .arg("--plugin")
        .arg(ofi_plugin());
    let shape = script.shape.iter();
    lab.serve(
        &mut command,
        shape.map(|(name, value)| (*name, value.as_str())),
    );
    for (name, value) in &script.params {
        command.args(["--mca", name, value]);
    }
    if script.fails {
        // The timeout is the only limit that ends the waits for a provider that accepts no further
        // operation.
        let timeout = PEER_TIMEOUT.to_string();
        command.args(["--faults", "--mca", "btl_ofi_peer_timeout", &timeout]);
    }
    command
}
