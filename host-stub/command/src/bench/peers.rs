//! The same operation under other implementations of one-sided communication that are installed here.
//!
//! One MPI program, `rma_bench.c` of the benches, is compiled for each and run with two ranks. Each takes the way that it
//! chooses by itself between two processes of this machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;

use super::Operation;
use crate::curves::Curve;
use crate::run::run;

const SOURCE: &str = include_str!("../../../../benches/openmpi/rma_bench.c");
/// Its largest transfer.
const LARGEST: usize = 4 << 20;
/// What a compiler, or a question about a version, may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Another implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Peer {
    /// Open MPI, by the components that it chooses
    Openmpi,
    /// Open MPI over UCX (osc/ucx)
    Ucx,
    /// MPICH
    Mpich,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Peer::Openmpi => "Open MPI",
            Peer::Ucx => "Open MPI over UCX",
            Peer::Mpich => "MPICH",
        })
    }
}

/// How its programs are built and started.
struct Installed {
    compiler: PathBuf,
    launcher: PathBuf,
    arguments: Vec<&'static str>,
}

/// Figures of a peer: microseconds and MB/s by bytes.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) latency: Curve,
    pub(super) bandwidth: Curve,
}

/// Measures as `host-stub bench` does, each size for `seconds`. The error says what is missing, or what went wrong.
pub(super) fn measure(
    peer: Peer,
    operation: Operation,
    largest: usize,
    seconds: f64,
) -> Result<Beside, String> {
    let installed = find(peer)?;
    let folder = std::env::temp_dir().join(format!("host-stub-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let said = build(&installed, &folder)
        .and_then(|program| start(&installed, &program, operation, largest, seconds));
    // What cannot be removed is in the folder for such files.
    let _ = std::fs::remove_dir_all(&folder);
    read(peer, operation, &said?)
}

fn find(peer: Peer) -> Result<Installed, String> {
    // By a word of what `--version` prints. Open MPI's launcher gives its name as it was called.
    let (launchers, sign, compiler): (&[&str], _, _) = match peer {
        Peer::Openmpi | Peer::Ucx => (
            &["mpirun.openmpi", "mpirun"],
            "open-mpi.org",
            "mpicc.openmpi",
        ),
        Peer::Mpich => (
            &["mpiexec.mpich", "mpiexec.hydra", "mpiexec"],
            "HYDRA",
            "mpicc.mpich",
        ),
    };
    let is_its = |launcher: &PathBuf| {
        let said = run(launcher, &["--version"], LIMIT);
        said.is_ok_and(|said| said.out.contains(sign))
    };
    let launcher = launchers
        .iter()
        .filter_map(|name| in_path(name))
        .find(is_its);
    let launcher = launcher.ok_or_else(|| {
        format!(
            "not installed: no {} in PATH is its",
            launchers.join(" or ")
        )
    })?;
    let compilers = [compiler, "mpicc"].map(|name| launcher.with_file_name(name));
    let compiler = compilers.iter().find(|file| file.is_file());
    let compiler =
        compiler.ok_or_else(|| format!("no compiler (mpicc) beside {}", launcher.display()))?;
    let mut arguments = vec!["-n", "2"];
    if peer != Peer::Mpich {
        arguments.extend(["--oversubscribe", "--bind-to", "none"]);
        // SAFETY: geteuid takes no argument and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            arguments.push("--allow-run-as-root");
        }
    }
    if peer == Peer::Ucx {
        let about = run(launcher.with_file_name("ompi_info"), &["--parsable"], LIMIT)?;
        if !about.out.contains("mca:osc:ucx:") {
            return Err("not installed: this Open MPI has no osc/ucx".to_owned());
        }
        for name in [
            "pml_ucx_tls",
            "pml_ucx_devices",
            "opal_common_ucx_tls",
            "opal_common_ucx_devices",
        ] {
            arguments.extend(["--mca", name, "any"]);
        }
        arguments.extend(["--mca", "pml", "ucx", "--mca", "osc", "ucx"]);
    }
    Ok(Installed {
        compiler: compiler.clone(),
        launcher,
        arguments,
    })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn build(installed: &Installed, folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("rma_bench.c"), folder.join("rma_bench"));
    std::fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
    let options = ["-std=gnu11", "-O2", "-pthread", "-o"].map(Path::new);
    let arguments = [&options[..], &[&program, &source]].concat();
    run(&installed.compiler, &arguments, LIMIT)?;
    Ok(program)
}

fn start(
    installed: &Installed,
    program: &Path,
    operation: Operation,
    largest: usize,
    seconds: f64,
) -> Result<String, String> {
    let sizes = operation.sizes(largest.min(LARGEST)).len();
    let largest = largest.min(LARGEST).to_string();
    let seconds_of_one = format!("{:.4}", seconds / 2.0);
    let mut arguments: Vec<&std::ffi::OsStr> =
        installed.arguments.iter().map(AsRef::as_ref).collect();
    arguments.push(program.as_os_str());
    arguments
        .extend(["curve", operation.name(), &largest, &seconds_of_one].map(std::ffi::OsStr::new));
    let limit = LIMIT + Duration::from_secs_f64(seconds * 4.0) * sizes as u32;
    Ok(run(&installed.launcher, &arguments, limit)?.out)
}

/// The lines `NAME_latency BYTES THREADS VALUE us` and `NAME_bandwidth BYTES THREADS VALUE MB/s`.
fn read(peer: Peer, operation: Operation, said: &str) -> Result<Beside, String> {
    let curve = |measure: &str, unit: &str| {
        let name = format!("{}_{measure}", operation.name());
        let points = said.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [first, bytes, _, value, last] if first == name && last == unit => {
                    Some((bytes.parse().ok()?, value.parse().ok()?))
                }
                _ => None,
            }
        });
        Curve {
            name: peer.to_string(),
            points: points.collect(),
        }
    };
    let beside = Beside {
        latency: curve("latency", "us"),
        bandwidth: curve("bandwidth", "MB/s"),
    };
    if beside.latency.points.is_empty() {
        return Err("its program ended without figures".to_owned());
    }
    Ok(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_among_other_lines() {
        let said = "a warning of the launcher\nput_latency 8 1 0.5 us\nput_bandwidth 8 1 16 MB/s\nget_latency 8 1 9 us\n";
        let beside = read(Peer::Mpich, Operation::Put, said).unwrap();
        assert_eq!(beside.latency.points, [(8, 0.5)]);
        assert_eq!(beside.bandwidth.points, [(8, 16.0)]);
        assert!(
            read(Peer::Mpich, Operation::Get, "")
                .unwrap_err()
                .contains("without figures")
        );
    }
}
