//! Messages of ranks to the launcher are served or refused with a reason, and never crash it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::eventually;
use host_stub::bootstrap::local::{
    Environment, Inherited, JOB_ENV, Local, RANK_ENV, SIZE_ENV, SOCKET_ENV,
};
use host_stub::bootstrap::protocol::{
    MAX_ITEM, MAX_REPLY, MAX_REQUEST, ProtocolError, Reply, Request, body_length,
};
use host_stub::bootstrap::{Bootstrap, BootstrapError};
use host_stub::launcher::server::{Event, Membership, Server};
use integration_tests::random::Random;

fn requests() -> Vec<Request> {
    vec![
        Request::Hello { rank: 3 },
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

/// Invalid frames.
fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/frames");
    let files = std::fs::read_dir(folder).expect("the corpus");
    let frames = files.map(|file| std::fs::read(file.expect("a file").path()).expect("readable"));
    frames.filter(|frame| frame.len() > 4).collect()
}

#[test]
fn random_and_changed_bytes_never_panic() {
    let mut random = Random::new();
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
        .chain(corpus())
        .collect();
    for _ in 0..50_000 {
        let mut body = frames[random.below(frames.len())][4..].to_vec();
        let place = random.below(body.len());
        body[place] = random.word() as u8;
        let _ = Request::decode(&body);
        let _ = Reply::decode(&body);
    }
}

#[test]
fn limits_are_kept_before_anything_is_allocated() {
    let error = body_length(&u32::MAX.to_le_bytes(), MAX_REQUEST).expect_err("too long");
    assert!(matches!(error, ProtocolError::TooLong { .. }), "{error}");
    let far = Request::Gather {
        data: vec![0; MAX_ITEM + 1],
    };
    Request::decode(&far.encode()[4..]).expect_err("a contribution too long");
    // A list that claims more parts than its bytes can hold.
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
        error.contains("version 99") && error.contains("version 3"),
        "{error}"
    );
    body[1] = b'X';
    let error = Request::decode(&body).expect_err("greeting").to_string();
    assert!(error.contains("XSTBRANK"), "{error}");
}

/// A server on a separate thread, and the ranks' sockets.
struct Served {
    sockets: Vec<UnixStream>,
    stop: Arc<AtomicBool>,
    /// Connections that broke.
    broken: Arc<AtomicUsize>,
    thread: JoinHandle<(Server, Vec<Event>)>,
}

impl Served {
    fn start(size: u32) -> Self {
        let (mut server, sockets) = Server::new(size).expect("sockets");
        for socket in &sockets {
            for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
                set(socket, Some(Duration::from_secs(10))).expect("timeout");
            }
        }
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
            sockets,
            stop,
            broken,
            thread,
        }
    }

    fn join(&self, rank: u32) -> Result<Local, BootstrapError> {
        join(
            &self.sockets[rank as usize],
            rank,
            self.sockets.len() as u32,
        )
    }

    fn stop(self) -> (Server, Vec<Event>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the server did not panic")
    }
}

/// Joins as a rank that inherited a socket.
fn join(socket: &UnixStream, rank: u32, size: u32) -> Result<Local, BootstrapError> {
    Local::join(&Environment {
        socket: Inherited::of(socket).expect("a socket"),
        rank,
        size,
        job: "test".into(),
    })
}

#[test]
fn a_rank_that_breaks_the_protocol_is_cut_off_by_name() {
    let hello = |rank| Request::Hello { rank }.encode();
    let twice = [(); 2].map(|()| Request::Gather { data: vec![] }.encode());
    let sent = [
        ([hello(0), hello(0)].concat(), "second hello"),
        (
            [hello(1), vec![1, 0, 0, 0, 0]].concat(),
            "no request has the code 0",
        ),
        ([hello(2), twice.concat()].concat(), "twice in one exchange"),
        (Request::Leave.encode(), "wanted hello, found leave"),
        (hello(2), "says it is rank 2, and is rank 4"),
        (vec![0, 0, 0, 0], "code: wanted 1 bytes, found 0"),
        (vec![255; 8], "wanted at most"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "wanted at most"),
    ];
    let served = Served::start(sent.len() as u32);
    let welcome = Reply::Welcome { size: 8 }.encode();
    for (mut stream, (sent, words)) in served.sockets.iter().zip(&sent) {
        stream.write_all(sent).expect("write");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("read");
        let rest = text.strip_prefix(&*welcome).unwrap_or(&text);
        match Reply::decode(&rest[4..]) {
            Ok(Reply::Refused { message }) => assert!(message.contains(words), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    let (_, events) = served.stop();
    let broken = events.iter().map(|event| match event {
        Event::Broken { rank, .. } => *rank,
        event => panic!("{event:?}"),
    });
    assert_eq!(broken.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// A rank closes its socket with an unread answer, so that the server's read fails.
#[test]
fn a_rank_that_does_not_listen_is_cut_off_by_name() {
    let mut served = Served::start(1);
    let mut stream = served.sockets.pop().expect("one");
    let hello = Request::Hello { rank: 0 }.encode();
    stream.write_all(&hello).expect("write");
    let mut welcome = vec![0; Reply::Welcome { size: 1 }.encode().len()];
    stream.read_exact(&mut welcome).expect("a welcome");
    let gather = Request::Gather { data: vec![] };
    stream.write_all(&gather.encode()).expect("write");
    eventually("there is an answer", || {
        let mut waiting = 0;
        // SAFETY: the socket is open, and the number writable.
        let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &mut waiting) };
        asked == 0 && waiting > 0
    });
    drop(stream);
    // A rank may live on without its connection for a while.
    eventually("it is told of", || {
        served.broken.load(Ordering::Relaxed) == 1
    });
    let (_, events) = served.stop();
    let told = matches!(&events[..], [Event::Broken { rank: 0, reason }]
        if reason.contains("closed its connection"));
    assert!(told, "{events:?}");
}

#[test]
fn a_rank_may_come_back() {
    let served = Served::start(1);
    let first = served.join(0).expect("join");
    first.finalize().expect("leave");
    let late = first.allgather(b"", &mut || {});
    let error = late.expect_err("left").to_string();
    assert!(error.contains("after this process left"), "{error}");
    drop(first);
    let again = served.join(0).expect("join again");
    again.finalize().expect("leave again");
    assert_eq!(served.stop().0.membership(0), Membership::Left);
}

/// The descriptor is closed, or belongs to another file: some programs in between close inherited
/// descriptors.
#[test]
fn a_socket_that_was_not_inherited_is_told() {
    let (socket, _) = UnixStream::pair().expect("a pair");
    let number = Inherited::of(&socket).expect("a socket").to_string();
    drop(socket);
    let other = std::fs::File::open("/dev/null").expect("a file");
    let read = |name: &str| match name {
        SOCKET_ENV => Some(number.clone()),
        RANK_ENV => Some("0".into()),
        SIZE_ENV => Some("1".into()),
        JOB_ENV => Some("a".into()),
        _ => None,
    };
    let environment = Environment::from_lookup(read)
        .expect("good")
        .expect("there");
    let error = Local::join(&environment).map(drop).expect_err("closed");
    assert!(error.to_string().contains("closed the socket"), "{error}");
    drop(other);
}

#[test]
fn ranks_are_served_while_another_sends_garbage() {
    let served = Served::start(4);
    let mut random = Random::new();
    std::thread::scope(|scope| {
        let noise = &served.sockets[3];
        scope.spawn(move || {
            let mut noise = noise;
            let gather = Request::Gather { data: vec![1; 40] };
            let count = random.below(2000);
            let bytes = [gather.encode(), random.bytes(count)].concat();
            // The server may have closed the connection already.
            let _ = noise.write_all(&bytes);
        });
        for rank in 0..3 {
            let served = &served;
            scope.spawn(move || {
                for _ in 0..50 {
                    let rank_of = served.join(rank).expect("join");
                    rank_of.finalize().expect("leave");
                }
            });
        }
    });
    let (server, events) = served.stop();
    for rank in 0..3 {
        assert_eq!(server.membership(rank), Membership::Left);
    }
    let told = matches!(events[..], [Event::Broken { rank: 3, .. }]);
    assert!(told, "{events:?}");
}

#[test]
fn ranks_exchange() {
    let served = Served::start(3);
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let served = &served;
            scope.spawn(move || {
                let rank_of = served.join(rank).expect("join");
                for round in 0..50_u32 {
                    let mine = vec![rank as u8; round as usize * 1000];
                    let mut calls = 0_u64;
                    let all = rank_of
                        .allgather(&mine, &mut || calls += 1)
                        .expect("gather");
                    for (other, part) in all.iter().enumerate() {
                        assert_eq!(*part, vec![other as u8; round as usize * 1000]);
                    }
                }
                rank_of.finalize().expect("leave");
            });
        }
    });
    let (server, events) = served.stop();
    for rank in 0..3 {
        assert_eq!(server.membership(rank), Membership::Left);
    }
    assert_eq!(events, []);
}

/// A rank leaves while its exchange is under way, and the loss of another rank ends the exchange. Exchange and
/// farewell get separate answers.
#[test]
fn the_end_of_an_exchange_is_no_answer_to_a_farewell() {
    let (socket, mut stream) = UnixStream::pair().expect("a pair");
    let launcher = std::thread::spawn(move || {
        let mut request = || {
            let mut length = [0; 4];
            stream.read_exact(&mut length).expect("a length");
            let mut body = vec![0; u32::from_le_bytes(length) as usize];
            stream.read_exact(&mut body).expect("a body");
            let request = Request::decode(&body).expect("a request");
            let replies = match &request {
                Request::Hello { .. } => vec![Reply::Welcome { size: 2 }],
                Request::Leave => vec![Reply::Lost { rank: 1 }, Reply::Farewell],
                _ => vec![],
            };
            for reply in replies {
                stream.write_all(&reply.encode()).expect("write");
            }
            request
        };
        [request(), request(), request()].map(|request| request.name())
    });
    let rank = join(&socket, 0, 2).expect("join");
    let mut left = None;
    let exchanged = rank.allgather(b"", &mut || {
        left.get_or_insert_with(|| rank.finalize());
    });
    left.expect("the exchange made progress").expect("left");
    assert!(
        matches!(exchanged, Err(BootstrapError::Lost { rank: 1 })),
        "{exchanged:?}"
    );
    assert_eq!(
        launcher.join().expect("no panic"),
        ["hello", "gather", "leave"]
    );
}

#[test]
fn what_is_too_long_is_refused_before_it_is_sent() {
    let served = Served::start(1);
    let rank = served.join(0).expect("join");
    let long = vec![0; MAX_ITEM + 1];
    let refused = rank.allgather(&long, &mut || {});
    let error = refused.expect_err("too long").to_string();
    assert!(error.contains("at most"), "{error}");
    // The connection still works.
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
            SOCKET_ENV => Some("5:77".into()),
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
