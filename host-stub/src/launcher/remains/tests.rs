use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use super::*;

#[test]
fn only_exact_names_match() {
    let process = Process {
        space: 0x0011_2233_4455_66aa,
        pid: 9547,
        started: 81,
    };
    for (name, of) in [
        ("9547:0:1", Owner::Pid(9547)),
        ("9547:0:1_12", Owner::Pid(9547)),
        (
            "btl_ofi.00112233445566aa.9547.81:0:1_3",
            Owner::Process(process),
        ),
        (
            "btl_ofi.00112233445566aa.9547.81.words",
            Owner::Process(process),
        ),
    ] {
        assert_eq!(owner(name), Some(of), "{name}");
    }
    for other in [
        "9547",
        "9547:0",
        "btl_ofi.00112233445566aa.x.81:0:1",
        "btl_ofi.00112233445566aa.9547",
        "btl_ofi.0011.9547.81:0:1",
        "btl_ofi.00112233445566AA.9547.81:0:1",
        "9547:0:1:2",
        "9547:0:x",
        "x9547:0:1",
        "9547:0:1_",
        "9547:0:1_a",
        "09547:0:1",
        "-9547:0:1",
        "+9547:0:1",
        "9547:0:",
        ":0:1",
        "99999999999:0:1",
        "",
    ] {
        assert_eq!(owner(other), None, "{other}");
    }
}

#[test]
fn only_files_of_this_job_match() {
    assert!(is_named_after("host-stub-7-ab-win0", "7-ab"));
    assert!(!is_named_after("host-stub-7-abc-win0", "7-ab"));
    assert!(!is_named_after("host-stub-7-ab", "7-ab"));
    assert!(!is_named_after("x-host-stub-7-ab-win0", "7-ab"));
}

/// Other jobs have processes with the ids of this one: after it, before it, or in another process-id namespace.
#[test]
fn files_of_other_jobs_stay() {
    let folder = std::env::temp_dir().join(format!("host-stub-remains-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let own = Process::own();
    let mut child = Command::new("true").spawn().unwrap();
    let ended = child.id();
    child.wait().unwrap();
    let named = |space: u64, pid: u32, started: u64, rest: &str| {
        format!("btl_ofi.{space:016x}.{pid}.{started}{rest}")
    };
    // The file has the lower 32 bits of the start.
    let started = own.started & u64::from(u32::MAX);
    let removed = [
        named(own.space, ended, 7, ":0:0_1"),
        named(own.space, own.pid, started ^ 1, ".words"),
        format!("{ended}:0:0"),
    ];
    let kept = [
        named(own.space ^ 1, ended, 7, ":0:0"),
        named(own.space, own.pid, started, ":0:0"),
        named(own.space, ended + 1, 7, ":0:0"),
        format!("{}:0:0", own.pid),
        format!("{ended}:1:0"),
    ];
    for name in removed.iter().chain(&kept) {
        fs::write(folder.join(name), "x").unwrap();
    }
    let began = SystemTime::now() - Duration::from_secs(60);
    let before = File::options().write(true).open(folder.join(&kept[4]));
    let earlier = began - Duration::from_secs(1);
    before.unwrap().set_modified(earlier).unwrap();
    let pids = BTreeSet::from([ended as i32, own.pid as i32]);
    Ended {
        job: "7-ab",
        began,
        pids: &pids,
    }
    .remove_files_in(&folder);
    let there = |name: &String| -> PathBuf { folder.join(name) };
    for name in &kept {
        assert!(there(name).exists(), "removed {name}");
    }
    for name in &removed {
        assert!(!there(name).exists(), "left {name}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
