//! Instructions of one operation inside this project's code, counted by callgrind: instructions of the
//! plugin for calls through its table, and of the host for calls on a window, without libfabric, the
//! provider and libc.
//!
//! `instructions` compares with the recorded counts and fails if one is more than 3 % higher;
//! `instructions --record` records. Over the lab provider a process communicates with itself, so every
//! operation takes the path through the provider, and each count is the same in every run. Over shm two
//! processes communicate, and small transfers and atomics go through the target's ring. Over net two
//! processes communicate as between nodes, and operations are gathered in messages. Waiting for the
//! target is not counted there: its polls would be counted, and the other process decides how many there
//! are. Each count of two processes is the least of two runs.

mod judge;
mod profile;
mod rank;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use benches::part;
use clap::Parser;
use host_stub::bootstrap::local::Environment;
use host_stub::launcher::{LaunchOptions, launch};
use serde::{Deserialize, Serialize};

use judge::Counts;

/// Providers, each with its number of ranks.
const PROVIDERS: [(&str, u32); 3] = [("lab", 1), ("shm", 2), ("net", 2)];
/// Tells rank 0 that it runs under valgrind.
const COUNTED: &str = "INSTRUCTIONS_COUNTED";

#[derive(Parser)]
#[command(about = "Count the instructions of operations")]
struct Arguments {
    /// Records the counts for later comparisons.
    #[arg(long)]
    record: bool,
    /// The file of recorded counts.
    #[arg(long, default_value = "benches/instructions.json")]
    file: PathBuf,
    /// Writes the counts and the targets for the report.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Runs as a rank over this provider and counts into files beginning with --counts.
    #[arg(long, hide = true, requires = "counts")]
    provider: Option<String>,
    #[arg(long, hide = true)]
    counts: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Recorded {
    /// The compiler of the code; another compiler generates other code.
    rustc: String,
    counts: Counts,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let result = match (Environment::read(), &arguments.provider, &arguments.counts) {
        (Ok(Some(environment)), Some(provider), Some(counts)) => {
            if environment.rank == 0 && std::env::var_os(COUNTED).is_none() {
                Err(under_callgrind(counts))
            } else {
                rank::run(provider).map(|()| true)
            }
        }
        (Ok(_), ..) => compare(&arguments),
        (Err(e), ..) => Err(e.to_string()),
    };
    match result {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(e) => {
            eprintln!("instructions: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Replaces this process by the same program under callgrind. Returns only if callgrind cannot be
/// started.
fn under_callgrind(counts: &Path) -> String {
    let error = Command::new("valgrind")
        .args([
            "--quiet",
            "--tool=callgrind",
            "--zero-before=counted_phase",
            "--dump-after=counted_phase",
        ])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .args(std::env::args_os())
        .env(COUNTED, "1")
        .exec();
    format!("valgrind cannot be started: {error}")
}

fn compare(arguments: &Arguments) -> Result<bool, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let beside = program.parent().ok_or("this program lies in no folder")?;
    let folder = std::env::temp_dir().join(format!("instructions-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let counted = PROVIDERS
        .iter()
        .map(|&(provider, ranks)| {
            let once = || measure(&program, beside, &folder, provider, ranks);
            let mut counts = once()?;
            // A message of the other process, such as a heartbeat, counts where it comes.
            if ranks > 1 {
                for (kind, again) in once()? {
                    counts
                        .entry(kind)
                        .and_modify(|count| *count = count.min(again));
                }
            }
            Ok((provider.into(), counts))
        })
        .collect::<Result<Counts, String>>();
    let removed = std::fs::remove_dir_all(&folder);
    let counts = counted?;
    removed.map_err(|e| format!("{}: {e}", folder.display()))?;
    let rustc = compiler();
    let old = match std::fs::read_to_string(&arguments.file) {
        Ok(json) => serde_json::from_str::<Recorded>(&json)
            .map_err(|e| format!("{}: {e}", arguments.file.display()))?,
        Err(_) if arguments.record => Recorded {
            rustc: rustc.clone(),
            counts: Counts::new(),
        },
        Err(e) => {
            return Err(format!(
                "{}: {e}; --record makes it",
                arguments.file.display()
            ));
        }
    };
    let kept = judge::table(&counts, &old.counts);
    if let Some(path) = &arguments.output {
        part::write(path, &judge::targets(&counts), &counts)?;
    }
    if !kept && old.rustc != rustc {
        println!(
            "recorded with {}, built with {rustc}: what differs may be the compiler's doing",
            old.rustc
        );
    }
    if arguments.record {
        let json =
            serde_json::to_string_pretty(&Recorded { rustc, counts }).map_err(|e| e.to_string())?;
        std::fs::write(&arguments.file, json + "\n")
            .map_err(|e| format!("{}: {e}", arguments.file.display()))?;
        return Ok(true);
    }
    Ok(kept)
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(
        |_| "an unknown rustc".into(),
        |o| String::from_utf8_lossy(&o.stdout).trim().into(),
    )
}

/// Counts over one provider. Each phase left a file with its number, in the order of the kinds.
fn measure(
    program: &Path,
    beside: &Path,
    folder: &Path,
    provider: &str,
    ranks: u32,
) -> Result<BTreeMap<String, f64>, String> {
    let lab = folder.join("liblab-fi.so");
    if !lab.exists() {
        std::os::unix::fs::symlink(beside.join("liblab_fi.so"), &lab).map_err(|e| e.to_string())?;
    }
    let counts = folder.join(provider);
    let mut options = LaunchOptions::new(ranks, program);
    options.arguments = [
        "--provider".into(),
        provider.into(),
        "--counts".into(),
        counts.clone().into(),
    ]
    .to_vec();
    if provider == "lab" {
        options.environment = vec![("FI_PROVIDER_PATH".into(), folder.into())];
    }
    let outcome = launch(&options).map_err(|e| e.to_string())?;
    if let Some(failure) = outcome.failure {
        return Err(format!("over {provider}: {failure}"));
    }
    let host = program
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let kinds = rank::TRANSPORT
        .iter()
        .map(|kind| (*kind, false))
        .chain(rank::WINDOW.iter().map(|kind| (*kind, true)))
        .chain([(rank::SHARED, true)]);
    let mut found = BTreeMap::new();
    for (at, (kind, window)) in kinds.enumerate() {
        if provider != "lab" && (window || kind.contains("completion")) {
            continue;
        }
        let mut path = counts.clone().into_os_string();
        path.push(format!(".{}", at + 1));
        let objects = profile::by_object(Path::new(&path))?;
        let of = |name: &str| objects.get(name).copied().unwrap_or(0);
        let total = of("libbtl_ofi.so") + if window { of(&host) } else { 0 };
        if total == 0 {
            return Err(format!(
                "over {provider}: no instruction of ours was counted for {kind}"
            ));
        }
        let each = (total as f64 / rank::CALLS as f64 * 10.0).round() / 10.0;
        found.insert(kind.to_owned(), each);
    }
    Ok(found)
}
