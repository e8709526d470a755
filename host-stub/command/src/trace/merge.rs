//! The traces of a job in the Trace Event Format of Chrome, which Perfetto opens too.
//!
//! A process is a rank, with a row for each of its threads. The rows below have records that do not nest in the others: times
//! without progress, and refused posts. Operations with callbacks are asynchronous events; arrows are flow events.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use host_stub::trace::{Kind, NO_RANK, Record};
use plugin_api::counters::Carrier;
use serde_json::{Value, json};

use super::arrows::{self, Arrow};
use super::read::Job;

/// The rows that belong to no thread.
const QUIET: u32 = 0;
const REFUSED: u32 = 1;

/// An event of the file.
enum Event<'a> {
    Slice(&'a Record),
    Begin(&'a Record),
    End(&'a Record),
    Lost(&'a Record),
    Leaves(usize, &'a Arrow<'a>),
    Arrives(usize, &'a Arrow<'a>),
}

/// Writes the file; returns the number of events.
pub(super) fn write(job: &Job, path: &Path) -> io::Result<usize> {
    let mut out = BufWriter::new(File::create(path)?);
    let written = events(job, &mut out)?;
    out.flush()?;
    Ok(written)
}

fn events(job: &Job, out: &mut impl Write) -> io::Result<usize> {
    let arrows = arrows::find(job);
    let mut events = Vec::new();
    for (process, at) in job.processes.iter().zip(0..) {
        for record in &process.records {
            match record.kind {
                Kind::Done => {
                    events.push((record.begin, at, Event::Begin(record)));
                    events.push((record.end(), at, Event::End(record)));
                }
                Kind::Lost => events.push((record.begin, at, Event::Lost(record))),
                Kind::End => {}
                _ => events.push((record.begin, at, Event::Slice(record))),
            }
        }
    }
    for (arrow, number) in arrows.iter().zip(0..) {
        events.push((arrow.post.begin, arrow.from, Event::Leaves(number, arrow)));
        // Within the slice of the progress, which may have begun before the post.
        let arrives = arrow.progress.begin.max(arrow.post.begin);
        events.push((arrives, arrow.to, Event::Arrives(number, arrow)));
    }
    // A stable sort: a record that contains another one stays before it.
    events.sort_by_key(|(time, ..)| *time);
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut separator = "\n";
    let names = names(job);
    let count = names.len() + events.len();
    let shown = events
        .iter()
        .map(|(time, at, event)| show(job, *time, *at, event));
    for event in names.into_iter().chain(shown) {
        out.write_all(separator.as_bytes())?;
        serde_json::to_writer(&mut *out, &event)?;
        separator = ",\n";
    }
    writeln!(out, "\n]}}")?;
    Ok(count)
}

/// The names of processes and rows.
fn names(job: &Job) -> Vec<Value> {
    let mut names = Vec::new();
    for process in &job.processes {
        let pid = process.rank;
        let mut name = |what: &str, tid: u32, name: Value| {
            let key = if what.ends_with("sort_index") {
                "sort_index"
            } else {
                "name"
            };
            names.push(
                json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: name}}),
            );
        };
        name("process_name", 0, process.title().into());
        name("process_sort_index", 0, pid.into());
        let of_threads = process
            .records
            .iter()
            .filter(|r| r.kind != Kind::End && row(r) == r.thread);
        let threads: BTreeSet<u32> = of_threads.map(|r| r.thread).collect();
        for thread in threads {
            name("thread_name", thread, format!("thread {thread}").into());
        }
        name("thread_name", QUIET, "no progress".into());
        name("thread_name", REFUSED, "no room".into());
    }
    names
}

/// The row of a record.
fn row(record: &Record) -> u32 {
    match record.kind {
        Kind::Quiet => QUIET,
        Kind::Refused => REFUSED,
        _ => record.thread,
    }
}

fn show(job: &Job, time: u64, at: usize, event: &Event<'_>) -> Value {
    let (pid, ts) = (job.processes[at].rank, microseconds(time));
    match event {
        Event::Slice(record) => json!({
            "ph": "X", "cat": category(record.kind), "name": title(record), "pid": pid, "tid": row(record),
            "ts": ts, "dur": microseconds(record.duration), "args": arguments(record),
        }),
        Event::Begin(r) | Event::End(r) => {
            let phase = if matches!(event, Event::Begin(_)) {
                "b"
            } else {
                "e"
            };
            json!({
                "ph": phase, "cat": "under way", "name": title(r), "id": format!("{pid}.{}", r.id), "pid": pid,
                "tid": r.thread, "ts": ts, "args": arguments(r),
            })
        }
        Event::Lost(r) => json!({
            "ph": "i", "s": "p", "cat": "lost", "name": format!("{} records are missing", r.id), "pid": pid,
            "tid": r.thread, "ts": ts,
        }),
        Event::Leaves(number, arrow) => json!({
            "ph": "s", "cat": "command", "name": title(arrow.post), "id": number, "pid": pid,
            "tid": arrow.post.thread, "ts": ts,
        }),
        Event::Arrives(number, arrow) => json!({
            "ph": "f", "bp": "e", "cat": "command", "name": title(arrow.post), "id": number, "pid": pid,
            "tid": arrow.progress.thread, "ts": ts,
        }),
    }
}

/// Nanoseconds as the microseconds of the format.
fn microseconds(time: u64) -> Value {
    json!(time as f64 / 1e3)
}

fn category(kind: Kind) -> &'static str {
    match kind {
        Kind::Post | Kind::Done => "operation",
        Kind::Flush => "flush",
        Kind::Wait | Kind::Quiet | Kind::Refused => "wait",
        Kind::Progress => "progress",
        Kind::Call => "call",
        Kind::Lost | Kind::End => "trace",
    }
}

/// The title of a record.
pub(super) fn title(record: &Record) -> String {
    let of = |what: &str| match record.peer {
        NO_RANK => what.to_owned(),
        peer => format!("{what}, rank {peer}"),
    };
    match record.kind {
        Kind::Wait | Kind::Call if record.open => {
            let ended = Record {
                open: false,
                ..*record
            };
            format!("{} (did not end)", title(&ended))
        }
        Kind::Post | Kind::Done | Kind::Call => of(&record.name()),
        Kind::Flush => of("flush of the transport"),
        Kind::Wait => of("wait"),
        Kind::Progress => String::from("progress"),
        Kind::Quiet => String::from("no progress"),
        Kind::Refused => of(&format!("refused: {}", record.name())),
        Kind::Lost | Kind::End => String::new(),
    }
}

fn arguments(record: &Record) -> Value {
    match record.kind {
        Kind::Post | Kind::Done => json!({
            "number": record.id, "bytes": record.bytes, "status": record.status,
            "carrier": Carrier::ALL.get(usize::from(record.carrier)).map(|c| c.name()),
        }),
        Kind::Progress => json!({"completed": record.id, "executed for peers": record.bytes}),
        Kind::Refused => json!({"times": record.id}),
        _ => json!({}),
    }
}
