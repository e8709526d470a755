//! The output of the command: rank 0 alone prints, one line or one JSON object for all ranks.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use host_stub::job::Job;

/// One test's outcome over all ranks.
#[derive(Clone, Debug, Serialize)]
struct Entry {
    name: String,
    passed: bool,
    milliseconds: u64,
    /// The rows of docs/seeds.md for which the test is the evidence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shows: Vec<&'static str>,
    /// The messages of the failing ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<String>,
}

/// The outcome so far.
#[derive(Debug, Serialize)]
pub(super) struct Tally {
    provider: String,
    ranks: u32,
    threads: usize,
    seed: u64,
    #[serde(skip)]
    prints: bool,
    #[serde(skip)]
    json: bool,
    passed: usize,
    failed: usize,
    tests: Vec<Entry>,
}

/// Collects outcomes and prints them.
pub(super) struct Report {
    tally: Arc<Mutex<Tally>>,
}

impl Report {
    pub(super) fn start(
        job: &Job,
        seed: u64,
        threads: usize,
        count: usize,
        json: bool,
    ) -> std::io::Result<Report> {
        let attributes = job.transport().attributes();
        let tally = Tally {
            provider: attributes.provider.clone(),
            ranks: job.size(),
            threads,
            seed,
            prints: job.rank() == 0,
            json,
            passed: 0,
            failed: 0,
            tests: Vec::new(),
        };
        if tally.prints && !json {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "{count} tests, {} ranks, {threads} thread{}, provider {} ({})",
                tally.ranks,
                if threads == 1 { "" } else { "s" },
                attributes.provider,
                attributes.completion
            )?;
            writeln!(out, "seed {seed}")?;
        }
        Ok(Report {
            tally: Arc::new(Mutex::new(tally)),
        })
    }

    /// The outcome so far, for the watchdog that prints it if the run does not end.
    pub(super) fn shared(&self) -> Arc<Mutex<Tally>> {
        Arc::clone(&self.tally)
    }

    /// Adds a test; `parts` has the message of each rank, empty if it passed.
    pub(super) fn add(
        &mut self,
        name: &str,
        took: Duration,
        parts: &[Vec<u8>],
    ) -> std::io::Result<()> {
        let failures: Vec<String> = parts
            .iter()
            .filter(|part| !part.is_empty())
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect();
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.add(name, took, failures)?;
        Ok(())
    }

    /// Prints the summary, and returns the number of failed tests.
    pub(super) fn finish(self) -> std::io::Result<usize> {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.print_end()?;
        Ok(tally.failed)
    }
}

impl Tally {
    pub(super) fn add(
        &mut self,
        name: &str,
        took: Duration,
        failures: Vec<String>,
    ) -> std::io::Result<()> {
        let passed = failures.is_empty();
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
        if self.prints && !self.json {
            let mut out = std::io::stdout().lock();
            let word = if passed { "ok  " } else { "FAIL" };
            writeln!(out, "{word} {name} ({} ms)", took.as_millis())?;
            for failure in &failures {
                writeln!(out, "     {failure}")?;
            }
        }
        self.tests.push(Entry {
            name: name.to_owned(),
            passed,
            milliseconds: took.as_millis() as u64,
            shows: super::rows::of(name),
            failures,
        });
        Ok(())
    }

    pub(super) fn print_end(&self) -> std::io::Result<()> {
        if !self.prints {
            return Ok(());
        }
        if self.json {
            let mut out = std::io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, self)?;
            return writeln!(out);
        }
        let mut out = std::io::stdout().lock();
        if self.failed > 0 {
            writeln!(out, "again with: --seed {}", self.seed)?;
        }
        writeln!(out, "{} passed, {} failed", self.passed, self.failed)?;
        out.flush()?;
        Ok(())
    }
}
