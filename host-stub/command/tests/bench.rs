//! `host-stub bench`: what is drawn and kept, and comparisons with earlier runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};

use common::{Finished, Place, c_plugin, finish, host_stub};
use serde_json::Value;

/// A short run over the C plugin, from 1 to 64 bytes.
fn bench(more: &[&str]) -> Command {
    let mut command = host_stub([
        "bench",
        "put",
        "--np",
        "2",
        "--max-size",
        "64",
        "--seconds",
        "0.2",
    ]);
    command.arg("--plugin").arg(c_plugin(None)).args(more);
    command
}

fn run(more: &[&str]) -> Finished {
    finish(&mut bench(more))
}

/// The figures of a run, in a file.
fn saved(place: &Place) -> (String, Value) {
    let path = place.0.join("saved.json").display().to_string();
    let run = run(&["--save", &path]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    (path, value)
}

/// Compares a run with an altered file of an earlier one.
fn compare(place: &Place, earlier: &Value) -> Finished {
    let path = place.0.join("earlier.json").display().to_string();
    fs::write(&path, earlier.to_string()).unwrap();
    run(&["--compare", &path])
}

/// Divides latencies by a factor, and multiplies rates with it.
fn faster(value: &Value, factor: f64) -> Value {
    let mut value = value.clone();
    for row in value["rows"].as_array_mut().unwrap() {
        for (name, by) in [("latency_us", 1.0 / factor), ("calls_per_s", factor)] {
            for figure in row[name].as_object_mut().unwrap().values_mut() {
                *figure = (figure.as_f64().unwrap() * by).into();
            }
        }
    }
    value
}

#[test]
fn figures_are_kept_with_their_spread_and_drawn() {
    let place = Place::new("bench-kept");
    let svg = place.0.join("put.svg").display().to_string();
    let kept = place.0.join("put.json").display().to_string();
    let run = run(&["--svg", &svg, "--save", &kept]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let kept: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
    let rows = kept["rows"].as_array().unwrap();
    let sizes: Vec<_> = rows
        .iter()
        .map(|row| row["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64]);
    for figure in rows
        .iter()
        .flat_map(|row| [&row["latency_us"], &row["calls_per_s"]])
    {
        let value = |name: &str| figure[name].as_f64().unwrap();
        assert!(
            value("least") > 0.0 && value("most") >= value("median"),
            "{figure}"
        );
    }
    let drawn = fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg"), "{drawn}");
    for title in ["latency (us)", "bandwidth (MB/s)", "host-stub"] {
        assert!(drawn.contains(title), "{title}");
    }
    // A line for each measure, beside those of the axes.
    let lines = drawn
        .matches("stroke=\"#5A5A5A\" stroke-width=\"2\"")
        .count();
    assert!(lines >= 2, "{lines}");
    // Into a pipe goes the table alone.
    assert_eq!(run.stdout().lines().count(), 2 + sizes.len());
}

#[test]
fn curves_are_drawn_on_a_terminal() {
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: both descriptors are locals that openpty writes; it needs nothing else.
    let opened = unsafe {
        let none = std::ptr::null_mut();
        libc::openpty(
            &mut ours,
            &mut theirs,
            none,
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    assert_eq!(opened, 0);
    // SAFETY: openpty opened both for this test.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
    let mut command = bench(&[]);
    let mut child = command
        .stdout(theirs)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // This process's copy, so that the end of the output is seen.
    drop(command);
    let mut bytes = Vec::new();
    // The other side's end is an error (EIO) here.
    let _ = ours.read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    let said = String::from_utf8_lossy(&bytes);
    let dots = said
        .chars()
        .filter(|c| ('\u{2801}'..='\u{28ff}').contains(c))
        .count();
    assert!(
        dots > 20 && said.contains("bandwidth (MB/s) over size"),
        "{said}"
    );
}

#[test]
fn a_run_behind_an_earlier_one_fails_and_names_what_is_worse() {
    let place = Place::new("bench-worse");
    let (path, value) = saved(&place);
    let worse = compare(&place, &faster(&value, 1e6));
    assert_eq!(worse.code(), Some(1), "{}", worse.stderr());
    for size in [1, 64] {
        for figure in ["latency us", "calls/s"] {
            let named = format!("worse than before: put of {size} bytes: {figure} ");
            assert!(worse.stderr().contains(&named), "{}", worse.stderr());
        }
    }
    let better = compare(&place, &faster(&value, 1e-6));
    assert_eq!(better.code(), Some(0), "{}", better.stderr());
    assert_eq!(better.stdout().matches(" better\n").count(), 14);
    // What `--json` prints is as good as a saved file, and stays alone on stdout.
    let json = run(&["--json", "--compare", &path]);
    let printed: Value = serde_json::from_str(&json.stdout()).unwrap();
    assert_ne!(compare(&place, &printed).code(), Some(2));
}

#[test]
fn files_that_cannot_be_compared_are_refused_before_anything_is_measured() {
    let place = Place::new("bench-refused");
    let (_, value) = saved(&place);
    let changed = |name: &str, to: Value| {
        let mut value = value.clone();
        value[name] = to;
        value
    };
    let mut incomplete = value.clone();
    incomplete.as_object_mut().unwrap().remove("provider");
    for (earlier, reason) in [
        (
            changed("format", 9.into()),
            "format 9, but this host-stub reads format 1",
        ),
        (incomplete, "missing field `provider`"),
        (Value::from(3), "no figures of `host-stub bench`"),
    ] {
        let run = compare(&place, &earlier);
        assert_eq!(run.code(), Some(2), "{}", run.stderr());
        assert!(run.stderr().contains(reason), "{}", run.stderr());
        assert_eq!(run.stdout(), "");
    }
    let absent = run(&["--compare", "/nowhere/old.json"]);
    assert_eq!(absent.code(), Some(2));
    assert!(
        absent.stderr().contains("/nowhere/old.json"),
        "{}",
        absent.stderr()
    );
    // What this run is like is known when it has run.
    let other = compare(&place, &changed("operation", "get".into()));
    assert_eq!(other.code(), Some(2));
    assert!(
        other
            .stderr()
            .contains("the operation was get and is put now"),
        "{}",
        other.stderr()
    );
    let tables = finish(&mut host_stub(["bench", "tables", "--svg", "x"]));
    assert_eq!(tables.code(), Some(2));
}
