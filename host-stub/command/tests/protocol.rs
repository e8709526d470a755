//! What arrives on the launcher's socket is served or refused with a reason, and never a crash.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Place, Random, eventually, seed};
use host_stub::bootstrap::local::{Environment, JOB_ENV, Local, RANK_ENV, SIZE_ENV, SOCKET_ENV};
use host_stub::bootstrap::protocol::{
    MAX_ITEM, MAX_KEY, MAX_REPLY, MAX_REQUEST, ProtocolError, Reply, Request, body_length,
};
use host_stub::bootstrap::{Bootstrap, BootstrapError};
use host_stub::launcher::server::{Event, Membership, Server};

fn requests() -> Vec<Request> {
    vec![
        Request::Hello { rank: 3 },
        Request::Put {
            key: "btl_ofi".into(),
            data: vec![1, 2, 3],
        },
        Request::Get {
            rank: 7,
            key: "k".into(),
        },
        Request::Gather { data: vec![] },
        Request::Gather { data: vec![9; 300] },
        Request::Abort {
            code: 4,
            message: "grün".into(),
        },
        Request::Leave,
    ]
}

fn replies() -> Vec<Reply> {
    vec![
        Reply::Welcome { size: 4 },
        Reply::Value { data: None },
        Reply::Value {
            data: Some(vec![5; 20]),
        },
        Reply::Gathered {
            parts: vec![vec![], vec![1], vec![2; 40]],
        },
        Reply::Farewell,
        Reply::Lost { rank: 2 },
        Reply::Refused {
            message: "no".into(),
        },
    ]
}

#[test]
fn messages_come_back_as_they_went() {
    for request in requests() {
        let frame = request.encode();
        assert_eq!(body_length(&frame, MAX_REQUEST), Ok(Some(frame.len() - 4)));
        assert_eq!(Request::decode(&frame[4..]), Ok(request));
    }
    for reply in replies() {
        let frame = reply.encode();
        assert_eq!(Reply::decode(&frame[4..]), Ok(reply));
    }
}

#[test]
fn every_truncation_and_every_addition_is_an_error() {
    for body in requests().iter().map(Request::encode) {
        for end in 4..body.len() {
            let error = Request::decode(&body[4..end]).expect_err("truncated");
            assert!(matches!(error, ProtocolError::Truncated { .. }), "{error}");
        }
        let longer = [&body[4..], &[0]].concat();
        let error = Request::decode(&longer).expect_err("too long").to_string();
        assert!(error.contains("1 bytes after the end"), "{error}");
    }
    for body in replies().iter().map(Reply::encode) {
        for end in 4..body.len() {
            Reply::decode(&body[4..end]).expect_err("truncated");
        }
        Reply::decode(&[&body[4..], &[0]].concat()).expect_err("too long");
    }
}

#[test]
fn random_and_changed_bytes_never_panic() {
    let mut random = seed();
    for _ in 0..50_000 {
        let count = random.below(64);
        let body = random.bytes(count);
        let _ = Request::decode(&body);
        let _ = Reply::decode(&body);
        let _ = body_length(&body, MAX_REPLY);
    }
    let frames: Vec<Vec<u8>> = requests()
        .iter()
        .map(Request::encode)
        .chain(replies().iter().map(Reply::encode))
        .collect();
    for _ in 0..50_000 {
        let mut body = frames[random.below(frames.len())][4..].to_vec();
        let place = random.below(body.len());
        body[place] = random.next() as u8;
        let _ = Request::decode(&body);
        let _ = Reply::decode(&body);
    }
}

#[test]
fn limits_are_kept_before_anything_is_allocated() {
    let error = body_length(&u32::MAX.to_le_bytes(), MAX_REQUEST).expect_err("too long");
    assert!(matches!(error, ProtocolError::TooLong { .. }), "{error}");
    let far = Request::Put {
        key: "k".into(),
        data: vec![0; MAX_ITEM + 1],
    };
    Request::decode(&far.encode()[4..]).expect_err("an item too long");
    for key in ["", "a\nb", &"k".repeat(MAX_KEY + 1)] {
        let put = Request::Put {
            key: key.into(),
            data: vec![],
        };
        let error = Request::decode(&put.encode()[4..])
            .expect_err("no key")
            .to_string();
        assert!(error.contains("key"), "{error}");
    }
    // A list that claims more parts than there are bytes.
    let mut parts = Reply::Gathered { parts: vec![] }.encode()[4..].to_vec();
    parts[1..5].copy_from_slice(&4000_u32.to_le_bytes());
    Reply::decode(&parts).expect_err("no parts there");
    parts[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
    Reply::decode(&parts).expect_err("too many parts");
}

#[test]
fn another_greeting_and_another_version_are_told_apart() {
    let mut body = Request::Hello { rank: 0 }.encode()[4..].to_vec();
    body[9] = 99;
    let error = Request::decode(&body).expect_err("version").to_string();
    assert!(
        error.contains("version 99") && error.contains("version 2"),
        "{error}"
    );
    body[1] = b'X';
    let error = Request::decode(&body).expect_err("greeting").to_string();
    assert!(error.contains("XSTBRANK"), "{error}");
}

/// A server on a thread of its own.
struct Served {
    place: Place,
    size: u32,
    stop: Arc<AtomicBool>,
    /// Connections that broke.
    broken: Arc<AtomicUsize>,
    thread: Option<JoinHandle<(Server, Vec<Event>)>>,
}

impl Served {
    fn start(name: &str, size: u32) -> Self {
        let place = Place::new(name);
        let mut server = Server::listen(&place.0.join("socket"), size).expect("listen");
        let stop = Arc::new(AtomicBool::new(false));
        let broken = Arc::new(AtomicUsize::new(0));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&broken));
        let thread = std::thread::spawn(move || {
            let mut events = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                events.extend(server.poll(Duration::from_millis(5), None).expect("poll"));
                let all = events.iter();
                let breaks = all.filter(|event| matches!(event, Event::Broken { .. }));
                count.store(breaks.count(), Ordering::Relaxed);
            }
            (server, events)
        });
        Served {
            place,
            size,
            stop,
            broken,
            thread: Some(thread),
        }
    }

    fn socket(&self) -> PathBuf {
        self.place.0.join("socket")
    }

    fn join(&self, rank: u32) -> Result<Local, BootstrapError> {
        Local::join(&Environment {
            socket: self.socket(),
            rank,
            size: self.size,
            job: "test".into(),
        })
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).expect("connect");
        for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
            set(&stream, Some(Duration::from_secs(10))).expect("timeout");
        }
        stream
    }

    fn stop(mut self) -> (Server, Vec<Event>) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("once");
        thread.join().expect("the server did not panic")
    }
}

/// Everything the server says until it closes the connection.
fn answer(mut stream: UnixStream) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    match text.get(4..).map(Reply::decode) {
        Some(Ok(Reply::Refused { message })) => message,
        other => panic!("{other:?} is no refusal"),
    }
}

#[test]
fn strangers_are_told_what_was_wrong() {
    let served = Served::start("strangers", 2);
    for (sent, words) in [
        (Request::Leave.encode(), "wanted hello, found leave"),
        (Request::Hello { rank: 2 }.encode(), "wanted a rank below 2"),
        (vec![1, 0, 0, 0, 77], "no request has the code 77"),
        (vec![0, 0, 0, 0], "code: wanted 1 bytes, found 0"),
        (vec![255; 8], "wanted at most"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "wanted at most"),
    ] {
        let mut stream = served.connect();
        stream.write_all(&sent).expect("write");
        let message = answer(stream);
        assert!(message.contains(words), "{message}");
    }
    let (server, events) = served.stop();
    assert_eq!(events.len(), 6, "{events:?}");
    assert!(events.iter().all(|e| matches!(e, Event::Stray { .. })));
    assert_eq!(server.membership(0), Membership::Absent);
}

#[test]
fn a_rank_that_breaks_the_protocol_is_cut_off_by_name() {
    let served = Served::start("breaks", 3);
    for (rank, sent, words) in [
        (0, Request::Hello { rank: 0 }.encode(), "second hello"),
        (1, vec![1, 0, 0, 0, 0], "no request has the code 0"),
        (
            2,
            [
                Request::Gather { data: vec![] }.encode(),
                Request::Gather { data: vec![] }.encode(),
            ]
            .concat(),
            "twice in one exchange",
        ),
    ] {
        let mut stream = served.connect();
        let hello = Request::Hello { rank }.encode();
        stream.write_all(&[hello, sent].concat()).expect("write");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("read");
        let welcome = Reply::Welcome { size: 3 }.encode();
        let rest = text.strip_prefix(&*welcome).expect("a welcome first");
        match Reply::decode(&rest[4..]) {
            Ok(Reply::Refused { message }) => assert!(message.contains(words), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    let (_, events) = served.stop();
    let broken: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            Event::Broken { rank, .. } => Some(*rank),
            _ => None,
        })
        .collect();
    assert_eq!(broken, [0, 1, 2]);
}

/// Ranks that lose their connections without a message of theirs being wrong.
#[test]
fn a_rank_that_does_not_listen_is_cut_off_by_name() {
    let served = Served::start("deaf", 2);
    // Ends with an answer unread, so that the server's read fails.
    let mut stream = served.connect();
    let hello = Request::Hello { rank: 0 }.encode();
    stream.write_all(&hello).expect("write");
    let mut welcome = vec![0; Reply::Welcome { size: 2 }.encode().len()];
    stream.read_exact(&mut welcome).expect("a welcome");
    let get = Request::Get {
        rank: 1,
        key: "k".into(),
    };
    stream.write_all(&get.encode()).expect("write");
    eventually("there is an answer", || {
        let mut waiting = 0;
        // SAFETY: the socket is open, and the number writable.
        let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &mut waiting) };
        asked == 0 && waiting > 0
    });
    drop(stream);
    // Asks for more than may wait for it.
    let mut deaf = served.connect();
    let put = Request::Put {
        key: "k".into(),
        data: vec![1; MAX_ITEM],
    };
    deaf.write_all(&Request::Hello { rank: 1 }.encode())
        .expect("write");
    deaf.write_all(&put.encode()).expect("write");
    for _ in 0..MAX_REPLY / MAX_ITEM + 8 {
        // It is cut off before the last one, perhaps.
        let _ = deaf.write_all(&get.encode());
    }
    // A rank may live on without its connection for a while, and the answers take their time on a busy machine.
    eventually("both are told of", || {
        served.broken.load(Ordering::Relaxed) >= 2
    });
    let (_, events) = served.stop();
    for (rank, words) in [(0, "closed its connection"), (1, "does not read")] {
        let told = events
            .iter()
            .filter(|event| {
                matches!(event, Event::Broken { rank: broken, reason }
                    if *broken == rank && reason.contains(words))
            })
            .count();
        assert_eq!(told, 1, "rank {rank}: {events:?}");
    }
}

#[test]
fn one_rank_joins_once_and_may_come_back() {
    let served = Served::start("once", 1);
    let first = served.join(0).expect("join");
    let second = served.join(0).map(drop).expect_err("taken").to_string();
    assert!(second.contains("joined already"), "{second}");
    first.finalize().expect("leave");
    let error = first.put("k", b"v").expect_err("left").to_string();
    assert!(error.contains("after this process left"), "{error}");
    let again = served.join(0).expect("join again");
    again.finalize().expect("leave again");
    assert_eq!(served.stop().0.membership(0), Membership::Left);
}

#[test]
fn ranks_are_served_while_others_send_garbage() {
    let served = Served::start("garbage", 3);
    let random = seed().0;
    std::thread::scope(|scope| {
        for noise in 0..3_u64 {
            let served = &served;
            scope.spawn(move || {
                let mut random = Random(random.wrapping_add(noise).max(1));
                for _ in 0..100 {
                    let mut stream = served.connect();
                    let mut bytes = match random.below(3) {
                        0 => Request::Put {
                            key: "k".into(),
                            data: vec![1; 40],
                        }
                        .encode(),
                        1 => vec![random.below(200) as u8, 0, 0, 0],
                        _ => Vec::new(),
                    };
                    let count = random.below(2000);
                    bytes.extend(random.bytes(count));
                    // The server may have closed the connection already.
                    let _ = stream.write_all(&bytes);
                }
            });
        }
        for rank in 0..3 {
            let served = &served;
            scope.spawn(move || {
                let rank_of = served.join(rank).expect("join");
                for round in 0..50_u32 {
                    let key = format!("k{round}");
                    rank_of.put(&key, &[rank as u8, round as u8]).expect("put");
                    let mine = vec![rank as u8; round as usize * 1000];
                    let mut calls = 0_u64;
                    let all = rank_of
                        .allgather(&mine, &mut || calls += 1)
                        .expect("gather");
                    for (other, part) in all.iter().enumerate() {
                        assert_eq!(*part, vec![other as u8; round as usize * 1000]);
                    }
                    let next = (rank + 1) % 3;
                    let found = rank_of.get(next, &key).expect("get");
                    assert_eq!(found, Some(vec![next as u8, round as u8]));
                    assert_eq!(rank_of.get(next, "none").expect("get"), None);
                }
                rank_of.finalize().expect("leave");
            });
        }
    });
    let (server, events) = served.stop();
    for rank in 0..3 {
        assert_eq!(server.membership(rank), Membership::Left);
    }
    assert!(!events.iter().any(|e| matches!(e, Event::Broken { .. })));
}

/// A rank asks for an item while its exchange is under way, which ends with the loss of another rank. Each gets its own
/// answer.
#[test]
fn the_end_of_an_exchange_is_no_answer_to_a_question() {
    let place = Place::new("answers");
    let socket = place.0.join("socket");
    let listener = UnixListener::bind(&socket).expect("listen");
    let launcher = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut request = || {
            let mut length = [0; 4];
            stream.read_exact(&mut length).expect("a length");
            let mut body = vec![0; u32::from_le_bytes(length) as usize];
            stream.read_exact(&mut body).expect("a body");
            let request = Request::decode(&body).expect("a request");
            let replies = match &request {
                Request::Hello { .. } => vec![Reply::Welcome { size: 2 }],
                Request::Get { .. } => {
                    let data = Some(b"item".to_vec());
                    vec![Reply::Lost { rank: 1 }, Reply::Value { data }]
                }
                _ => vec![],
            };
            for reply in replies {
                stream.write_all(&reply.encode()).expect("write");
            }
            request
        };
        [request(), request(), request()].map(|request| request.name())
    });
    let rank = Local::join(&Environment {
        socket,
        rank: 0,
        size: 2,
        job: "test".into(),
    })
    .expect("join");
    let mut item = None;
    let exchanged = rank.allgather(b"", &mut || {
        item.get_or_insert_with(|| rank.get(1, "k"));
    });
    let item = item.expect("the exchange made progress").expect("get");
    assert_eq!(item, Some(b"item".to_vec()));
    assert!(
        matches!(exchanged, Err(BootstrapError::Lost { rank: 1 })),
        "{exchanged:?}"
    );
    assert_eq!(
        launcher.join().expect("no panic"),
        ["hello", "gather", "get"]
    );
}

#[test]
fn what_is_too_long_is_refused_before_it_is_sent() {
    let served = Served::start("long", 1);
    let rank = served.join(0).expect("join");
    let long = vec![0; MAX_ITEM + 1];
    for error in [
        rank.put("k", &long).expect_err("put"),
        rank.put("", b"").expect_err("key"),
        rank.allgather(&long, &mut || {})
            .map(drop)
            .expect_err("gather"),
        rank.get(1, "k").map(drop).expect_err("rank"),
    ] {
        assert!(error.to_string().contains(':'), "{error}");
    }
    // The connection is as good as before.
    rank.put("k", &long[1..]).expect("put");
    let all = rank.allgather(&long[1..], &mut || {}).expect("gather");
    assert_eq!(all, [&long[1..]]);
    rank.finalize().expect("leave");
    drop(served.stop());
}

#[test]
fn an_environment_that_means_nothing_names_the_variable() {
    let read = |rank: &str, size: &str, job: &str| {
        let (rank, size, job) = (rank.to_owned(), size.to_owned(), job.to_owned());
        Environment::from_lookup(move |name| match name {
            SOCKET_ENV => Some("/tmp/socket".into()),
            RANK_ENV => Some(rank.clone()),
            SIZE_ENV => Some(size.clone()),
            JOB_ENV => Some(job.clone()),
            _ => None,
        })
    };
    assert_eq!(read("1", "2", "a-1").expect("good").expect("there").rank, 1);
    for (rank, size, job, variable) in [
        ("2", "2", "a", RANK_ENV),
        ("-1", "2", "a", RANK_ENV),
        ("x", "2", "a", RANK_ENV),
        ("0", "0", "a", SIZE_ENV),
        ("0", "99999999", "a", SIZE_ENV),
        ("0", "1", "a/b", JOB_ENV),
        ("0", "1", "", JOB_ENV),
    ] {
        let error = read(rank, size, job).expect_err(variable).to_string();
        assert!(error.contains(variable), "{error}");
    }
    assert_eq!(Environment::from_lookup(|_| None).expect("nobody"), None);
}
