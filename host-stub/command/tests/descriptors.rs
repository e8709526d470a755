//! The launcher's socket where descriptors have run out. A process of its own: the limit is the process's.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::Place;
use host_stub::bootstrap::protocol::{Reply, Request};
use host_stub::launcher::server::{Event, Server};

const TICK: Duration = Duration::from_millis(10);

fn set_limit(limit: u64) {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is writable and, after the first call, initialised.
    let set = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits);
        limits.rlim_cur = limit;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limits)
    };
    assert_eq!(set, 0);
}

/// The number that the next descriptor will have.
fn next() -> u64 {
    // SAFETY: no pointers; the copy is closed at once.
    unsafe {
        let copy = libc::dup(0);
        assert!(copy > 0);
        libc::close(copy);
        copy as u64
    }
}

#[test]
fn a_connection_waits_until_there_is_a_descriptor() {
    let place = Place::new("descriptors");
    let socket = place.0.join("socket");
    let mut server = Server::listen(&socket, 1).expect("listen");
    let mut rank = UnixStream::connect(&socket).expect("connect");
    rank.set_read_timeout(Some(Duration::from_secs(10)))
        .expect("timeout");
    rank.write_all(&Request::Hello { rank: 0 }.encode())
        .expect("write");
    let free = next();
    set_limit(free);
    let (started, mut polls) = (Instant::now(), 0);
    let mut events = Vec::new();
    while started.elapsed() < 50 * TICK {
        events.extend(server.poll(TICK, None).expect("poll"));
        polls += 1;
    }
    set_limit(free + 64);
    // A poll waits, but for the few that found the connection; and one of them tells.
    assert!(polls < 100, "{polls} polls");
    assert!(matches!(&events[..], [Event::Stray { .. }]), "{events:?}");
    let mut welcome = Reply::Welcome { size: 1 }.encode();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| rank.read_exact(&mut welcome));
        while !reader.is_finished() {
            events.extend(server.poll(TICK, None).expect("poll"));
        }
        reader.join().expect("no panic").expect("a welcome");
    });
    assert!(matches!(events[1], Event::Joined { rank: 0, .. }));
}
