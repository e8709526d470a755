//! The launcher's socket under fire: connections that send anything, while the ranks of a job go on
//! exchanging. The server neither ends, hangs nor keeps what they left.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{HANG, Place, Random, seed};
use host_stub::bootstrap::Bootstrap;
use host_stub::bootstrap::local::{Environment, Local};
use host_stub::bootstrap::protocol::Request;
use host_stub::launcher::server::{Event, Membership, Server};

const RANKS: u32 = 3;
const ROUNDS: u32 = 1000;
const HOSTILE: usize = 2000;
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/frames");
    let files = std::fs::read_dir(folder).expect("the corpus");
    files
        .map(|file| std::fs::read(file.expect("a file").path()).expect("readable"))
        .collect()
}

/// Descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// Bytes that get somewhat far: frames of the corpus, valid ones, changed ones, and rubbish.
fn bytes(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..random.below(5) {
        let mut frame = match random.below(5) {
            0 => {
                let length = random.below(300);
                random.bytes(length)
            }
            // Ranks have all joined, so nobody can pass for one.
            1 => Request::Hello {
                rank: random.below(RANKS as usize + 2) as u32,
            }
            .encode(),
            2 => Request::Gather {
                data: vec![7; random.below(2000)],
            }
            .encode(),
            _ => corpus[random.below(corpus.len())].clone(),
        };
        if random.below(3) == 0 && !frame.is_empty() {
            let at = random.below(frame.len());
            frame[at] = random.next() as u8;
        }
        if random.below(6) == 0 {
            frame.truncate(random.below(frame.len() + 1));
        }
        all.extend(frame);
    }
    all
}

/// One hostile connection, from its start to an end of its own choosing.
fn attack(socket: &Path, random: &mut Random, corpus: &[Vec<u8>]) {
    let mut stream = UnixStream::connect(socket).expect("connect");
    for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
        set(&stream, Some(Duration::from_secs(10))).expect("timeout");
    }
    let sent = bytes(random, corpus);
    // In pieces, so that frames arrive cut anywhere. The server may have turned it away already.
    for piece in sent.chunks(1 + random.below(64)) {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    match random.below(3) {
        0 => {}
        1 => {
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.len() < 1 << 20, "an answer without end");
        }
        _ => {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn ranks_go_on_while_others_send_anything() {
    let place = Place::new("hostile");
    let socket = place.0.join("socket");
    let before = descriptors();
    let mut server = Server::listen(&socket, RANKS).expect("listen");
    let joined = Arc::new(AtomicU32::new(0));
    // Counted rank by rank.
    let exchanged = AtomicU32::new(0);
    let stop = AtomicBool::new(false);
    let corpus = corpus();
    let mut random = seed();
    let seeds: Vec<u64> = (0..2).map(|_| random.next() | 1).collect();
    let started = Instant::now();
    let mut events = Vec::new();
    std::thread::scope(|scope| {
        let (stop, corpus, socket, exchanged) = (&stop, &corpus, &socket, &exchanged);
        let ranks: Vec<_> = (0..RANKS)
            .map(|rank| {
                let joined = Arc::clone(&joined);
                let environment = Environment {
                    socket: socket.clone(),
                    rank,
                    size: RANKS,
                    job: "hostile".into(),
                };
                scope.spawn(move || {
                    let local = Local::join(&environment).expect("join");
                    joined.fetch_add(1, Ordering::Release);
                    let mut idle = || assert!(started.elapsed() < HANG, "an exchange hangs");
                    for round in 0..ROUNDS {
                        let key = format!("k{}", round % 5);
                        let value = [rank as u8, round as u8];
                        local.put(&key, &value).expect("put");
                        let all = local.allgather(&value, &mut idle).expect("allgather");
                        for (other, part) in all.iter().enumerate() {
                            assert_eq!(part, &[other as u8, round as u8]);
                            let found = local.get(other as u32, &key).expect("get");
                            assert_eq!(found.as_ref(), Some(part));
                        }
                        local.fence(&mut idle).expect("fence");
                        exchanged.fetch_add(2, Ordering::Relaxed);
                    }
                    local.finalize().expect("finalize");
                })
            })
            .collect();
        let attackers: Vec<_> = seeds
            .into_iter()
            .map(|seed| {
                let joined = Arc::clone(&joined);
                scope.spawn(move || {
                    while joined.load(Ordering::Acquire) < RANKS {
                        assert!(started.elapsed() < HANG, "ranks do not join");
                        std::thread::yield_now();
                    }
                    let mut random = Random(seed);
                    for _ in 0..HOSTILE / 2 {
                        attack(socket, &mut random, corpus);
                    }
                })
            })
            .collect();
        let server = &mut server;
        let events = &mut events;
        let serving = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                events.extend(server.poll(Duration::from_millis(1), None).expect("poll"));
            }
        });
        let wrong: Vec<bool> = ranks
            .into_iter()
            .chain(attackers)
            .map(|thread| thread.join().is_err())
            .collect();
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("the server did not panic");
        assert!(!wrong.contains(&true));
    });
    let due = 2 * ROUNDS * RANKS;
    let lost = due - exchanged.load(Ordering::Relaxed);
    for rank in 0..RANKS {
        assert_eq!(server.membership(rank), Membership::Left);
    }
    let strays = events.iter().filter(|e| matches!(e, Event::Stray { .. }));
    let strays = strays.count();
    assert!(
        !events
            .iter()
            .any(|e| matches!(e, Event::Broken { .. } | Event::Aborted { .. })),
        "a rank was taken for another: {events:?}"
    );
    // The connections of all who went are closed.
    for _ in 0..3 {
        server.poll(Duration::from_millis(1), None).expect("poll");
    }
    assert_eq!(descriptors(), before + 1, "only the listener is left");
    let line = format!(
        "hostile connections: {HOSTILE}, {strays} turned away with a reason, {due} exchanges of {RANKS} ranks, \
         lost: {lost}\n"
    );
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr");
    // For `./dev`, which shows these lines together at its end.
    if let Some(path) = std::env::var_os("LAB_SUMMARY") {
        let mut options = std::fs::OpenOptions::new();
        let file = options.append(true).create(true).open(path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the summary");
    }
    assert_eq!(lost, 0, "{line}");
}
