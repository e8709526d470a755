//! `host-stub stats`: the activity of running processes, by peer and by carrier.
//!
//! Each transport keeps counters in a file in memory (`plugin_api::counters`). This command reads the counters of other
//! processes of the same user twice, and shows the difference. The processes do not notice the reading.

pub mod read;
mod table;

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;

use super::{CommandError, Exit, print_json};
use read::Process;
use table::Change;

/// The arguments of `stats`.
#[derive(Args)]
pub struct Stats {
    /// Processes to look at [default: all of this user that have counters].
    #[arg(value_name = "PID")]
    pids: Vec<u32>,

    /// Seconds between two readings.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,

    /// Maximum number of peers to show of a process: the peers with the most traffic.
    #[arg(long, value_name = "N", default_value_t = 8)]
    peers: usize,

    /// Prints the counts since the start of each process, as JSON.
    #[arg(long)]
    json: bool,
}

impl Stats {
    /// Runs the command.
    pub fn run(&self) -> Result<Exit, CommandError> {
        if self.json {
            return print_json(&self.read()?).map(|()| Exit::Ok);
        }
        let interval = Duration::try_from_secs_f64(self.interval)
            .ok()
            .filter(|interval| !interval.is_zero());
        let Some(interval) = interval else {
            let message = format!(
                "--interval {}: give a number of seconds above 0",
                self.interval
            );
            return Err(CommandError::new(Exit::Usage, message));
        };
        let (before, began) = (self.read()?, Instant::now());
        std::thread::sleep(interval);
        let now = self.read_again();
        if now.is_empty() {
            return Err(CommandError::new(
                Exit::Failed,
                "the processes have ended; a shorter --interval may show them",
            ));
        }
        let change = Change::new(before, now, began.elapsed());
        let text = table::text(&change, self.peers);
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(Exit::Ok)
    }

    /// Reads the selected processes. A named process that cannot be read is an error; others are skipped.
    fn read(&self) -> Result<Vec<Process>, CommandError> {
        let failed = |message: String| CommandError::new(Exit::Failed, message);
        if self.pids.is_empty() {
            let found = read::all();
            return match found.is_empty() {
                true => Err(failed(String::from(
                    "no process of this user uses the transport: start a job, or name a process to learn why it is not \
                     found",
                ))),
                false => Ok(found),
            };
        }
        let each = self.pids.iter().map(|pid| Process::read(*pid));
        each.collect::<Result<_, _>>().map_err(failed)
    }

    /// Reads the processes again, except those that have ended.
    fn read_again(&self) -> Vec<Process> {
        if self.pids.is_empty() {
            return read::all();
        }
        let each = self.pids.iter().map(|pid| Process::read(*pid));
        each.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::mem::offset_of;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::fs::FileExt;

    use plugin_api::counters::{Front, MAGIC, NAME, VERSION, start_of};

    use super::*;

    /// Counters of a process's transport, which this process has open.
    fn counters(owner: u32) -> File {
        // SAFETY: the name is a C string, and the descriptor is new.
        let file = unsafe {
            let file = libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0);
            File::from(OwnedFd::from_raw_fd(file))
        };
        file.set_len(start_of(1) as u64).unwrap();
        let mut front = MAGIC.to_ne_bytes().to_vec();
        front.extend(VERSION.to_ne_bytes());
        file.write_all_at(&front, 0).unwrap();
        let at = offset_of!(Front, owner) as u64;
        file.write_all_at(&owner.to_ne_bytes(), at).unwrap();
        file
    }

    fn stats(pids: &[u32]) -> Stats {
        Stats {
            pids: pids.to_vec(),
            interval: 1.0,
            peers: 8,
            json: false,
        }
    }

    /// One test, because tests of one process see each other's files.
    #[test]
    fn what_is_read_of_processes() {
        the_others_are_read_when_one_has_ended();
        transports_of_other_processes_are_passed_over();
    }

    fn the_others_are_read_when_one_has_ended() {
        let (own, ended) = (std::process::id(), i32::MAX as u32);
        let both = stats(&[ended, own]);
        let file = counters(own);
        assert!(both.read().is_err());
        let pids: Vec<u32> = both.read_again().iter().map(|p| p.pid).collect();
        assert_eq!(pids, [own]);
        assert!(stats(&[ended]).read_again().is_empty());
        drop(file);
    }

    /// A child of the owner has the owner's files open. Files of older transports do not name their
    /// owner.
    fn transports_of_other_processes_are_passed_over() {
        let own = std::process::id();
        let of_other = counters(own + 1);
        assert!(stats(&[own]).read().is_err());
        let files = [of_other, counters(own), counters(0)];
        let again = files.each_ref().map(|file| file.try_clone().unwrap());
        let read = stats(&[own]).read_again();
        assert_eq!(read[0].transports.len(), 2, "{read:?}");
        drop(again);
    }
}
