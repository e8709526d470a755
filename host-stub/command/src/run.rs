//! Runs a program of another's for a bounded time and returns what it said.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take. `ompi_info` opens every component, and needs less than a second where all is well.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// What a program wrote.
pub(super) struct Said {
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs a program. The error says why nothing is known.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<Said, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    // Both are read while the program runs: a full pipe would stop it.
    let reader = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut from) = from {
                // What was read before an error is used.
                let _ = from.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = reader(child.stdout.take().map(|from| Box::new(from) as _));
    let err = reader(child.stderr.take().map(|from| Box::new(from) as _));
    let end = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => thread::sleep(PAUSE),
            _ => {
                // The program may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "{program} did not end within {} s",
                    LIMIT.as_secs()
                ));
            }
        }
    };
    let said = Said {
        out: out.join().unwrap_or_default(),
        err: err.join().unwrap_or_default(),
    };
    if !status.success() {
        let last = said.err.lines().last().unwrap_or_default();
        return Err(format!("{program} ended with {status}: {last}"));
    }
    Ok(said)
}
