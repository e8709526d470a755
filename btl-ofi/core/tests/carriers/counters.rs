//! Counters: each operation counts once, at its peer, for its carrier.

use btl_ofi::log;
use plugin_api::counters::{CARRIERS, SLOTS};
use plugin_api::{LogLevel, Stats};
use std::ffi::CString;
use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt, lchown, symlink};
use std::path::Path;
use std::sync::Arc;

use crate::common::prelude::*;

/// Puts, gets, fetch-adds of 8 and of 4 bytes, and their flush.
fn operate(there: There<'_>, times: usize, put_bytes: usize) {
    let from = vec![1u8; put_bytes];
    let (mut word, mut old) = ([0u64], 0u64);
    let There { t, peer, h, .. } = there;
    for _ in 0..times {
        there.insist(|there| there.put(0, &from, None));
        there.insist(|there| there.get(0, &mut word, None));
        for flags in [OpFlags::empty(), OpFlags::WORD_32] {
            let (op, local) = (BtlAtomicOp::Add, (&raw mut old).cast());
            insist(t, || {
                t.atomic_fop_of(peer, local, h.base(), &h, op, 1, flags, None)
            });
        }
        assert_eq!(there.flush(), Status::SUCCESS);
    }
}

/// Operations and bytes by carrier.
fn carried(stats: &Stats) -> [(u64, u64); CARRIERS] {
    std::array::from_fn(|i| (stats.operations[i], stats.bytes[i]))
}

const PROVIDER: usize = Carrier::Provider as usize;
const MESSAGE: usize = Carrier::Message as usize;
const RING: usize = Carrier::Ring as usize;
const CMA: usize = Carrier::Cma as usize;
const COPY: usize = Carrier::Copy as usize;

/// A long flush is counted before it ends; otherwise the counters would not show a hanging process.
#[test]
fn a_wait_that_lasts() {
    const LONG: u64 = 20_000_000;
    let pair = Pair::new(64, || {
        open("tcp;ofi_rxm", ThreadLevel::Multiple, &[SAME_NODE_OFF])
    });
    let (a, b, there) = (&pair.a, &pair.b, pair.there());
    attended(b, || operate(there, 1, 8));
    let before = a.stats();
    let mut old = 0;
    there.insist(|there| there.fetch_add(0, &mut old, None));
    std::thread::scope(|scope| {
        // The target makes no progress until the counters show the wait.
        let flush = scope.spawn(|| a.flush(None));
        let until = Patience::new();
        while a.stats().waited - before.waited < LONG && until.lasts() {
            std::thread::yield_now();
        }
        let during = a.stats();
        attended(b, || assert_eq!(flush.join().unwrap(), Status::SUCCESS));
        assert_eq!(during.waits, before.waits + 1);
        assert!(during.waited - before.waited >= LONG);
    });
    assert_eq!(a.stats().waits, before.waits + 1);
    pair.close();
}

/// Makes twenty puts, gets of 8 bytes, and atomics of 8 and 4 bytes, from one transport to another.
fn far(provider: &str, level: ThreadLevel, put_bytes: usize) -> Stats {
    let pair = Pair::new(64 * 1024, || open(provider, level, &[SAME_NODE_OFF]));
    attended(&pair.b, || operate(pair.there(), 20, put_bytes));
    let stats = pair.a.stats();
    assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    assert!(stats.polls > 0, "{stats:?}");
    pair.close();
    stats
}

/// Puts of 256 bytes fill one message and a part of a second, and cause no further messages.
#[test]
fn what_a_full_message_leaves_gathers_too() {
    let single = || open("tcp;ofi_rxm", ThreadLevel::Single, &[SAME_NODE_OFF]);
    let pair = Pair::new(1024, single);
    let (there, from) = (pair.there(), [1u8; 256]);
    let put = || there.insist(|there| there.put(0, &from, None));
    attended(&pair.b, || {
        put();
        assert_eq!(there.flush(), Status::SUCCESS);
        for _ in 0..10 {
            let before = there.t.stats().messages;
            (0..64).for_each(|_| put());
            assert_eq!(there.flush(), Status::SUCCESS);
            assert_eq!(there.t.stats().messages - before, 2);
        }
    });
    pair.close();
}

#[test]
fn small_ones_by_message_and_large_ones_by_the_provider() {
    for level in [ThreadLevel::Single, ThreadLevel::Multiple] {
        let stats = far("tcp;ofi_rxm", level, 8);
        assert_eq!(carried(&stats)[MESSAGE], (80, 20 * 28), "{stats:?}");
        assert_eq!(carried(&stats)[PROVIDER], (0, 0), "{stats:?}");
        // Several operations share a message; a flush needs at least one message.
        assert!((20..=80).contains(&stats.messages), "{stats:?}");
        let stats = far("tcp;ofi_rxm", level, 64 * 1024);
        assert_eq!(carried(&stats)[MESSAGE], (60, 20 * 20), "{stats:?}");
        assert_eq!(carried(&stats)[PROVIDER], (20, 20 << 16), "{stats:?}");
    }
}

#[test]
fn everything_by_the_provider() {
    for level in [ThreadLevel::Single, ThreadLevel::Multiple] {
        let stats = far("shm", level, 4096);
        let all = (80, 20 * (4096 + 20));
        assert_eq!(carried(&stats)[PROVIDER], all, "{stats:?}");
        assert_eq!(stats.messages, 0, "{stats:?}");
    }
}

/// The target executes the operations that it finds in time; the rest is revoked.
#[test]
fn by_ring_and_by_the_kernel() {
    let pair = Pair::new(64 * 1024, || open(near(), ThreadLevel::Single, &[]));
    let (a, there) = (&pair.a, pair.there());
    attended(&pair.b, || operate(there, 20, 8));
    let before = a.stats();
    assert_eq!(before.operations[RING] + before.operations[CMA], 80);
    assert!(before.operations[RING] >= 40, "atomics: {before:?}");
    assert_eq!(before.bytes[RING] + before.bytes[CMA], 20 * 28);
    // The target makes no progress.
    for _ in 0..100 {
        there.insist(|there| there.put(0, &[7u64], None));
        assert_eq!(a.flush(None), Status::SUCCESS);
    }
    let after = a.stats();
    let more = |i: usize| after.operations[i] - before.operations[i];
    assert_eq!(more(RING) + more(CMA), 100, "{after:?}");
    assert!(more(CMA) > 0, "{after:?}");
    let revoked = after.revoked - before.revoked;
    assert_eq!(revoked, more(RING), "{after:?}");
    pair.close();
}

#[test]
fn by_a_copy_within_this_process() {
    let own = Own::new(open(near(), ThreadLevel::Single, &[]), 64);
    operate(own.there(), 20, 16);
    assert_eq!(carried(&own.t.stats())[COPY], (80, 20 * 36));
    own.close();
}

/// The sums keep the counts of released peers.
#[test]
fn peers_that_go() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut window = vec![0u64; 64];
    let region = register(&t, &mut window, Access::all());
    for round in 1..=3 {
        let there = There::of(&t, round, &t, &region);
        operate(there, 1, 8);
        assert_eq!(there.release(), Status::SUCCESS);
        assert_eq!(carried(&t.stats())[COPY], (4 * round, 28 * round));
    }
    close([region], [t]);
}

/// Threads with a context each count in their own counters, some of which have a second page; readers get the sums.
#[test]
fn by_several_contexts() {
    const THREADS: u64 = 4;
    let path = format!("{}/shares.jsonl", env!("CARGO_TARGET_TMPDIR"));
    let _ = fs::remove_file(&path);
    let settings = [
        (
            "btl_ofi_num_contexts_per_module",
            Value::Int(THREADS as i32),
        ),
        ("btl_ofi_stats_file", Value::String(path.clone().into())),
        SAME_NODE_OFF,
    ];
    let a = open("sockets", ThreadLevel::Multiple, &settings);
    let b = open("sockets", ThreadLevel::Multiple, &[SAME_NODE_OFF]);
    let mut window = vec![0u64; 64];
    let region = register(&b, &mut window, Access::all());
    let peers: Vec<_> = (0..40)
        .map(|proc| There::of(&a, proc, &b, &region))
        .collect();
    attended(&b, || {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for peer in &peers {
                        operate(*peer, 2, 8);
                    }
                });
            }
        });
    });
    let stats = a.stats();
    let each = (2 * THREADS * 4, 2 * THREADS * 28);
    let sums = (
        stats.operations.iter().sum::<u64>(),
        stats.bytes.iter().sum::<u64>(),
    );
    assert_eq!(sums, (40 * each.0, 40 * each.1), "{stats:?}");
    assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    close([region], [a, b]);
    let line: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let peers = line["peers"].as_array().unwrap();
    let of = |peer: &serde_json::Value, what: &str| -> u64 {
        let carried = peer["carried"].as_array().unwrap();
        carried.iter().map(|c| c[what].as_u64().unwrap()).sum()
    };
    let by_peer: Vec<_> = peers
        .iter()
        .filter(|peer| !peer["peer"].is_null())
        .collect();
    assert_eq!(by_peer.len(), 40, "{line}");
    for (peer, proc) in by_peer.iter().zip(0..) {
        assert_eq!(peer["peer"], proc);
        assert_eq!((of(peer, "operations"), of(peer, "bytes")), each, "{line}");
    }
    assert!(line["polls"].as_u64().unwrap() >= stats.polls, "{line}");
}

/// The file gets one line of JSON for each closed transport; its sums include the released peers.
#[test]
fn a_file_at_the_end() {
    let path = format!("{}/counters.jsonl", env!("CARGO_TARGET_TMPDIR"));
    let _ = std::fs::remove_file(&path);
    for round in 1..=2 {
        let file = [("btl_ofi_stats_file", Value::String(path.clone().into()))];
        let t = open(near(), ThreadLevel::Single, &file);
        let mut window = vec![0u64; 64];
        let region = register(&t, &mut window, Access::all());
        let there = There::of(&t, 70 + round, &t, &region);
        operate(there, 5, 8);
        assert_eq!(there.release(), Status::SUCCESS);
        close([region], [t]);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, proc) in lines.iter().zip(71..) {
        assert_eq!(line["pid"], std::process::id());
        assert_eq!(line["peers"][0]["peer"], proc);
        let copy = &line["peers"][0]["carried"][COPY];
        assert_eq!(
            (&copy["operations"], &copy["bytes"]),
            (&20.into(), &140.into())
        );
    }
    // A file that cannot be written has no other effect.
    let file = [("btl_ofi_stats_file", Value::str("/proc/nowhere"))];
    open(near(), ThreadLevel::Single, &file).close().unwrap();
}

/// The test uses file names that others may have taken, and a file that may not grow: the transport warns once and writes
/// nothing. The user may ask for the outputs of the process.
#[test]
fn files_that_are_refused() {
    const INSIDE: &str = "BTL_OFI_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let mut command = again(module_path!(), "files_that_are_refused");
        command.arg("--test-threads=1");
        let output = command.env(INSIDE, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let lines = String::from_utf8_lossy(&output.stdout);
        assert_eq!(lines.matches("\"polls\":").count(), 1, "{output:?}");
        return;
    }
    // SAFETY: the argument is a number; this process belongs to the test, and ends if an opening
    // waits.
    unsafe { libc::alarm(60) };
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = Arc::clone(&warnings);
    let sink = move |_: LogLevel, line: &str| list.lock().unwrap().push(line.to_owned());
    let _route = log::route(LogLevel::Warn, Arc::new(sink));
    let warned = || std::mem::take(&mut *warnings.lock().unwrap());
    let counting = |path: &Path| {
        let path = path.to_str().unwrap().to_owned();
        let file = [("btl_ofi_stats_file", Value::String(path.into()))];
        open(near(), ThreadLevel::Single, &file)
    };
    let refuses = |path: &Path, why: &str| {
        counting(path).close().unwrap();
        let said = warned();
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
        assert!(
            said[0].ends_with("choose another btl_ofi_stats_file"),
            "{said:?}"
        );
    };
    for taken in ["/dev/stdout", "/dev/null"] {
        counting(Path::new(taken)).close().unwrap();
        assert_eq!(warned(), [""; 0], "{taken}");
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("counters-refused");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    refuses(&folder, "Is a directory");

    let fifo = folder.join("fifo");
    let name = CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: the name is a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    refuses(&fifo, "No such device or address");
    let mut reader = File::options();
    let reader = reader.read(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
    refuses(&fifo, "it is no file");
    let mut text = String::new();
    reader.unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "");

    let (link, precious) = (folder.join("link"), folder.join("precious"));
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, &link).unwrap();
    match lchown(&link, Some(1), Some(1)) {
        Ok(()) => refuses(&link, "it is a link of another user"),
        Err(e) => println!("not tested, a link of another user: {e}"),
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");

    let t = counting(&precious);
    // SAFETY: the limit is a local variable; this process belongs to the test.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit), 0);
        limit.rlim_cur = 20;
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    t.close().unwrap();
    let said = warned();
    assert!(
        said.len() == 1 && said[0].contains("File too large"),
        "{said:?}"
    );
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

/// The test has more peers than counter slots: the last peers share a slot.
#[test]
fn more_peers_than_slots() {
    let t = open("tcp;ofi_rxm", ThreadLevel::Single, &[]);
    let mut window = vec![0u64; 64];
    let region = register(&t, &mut window, Access::all());
    let peers = SLOTS as u64 + 10;
    for proc in 0..peers {
        let there = There::of(&t, proc, &t, &region);
        if proc % 100 == 0 || proc + 3 > peers {
            operate(there, 1, 8);
        }
    }
    let operated = peers.div_ceil(100) + 2;
    assert_eq!(carried(&t.stats())[COPY], (4 * operated, 28 * operated));
    close([region], [t]);
}
