//! Compares what was counted with the model.

use btl_ofi::sizes::MESSAGE_HEADER;

use super::rank::PLACES;
use crate::creation;
use crate::traffic::Job;

/// Numbers of each place; behind them stand bytes.
pub(super) const KINDS: [&str; 4] = [
    "operations",
    "bytes",
    "messages",
    "operations of the provider",
];
const MESSAGES: usize = 2;
/// Bytes that a request saves that shares a message: a header, that of an answer, and the name of its region.
const SAVED: u64 = {
    let names_a_region = 2 * size_of::<u64>();
    (2 * MESSAGE_HEADER + names_a_region) as u64
};
/// Bytes that the provider adds to a message: headers of rxm and tcp, 80 in libfabric 1.17.
const HEADERS: std::ops::RangeInclusive<f64> = 8.0..=128.0;
/// Bytes on the wire over the model's with these headers. rxm sends messages of its own where a rank has many senders.
const WIRE: std::ops::RangeInclusive<f64> = 0.99..=1.1;

/// A case with its counts of each rank.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) times: u64,
    /// The part of the messages that may be saved.
    pub(super) shared: f64,
    /// Whether bytes on the wire are the model's, beside a header for each message.
    pub(super) has_wire: bool,
    pub(super) counted: Vec<Vec<u64>>,
    pub(super) modelled: Vec<Vec<u64>>,
}

impl Line {
    /// The sum over the ranks of one number.
    fn sums(&self, at: usize) -> (u64, u64) {
        let sum = |all: &[Vec<u64>]| all.iter().filter_map(|of| of.get(at)).sum();
        (sum(&self.counted), sum(&self.modelled))
    }

    /// The same over places.
    fn of_kind(&self, kind: usize) -> (u64, u64) {
        let sums = (0..PLACES.len()).map(|place| self.sums(place * KINDS.len() + kind));
        sums.fold((0, 0), |(a, b), (c, m)| (a + c, b + m))
    }

    /// Bytes of all messages and answers, without the provider's headers, and how many these are.
    fn messages(&self) -> (f64, f64) {
        let (_, bytes) = self.sums(PLACES.len() * KINDS.len());
        let (messages, most) = self.of_kind(MESSAGES);
        let saved = most.saturating_sub(messages) * SAVED;
        (bytes as f64 - saved as f64, 2.0 * messages as f64)
    }

    fn sent(&self) -> f64 {
        self.sums(PLACES.len() * KINDS.len()).0 as f64
    }

    /// Bytes that the provider added to each message and answer.
    fn header(&self) -> f64 {
        let (bytes, messages) = self.messages();
        (self.sent() - bytes) / messages
    }

    /// Bytes on the wire over the model's, with a header of so many bytes on each message.
    fn wire(&self, header: f64) -> f64 {
        let (bytes, messages) = self.messages();
        self.sent() / (bytes + messages * header)
    }

    /// What differs by more than is allowed.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (rank, (counted, modelled)) in self.counted.iter().zip(&self.modelled).enumerate() {
            for (at, (counted, modelled)) in counted.iter().zip(modelled).enumerate() {
                let (place, kind) = (at / KINDS.len(), at % KINDS.len());
                if place < PLACES.len() && kind != MESSAGES && counted != modelled {
                    wrong.push(format!(
                        "{}: {:?} {} of rank {rank}: {counted} counted, {modelled} modelled",
                        self.name, PLACES[place], KINDS[kind]
                    ));
                }
            }
        }
        let (counted, modelled) = self.of_kind(MESSAGES);
        let least = (modelled as f64 * (1.0 - self.shared)) as u64;
        if !(least..=modelled).contains(&counted) {
            wrong.push(format!(
                "{}: {counted} messages counted, {modelled} modelled",
                self.name
            ));
        }
        wrong
    }
}

/// Prints all lines, and returns what differs by more than is allowed.
pub(super) fn judge(job: Job, lines: &[Line], exchanged: &[Vec<u64>]) -> Vec<String> {
    println!("{} ranks, {} on a node", job.ranks, job.per_node);
    println!(
        "{:40} {:>20} {:>20} {:>12} {:>8}",
        "all ranks, one call: counted (model)", "operations", "messages", "B of data", "wire"
    );
    let mut wrong: Vec<String> = lines.iter().flat_map(Line::wrong).collect();
    // The same for each message; some cases have messages of the provider beside.
    let on_wire = |line: &&Line| line.has_wire && line.of_kind(MESSAGES).0 > 0;
    let header = lines.iter().filter(on_wire).map(Line::header);
    let header = header.fold(f64::INFINITY, f64::min);
    if !HEADERS.contains(&header) {
        wrong.push(format!("{header} bytes of header for each message"));
    }
    for line in lines {
        let each = |(counted, modelled): (u64, u64)| {
            let of = |sum: u64| sum as f64 / line.times as f64;
            format!("{:.2} ({:.2})", of(counted), of(modelled))
        };
        let wire = on_wire(&line).then(|| line.wire(header));
        println!(
            "{:40} {:>20} {:>20} {:>12.0} {:>8}",
            line.name,
            each(line.of_kind(0)),
            each(line.of_kind(MESSAGES)),
            line.of_kind(1).0 as f64 / line.times as f64,
            wire.map_or(String::new(), |wire| format!("{wire:.3}"))
        );
        if wire.is_some_and(|wire| !WIRE.contains(&wire)) {
            wrong.push(format!(
                "{}: bytes on the wire over the model's: {wire:?}",
                line.name
            ));
        }
    }
    for (rank, of) in exchanged.iter().enumerate() {
        let model = creation::window(job, rank as u64);
        if *of != [model.rounds, model.given] {
            wrong.push(format!(
                "window creation, rank {rank}: rounds and bytes {of:?} counted, {model:?} modelled"
            ));
        }
    }
    let model = creation::window(job, 0);
    println!("a header of the provider: {header:.2} B; window creation: {model:?} out of band\n");
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(counted: [u64; 13], modelled: [u64; 13]) -> Line {
        Line {
            name: "a case",
            times: 1,
            shared: 0.1,
            has_wire: true,
            counted: vec![counted.to_vec()],
            modelled: vec![modelled.to_vec()],
        }
    }

    #[test]
    fn a_difference_is_found() {
        let model = [0, 0, 0, 0, 0, 0, 0, 0, 20, 160, 20, 0, 2400];
        assert!(line(model, model).wrong().is_empty());
        for (at, fewer) in [(8, 1), (9, 8), (10, 3), (11, 1)] {
            for more in [true, false] {
                let mut counted = model;
                counted[at] = match more {
                    true => model[at] + fewer,
                    false => model[at].saturating_sub(fewer),
                };
                let wrong = line(counted, model).wrong();
                assert_eq!(wrong.is_empty(), counted == model, "{at}: {wrong:?}");
            }
        }
        let mut counted = model;
        counted[10] = 19;
        assert!(line(counted, model).wrong().is_empty(), "shared messages");
        counted[12] = 2400 - SAVED + 38 * 24;
        let line = line(counted, model);
        assert!((line.header() - 24.0).abs() < 1e-9);
        assert!((line.wire(24.0) - 1.0).abs() < 1e-9);
        assert!(!WIRE.contains(&line.wire(8.0)));
    }

    #[test]
    fn wrong_bytes_on_the_wire_and_exchanges_are_found() {
        let job = Job {
            ranks: 1,
            per_node: 1,
        };
        let model = [0, 0, 0, 0, 0, 0, 0, 0, 20, 160, 20, 0, 2400];
        let of = |sent: u64| {
            let mut counted = model;
            counted[12] = sent;
            line(counted, model)
        };
        let window = creation::window(job, 0);
        let exchanged = [vec![window.rounds, window.given]];
        let right = 2400 + 40 * 80;
        let judged =
            |sent, exchanged: &[Vec<u64>]| judge(job, &[of(right), of(sent)], exchanged).len();
        assert_eq!(judged(right, &exchanged), 0);
        assert_eq!(judged(right + 800, &exchanged), 1);
        assert_eq!(judged(right, &[vec![window.rounds + 1, window.given]]), 1);
    }
}
