//! The trace of a transport: what it records, and files that cannot be written.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use btl_ofi::{Completion, Endpoint, Handle, Transport, log};
use common::Calls as _;
use mca_params::Value;
use plugin_api::counters::Carrier;
use plugin_api::trace::{HEAD, Head, Kind, NO_RANK, RECORD, Record};
use plugin_api::{Access, BtlAtomicOp, LogLevel, OpFlags, Status, ThreadLevel};

use common::attending::attended;
use common::{Patience, insist, near, open, register, tell};

/// A folder for the files of a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn traced(folder: &Path) -> (&'static str, Value) {
    let name = folder.join("t").to_str().unwrap().to_owned();
    ("btl_ofi_trace", Value::String(name.into()))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
}

fn read(file: &Path) -> (Head, Vec<Record>) {
    let bytes = fs::read(file).unwrap();
    let (records, rest) = bytes[HEAD..].as_chunks::<RECORD>();
    assert!(rest.is_empty());
    let records = records.iter().map(|r| Record::from_bytes(r).unwrap());
    (Head::from_bytes(&bytes).unwrap(), records.collect())
}

fn of(records: &[Record], kind: Kind) -> Vec<Record> {
    records.iter().filter(|r| r.kind == kind).copied().collect()
}

/// A put without callback and a fetch-add with one, and a flush.
fn operate(t: &Transport, peer: NonNull<Endpoint>, h: &Handle) {
    let (word, mut old, told, none) = (7u64, 0u64, AtomicI32::new(1), ptr::null_mut());
    let completion = Completion {
        function: tell,
        context: (&raw const told).cast_mut().cast(),
        data: ptr::null_mut(),
    };
    // SAFETY: the buffers live until the flush.
    unsafe {
        let local = (&raw const word).cast_mut().cast();
        insist(t, || t.put(peer, local, h.base(), none, h, 8, None));
        let (op, local) = (BtlAtomicOp::Add, (&raw mut old).cast());
        insist(t, || {
            let flags = OpFlags::empty();
            t.atomic_fop(
                peer,
                local,
                h.base() + 8,
                none,
                h,
                op,
                1,
                flags,
                Some(completion),
            )
        });
        assert_eq!(t.flush(Some(peer.as_ref())), Status::SUCCESS);
    }
    assert_eq!(told.load(Ordering::Relaxed), 0, "the caller's callback ran");
}

/// Between two transports, by each carrier: the operations with their carrier, completions, flushes and progress, in order.
#[test]
fn what_is_recorded() {
    let off = ("btl_ofi_same_node", Value::str("off"));
    let cases = [
        ("copy", near(), None, Carrier::Copy),
        ("message", "tcp;ofi_rxm", Some(off), Carrier::Message),
    ];
    for (test, provider, setting, carrier) in cases {
        let folder = folder(test);
        let mut settings = vec![traced(&folder)];
        settings.extend(setting);
        let (a, b) = (
            open(provider, ThreadLevel::Single, &settings),
            open(provider, ThreadLevel::Single, &settings[1..]),
        );
        assert!(a.is_traced() && !b.is_traced());
        let mut window = vec![0u64; 64];
        let own = carrier == Carrier::Copy;
        let region = register(if own { &a } else { &b }, &mut window, Access::all());
        let address = if own { a.address() } else { b.address() };
        let peer = a.connect(address, 41).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        attended(&b, || operate(&a, peer, &region.handle()));
        a.add_to_trace(b"a call of the host", 3, (10, 25));
        region.close().unwrap();
        a.close().unwrap();
        b.close().unwrap();

        let (head, records) = read(&files(&folder)[0]);
        assert_eq!(head.process, std::process::id());
        assert!(head.title.starts_with(provider), "{head:?}");
        let posts = of(&records, Kind::Post);
        let seen: Vec<_> = posts
            .iter()
            .map(|p| (p.name(), p.peer, p.bytes, p.id))
            .collect();
        let (put, fetch) = (String::from("put"), String::from("fetch"));
        assert_eq!(seen[0], (put, 41, 8, 0), "{records:?}");
        assert_eq!(seen.last(), Some(&(fetch, 41, 8, 1)), "{records:?}");
        for post in &posts {
            assert_eq!(post.carrier, carrier as u8, "{post:?}");
        }
        let done = of(&records, Kind::Done);
        assert_eq!(
            (done.len(), done[0].id, done[0].status),
            (1, 1, 0),
            "{records:?}"
        );
        assert_eq!(done[0].begin, posts[1].begin);
        let flushes = of(&records, Kind::Flush);
        assert_eq!((flushes.len(), flushes[0].peer), (1, 41), "{records:?}");
        let quiet = of(&records, Kind::Quiet);
        assert!(quiet.iter().any(|q| q.duration >= 5_000_000), "{records:?}");
        let calls = of(&records, Kind::Call);
        assert_eq!(
            (calls[0].name().as_str(), calls[0].peer),
            ("a call of the ho", 3)
        );
        assert_eq!((calls[0].begin, calls[0].end()), (10, 25));
        assert_eq!(records.last().unwrap().kind, Kind::End);
        if !own {
            assert!(!of(&records, Kind::Progress).is_empty(), "{records:?}");
        }
    }
}

/// What executes operations for others says so, whether by rings or by messages.
#[test]
fn what_the_target_executes() {
    let off = ("btl_ofi_same_node", Value::str("off"));
    let folder = folder("target");
    let settings = [off, traced(&folder)];
    let (a, b) = (
        open("tcp;ofi_rxm", ThreadLevel::Single, &settings[..1]),
        open("tcp;ofi_rxm", ThreadLevel::Single, &settings),
    );
    let mut window = vec![0u64; 64];
    let region = register(&b, &mut window, Access::all());
    let peer = a.connect(b.address(), 1).unwrap();
    attended(&b, || operate(&a, peer, &region.handle()));
    region.close().unwrap();
    a.close().unwrap();
    b.close().unwrap();
    let (_, records) = read(&files(&folder)[0]);
    let served: u64 = of(&records, Kind::Progress).iter().map(|r| r.bytes).sum();
    assert!(served >= 1, "{records:?}");
    assert!(of(&records, Kind::Post).is_empty());
}

/// Posts that a target takes no longer: one record for a row of them, which says what there was no room in.
#[test]
fn what_is_refused() {
    let off = ("btl_ofi_same_node", Value::str("off"));
    let folder = folder("refused");
    let settings = [off, traced(&folder)];
    let (a, b) = (
        open("tcp;ofi_rxm", ThreadLevel::Single, &settings),
        open("tcp;ofi_rxm", ThreadLevel::Single, &settings[..1]),
    );
    let mut window = vec![0u64; 512];
    let region = register(&b, &mut window, Access::all());
    let (peer, h) = (a.connect(b.address(), 9).unwrap(), region.handle());
    let bytes = [1u8; 1024];
    let local = bytes.as_ptr().cast_mut().cast();
    // SAFETY: the buffer lives until the flush.
    let put = || unsafe { a.put(peer, local, h.base(), ptr::null_mut(), &h, 1024, None) };
    // Without a connection the provider takes nothing.
    attended(&b, || operate(&a, peer, &h));
    let until = Patience::new();
    let mut refused = 0;
    while refused < 3 {
        assert!(until.lasts(), "everything is taken");
        refused += u64::from(put().is_again());
    }
    attended(&b, || {
        insist(&a, put);
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    region.close().unwrap();
    a.close().unwrap();
    b.close().unwrap();
    let (_, records) = read(&files(&folder)[0]);
    let rows = of(&records, Kind::Refused);
    let posts: u64 = rows.iter().map(|row| row.id).sum();
    assert!(posts >= refused, "{rows:?}");
    for row in rows {
        assert_eq!((row.peer, row.name().as_str()), (9, "credits"), "{row:?}");
    }
}

/// A flush that lasts: the counters and the trace have it before it ends, as they must for a process that hangs.
#[test]
fn a_wait_that_lasts() {
    let off = ("btl_ofi_same_node", Value::str("off"));
    let folder = folder("lasts");
    let settings = [off, traced(&folder)];
    let level = ThreadLevel::Multiple;
    let (a, b) = (
        open("tcp;ofi_rxm", level, &settings),
        open("tcp;ofi_rxm", level, &settings[..1]),
    );
    let mut window = vec![0u64; 64];
    let region = register(&b, &mut window, Access::all());
    let (peer, h) = (a.connect(b.address(), 9).unwrap(), region.handle());
    attended(&b, || operate(&a, peer, &h));
    let before = a.stats();
    let mut old = 0u64;
    let (op, local, none) = (BtlAtomicOp::Add, (&raw mut old).cast(), ptr::null_mut());
    // SAFETY: the word lives until the flush.
    insist(&a, || unsafe {
        a.atomic_fop(
            peer,
            local,
            h.base(),
            none,
            &h,
            op,
            1,
            OpFlags::empty(),
            None,
        )
    });
    let path = files(&folder).remove(0);
    let waits = || {
        let bytes = fs::read(&path).unwrap();
        let (records, _) = bytes[HEAD..].as_chunks::<RECORD>();
        let records = records.iter().map(|r| Record::from_bytes(r).unwrap());
        of(&records.collect::<Vec<_>>(), Kind::Wait)
    };
    // Nobody makes progress at the target until two records say that the wait lasts.
    let lasting = std::thread::scope(|scope| {
        let flush = scope.spawn(|| a.flush(None));
        let until = Patience::new();
        let lasting = loop {
            let open: Vec<_> = waits().into_iter().filter(|wait| wait.open).collect();
            if open.len() >= 2 || !until.lasts() {
                break open;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let during = a.stats();
        attended(&b, || assert_eq!(flush.join().unwrap(), Status::SUCCESS));
        assert_eq!(during.waits, before.waits + 1);
        let waited = during.waited - before.waited;
        // The counters may be behind by some time slices of other processes.
        assert!(
            lasting.is_empty() || waited >= lasting[0].duration,
            "{waited} {lasting:?}"
        );
        lasting
    });
    assert!(
        lasting.len() >= 2 && lasting[1].duration > lasting[0].duration,
        "{lasting:?}"
    );
    let after = a.stats();
    assert_eq!(after.waits, before.waits + 1);
    region.close().unwrap();
    a.close().unwrap();
    b.close().unwrap();
    let same = |wait: &&Record| wait.begin == lasting[0].begin;
    let waits = waits();
    let waits: Vec<_> = waits.iter().filter(same).collect();
    let ends: Vec<_> = waits.iter().filter(|wait| !wait.open).collect();
    assert_eq!(ends.len(), 1, "{waits:?}");
    assert!(
        waits.iter().all(|wait| wait.peer == ends[0].peer),
        "{waits:?}"
    );
    assert!(ends[0].duration >= lasting[1].duration, "{waits:?}");
}

/// An existing name is never opened, neither a file nor a link; only this user reads the new file.
#[test]
fn other_files_stay_as_they_are() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("names");
    open(near(), ThreadLevel::Single, &[traced(&folder)])
        .close()
        .unwrap();
    let first = files(&folder).remove(0);
    assert_eq!(
        fs::metadata(&first).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let other = folder.join("other");
    fs::write(&other, "precious").unwrap();
    fs::remove_file(&first).unwrap();
    std::os::unix::fs::symlink(&other, &first).unwrap();
    for _ in 0..2 {
        open(near(), ThreadLevel::Single, &[traced(&folder)])
            .close()
            .unwrap();
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    for number in [1, 2] {
        let name = format!("{}.{number}", first.display());
        let (head, records) = read(Path::new(&name));
        assert_eq!((head.process, head.rank), (std::process::id(), NO_RANK));
        assert_eq!(records.last().unwrap().kind, Kind::End);
    }
}

/// In a process whose files may not grow further, the trace ends with one line, and operations go on.
#[test]
fn a_full_disk() {
    const INSIDE: &str = "BTL_OFI_TEST_INSIDE";
    const LINE: &str = "ends early, and the job goes on: File too large";
    if std::env::var_os(INSIDE).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_full_disk", "--nocapture", "--test-threads=1"]);
        let output = command.env(INSIDE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches(LINE).count(), 1, "{said}");
        return;
    }
    let print = Arc::new(|_: LogLevel, line: &str| eprintln!("{line}"));
    let _route = log::route(LogLevel::Warn, print);
    let folder = folder("full");
    let t = open(near(), ThreadLevel::Single, &[traced(&folder)]);
    let mut window = vec![0u64; 64];
    let region = register(&t, &mut window, Access::all());
    let peer = t.connect(t.address(), 0).unwrap();
    let most = HEAD + 10 * RECORD + 5;
    let limit = libc::rlimit {
        rlim_cur: most as u64,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is a local; this process is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let until = Patience::new();
    while fs::metadata(&files(&folder)[0]).unwrap().len() < most as u64 {
        assert!(until.lasts());
        operate(&t, peer, &region.handle());
    }
    for _ in 0..100 {
        operate(&t, peer, &region.handle());
    }
    region.close().unwrap();
    t.close().unwrap();
    assert_eq!(fs::metadata(&files(&folder)[0]).unwrap().len(), most as u64);
}
