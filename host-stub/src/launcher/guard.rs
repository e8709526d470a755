//! A process that outlives a killed launcher just long enough to clean up after it.
//!
//! The launcher tells it over a pipe which processes there are, and dismisses it at the end. When
//! the pipe closes without that, the launcher is gone.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::directory::{Directory, PREFIX};
use super::members::{MEMBER_ENV, Members};
use super::{LAST, LaunchError, TICK, remains};

/// The argument by which a program is asked to be a guard.
pub const ARGUMENT: &str = "guard";

/// How long the guard may take to go when it is dismissed.
const DISMISSAL: Duration = Duration::from_secs(1);

/// A line from the launcher.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Job(Job),
    /// A process that the launcher started.
    Process(i32),
    /// Another process that joined.
    Joined {
        pid: i32,
        start: Option<u64>,
    },
    Dismissed,
}

#[derive(Serialize, Deserialize)]
struct Job {
    job: String,
    directory: PathBuf,
    began: SystemTime,
}

/// The launcher's end.
pub(super) struct Guard {
    child: Child,
}

impl Guard {
    pub(super) fn start(program: &Path, directory: &Directory) -> Result<Self, LaunchError> {
        let error = |source| LaunchError::Guard {
            program: program.to_owned(),
            source,
        };
        let mut command = Command::new(program);
        command
            .arg(ARGUMENT)
            // Of no outer job: it has to outlive this launcher when that job's end takes it.
            .env_remove(MEMBER_ENV)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A reader of the launcher's stderr must not wait for the guard to end.
            .stderr(Stdio::null());
        // SAFETY: setsid may be called between fork and exec. It takes the guard out of reach of
        // signals to the launcher's group.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let mut guard = Guard {
            child: command.spawn().map_err(error)?,
        };
        guard
            .send(&Line::Job(Job {
                job: directory.job().to_owned(),
                directory: directory.path().to_owned(),
                began: directory.made(),
            }))
            .map_err(error)?;
        Ok(guard)
    }

    fn send(&mut self, line: &Line) -> io::Result<()> {
        let Some(pipe) = self.child.stdin.as_mut() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        pipe.write_all(&text)
    }

    /// Tells it of a process that the launcher started.
    pub(super) fn add(&mut self, pid: i32) {
        self.tell(&Line::Process(pid));
    }

    /// Tells it of another process that joined.
    pub(super) fn join(&mut self, pid: i32, start: Option<u64>) {
        self.tell(&Line::Joined { pid, start });
    }

    fn tell(&mut self, line: &Line) {
        if let Err(error) = self.send(line) {
            tracing::warn!("the guard does not listen: {error}");
        }
    }

    /// Tells it that the launcher has cleaned up itself, and waits for its end.
    pub(super) fn dismiss(mut self) {
        let _ = self.send(&Line::Dismissed);
        drop(self.child.stdin.take());
        let deadline = Instant::now() + DISMISSAL;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= deadline {
                tracing::warn!("the guard does not end; killing it");
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What a program does when it is asked to be a guard: reads the launcher's lines from `input`
/// until they end, and cleans up unless it was dismissed. True if it had to.
pub fn run(input: impl BufRead) -> bool {
    let mut known: Option<(Members, Job)> = None;
    for line in input.lines() {
        let Ok(line) = line else { break };
        match (serde_json::from_str(&line), &mut known) {
            (Ok(Line::Dismissed), _) => return false,
            (Ok(Line::Process(pid)), Some((members, _))) => members.add(pid),
            (Ok(Line::Joined { pid, start }), Some((members, _))) => {
                members.join(pid, start);
            }
            (Ok(Line::Job(job)), None) => known = Some((Members::new(&job.job), job)),
            // Not a launcher's line: nothing to clean up by it.
            _ => {}
        }
    }
    let Some((members, job)) = known else {
        return false;
    };
    let Job {
        job: name,
        directory,
        began,
    } = job;
    let deadline = Instant::now() + LAST;
    loop {
        members.signal(libc::SIGKILL);
        if members.living().is_empty() || Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(TICK);
    }
    remains::Ended {
        job: &name,
        began,
        pids: &members.pids(),
    }
    .remove_files();
    // Only what a launcher makes, whatever the line said.
    if directory.file_name().and_then(|name| name.to_str()) == Some(&format!("{PREFIX}{name}")) {
        let _ = std::fs::remove_dir_all(&directory);
    }
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use crate::launcher::members::start_of;
    use std::os::unix::process::ExitStatusExt;

    /// A guard whose launcher went after it told of a process that joined.
    fn left_with(pid: i32, start: Option<u64>) -> bool {
        let job = format!("guard-test-{pid}");
        let lines = [
            Line::Job(Job {
                directory: std::env::temp_dir().join(format!("{PREFIX}{job}")),
                job,
                began: SystemTime::now(),
            }),
            Line::Joined { pid, start },
        ];
        let text: Vec<String> = lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap())
            .collect();
        run(text.join("\n").as_bytes())
    }

    #[test]
    fn it_ends_what_joined_and_not_what_has_its_number_now() {
        let mut child = Command::new("sleep")
            .arg("60")
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let start = start_of(pid);
        assert!(left_with(pid, start.map(|start| start - 1)));
        assert!(child.try_wait().unwrap().is_none());
        assert!(left_with(pid, start));
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
