use host_stub::trace::NO_CARRIER;

use super::*;

/// A file with a post at each of these times.
fn file(rank: u64, host: &str, (monotonic, realtime): (u64, u64), begins: &[u64]) -> Process {
    let head = Head {
        process: 100u32.wrapping_add(rank as u32),
        rank,
        monotonic,
        realtime,
        host: host.to_owned(),
        title: String::new(),
    };
    let records = begins
        .iter()
        .map(|begin| Record::new(Kind::Post, *begin, 1));
    Process {
        rank,
        head,
        records: records.collect(),
        is_whole: true,
    }
}

fn begins(process: &Process) -> Vec<u64> {
    process.records.iter().map(|record| record.begin).collect()
}

/// Processes of one host share the monotonic clock, even if they read the realtime clock at different times;
/// hosts are joined by the realtime clock.
#[test]
fn one_clock_for_all() {
    const YEAR: u64 = 1 << 55;
    let files = vec![
        file(1, "b", (500, YEAR + 1_000), &[600]),
        file(0, "a", (1_000, YEAR), &[2_000, 1_500]),
        file(2, "a", (9_000, YEAR + 8_003), &[1_600]),
    ];
    let job = Job::of(files).unwrap();
    assert_eq!(begins(&job.processes[0]), [0, 500]);
    assert_eq!(begins(&job.processes[1]), [600]);
    assert_eq!(begins(&job.processes[2]), [100]);
    assert_eq!(job.process(2), Some(2));
    assert_eq!(job.process(7), None);
}

/// Two files of one rank belong to two jobs.
#[test]
fn files_of_several_jobs_are_refused() {
    let process = |rank, pid| {
        let mut file = file(rank, "a", (1, 1), &[1]);
        file.head.process = pid;
        file
    };
    let files = vec![process(1, 11), process(0, 10), process(0, 20)];
    let refused = Job::of(files).err().unwrap();
    let said = "rank 0 has processes 10 and 20; name the files of one job";
    assert!(refused.contains(said), "{refused}");
}

/// A folder for the files of a test.
fn folder(test: &str) -> PathBuf {
    let name = format!("host-stub-trace-{test}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A trace with these records.
fn write(path: &Path, records: &[Record]) {
    let mut bytes = Head::default().to_bytes().to_vec();
    for record in records {
        bytes.extend(record.to_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn completions_have_the_carriers_of_their_posts() {
    let folder = folder("carriers");
    let path = folder.join("trace");
    let record = |kind, id, carrier| Record {
        id,
        carrier,
        ..Record::new(kind, id, 1)
    };
    write(
        &path,
        &[
            // A callback may run before the call that posted its operation returns.
            record(Kind::Done, 5, NO_CARRIER),
            record(Kind::Post, 5, 2),
            record(Kind::Post, 6, 3),
            record(Kind::Done, 6, NO_CARRIER),
            // The record of its post was lost.
            record(Kind::Done, 7, NO_CARRIER),
        ],
    );
    let process = Process::read(&path).unwrap().unwrap();
    let carriers: Vec<u8> = process.of(Kind::Done).map(|done| done.carrier).collect();
    assert_eq!(carriers, [2, 3, NO_CARRIER]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_that_are_no_traces_are_left_out() {
    let folder = folder("others");
    let [trace, empty, merged] = ["t.a.1", "t.a.2", "t.json"].map(|name| folder.join(name));
    write(&trace, &[Record::new(Kind::End, 1, 0)]);
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&merged, "{\"displayTimeUnit\":\"ns\"}".repeat(20)).unwrap();
    let job = Job::read(&[empty.clone(), trace, merged.clone()]).unwrap();
    assert_eq!(job.processes.len(), 1);
    let remarks = job.remarks();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    for (remark, path) in remarks.iter().zip([&empty, &merged]) {
        let said = format!("{}: this is no trace", path.display());
        assert!(remark.starts_with(&said), "{remark}");
    }
    let refused = Job::read(&[empty, merged.clone()]).err().unwrap();
    assert!(refused.contains(merged.to_str().unwrap()), "{refused}");
    std::fs::remove_dir_all(&folder).unwrap();
}
