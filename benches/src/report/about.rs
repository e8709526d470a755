//! The conditions of the numbers: the machine, and the versions of the measured software.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    /// The load of the last minute, when the report was made.
    load: String,
    /// The versions of the compiler and of libraries, by name.
    versions: BTreeMap<String, String>,
}

impl Machine {
    /// This machine.
    pub(crate) fn here() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or("unknown processor", |(_, name)| name);
        let programs = [
            ("rustc", "rustc"),
            ("libfabric", "fi_info"),
            ("openmpi", "mpirun"),
        ];
        let versions = programs.map(|(name, program)| (name.into(), version(program)));
        Machine {
            processor: model.into(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or("unknown")
                .into(),
            versions: versions.into(),
        }
    }

    /// The machine in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = format!(
            "{}, {} cores, Linux {}, load {} at the end",
            self.processor, self.cores, self.kernel, self.load
        );
        for (name, version) in &self.versions {
            line += &format!("; {name} {version}");
        }
        line
    }
}

/// The first line that a program prints about its version, without its own name.
fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let printed = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let printed = printed.unwrap_or_default();
    let line = printed.lines().next().unwrap_or("unknown").trim();
    let line = line.strip_prefix(program).unwrap_or(line);
    line.trim_start_matches([':', ' ']).into()
}
