//! Programs that launch themselves as the ranks of a job.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use host_stub::bootstrap::local::Environment;
use host_stub::bootstrap::pmix;
use host_stub::job::{Job, JobOptions};
use host_stub::launcher::{Interrupts, LaunchOptions, launch};
use plugin_api::ThreadLevel;

/// Runs a program as `ranks` ranks over a provider: started by hand, the program launches itself
/// with the same arguments. Each launched process, also by `mpirun`, runs `rank` with its number.
pub fn run(
    name: &str,
    provider: &str,
    ranks: u32,
    rank: impl FnOnce(u32) -> Result<(), String>,
) -> ExitCode {
    let result = match Environment::read() {
        Ok(None) if pmix::launched() => std::env::var(pmix::RANK_ENV)
            .map_err(|e| e.to_string())
            .and_then(|number| number.parse().map_err(|_| format!("rank {number}")))
            .and_then(rank)
            .map(|()| 0),
        Ok(None) => start(name, provider, ranks),
        Ok(Some(environment)) => rank(environment.rank).map(|()| 0),
        Err(e) => Err(e.to_string()),
    };
    code(name, result)
}

fn start(name: &str, provider: &str, ranks: u32) -> Result<u8, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut options = LaunchOptions::new(ranks, program);
    options.arguments = std::env::args_os().skip(1).collect();
    options.interrupts = Interrupts::install().ok();
    let outcome = launch(&options).map_err(|e| e.to_string())?;
    if let Some(failure) = outcome.failure {
        eprintln!("{name} over {provider}: {failure}");
    }
    Ok(outcome.code)
}

/// The exit code of a program; prints its failure.
pub fn code(name: &str, result: Result<u8, String>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("{name}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Binds a rank, or a thread, to one processor, so that two do not share a processor while another
/// is idle.
pub fn pin(rank: u32) {
    // SAFETY: a zeroed set is empty; the calls only write and read it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let cores = usize::try_from(libc::sysconf(libc::_SC_NPROCESSORS_ONLN)).unwrap_or(1);
        libc::CPU_SET(rank as usize % cores, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// This rank's job over a provider, for a program with one thread that calls.
pub fn job(provider: &str, plugin: Option<PathBuf>) -> Result<Arc<Job>, String> {
    let mut options = JobOptions::default();
    if let Some(plugin) = plugin {
        // SAFETY: the user names the plugin on the command line, and trusts it like this program.
        options = unsafe { options.plugin(plugin) };
    }
    options.settings = vec![
        ("btl_ofi_provider_include".into(), provider.into()),
        (
            "btl_ofi_same_node".into(),
            crate::same_node(provider).into(),
        ),
    ];
    // SAFETY: the programs that call this have one thread.
    let options = unsafe { options.assume_threads(ThreadLevel::Single) };
    Job::init(options).map_err(|e| e.to_string())
}

/// Lets libfabric find the provider of `tests/lab-provider`, built beside this program. This call
/// must be the first, before libfabric looks for providers and before any thread starts.
pub fn offer_lab() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let built = program.with_file_name("liblab_fi.so");
    if !built.exists() {
        return Err(format!("{} was not built", built.display()));
    }
    let folder = program.with_file_name("lab");
    let said = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(&folder).map_err(said)?;
    let link = folder.join("liblab-fi.so");
    replace(&built, &link).map_err(said)?;
    // SAFETY: the program has no other thread yet.
    unsafe { std::env::set_var("FI_PROVIDER_PATH", &folder) };
    Ok(())
}

/// Replaces a file atomically, so that a program that has mapped the old file keeps it.
fn replace(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut name = OsString::from(to);
    name.push(format!(".{}", std::process::id()));
    std::fs::copy(from, &name)?;
    std::fs::rename(&name, to)
}
