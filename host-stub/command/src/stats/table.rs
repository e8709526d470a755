//! The table: the changes between two readings, as rows of text.

use std::collections::HashMap;
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

    /// The same transport in the first reading.
    fn earlier(&self, process: &Process, transport: &Transport) -> Option<&Transport> {
        let same = self.before.iter().find(|p| p.pid == process.pid)?;
        same.transports.iter().find(|t| t.file == transport.file)
    }

    /// The peers in the first reading, by their numbers. The second reading counts a peer that was released in between
    /// among the other peers, so it is counted among them here, too.
    fn earlier_peers(&self, process: &Process, now: &Transport) -> HashMap<Option<u64>, Peer> {
        let before = self.earlier(process, now);
        let before = before.map_or(&[][..], |before| &before.peers);
        let mut earlier: HashMap<_, _> = before.iter().map(|p| (p.peer, p.clone())).collect();
        let now: HashMap<_, _> = now.peers.iter().map(|p| (p.peer, p)).collect();
        let operations = |peer: Option<&Peer>| peer.map_or(0, Peer::operations);
        let others = operations(now.get(&None).copied());
        let grown = others.saturating_sub(operations(earlier.get(&None)));
        for peer in before.iter().filter(|peer| peer.peer.is_some()) {
            let is_released = now.get(&peer.peer).is_none_or(|now| {
                // Or released and connected again. A lower count may also mean that an operation was refused and
                // its count taken back.
                now.operations() < peer.operations() && grown >= peer.operations()
            });
            if is_released {
                earlier.remove(&peer.peer);
                earlier.entry(None).or_default().add(peer);
            }
        }
        earlier
    }

    /// The name and provider of a transport, and whether it makes progress.
    pub(super) fn headline(&self, process: &Process, number: usize) -> String {
        let transport = &process.transports[number];
        let before = self.earlier(process, transport).map_or(0, |t| t.polls);
        let polls = self.rate(before, transport.polls);
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

    /// The rows of a transport's busiest peers, and the number of other peers with traffic.
    pub(super) fn rows(
        &self,
        process: &Process,
        number: usize,
        most: usize,
    ) -> (Vec<[String; COLUMNS.len()]>, usize) {
        let now = &process.transports[number];
        let (earlier, none) = (self.earlier_peers(process, now), Peer::default());
        let mut pairs: Vec<(&Peer, &Peer)> = now
            .peers
            .iter()
            .map(|peer| (earlier.get(&peer.peer).unwrap_or(&none), peer))
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
            now.peer
                .map_or_else(|| String::from("others, all"), name_of),
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
            // A wait is counted when it ends, with time from before the first reading.
            number_of((waited / 1e7).min(100.0)),
        ]
    }
}

/// A peer's rank. Under Open MPI the upper half of a peer's number has the difference between its job's number and the own
/// job's number.
fn name_of(peer: u64) -> String {
    match ((peer >> 32) as i32, peer as u32) {
        (0, rank) => rank.to_string(),
        (job, rank) => format!("{rank}, job {job:+}"),
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

/// The whole table as text.
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
            let lines: Vec<[&str; COLUMNS.len()]> = std::iter::once(COLUMNS)
                .chain(rows.iter().map(|row| row.each_ref().map(String::as_str)))
                .collect();
            let width = |column: usize| lines.iter().map(|line| line[column].len()).max();
            let widths = std::array::from_fn(|column| width(column).unwrap_or(0) + 2);
            for cells in lines {
                line(&mut out, cells, widths);
            }
            let _ = match others {
                0 => writeln!(out),
                n => writeln!(out, "  and {n} more peers (--peers)\n"),
            };
        }
    }
    out
}

fn line(out: &mut String, cells: [&str; COLUMNS.len()], widths: [usize; COLUMNS.len()]) {
    for (cell, width) in cells.into_iter().zip(widths) {
        let _ = write!(out, "{cell:>width$}");
    }
    out.push('\n');
}

#[cfg(test)]
mod tests;
