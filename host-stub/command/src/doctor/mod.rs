//! `host-stub doctor`: checks the needs of a job on this machine, and prints the lines to set.
//!
//! Each module here checks one subject and returns findings; it changes nothing.

mod fabric;
mod launcher;
mod machine;
mod openmpi;

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::{CommandError, Common, Exit, print_json};

/// The arguments of `doctor`.
#[derive(Args)]
pub struct Doctor {
    #[command(flatten)]
    common: Common,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The subject is in order.
    Ok,
    /// The subject works, with a limit that a user should know.
    Note,
    /// The subject does not work until the user changes a setting.
    Problem,
}

/// A finding about one subject.
#[derive(Debug, Serialize)]
struct Finding {
    subject: &'static str,
    verdict: Verdict,
    found: String,
    /// Lines to paste into a shell.
    set: Vec<String>,
}

impl Finding {
    fn new(subject: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Finding {
            subject,
            verdict,
            found: found.into(),
            set: Vec::new(),
        }
    }

    fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Finding::new(subject, Verdict::Ok, found)
    }

    fn note(subject: &'static str, found: impl Into<String>) -> Self {
        Finding::new(subject, Verdict::Note, found)
    }

    fn problem(subject: &'static str, found: impl Into<String>) -> Self {
        Finding::new(subject, Verdict::Problem, found)
    }

    /// Adds a line to paste.
    fn set(mut self, line: impl Into<String>) -> Self {
        self.set.push(line.into());
        self
    }
}

impl Doctor {
    /// Runs the command. [`Exit::ChecksFailed`] if there is a problem.
    pub fn run(&self) -> Result<Exit, CommandError> {
        let mut findings = openmpi::look();
        findings.extend(fabric::look(&self.common));
        findings.extend(machine::look());
        if self.common.json {
            print_json(&findings)?;
        } else {
            print(&findings, &mut std::io::stdout().lock())?;
        }
        let problems = findings.iter().any(|f| f.verdict == Verdict::Problem);
        Ok(if problems {
            Exit::ChecksFailed
        } else {
            Exit::Ok
        })
    }
}

fn print(findings: &[Finding], out: &mut impl Write) -> std::io::Result<()> {
    for finding in findings {
        let verdict = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Problem => "PROBLEM",
        };
        writeln!(
            out,
            "{verdict:7}  {:11}  {}",
            finding.subject, finding.found
        )?;
    }
    let mut lines = findings.iter().flat_map(|finding| &finding.set).peekable();
    if lines.peek().is_some() {
        writeln!(out, "\nTo set:\n")?;
    }
    lines.try_for_each(|line| writeln!(out, "    {line}"))
}
