//! Tables over the number of ranks.

use btl_ofi::sizes::Request;

use crate::memory::Memory;
use crate::time::{self, Assumed, Load};
use crate::traffic::{Job, Near, Script, Traffic};
use crate::{collectives, creation, epochs, measured};

/// Remote peers that a rank uses, in the rows of memory.
const USED: u64 = 100;
const LONG: usize = 1 << 20;

/// An operation or epoch, as a rank in the middle of the job sees it.
struct Line {
    name: &'static str,
    load: Load,
    script: fn(Job, u64) -> Script,
}

/// Those whose cost does not depend on the number of ranks.
const OPERATIONS: [Line; 8] = [
    alone("put 8 B, flush", |_, _| epochs::operation(Request::Put(8))),
    alone("get 8 B, flush", |_, _| epochs::operation(Request::Get(8))),
    alone("fetch-add, flush", |_, _| {
        epochs::operation(Request::FetchAdd)
    }),
    alone("accumulate 8 B, flush", |_, _| {
        epochs::operation(Request::Add)
    }),
    alone("notified put 8 B, flush", |_, _| {
        epochs::operation(Request::Notified(8))
    }),
    alone("64 puts 8 B, flush", |_, _| epochs::puts(64)),
    alone("exclusive lock, put 8 B, unlock", |_, _| {
        epochs::exclusive_put()
    }),
    all("halo of 2 neighbours, 8 B", |job, rank| {
        epochs::halo(job, rank, 8)
    }),
];

/// Those whose cost does.
const EPOCHS: [Line; 6] = [
    all("fence", epochs::fence),
    all("lock_all, unlock_all", epochs::locks),
    all("put 8 B to all, flush_all", epochs::put_to_all),
    all("barrier", collectives::barrier),
    all("allreduce 8 B", |job, rank| {
        collectives::allreduce(job, rank, 8)
    }),
    all("allreduce 1 MiB", |job, rank| {
        collectives::allreduce(job, rank, LONG)
    }),
];

const fn alone(name: &'static str, script: fn(Job, u64) -> Script) -> Line {
    Line {
        name,
        load: Load::Alone,
        script,
    }
}

const fn all(name: &'static str, script: fn(Job, u64) -> Script) -> Line {
    Line {
        name,
        load: Load::Everybody,
        script,
    }
}

impl Line {
    /// Of the second rank and the first ranks of some nodes, the one that waits most.
    fn of(&self, job: Job) -> Script {
        let last = job.nodes() - 1;
        let second = 1.min(job.ranks - 1);
        let firsts = [0, 1, last / 2, last].map(|node| node.min(last) * job.per_node);
        let ranks = [second].into_iter().chain(firsts);
        let scripts = ranks.map(|rank| (self.script)(job, rank));
        let waits =
            |script: &Script| -> u64 { script.rounds.iter().map(|round| round.waits).sum() };
        scripts.max_by_key(waits).unwrap_or_default()
    }

    fn traffic(&self, job: Job, assumed: Assumed) -> Traffic {
        Traffic::of(&self.of(job), Near::Ring, assumed.limit)
    }

    fn time(&self, job: Job, assumed: Assumed) -> f64 {
        time::of(&self.of(job), job, self.load, assumed)
    }
}

/// Prints the model as tables of Markdown.
pub(crate) fn print(per_node: u64, assumed: Assumed) {
    println!("Constants:\n");
    for figure in measured::ALL {
        println!(
            "- {} {}: {}; docs/{}, `{}`",
            figure.value, figure.unit, figure.about, figure.page, figure.line
        );
    }
    println!("\n| one call | messages | bytes on the wire | round trips, signals | us |");
    println!("| --- | --: | --: | --: | --: |");
    for line in &OPERATIONS {
        let job = Job {
            ranks: 4,
            per_node: 1,
        };
        let traffic = line.traffic(job, assumed);
        println!(
            "| {} | {} | {} | {}, {} | {:.1} |",
            line.name,
            2 * traffic.far.messages,
            traffic.far.wire,
            traffic.round_trips,
            traffic.signals,
            line.time(job, assumed)
        );
    }
    let shown: Vec<Job> = [2, 64, 1024, 16_384, 131_072, 1_000_000]
        .map(|ranks| Job { ranks, per_node })
        .to_vec();
    let head: Vec<String> = shown.iter().map(|job| job.ranks.to_string()).collect();
    let row = |name: &str, value: &dyn Fn(Job) -> String| {
        let values: Vec<String> = shown.iter().map(|job| value(*job)).collect();
        println!("| {name} | {} |", values.join(" | "));
    };
    println!("\n| {per_node} ranks on a node | {} |", head.join(" | "));
    println!("| --- |{}", " --: |".repeat(shown.len()));
    for line in &EPOCHS {
        row(line.name, &|job| us(line.time(job, assumed)));
    }
    for line in &EPOCHS {
        let name = format!("{}: messages, answers included", line.name);
        row(&name, &|job| {
            let far = line.traffic(job, assumed).far;
            (2 * (far.messages + far.provider)).to_string()
        });
    }
    row("window creation: bytes to each rank", &|job| {
        bytes(creation::window_taken(job))
    });
    row("start: addresses to each rank", &|job| {
        bytes(creation::addresses_taken(job))
    });
    row("start: to connect all", &|job| {
        us(measured::CONNECT.value * job.ranks as f64)
    });
    let memory = |job| Memory::of(job, USED);
    row("memory: transport", &|job| bytes(memory(job).transport));
    row("memory: provider", &|job| bytes(memory(job).provider));
    row("memory: host, a window", &|job| bytes(memory(job).host));
    row("memory: collectives of the host", &|job| {
        bytes(memory(job).collectives)
    });
    row("memory: all", &|job| bytes(memory(job).all()));
}

fn us(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.1} s", us / 1e6),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.1} us"),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} KB", b / 1e3),
    }
}
