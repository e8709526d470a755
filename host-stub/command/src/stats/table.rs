//! The table: what changed between two readings, as rows of text.

use std::fmt::Write;
use std::time::Duration;

use plugin_api::counters::CARRIERS;

use super::read::{Peer, Process, Transport};

/// Two readings of the same processes.
pub(super) struct Change {
    before: Vec<Process>,
    pub(super) now: Vec<Process>,
    time: Duration,
}

/// The columns of a peer's row.
pub(super) const COLUMNS: [&str; 12] = [
    "peer",
    "provider/s",
    "message/s",
    "ring/s",
    "cma/s",
    "copy/s",
    "MB/s",
    "again/s",
    "revoked/s",
    "per message",
    "waits/s",
    "waiting %",
];

impl Change {
    pub(super) fn new(before: Vec<Process>, now: Vec<Process>, time: Duration) -> Change {
        Change { before, now, time }
    }

    /// A counter's growth per second.
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.time.as_secs_f64()
    }

    /// The same transport at the reading before; all zeros if it was not there.
    fn earlier(&self, process: &Process, transport: usize) -> Transport {
        let same = self.before.iter().find(|p| p.pid == process.pid);
        let found = same.and_then(|p| p.transports.get(transport));
        found.cloned().unwrap_or(Transport {
            title: String::new(),
            polls: 0,
            peers: Vec::new(),
        })
    }

    /// What a transport is and whether it makes progress.
    pub(super) fn headline(&self, process: &Process, number: usize) -> String {
        let transport = &process.transports[number];
        let polls = self.rate(self.earlier(process, number).polls, transport.polls);
        let mut line = String::new();
        if let Some(rank) = process.rank {
            let _ = write!(line, "rank {rank}, ");
        }
        let _ = write!(
            line,
            "process {} ({}) over {}: ",
            process.pid, process.program, transport.title
        );
        let _ = match polls {
            0.0 => write!(line, "no progress"),
            polls => write!(line, "progress {}/s", number_of(polls)),
        };
        line
    }

    /// The rows of a transport's busiest peers, and how many others have had traffic.
    pub(super) fn rows(
        &self,
        process: &Process,
        number: usize,
        most: usize,
    ) -> (Vec<[String; COLUMNS.len()]>, usize) {
        let (earlier, now) = (
            self.earlier(process, number),
            &process.transports[number].peers,
        );
        let none = Peer::default();
        let mut pairs: Vec<(&Peer, &Peer)> = now
            .iter()
            .map(|peer| {
                let before = earlier.peers.iter().find(|p| p.peer == peer.peer);
                (before.unwrap_or(&none), peer)
            })
            .collect();
        pairs.sort_by_key(|(before, now)| {
            let bytes = now.bytes().saturating_sub(before.bytes());
            let operations = now.operations().saturating_sub(before.operations());
            std::cmp::Reverse((bytes, operations, now.operations()))
        });
        let others = pairs.len().saturating_sub(most);
        let shown = pairs.into_iter().take(most);
        (
            shown.map(|(before, now)| self.row(before, now)).collect(),
            others,
        )
    }

    fn row(&self, before: &Peer, now: &Peer) -> [String; COLUMNS.len()] {
        let operations = |i: usize| {
            let was = before.carried.get(i).map_or(0, |c| c.operations);
            self.rate(was, now.carried[i].operations)
        };
        let [provider, message, ring, cma, copy]: [f64; CARRIERS] = std::array::from_fn(operations);
        let messages = self.rate(before.messages, now.messages);
        let waited = self.rate(before.waited_ns, now.waited_ns);
        [
            now.peer.map_or_else(
                || String::from("others, all"),
                // Open MPI's numbers of processes have the job in their upper half.
                |peer| (peer & u64::from(u32::MAX)).to_string(),
            ),
            number_of(provider),
            number_of(message),
            number_of(ring),
            number_of(cma),
            number_of(copy),
            number_of(self.rate(before.bytes(), now.bytes()) / 1e6),
            number_of(self.rate(before.again, now.again)),
            number_of(self.rate(before.revoked, now.revoked)),
            match messages > 0.0 {
                true => number_of(message / messages),
                false => String::from("-"),
            },
            number_of(self.rate(before.waits, now.waits)),
            number_of(waited / 1e7),
        ]
    }
}

/// A number in at most seven characters.
fn number_of(value: f64) -> String {
    match value {
        0.0 => String::from("0"),
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e4 => format!("{:.1} k", v / 1e3),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// All of it as text.
pub(super) fn text(change: &Change, most: usize) -> String {
    let mut out = String::new();
    for process in &change.now {
        for number in 0..process.transports.len() {
            let _ = writeln!(out, "{}", change.headline(process, number));
            let (rows, others) = change.rows(process, number, most);
            if rows.is_empty() {
                let _ = writeln!(out, "  no operations so far\n");
                continue;
            }
            line(&mut out, COLUMNS);
            for row in &rows {
                line(&mut out, row.each_ref().map(String::as_str));
            }
            let _ = match others {
                0 => writeln!(out),
                n => writeln!(out, "  and {n} more peers (--peers)\n"),
            };
        }
    }
    out
}

fn line(out: &mut String, cells: [&str; COLUMNS.len()]) {
    for cell in cells {
        let _ = write!(out, "{cell:>12}");
    }
    out.push('\n');
}

#[cfg(test)]
mod tests;
