//! Tables and curves over the number of ranks.

use std::path::Path;

use btl_ofi::sizes::Request;
use host_stub_command::curves::{Curve, Panel, write_svg};

use crate::memory::Memory;
use crate::time::{self, Assumed, Load};
use crate::traffic::{Job, Near, Script, Traffic};
use crate::{collectives, creation, epochs, measured};

/// Remote peers that a rank uses, in the curves of memory.
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

/// Numbers of ranks in tables and curves.
fn sizes() -> impl Iterator<Item = u64> {
    (1..20).map(|power| 1 << power).chain([1_000_000])
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

fn curve(name: &str, per_node: u64, value: impl Fn(Job) -> f64) -> Curve {
    let points = sizes().map(|ranks| (ranks, value(Job { ranks, per_node })));
    Curve {
        name: name.to_owned(),
        points: points.collect(),
    }
}

/// Draws the curves.
pub(crate) fn plots(folder: &Path, per_node: u64, assumed: Assumed) -> Result<(), String> {
    let on_a_node = format!("{per_node} ranks on a node");
    let times = |lines: &[Line]| {
        let curves = lines
            .iter()
            .map(|line| curve(line.name, per_node, |job| line.time(job, assumed)));
        curves.collect()
    };
    let messages = EPOCHS.iter().map(|line| {
        curve(line.name, per_node, |job| {
            let far = line.traffic(job, assumed).far;
            2.0 * (far.messages + far.provider) as f64
        })
    });
    let (first, last) = EPOCHS.split_at(3);
    let time = [
        Panel {
            title: format!("windows: time of a call (us) over ranks, {on_a_node}"),
            curves: times(first),
        },
        Panel {
            title: format!("collectives: time of a call (us) over ranks, {on_a_node}"),
            curves: times(last),
        },
    ];
    let of_messages = Panel {
        title: format!(
            "messages between nodes of the first rank of a node, over ranks, {on_a_node}"
        ),
        curves: messages.collect(),
    };
    let memory = |job| Memory::of(job, USED);
    let of_memory = Panel {
        title: format!("memory of a rank (bytes) over ranks, {on_a_node}, {USED} peers used"),
        curves: vec![
            curve("transport", per_node, |job| memory(job).transport as f64),
            curve("provider (tcp;ofi_rxm)", per_node, |job| {
                memory(job).provider as f64
            }),
            curve("host, one window", per_node, |job| memory(job).host as f64),
            curve("host, collectives", per_node, |job| {
                memory(job).collectives as f64
            }),
            curve("all", per_node, |job| memory(job).all() as f64),
        ],
    };
    let files = [
        ("model-time.svg", &time[..]),
        ("model-messages.svg", std::slice::from_ref(&of_messages)),
        ("model-memory.svg", std::slice::from_ref(&of_memory)),
    ];
    for (name, panels) in files {
        let path = folder.join(name);
        if write_svg(&path, panels)? {
            println!("{}", path.display());
        }
    }
    Ok(())
}
