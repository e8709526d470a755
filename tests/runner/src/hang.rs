//! Distinguishes a hanging program from a program that a busy machine slows down, by the processor time of its processes
//! and by its output, not by the wall clock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A program that waits for an event in a loop with pauses uses less than this part of a processor; on a busy machine a
/// working program gets more.
const IDLE: u32 = 50;
/// Time between two checks; each check reads all of /proc.
const PAUSE: Duration = Duration::from_secs(1);

/// The observed activity of a running program.
pub(crate) struct Hang {
    /// The processor time of all its processes after which the program is killed.
    most: Duration,
    /// The time almost without output and processor time after which the program is killed.
    silence: Duration,
    looked: Option<Instant>,
    /// The program's processor time at the last check, and the part of a processor that it used since the
    /// check before.
    seen: Duration,
    rate: f64,
    /// The time at which activity was last observed, and the processor time and output by then.
    active: Instant,
    worked: Duration,
    said: u64,
}

impl Hang {
    pub(crate) fn new(most: Duration, silence: Duration) -> Hang {
        Hang {
            most,
            silence,
            looked: None,
            seen: Duration::ZERO,
            // A program that has just begun counts as working.
            rate: 1.0,
            active: Instant::now(),
            worked: Duration::ZERO,
            said: 0,
        }
    }

    /// The reason to kill a program, if it hangs; `root` is its first process, and `said` the
    /// number of its output bytes.
    pub(crate) fn look(&mut self, root: u32, said: u64) -> Option<String> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < PAUSE) {
            return None;
        }
        let (before, worked) = (self.looked.replace(now), worked(root));
        if let Some(before) = before {
            self.rate =
                (worked.saturating_sub(self.seen)).as_secs_f64() / (now - before).as_secs_f64();
        }
        self.seen = worked;
        self.judge(now, worked, said)
    }

    /// The processors that the program used between the last two checks.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    fn judge(&mut self, now: Instant, worked: Duration, said: u64) -> Option<String> {
        if worked >= self.most {
            return Some(format!("used {} s of processor time", worked.as_secs()));
        }
        // When a parent leaves a child, the child's time is lost.
        let used = worked.abs_diff(self.worked);
        if said != self.said || used > self.silence / IDLE {
            (self.active, self.worked, self.said) = (now, worked, said);
        }
        (now - self.active >= self.silence).then(|| {
            let silence = self.silence.as_secs();
            format!("no output and next to no processor time for {silence} s")
        })
    }
}

/// The processor time of a process and its descendants, including those that ended and were waited
/// for.
fn worked(root: u32) -> Duration {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Duration::ZERO;
    };
    let processes: HashMap<u32, (u32, u64)> = entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parent_and_ticks(&stat)?))
        })
        .collect();
    let descends = |mut pid: u32| {
        // The loop is bounded, because processes begin and end while they are read.
        for _ in 0..processes.len() {
            if pid == root {
                return true;
            }
            match processes.get(&pid) {
                Some((parent, _)) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let own = processes.iter().filter(|(pid, _)| descends(**pid));
    let ticks: u64 = own.map(|(_, (_, ticks))| ticks).sum();
    // SAFETY: the argument of sysconf is a number.
    let second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100);
    Duration::from_millis(ticks * 1000 / second.max(1))
}

/// The parent of a process and the sum of its utime, stime, cutime and cstime, from the format of
/// proc(5).
fn parent_and_ticks(stat: &str) -> Option<(u32, u64)> {
    // The name may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let parent = fields.get(1)?.parse().ok()?;
    let times = fields.get(11..15)?.iter();
    let ticks = times
        .map(|field| field.parse::<u64>())
        .sum::<Result<_, _>>();
    Some((parent, ticks.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_hangs_are_ended() {
        let mut hang = Hang::new(100 * SECOND, 50 * SECOND);
        let begun = hang.active;
        let mut judge = |at: u32, worked: u32, said| {
            hang.judge(begun + at * SECOND, worked * SECOND, said)
                .is_some()
        };
        // First almost no output, then almost no processor time, for longer than any limit.
        assert!(!judge(40, 2, 0) && !judge(80, 4, 0) && !judge(120, 6, 0));
        assert!(!judge(160, 6, 1) && !judge(200, 6, 2));
        // Neither output nor processor time; a pause in a loop is not work.
        assert!(!judge(249, 7, 2) && judge(250, 7, 2));
        // The program works forever.
        assert!(!judge(251, 99, 2) && judge(252, 100, 2));
    }

    #[test]
    fn names_of_processes_do_not_confuse() {
        let stat = "12 (a) (b c) S 7 12 12 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 99";
        assert_eq!(parent_and_ticks(stat), Some((7, 100)));
        assert_eq!(parent_and_ticks("12 (a) S"), None);
    }

    #[test]
    fn descendants_count() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "(while :; do :; done) & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        // The shell itself only waits.
        while worked(child.id()) < SECOND / 5 {
            std::thread::yield_now();
        }
        let loops: libc::pid_t = line.trim().parse().unwrap();
        // SAFETY: the arguments are numbers; the process is the child's child, which lives until it is
        // killed here.
        assert_eq!(unsafe { libc::kill(loops, libc::SIGKILL) }, 0);
        assert!(child.wait().is_ok());
    }
}
