//! The order in which test programs start: the slowest of the last run first, and more of them at a time while processors
//! idle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::programs::Program;
use crate::running::{Ended, Running};

/// The programs that count as slow while no earlier times are known. `hosts` waits for failing links and for
/// timeouts of peers.
const LONG: [&str; 11] = [
    "core/over_lab",
    "core/devices",
    "core/hosts",
    "core/node",
    "tests/lab_check",
    "tests/openmp",
    "tests/c_examples",
    "tests/device_ways",
    "tests/open_close",
    "core/carriers",
    "tests/process_failure",
];

/// The duration of each program in earlier runs, in milliseconds, in a file beside the programs.
pub(crate) struct Times {
    file: PathBuf,
    known: BTreeMap<String, u64>,
}

impl Times {
    /// The times of earlier runs of programs in this folder; a file that cannot be read counts as
    /// missing.
    pub(crate) fn read(folder: &Path) -> Times {
        let file = folder.join("test-times.json");
        let known = std::fs::read(&file)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        Times { file, known }
    }

    /// Sorts the longest program first, because a long program that begins last would run alone. New
    /// programs begin before all others.
    pub(crate) fn sort(&self, programs: &mut [Program]) {
        programs.sort_by_key(|program| std::cmp::Reverse(self.expected(&program.name)));
    }

    fn expected(&self, name: &str) -> u64 {
        match self.known.get(name) {
            Some(took) => *took,
            // If no time is known, the list decides.
            None if self.known.is_empty() => LONG.contains(&name).into(),
            None => u64::MAX,
        }
    }

    /// Stores the durations of successful programs.
    pub(crate) fn keep(&mut self, ended: &[Ended]) -> Result<(), String> {
        for end in ended.iter().filter(|end| end.good) {
            let took = u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX);
            self.known.insert(end.name.clone(), took);
        }
        let text = serde_json::to_vec_pretty(&self.known).map_err(|error| error.to_string())?;
        std::fs::write(&self.file, text)
            .map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

/// Time between two checks of the machine, and after each start that a check caused; a new program shows its load by
/// then.
const PAUSE: Duration = Duration::from_secs(2);

/// Decides whether there is room for another program.
pub(crate) struct Room {
    processors: f64,
    jobs: usize,
    looked: Instant,
    /// The ticks of all processors, and their idle ticks, at the last check.
    ticks: Option<(u64, u64)>,
}

impl Room {
    /// Room for `jobs` programs at a time, and for up to twice as many while most of them wait.
    pub(crate) fn new(processors: usize, jobs: usize) -> Room {
        Room {
            processors: processors as f64,
            jobs,
            looked: Instant::now(),
            ticks: ticks(),
        }
    }

    pub(crate) fn is_there(&mut self, running: &[Running]) -> bool {
        if running.len() < self.jobs {
            return true;
        }
        if self.jobs == 1 || running.len() >= 2 * self.jobs || self.looked.elapsed() < PAUSE {
            return false;
        }
        let (before, now) = (self.ticks, ticks());
        (self.looked, self.ticks) = (Instant::now(), now);
        let used: f64 = running.iter().map(Running::rate).sum();
        // Other processes may need the processors too, and the machine may have more processors than
        // these programs may use.
        let idle = before
            .zip(now)
            .is_some_and(|(before, now)| idle(before, now) * self.processors > ROOM);
        idle && self.processors - used > ROOM
    }
}

/// The part of a processor that must be free for another program.
const ROOM: f64 = 0.4;

/// The part of the time between two checks in which processors were idle.
fn idle((all, idle): (u64, u64), (now, idle_now): (u64, u64)) -> f64 {
    let passed = now.saturating_sub(all).max(1);
    idle_now.saturating_sub(idle) as f64 / passed as f64
}

/// The ticks of all processors since the machine started, and their idle ticks, from the format of
/// proc(5).
fn ticks() -> Option<(u64, u64)> {
    parsed(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parsed(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // The fields are user, nice, system, idle, iowait, irq, softirq and steal; user already includes
    // the time of guests.
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((ticks.iter().sum(), idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(times: &Times, names: &[&str]) -> Vec<String> {
        let program = |name: &&str| Program {
            name: (*name).to_owned(),
            file: "/bin/true".into(),
            folder: "/".into(),
        };
        let mut programs: Vec<Program> = names.iter().map(program).collect();
        times.sort(&mut programs);
        programs.into_iter().map(|program| program.name).collect()
    }

    #[test]
    fn the_longest_begins_first() {
        let folder = std::env::temp_dir().join(format!("test-runner-times-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut times = Times::read(&folder);
        let names = ["core/rights", "core/hosts", "core/small"];
        assert_eq!(
            sorted(&times, &names),
            ["core/hosts", "core/rights", "core/small"]
        );
        let ended = |name, seconds| Ended::passed(name, Duration::from_secs(seconds));
        times
            .keep(&[ended("core/rights", 1), ended("core/hosts", 2)])
            .unwrap();
        let again = Times::read(&folder);
        assert_eq!(
            sorted(&again, &names),
            ["core/small", "core/hosts", "core/rights"]
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn idle_processors_are_seen() {
        let before = parsed("cpu  10 0 10 50 10 0 0 0 99 99\ncpu0 1 2").unwrap();
        assert_eq!(before, (80, 60));
        let now = parsed("cpu  40 0 10 60 10 0 0 0 0 0").unwrap();
        assert!((idle(before, now) - 0.25).abs() < 1e-9);
        assert_eq!(parsed("intr 1"), None);
    }
}
