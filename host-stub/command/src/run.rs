//! Runs a foreign program for a bounded time and returns its output.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(10);

/// The output of a program.
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a program. The error is the reason why there is no output.
pub(crate) fn run(
    program: impl AsRef<OsStr>,
    arguments: &[impl AsRef<OsStr>],
    limit: Duration,
) -> Result<Said, String> {
    let name = program.as_ref().display();
    let mut child = Command::new(program.as_ref())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name} cannot be run: {error}"))?;
    // Both pipes are read while the program runs, because a full pipe would stop it.
    let reader = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut from) = from {
                // The bytes read before an error are used.
                let _ = from.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = reader(child.stdout.take().map(|from| Box::new(from) as _));
    let err = reader(child.stderr.take().map(|from| Box::new(from) as _));
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => thread::sleep(PAUSE),
            _ => {
                // The program may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} did not end within {} s", limit.as_secs()));
            }
        }
    };
    let said = Said {
        out: out.join().unwrap_or_default(),
        err: err.join().unwrap_or_default(),
    };
    if !status.success() {
        let last = said.err.lines().last().unwrap_or_default();
        return Err(format!("{name} ended with {status}: {last}"));
    }
    Ok(said)
}
