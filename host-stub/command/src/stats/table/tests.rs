use super::super::read::CarriedBy;
use super::*;

fn reading(operations: u64, bytes: u64, polls: u64) -> Vec<Process> {
    let by = |carrier, operations, bytes| CarriedBy {
        carrier,
        operations,
        bytes,
    };
    vec![Process {
        pid: 7,
        program: String::from("program"),
        rank: Some(3),
        transports: vec![Transport {
            file: (1, 7),
            title: String::from("tcp, eth0"),
            polls,
            peers: vec![
                Peer {
                    peer: None,
                    carried: vec![by("provider", 0, 0); CARRIERS],
                    waits: 4,
                    waited_ns: 10,
                    ..Peer::default()
                },
                Peer {
                    peer: Some(7 << 32 | 12),
                    carried: vec![by("x", operations, bytes); CARRIERS],
                    messages: operations / 4,
                    ..Peer::default()
                },
            ],
        }],
    }]
}

#[test]
fn rates_are_those_between_two_readings() {
    let two = Duration::from_secs(2);
    let change = Change::new(reading(1000, 0, 5), reading(3000, 4_000_000, 5), two);
    let said = text(&change, 1);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "rank 3, process 7 (program) over tcp, eth0: no progress"
    );
    // A peer of another job.
    let cells = lines[2].trim_start().strip_prefix("12, job +7 ").unwrap();
    let cells: Vec<&str> = cells.split_whitespace().collect();
    // Five carriers have 2000 more operations each, and 20 MB more in total; a message carries four
    // operations.
    assert_eq!(
        cells,
        [
            "1000", "1000", "1000", "1000", "1000", "10.0", "0", "0", "4.0", "0", "0"
        ]
    );
    assert_eq!(lines[3], "  and 1 more peers (--peers)");
}

#[test]
fn columns_are_as_wide_as_they_need() {
    let mut now = reading(2_345_678, 4_000_000, 5);
    // A wait that began before the first reading.
    now[0].transports[0].peers[0].waited_ns = 1_010_000_000;
    let change = Change::new(reading(0, 0, 5), now, Duration::from_secs(1));
    let said = text(&change, 8);
    let lines: Vec<&str> = said.lines().skip(1).take(3).collect();
    assert!(lines.iter().all(|l| l.len() == lines[0].len()), "{said}");
    assert!(lines[0].len() <= 120, "{}: {said}", lines[0].len());
    assert!(said.contains(" 100") && !said.contains("101"), "{said}");
}

#[test]
fn a_process_that_was_not_there_before_counts_from_zero() {
    let change = Change::new(
        Vec::new(),
        reading(8, 8, 30_000_000),
        Duration::from_secs(1),
    );
    let said = text(&change, 8);
    assert!(said.contains("progress 30.00 M/s"), "{said}");
    assert!(said.contains("others, all"), "{said}");
}

/// A transport with these peers, each with its number of operations.
fn transport(file: u64, title: &str, peers: &[(Option<u64>, u64)]) -> Transport {
    let peer = |(peer, operations): &(Option<u64>, u64)| Peer {
        peer: *peer,
        carried: vec![
            CarriedBy {
                carrier: "x",
                operations: *operations,
                bytes: 0
            };
            CARRIERS
        ],
        ..Peer::default()
    };
    Transport {
        file: (1, file),
        title: title.to_owned(),
        polls: 0,
        peers: peers.iter().map(peer).collect(),
    }
}

/// The peers and their operations by the first carrier, from two readings a second apart.
fn rates(before: Vec<Transport>, now: Vec<Transport>, number: usize) -> Vec<[String; 2]> {
    let process = |transports| Process {
        transports,
        ..reading(0, 0, 0).remove(0)
    };
    let (before, now) = (vec![process(before)], vec![process(now)]);
    let change = Change::new(before, now, Duration::from_secs(1));
    let (rows, _) = change.rows(&change.now[0], number, 8);
    let mut rates: Vec<[String; 2]> = rows
        .into_iter()
        .map(|[peer, provider, ..]| [peer, provider])
        .collect();
    rates.sort();
    rates
}

/// A released peer's counts are added to the row of the others, but must not appear in its rate.
#[test]
fn what_a_released_peer_had_counted_is_no_rate() {
    let one = |peers: &[(Option<u64>, u64)]| vec![transport(7, "t", peers)];
    let before = one(&[(None, 50), (Some(1), 2000), (Some(2), 1000)]);
    // Peer 2 made 3 more operations before it was released; peer 1 continues.
    let now = one(&[(None, 1053), (Some(1), 2005)]);
    assert_eq!(
        rates(before.clone(), now, 0),
        [["1", "5.0"], ["others, all", "3.0"]]
    );
    // Peer 2 was the first to be released, or is connected again.
    let now = one(&[(None, 1050), (Some(1), 2000), (Some(2), 4)]);
    assert_eq!(
        rates(before, now, 0),
        [["1", "0"], ["2", "4.0"], ["others, all", "0"]]
    );
    let before = one(&[(Some(2), 1000)]);
    assert_eq!(
        rates(before.clone(), one(&[(None, 1000)]), 0),
        [["others, all", "0"]]
    );
    // The count of a refused operation was taken back.
    assert_eq!(rates(before, one(&[(Some(2), 999)]), 0), [["2", "0"]]);
}

/// Transports are recognised by their files: a new one may have the place and the title of another.
#[test]
fn a_transport_that_was_opened_anew_counts_from_zero() {
    let peers = |n| [(Some(1), n)];
    let before = vec![transport(7, "a", &peers(5)), transport(8, "a", &peers(900))];
    let now = vec![transport(8, "a", &peers(903)), transport(9, "a", &peers(2))];
    assert_eq!(rates(before.clone(), now.clone(), 0), [["1", "3.0"]]);
    assert_eq!(rates(before, now, 1), [["1", "2.0"]]);
}

#[test]
fn numbers_are_short() {
    let numbers = [0.0, 0.25, 7.0, 123.4, 12_345.0, 2.5e6, 9.99e12];
    assert_eq!(
        numbers.map(number_of),
        ["0", "0.25", "7.0", "123", "12.3 k", "2.50 M", "9990.00 G"]
    );
}
