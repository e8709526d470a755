//! Invented waits, each with its only right reason.

use host_stub::trace::Head;

use super::*;

const MS: u64 = 1_000_000;

fn record(kind: Kind, (from, to): (u64, u64), peer: u64, name: &str) -> Record {
    let record = Record::new(kind, from * MS, (to - from) * MS).named(name.as_bytes());
    Record { peer, ..record }
}

/// A job whose ranks have these records, ordered by their beginnings.
fn job(ranks: &[&[Record]]) -> Job {
    let processes = ranks.iter().zip(0..).map(|(records, rank)| Process {
        rank,
        head: Head::default(),
        records: records.to_vec(),
        is_whole: true,
    });
    Job {
        processes: processes.collect(),
        left_out: Vec::new(),
    }
}

fn first(ranks: &[&[Record]]) -> (Option<u64>, String) {
    let mut found = find(&job(ranks), 10 * MS, 10);
    let first = found.remove(0);
    (first.blamed, format!("{}: {}", first.place, first.reason))
}

#[test]
fn reasons() {
    let call = |time, name| record(Kind::Call, time, NO_RANK, name);
    let quiet = |time| record(Kind::Quiet, time, NO_RANK, "");
    let alive = call((200, 201), "free");
    let wait = [call((0, 50), "fence"), alive];
    // The blamed rank has the longest total silence, and the text names the calls around it.
    let (blamed, text) = first(&[
        &wait,
        &[quiet((0, 20)), alive],
        &[
            call((0, 5), "put"),
            quiet((6, 22)),
            quiet((23, 48)),
            call((48, 50), "fence"),
            alive,
        ],
    ]);
    assert_eq!(blamed, Some(2));
    let wanted = "fence: rank 2 made no progress for 41.0 ms of it, between its put and its fence";
    assert_eq!(text, wanted);
    // A flush of one peer waits for this peer only.
    let flush = record(Kind::Wait, (1, 50), 1, "");
    let (blamed, text) = first(&[
        &[wait[0], flush, alive],
        &[quiet((3, 40)), alive],
        &[quiet((0, 50)), alive],
    ]);
    assert_eq!(blamed, Some(1), "{text}");
    assert!(text.starts_with("fence, for rank 1: "), "{text}");
    // The waiting rank itself.
    let (blamed, text) = first(&[&[wait[0], quiet((0, 40)), alive], &[quiet((0, 20)), alive]]);
    assert_eq!(blamed, Some(0), "{text}");
    // A rank that was killed.
    let mut killed = job(&[&wait, &[call((0, 1), "put")]]);
    killed.processes[1].is_whole = false;
    let found = find(&killed, 10 * MS, 1);
    assert_eq!(
        found[0].reason,
        "the trace of rank 1 ends before: it was killed, its disk was full, or it did nothing any more"
    );
    // No room.
    for (name, said) in [
        ("provider", "the wire was full (FI_EAGAIN)"),
        (
            "peer",
            "rank 1 took no more: its ring was full, or the credits for messages ran out",
        ),
    ] {
        let refused = record(Kind::Refused, (5, 45), 1, name);
        let (blamed, text) = first(&[&[wait[0], Record { id: 9, ..refused }, alive], &[alive]]);
        assert_eq!(blamed, Some(1), "{text}");
        assert_eq!(
            text,
            format!("fence, {said}: 9 posts in a row were refused").replace("fence, ", "fence: ")
        );
    }
    // A long operation, and no records at all.
    let done = record(Kind::Done, (1, 49), 1, "get");
    let (blamed, text) = first(&[&[wait[0], done, alive], &[alive]]);
    assert_eq!(blamed, Some(1), "{text}");
    assert_eq!(first(&[&wait, &[alive]]).0, None);
    // A rank that was busy with other work, but made progress, and a rank that came in between.
    let (early, last) = (call((10, 50), "fence"), call((40, 50), "fence"));
    let (blamed, text) = first(&[&wait, &[early, alive], &[last, alive]]);
    assert_eq!(blamed, Some(2), "{text}");
    assert_eq!(text, "fence: rank 2 came to its fence 40.0 ms later");
}

#[test]
fn locks() {
    let lock = |time, name| record(Kind::Call, time, 0, name);
    let all = |time, name| record(Kind::Call, time, NO_RANK, name);
    let waits = [lock((10, 60), "lock"), lock((61, 62), "unlock")];
    let held = [lock((0, 1), "lock"), lock((58, 59), "unlock")];
    // Another rank holds another lock.
    let other = record(Kind::Call, (0, 1), 1, "lock");
    let (blamed, text) = first(&[&waits, &[other], &held]);
    assert_eq!(blamed, Some(2), "{text}");
    assert!(
        text.contains("rank 2 held the lock of rank 0 for 49.0 ms"),
        "{text}"
    );
    // A lock that is never released, and a lock of all ranks.
    let (blamed, _) = first(&[&waits, &[held[0], all((70, 71), "free")]]);
    assert_eq!(blamed, Some(1));
    let (blamed, text) = first(&[
        &waits,
        &[all((0, 1), "lock_all"), all((59, 60), "unlock_all")],
    ]);
    assert_eq!(blamed, Some(1), "{text}");
    assert!(text.contains("the locks of all ranks"), "{text}");
    // A lock released before the wait.
    let (blamed, _) = first(&[
        &waits,
        &[held[0], lock((12, 13), "unlock"), all((70, 71), "free")],
    ]);
    assert_eq!(blamed, None);
}

/// Waits that never ended come first, also if they are shorter than the limit; a lock that was never taken is not held.
#[test]
fn waits_that_never_end() {
    let call = |time, name| record(Kind::Call, time, 0, name);
    let open = |record: Record| Record {
        open: true,
        ..record
    };
    let mut job = job(&[
        &[call((0, 60), "fence"), open(call((70, 75), "lock"))],
        &[open(call((60, 74), "lock"))],
    ]);
    for process in &mut job.processes {
        process.is_whole = false;
    }
    let found = find(&job, 10 * MS, 10);
    let seen: Vec<_> = found
        .iter()
        .map(|w| (w.rank, w.place.as_str(), w.ended, w.blamed))
        .collect();
    let wanted = [
        (1, "lock, rank 0 (did not end)", false, None),
        (0, "lock, rank 0 (did not end)", false, None),
        (0, "fence, rank 0", true, None),
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn the_outermost_and_the_longest() {
    let call = |time, name| record(Kind::Call, time, NO_RANK, name);
    let job = job(&[
        &[
            call((0, 30), "fence"),
            call((1, 20), "barrier"),
            call((40, 52), "flush"),
            call((60, 69), "put"),
        ],
        &[call((0, 15), "wait")],
    ]);
    let places = |most| -> Vec<String> {
        find(&job, 10 * MS, most)
            .into_iter()
            .map(|w| w.place)
            .collect()
    };
    assert_eq!(places(10), ["fence", "wait", "flush"]);
    assert_eq!(places(2), ["fence", "wait"]);
    assert!(find(&job, 31 * MS, 10).is_empty());
}
