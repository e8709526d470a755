//! Traces of jobs, and the output of `host-stub trace` for them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use host_stub::trace::{HEAD, VERSION};
use integration_tests::fixtures::{compile_for_host, host_stub, ofi_plugin};
use integration_tests::process::{Outcome, run};
use serde_json::Value;

/// Windows whose ranks simulate separate nodes, so that the transport makes all transfers: by rings, and by messages.
const RINGS: [&str; 5] = ["--provider", "shm", "--mca", "host_ranks_per_node", "1"];
const MESSAGES: [&str; 8] = [
    "--provider",
    "tcp;ofi_rxm",
    "--mca",
    "btl_ofi_same_node",
    "off",
    "--mca",
    "host_ranks_per_node",
    "1",
];

/// A program in C, compiled once.
fn program(name: &str) -> PathBuf {
    static COMPILED: OnceLock<()> = OnceLock::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    COMPILED.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for source in ["../host-stub/c/examples/halo.c", "c/waits.c"] {
            let source = here.join(source);
            let out = folder.join(format!("traced-{}", source.file_stem().unwrap().display()));
            compile_for_host(&source, &out, &[]);
        }
    });
    folder.join(format!("traced-{name}"))
}

/// A job with traces in its own folder.
struct Traced {
    folder: PathBuf,
    outcome: Outcome,
}

impl Traced {
    fn run(test: &str, ranks: &str, settings: &[&str], program: &[&str]) -> Traced {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(host_stub());
        command
            .args(["launch", "-n", ranks, "--plugin"])
            .arg(ofi_plugin());
        command
            .args(settings)
            .args(["--mca", "host_trace"])
            .arg(folder.join("t"));
        command
            .arg("--")
            .arg(self::program(program[0]))
            .args(&program[1..]);
        Traced {
            outcome: run(&mut command),
            folder,
        }
    }

    fn passed(self) -> Traced {
        assert!(
            self.outcome.status.success(),
            "{}",
            self.outcome.transcript()
        );
        self
    }

    /// The trace files of the ranks.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).unwrap().flatten();
        let files = entries.map(|entry| entry.path());
        files
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("t.")
            })
            .collect()
    }

    /// Runs `host-stub trace` with these files.
    fn trace(&self, what: &str, more: &[&str]) -> Outcome {
        let mut command = Command::new(host_stub());
        command.args(["trace", what]).args(self.files()).args(more);
        run(&mut command)
    }

    /// The merged trace.
    fn merged(&self) -> Vec<Value> {
        let out = self.folder.join("merged.json");
        let merged = self.trace("merge", &["-o", out.to_str().unwrap()]);
        assert!(merged.status.success(), "{}", merged.transcript());
        let json: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
        let events = json["traceEvents"].as_array().unwrap().clone();
        check(&events);
        events
    }
}

/// Checks the rules of every trace: times do not decrease, every beginning has an end, both ends of an arrow lie in slices,
/// and an operation has one carrier.
fn check(events: &[Value]) {
    let mut before = 0.0;
    let (mut open, mut arrows) = (HashMap::new(), HashMap::new());
    let mut slices: HashMap<_, Vec<(f64, f64)>> = HashMap::new();
    let row = |event: &Value| (event["pid"].to_string(), event["tid"].to_string());
    let operation = |event: &Value| {
        (
            event["pid"].to_string(),
            event["args"]["number"].to_string(),
        )
    };
    let posts = events
        .iter()
        .filter(|e| e["ph"] == "X" && e["cat"] == "operation");
    let carriers: HashMap<_, _> = posts
        .map(|post| (operation(post), post["args"]["carrier"].clone()))
        .collect();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (ts, dur) = (
            event["ts"].as_f64().unwrap(),
            event["dur"].as_f64().unwrap(),
        );
        assert!(dur >= 0.0, "{event}");
        slices.entry(row(event)).or_default().push((ts, ts + dur));
    }
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        if phase == "M" {
            continue;
        }
        let ts = event["ts"].as_f64().unwrap();
        assert!(ts >= before, "{event} comes after {before}");
        before = ts;
        let id = event["id"].to_string();
        match phase {
            "b" => {
                let posted = carriers.get(&operation(event));
                assert!(
                    posted.is_none_or(|c| *c == event["args"]["carrier"]),
                    "{event}"
                );
                assert_eq!(open.insert(id, ts), None, "{event}");
            }
            "e" => assert!(open.remove(&id).is_some(), "{event}"),
            "s" => assert_eq!(arrows.insert(id, ts), None, "{event}"),
            "f" => assert!(arrows.remove(&id).is_some(), "{event}"),
            "X" | "i" => {}
            other => panic!("phase {other}: {event}"),
        }
        if phase == "s" || phase == "f" {
            let around = slices.get(&row(event)).into_iter().flatten();
            // Microseconds in 53 bits: the last digits of equal sums may differ.
            let holds = |(from, to): &(f64, f64)| *from <= ts + 1e-3 && ts <= *to + 1e-3;
            assert!(around.clone().any(holds), "{event} is in no slice");
        }
    }
    assert!(open.is_empty() && arrows.is_empty(), "{open:?} {arrows:?}");
}

/// The number of occurrences of each event, by rank, phase and name.
fn counts(events: &[Value]) -> BTreeMap<(u64, String, String), usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        let key = (event["pid"].as_u64().unwrap(), text("ph"), text("name"));
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// The halo exchange with each carrier: the trace contains every put of each rank, and the calls of
/// the host.
#[test]
fn a_halo_exchange() {
    for (test, settings) in [("halo-messages", &MESSAGES[..]), ("halo-rings", &RINGS)] {
        let job = Traced::run(test, "3", settings, &["halo"]).passed();
        assert_eq!(job.files().len(), 3);
        let counts = counts(&job.merged());
        let count = |rank: u64, phase: &str, name: &str| {
            *counts
                .get(&(rank, phase.to_owned(), name.to_owned()))
                .unwrap_or(&0)
        };
        for rank in 0..3 {
            assert!(count(rank, "X", "fence") > 100, "{counts:?}");
            assert!(count(rank, "X", "progress") > 0, "{counts:?}");
        }
        // Each row has a put, or several rows together have a command.
        let moved = ["put", "apply"];
        let puts = |from, to: u64| -> usize {
            let names = moved.iter().map(|name| format!("{name}, rank {to}"));
            names.map(|name| count(from, "X", &name)).sum()
        };
        assert!(
            puts(0, 1) >= 100 && puts(1, 0) >= 100 && puts(1, 2) >= 100,
            "{counts:?}"
        );
        assert_eq!(puts(0, 2), 0, "{counts:?}");
        // Operations in rings may be revoked, and then have no arrows.
        let of_rank = |rank| moved.map(|name| count(rank, "s", &format!("{name}, rank 1")));
        let arrows: usize = (0..3).flat_map(of_rank).sum();
        assert!(arrows > 0 || test == "halo-rings", "{counts:?}");
    }
}

/// A wait of rank 0 that rank 1 causes.
struct Cause {
    /// The work of the program.
    what: &'static str,
    reason: &'static str,
    place: &'static str,
}

impl Cause {
    /// Whether the wait of a job whose rank 1 pauses for `pause` milliseconds is found, with its reason.
    fn is_found(&self, way: &str, settings: &[&str], pause: &str) -> bool {
        let reason = format!("rank 1 {}", self.reason);
        let name = format!("{}-{way}-{pause}", self.what);
        let job = Traced::run(&name, "2", settings, &["waits", self.what, pause]).passed();
        let why = job.trace("why", &["--over", "50", "--json"]);
        assert!(why.status.success(), "{}", why.transcript());
        let waits: Value = serde_json::from_str(&why.stdout).unwrap();
        let is_it = |wait: &Value| {
            let text = |key: &str| wait[key].as_str().unwrap().to_owned();
            wait["rank"] == 0
                && wait["blamed"] == 1
                && text("place").starts_with(self.place)
                && text("reason").starts_with(&reason)
        };
        let found = waits.as_array().unwrap().iter().any(is_it);
        let lines = job.trace("why", &["--over", "50"]);
        assert!(lines.stdout.contains(&reason) || !found, "{lines:?}");
        if !found {
            println!("{} by {way}, {pause} ms: {waits}", self.what);
        }
        found
    }
}

/// The trace shows the longest wait with its reason. If other programs keep the ranks off the processors for longer
/// than the pause, the trace correctly names this reason; the test then lengthens the pause.
#[test]
fn why_a_rank_waited() {
    let causes = [
        ("sleep", "made no progress for", "flush"),
        ("lock", "held the lock of rank 0 for", "lock, rank 0"),
    ];
    for (what, reason, place) in causes {
        let cause = Cause {
            what,
            reason,
            place,
        };
        for (way, settings) in [("messages", &MESSAGES[..]), ("rings", &RINGS)] {
            let mut pauses = ["200", "1000", "5000"].into_iter();
            assert!(
                pauses.any(|pause| cause.is_found(way, settings, pause)),
                "{what} by {way}"
            );
        }
    }
}

/// A rank is killed: its file ends there, and the rest is complete.
#[test]
fn a_killed_rank() {
    let job = Traced::run("killed", "2", &MESSAGES, &["waits", "die"]);
    assert!(!job.outcome.status.success());
    let events = counts(&job.merged());
    for rank in 0..2 {
        let adds = (rank, String::from("X"), format!("fetch, rank {}", 1 - rank));
        assert!(events.get(&adds).is_some_and(|n| *n >= 20), "{events:?}");
    }
    let said = job.trace("merge", &["-o", "/dev/null"]);
    assert!(
        said.stderr.contains("rank 1: the end is missing"),
        "{}",
        said.transcript()
    );
}

/// A job hangs until it is killed: the trace names the call in which a rank waited, although the call
/// never ended.
#[test]
fn a_rank_that_hangs() {
    let job = Traced::run("hung", "2", &MESSAGES, &["waits", "die", "2500"]);
    assert!(!job.outcome.status.success());
    let why = job.trace("why", &["--over", "50", "--json"]);
    assert!(why.status.success(), "{}", why.transcript());
    let waits: Value = serde_json::from_str(&why.stdout).unwrap();
    let hung = &waits[0];
    let place = hung["place"].as_str().unwrap();
    assert_eq!(
        (&hung["rank"], &hung["ended"]),
        (&0.into(), &false.into()),
        "{waits}"
    );
    assert!(place.contains("(did not end)"), "{waits}");
    assert_eq!(hung["blamed"], 1, "{waits}");
    let text = job.trace("why", &["--over", "50"]).stdout;
    assert!(text.lines().next().unwrap().contains(place), "{text}");
}

/// Files that are truncated, of another version, no traces, or missing.
#[test]
fn files_that_are_not_whole() {
    let job = Traced::run("cut", "2", &MESSAGES, &["waits", "none"]).passed();
    let whole = counts(&job.merged());
    let file = job.files().remove(0);
    let bytes = fs::read(&file).unwrap();
    // The file ends in the middle of a record.
    fs::write(&file, &bytes[..bytes.len() - 33]).unwrap();
    assert!(!counts(&job.merged()).is_empty() && !whole.is_empty());
    fs::write(&file, &bytes[..HEAD]).unwrap();
    assert!(!job.merged().is_empty());
    let mut later = bytes.clone();
    later[8..12].copy_from_slice(&(VERSION + 1).to_ne_bytes());
    let cases: [(&[u8], bool, String); 3] = [
        (
            &later,
            false,
            format!(
                "has version {}, and this program reads version {VERSION}",
                VERSION + 1
            ),
        ),
        // The trace of the other rank is shown.
        (&bytes[..HEAD - 1], true, String::from("is no trace")),
        (&[], true, String::from("is no trace")),
    ];
    for (bytes, shown, said) in cases {
        fs::write(&file, bytes).unwrap();
        let merged = job.trace("merge", &["-o", "/dev/null"]);
        let code = if shown { 0 } else { 6 };
        assert_eq!(merged.status.code(), Some(code), "{}", merged.transcript());
        assert!(merged.stderr.contains(&said), "{}", merged.transcript());
        assert!(merged.stderr.contains(file.to_str().unwrap()), "{merged:?}");
    }
    let only = |path: &Path| {
        let mut command = Command::new(host_stub());
        command
            .args(["trace", "merge", "-o", "/dev/null"])
            .arg(path);
        run(&mut command)
    };
    let none = only(&file);
    assert_eq!(none.status.code(), Some(6), "{}", none.transcript());
    assert!(none.stderr.contains("is no trace"), "{none:?}");
    fs::write(&file, bytes).unwrap();
    let full = job.trace("merge", &["-o", "/dev/full"]);
    assert_eq!(full.status.code(), Some(6), "{}", full.transcript());
    assert!(full.stderr.contains("/dev/full"), "{}", full.transcript());
    fs::remove_file(&file).unwrap();
    let missing = only(&file);
    assert_eq!(missing.status.code(), Some(6), "{}", missing.transcript());
}

/// The folder does not exist: each rank prints one line, and the job continues.
#[test]
fn a_file_that_cannot_be_created() {
    let trace = ["--mca", "host_trace", "/nowhere/t"];
    let outcome = run(Command::new(host_stub())
        .args(["launch", "-n", "2", "--plugin"])
        .arg(ofi_plugin())
        .args(["--provider", "shm"])
        .args(trace)
        .arg("--")
        .args([program("waits").to_str().unwrap(), "none"]));
    let said = outcome.transcript();
    assert!(outcome.status.success(), "{said}");
    let lines = outcome
        .stderr
        .matches("no trace is written to /nowhere/t.*: ")
        .count();
    assert_eq!(lines, 2, "{said}");
}
