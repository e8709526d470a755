//! One window with each table of functions, side by side: latencies of calls with 8 bytes.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plugin_api::Datatype;
use serde::Serialize;

use super::super::{CommandError, Exit, print_json};
use super::failed;
use host_stub::job::Job;
use host_stub::win::{Assertion, Info, Layout, Op, TableChoice, Target, WinResult, Window};

/// Rounds, each measuring every window once.
const ROUNDS: usize = 9;

/// A window to measure, and the rank to measure it with.
struct Subject {
    window: Window,
    memory: &'static str,
    target: usize,
    place: &'static str,
    /// Nanoseconds of each round: put, get, fetch_and_op.
    rounds: [Vec<f64>; 3],
}

/// What was measured of one window.
#[derive(Serialize)]
struct Row {
    window: &'static str,
    table: &'static str,
    target: &'static str,
    put_ns: f64,
    get_ns: f64,
    fop_ns: f64,
}

/// Measures and prints. Collective; rank 0 calls and prints, the others progress.
pub(super) fn run(job: &Arc<Job>, budget: Duration, json: bool) -> Result<u8, CommandError> {
    if job.size() < 2 {
        return Err(CommandError::new(
            Exit::Usage,
            "bench tables: wanted two ranks or more; with four, a window over two pretended nodes \
             has a near and a far target",
        ));
    }
    let mut memory = vec![0u64; 8];
    let mut subjects = subjects(job, &mut memory).map_err(failed)?;
    let measured = if job.rank() == 0 {
        measure(&mut subjects, budget)
    } else {
        Ok(())
    };
    // The other ranks have been here all along, progressing.
    job.barrier()?;
    let rows: Vec<Row> = subjects.iter_mut().map(Subject::row).collect();
    // Two of them may look at one window from different sides; each is freed once, in one order.
    for subject in subjects {
        subject
            .window
            .free()
            .map_err(|error| failed(error.into()))?;
    }
    drop(memory);
    job.finalize()?;
    measured.map_err(failed)?;
    if job.rank() == 0 {
        print(&rows, json)?;
    }
    Ok(Exit::Ok as u8)
}

fn subjects(job: &Arc<Job>, memory: &mut [u64]) -> WinResult<Vec<Subject>> {
    let with = |table| Info::new().with_table(table);
    // Ranks 0 and 1 on one pretended node, the others on another.
    let two = job.size().div_ceil(2);
    let nodes = with(TableChoice::Auto).with_ranks_per_node(two);
    let allocate = |info: &Info| Window::allocate_with(job, 64, 1, info);
    let mut subjects = vec![Subject::new(
        allocate(&with(TableChoice::Auto))?,
        "allocate",
        1,
        "same node",
    )];
    if two > 1 {
        let target = two as usize;
        subjects.push(Subject::new(
            allocate(&nodes)?,
            "allocate, 2 nodes",
            1,
            "same node",
        ));
        subjects.push(Subject::new(
            allocate(&nodes)?,
            "allocate, 2 nodes",
            target,
            "other node",
        ));
    }
    let base = memory.as_mut_ptr().cast();
    // SAFETY: the caller keeps the memory until the windows were freed.
    let create = |info: &Info| unsafe { Window::create_with(job, base, 64, 1, info) };
    subjects.push(Subject::new(
        create(&with(TableChoice::Auto))?,
        "create",
        1,
        "same node",
    ));
    subjects.push(Subject::new(
        create(&with(TableChoice::Btl))?,
        "create",
        1,
        "same node",
    ));
    Ok(subjects)
}

impl Subject {
    fn new(window: Window, memory: &'static str, target: usize, place: &'static str) -> Subject {
        Subject {
            window,
            memory,
            target,
            place,
            rounds: Default::default(),
        }
    }

    /// Adds a round of about this length.
    fn measure(&mut self, budget: Duration) -> WinResult<()> {
        let row = Layout::contiguous(Datatype::Int64, 1);
        let (from, mut into) = ([1u64], [0u64]);
        let from = from.as_ptr().cast::<u8>();
        let result = into.as_mut_ptr().cast::<u8>();
        let target = Target {
            rank: self.target,
            displacement: 0,
            layout: &row,
        };
        let window = &self.window;
        let [put, get, fop] = &mut self.rounds;
        // SAFETY: the words live until after the flush that follows each call.
        unsafe {
            let time = |into: &mut Vec<f64>, call: &dyn Fn() -> WinResult<()>| {
                let started = Instant::now();
                let mut calls = 0u32;
                while started.elapsed() < budget / 3 {
                    // Many between two looks at the clock, which costs more than some calls.
                    for _ in 0..64 {
                        call()?;
                        window.flush(target.rank)?;
                    }
                    calls += 64;
                }
                into.push(started.elapsed().as_nanos() as f64 / f64::from(calls.max(1)));
                WinResult::Ok(())
            };
            time(put, &|| window.put(from, &row, target))?;
            time(get, &|| window.get(result, &row, target))?;
            let datatype = Datatype::Int64;
            time(fop, &|| {
                window.fetch_and_op(from, result, datatype, target.rank, 8, Op::Sum)
            })
        }
    }

    fn row(&mut self) -> Row {
        let [put_ns, get_ns, fop_ns] = self.rounds.each_mut().map(|rounds| {
            rounds.sort_by(f64::total_cmp);
            rounds.get(rounds.len() / 2).copied().unwrap_or(f64::NAN)
        });
        Row {
            window: self.memory,
            table: self.window.table_name(),
            target: self.place,
            put_ns,
            get_ns,
            fop_ns,
        }
    }
}

fn measure(subjects: &mut [Subject], budget: Duration) -> WinResult<()> {
    let each = budget / (ROUNDS * subjects.len()).max(1) as u32;
    for subject in subjects.iter() {
        subject.window.lock_all(Assertion::empty())?;
    }
    for _ in 0..ROUNDS {
        for subject in subjects.iter_mut() {
            subject.measure(each)?;
        }
    }
    for subject in subjects.iter() {
        subject.window.unlock_all()?;
    }
    Ok(())
}

fn print(rows: &[Row], json: bool) -> Result<(), CommandError> {
    if json {
        return print_json(&rows);
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<19}{:<7}{:<12}{:>10}{:>10}{:>10}",
        "window", "table", "target", "put ns", "get ns", "fop ns"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:<19}{:<7}{:<12}{:>10.0}{:>10.0}{:>10.0}",
            row.window, row.table, row.target, row.put_ns, row.get_ns, row.fop_ns
        )?;
    }
    Ok(())
}
