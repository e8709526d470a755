//! `host-stub stats`: the counters of a running process, and its errors for processes without counters.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr;
use std::sync::Mutex;

use integration_tests::fixtures::{host_stub, ofi_plugin};
use integration_tests::host::TestHost;
use integration_tests::process::{Outcome, run};
use integration_tests::session::Session;
use plugin_api::counters::{Carrier, MAGIC, NAME, VERSION, start_of};
use plugin_api::{Stats, Status};
use test_skips::{Lacking, skipped};

fn stats(arguments: &[&str]) -> Outcome {
    run(Command::new(host_stub()).arg("stats").args(arguments))
}

/// The tables contain the same counts for this process as its module, and no more than it has done.
#[test]
fn a_running_process() {
    let _alone = FILES.lock().unwrap();
    let host = TestHost::with_provider("shm");
    let mut session = Session::new(ofi_plugin(), &host);
    let handle = session.handle_copy();
    for _ in 0..7 {
        let (local, remote) = (session.local(0), session.remote(8));
        // SAFETY: module, endpoint and handles live, and both words are in registered memory.
        let status = unsafe { session.put((local, remote), handle.as_ptr().cast(), 24, (0, 255)) };
        assert!(status.is_ok(), "{status}");
    }
    assert_eq!(session.flush(), Status::SUCCESS);
    let mut own = Stats::new();
    // SAFETY: the module lives, and the record is writable.
    let told = unsafe { session.table.stats.unwrap()(session.module, &mut own) };
    assert_eq!(told, Status::SUCCESS);
    let copy = Carrier::Copy as usize;
    assert_eq!((own.operations[copy], own.bytes[copy]), (7, 7 * 24));

    let pid = std::process::id().to_string();
    let seen = stats(&["--json", &pid]);
    assert!(seen.status.success(), "{}", seen.transcript());
    let seen: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    let transport = &seen[0]["transports"][0];
    assert_eq!(seen[0]["pid"].to_string(), pid);
    assert!(transport["title"].as_str().unwrap().starts_with("shm"));
    assert_eq!(transport["polls"], own.polls);
    let peer = &transport["peers"][0];
    assert_eq!((&peer["peer"], &peer["again"]), (&0.into(), &0.into()));
    for (carrier, i) in Carrier::ALL.iter().zip(0..) {
        let seen = &peer["carried"][i];
        assert_eq!(seen["carrier"], carrier.name());
        assert_eq!(seen["operations"], own.operations[i]);
        assert_eq!(seen["bytes"], own.bytes[i]);
    }

    // No operation runs between two readings, and the table shows this. A list of all processes
    // contains this one.
    let table = stats(&["--interval", "0.05", &pid]);
    assert!(
        table.stdout.contains(&format!("process {pid} (stats-")),
        "{table:?}"
    );
    assert!(table.stdout.contains(": no progress\n"), "{table:?}");
    assert!(table.stdout.contains("waiting %"), "{table:?}");
    let all = stats(&["--interval", "0.05"]);
    assert!(
        all.stdout.contains(&format!("process {pid} (stats-")),
        "{all:?}"
    );

    of_a_forked_child();
    of_another_user(&pid);
}

/// A forked child of this process has the file open too, and no transport of its own.
fn of_a_forked_child() {
    // SAFETY: the child only waits for its end, which comes at the latest with this thread's.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
        child
    };
    let pid = child.to_string();
    let (refused, all) = (stats(&[&pid]), stats(&["--json"]));
    // SAFETY: the process is a child that was not waited for, and the call returns no status.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
    assert!(
        refused.stderr.contains("has no counters"),
        "{}",
        refused.transcript()
    );
    let all: serde_json::Value = serde_json::from_str(&all.stdout).unwrap();
    let listed = |process: &serde_json::Value| process["pid"] == child;
    assert!(!all.as_array().unwrap().iter().any(listed), "{all}");
}

/// A process cannot read the counters of another user.
fn of_another_user(pid: &str) {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skipped(Lacking::OtherUsers, "only root can become another user");
    }
    // Other users may have no access to the build folder, so the program is executed by its
    // descriptor.
    let program = File::open(host_stub()).unwrap();
    let [name, stats, pid] = ["host-stub", "stats", pid].map(|word| CString::new(word).unwrap());
    let execute = move || {
        let arguments = [&name, &stats, &pid].map(|word| word.as_ptr());
        let [name, stats, pid] = arguments;
        let (arguments, none) = ([name, stats, pid, ptr::null()], [ptr::null_mut()]);
        // SAFETY: the arguments are C strings in lists that end with NULL; a child may make this call
        // before it executes a program.
        unsafe {
            libc::execveat(
                program.as_raw_fd(),
                c"".as_ptr(),
                arguments.as_ptr().cast(),
                none.as_ptr(),
                libc::AT_EMPTY_PATH,
            )
        };
        Err(std::io::Error::last_os_error())
    };
    let mut command = Command::new("/proc/self/exe");
    command.uid(65534).gid(65534);
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(execute) };
    let refused = run(&mut command);
    assert_eq!(refused.status.code(), Some(6), "{}", refused.transcript());
    assert!(
        refused.stderr.contains("belongs to another user"),
        "{}",
        refused.transcript()
    );
}

/// Held while this process has counter files open, because a test would otherwise read the files of another
/// test.
static FILES: Mutex<()> = Mutex::new(());

/// A process whose standard input is a memfd with this name and these bytes.
struct Sleeper(Child);

impl Sleeper {
    fn new(name: &CStr, bytes: &[u8]) -> Sleeper {
        let _alone = FILES.lock();
        // SAFETY: the name is a C string, and the descriptor is new.
        let file = unsafe {
            let file = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
            assert!(file >= 0);
            File::from(OwnedFd::from_raw_fd(file))
        };
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
        let mut command = Command::new("sleep");
        command.arg("60").stdin(file);
        Sleeper(command.spawn().unwrap())
    }

    fn read(&self) -> Outcome {
        stats(&[&self.0.id().to_string()])
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Counters of another version, of no version, truncated, and with wrong counts of slots and shares.
#[test]
fn counters_that_cannot_be_read() {
    let front = |magic: u64, version: u32, (used, shares): (u32, u32)| {
        let mut bytes = magic.to_ne_bytes().to_vec();
        bytes.extend(version.to_ne_bytes());
        bytes.extend(used.to_ne_bytes());
        bytes.extend(shares.to_ne_bytes());
        bytes
    };
    let whole = |front: Vec<u8>| {
        let mut bytes = front;
        bytes.resize(start_of(1), 0);
        bytes
    };
    let later = VERSION + 1;
    let cases = [
        (
            whole(front(MAGIC, later, (1, 1))),
            format!("have version {later}, and this program reads version {VERSION}"),
        ),
        (
            whole(front(7, VERSION, (1, 1))),
            String::from("these are no counters"),
        ),
        (
            front(MAGIC, VERSION, (1, 1)),
            String::from("cannot be read"),
        ),
        (
            whole(front(MAGIC, VERSION, (1, u32::MAX))),
            String::from("cannot be read"),
        ),
        (Vec::new(), String::from("cannot be read")),
    ];
    for (bytes, said) in cases {
        let refused = Sleeper::new(NAME, &bytes).read();
        assert_eq!(refused.status.code(), Some(6), "{}", refused.transcript());
        assert!(refused.stderr.contains(&said), "{}", refused.transcript());
    }
    // Slots beyond the end of the table are not read.
    let lies = Sleeper::new(NAME, &whole(front(MAGIC, VERSION, (u32::MAX, 1)))).read();
    assert!(lies.status.success(), "{}", lies.transcript());
    // This memfd has another name.
    let other = Sleeper::new(c"something", &whole(front(MAGIC, VERSION, (1, 1)))).read();
    assert!(
        other.stderr.contains("has no counters"),
        "{}",
        other.transcript()
    );
}

#[test]
fn arguments_that_name_nothing() {
    let gone = {
        let sleeper = Sleeper::new(NAME, &[]);
        sleeper.0.id().to_string()
    };
    let refused = stats(&[&gone]);
    assert!(
        refused.stderr.contains("there is no process"),
        "{refused:?}"
    );
    for interval in ["0", "-1", "nan", "1e300"] {
        let option = format!("--interval={interval}");
        let refused = stats(&[&option, "1"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains("number of seconds"), "{refused:?}");
    }
}

/// Ranks of a node map the segment of a window whose operations the transport makes, so the operations are instructions
/// of the origin.
#[test]
fn a_window_in_one_segment() {
    let file = std::env::temp_dir().join(format!("window-stats-{}", std::process::id()));
    let mut command = Command::new(host_stub());
    command
        .args(["check", "--np", "2", "--suite", "tables", "--only"])
        .args(["shared/puts_by_the_transport", "--provider", "shm"])
        .args(["--mca", "btl_ofi_stats_file"])
        .arg(&file)
        .arg("--plugin")
        .arg(ofi_plugin());
    let outcome = run(&mut command);
    assert!(outcome.status.success(), "{}", outcome.transcript());
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    for line in text.lines() {
        let rank: serde_json::Value = serde_json::from_str(line).unwrap();
        let peers = rank["peers"].as_array().unwrap();
        let carried = peers.iter().flat_map(|p| p["carried"].as_array().unwrap());
        let copies = carried.filter(|c| c["carrier"] == Carrier::Copy.name());
        // The process copies to itself twice. All puts to the other process are copies, except the first put
        // during the ranks' first contact.
        let most = copies.map(|c| c["operations"].as_u64().unwrap()).max();
        assert!(most >= Some(9), "{line}");
    }
}
