use std::ptr;

use super::*;
use crate::engine::compound::stream::{LARGEST_PIECE, SMALLEST_PIECE, Stream, piece_of};
use crate::engine::compound::streams::SMALLEST;
use crate::fabric::policy::NO_WINDOW;
use crate::mem::handle::Target;
use plugin_api::Status;

const WINDOW: usize = 544 * 1024;

/// An address that stands for a peer or an operation. The address is never dereferenced.
fn name<T>(number: usize) -> NonNull<T> {
    NonNull::new(ptr::without_provenance_mut(number * 64)).expect("not 0")
}

fn bytes(streams: &Streams, endpoint: NonNull<Endpoint>) -> usize {
    streams
        .lock()
        .get(&endpoint)
        .map_or(0, |flight| flight.bytes)
}

/// Sizes of the fragments of a transfer, over a busy connection or over an idle one with a short
/// first fragment.
fn pieces(size: usize, (is_busy, head): (bool, usize), window: usize) -> Vec<usize> {
    let mut stream = Stream {
        put: true,
        local: ptr::null_mut(),
        target: Target::default(),
        size,
        head,
        piece: piece_of(size, is_busy, window),
        next: 0,
        pieces: 0,
        waits: true,
        status: Status::SUCCESS,
    };
    let mut found = Vec::new();
    while stream.next_size() > 0 {
        found.push(stream.next_size());
        stream.next += stream.next_size();
    }
    assert_eq!(stream.next, size);
    found
}

#[test]
fn transfers_are_divided_by_size_and_window() {
    let (piece, whole) = (252 * 1024, 320 * 1024);
    for (size, busy, idle) in [
        (SMALLEST, vec![SMALLEST], vec![SMALLEST]),
        (piece, vec![piece], vec![piece]),
        (256 * 1024, vec![piece, 4096], vec![256 * 1024]),
        (whole, vec![piece, whole - piece], vec![whole]),
        (
            whole + 1,
            vec![piece, whole + 1 - piece],
            vec![piece, whole + 1 - piece],
        ),
        (3 * piece, vec![piece; 3], vec![piece; 3]),
    ] {
        assert_eq!(pieces(size, (true, 0), WINDOW), busy, "{size}");
        assert_eq!(pieces(size, (false, 0), WINDOW), idle, "{size}");
    }
    for size in [SMALLEST, SMALLEST + 1, 300_000, 1 << 20, 1_234_567] {
        assert_eq!(pieces(size, (false, 64), NO_WINDOW), [64, size - 64]);
        assert_eq!(pieces(size, (true, 0), NO_WINDOW), [size]);
        let small = pieces(size, (false, 64), 1);
        assert_eq!(small[0], 64);
        assert!(small.iter().all(|size| *size <= SMALLEST_PIECE));
    }
}

/// Two to four fragments fit in every window except the smallest and the largest.
#[test]
fn a_window_has_room_for_two_pieces() {
    for window in (2 * SMALLEST_PIECE..=WINDOW).step_by(1000) {
        let piece = in_window(piece_of(usize::MAX, true, window));
        let pieces = window / piece;
        assert!((2..=4).contains(&pieces), "{window}: {pieces}");
    }
    assert_eq!(piece_of(usize::MAX, true, 10 * WINDOW), LARGEST_PIECE);
}

fn asks(size: usize, is_last: bool) -> Asked {
    Asked {
        counted: in_window(size),
        is_last,
    }
}

/// A window takes fragments until it is full. Operations begin in order, and an operation that has begun precedes
/// the others.
#[test]
fn operations_wait_in_order() {
    let streams = Streams::default();
    let (peer, other) = (name(1), name(2));
    let (a, b, c, d) = (name(3), name(4), name(5), name(6));
    let piece = 252 * 1024;
    let (more, last) = (asks(piece, false), asks(piece, true));
    for (peer, count) in [(peer, 4), (other, 1)] {
        assert!((0..count).all(|_| streams.begin(peer)));
    }
    assert!(streams.enter(peer, (a, more), WINDOW));
    // There is room, but only the operation that has begun may use it.
    assert!(!streams.enter(peer, (b, last), WINDOW));
    assert_eq!(streams.called(peer, WINDOW), None);
    assert!(streams.enter(peer, (a, more), WINDOW));
    assert!(!streams.enter(peer, (a, last), WINDOW));
    assert!(!streams.enter(peer, (c, more), WINDOW));
    // Each peer has its own window.
    assert!(streams.enter(other, (d, last), WINDOW));
    streams.leave(peer, piece);
    assert_eq!(streams.called(peer, WINDOW), Some(a));
    assert_eq!(streams.called(peer, WINDOW), None);
    // The room is reserved for the operation that `called` returns: no other takes it before the
    // post.
    streams.leave(peer, piece);
    assert_eq!(streams.called(peer, WINDOW), Some(b));
    assert!(!streams.enter(peer, (d, last), WINDOW));
    streams.leave(peer, piece);
    streams.end(peer, Some(a));
    assert_eq!(streams.called(peer, WINDOW), Some(c));
    assert_eq!(streams.called(peer, WINDOW), None);
    // The operation that has begun ends, because one of its fragments failed.
    streams.leave(peer, piece);
    streams.end(peer, Some(c));
    assert_eq!(streams.called(peer, WINDOW), Some(d));
    assert_eq!(bytes(&streams, peer), 512 * 1024);
    for (peer, over) in [(peer, b), (peer, d), (other, d)] {
        streams.leave(peer, piece);
        streams.end(peer, Some(over));
    }
    assert!(streams.lock().is_empty());
    // An end that is reported late does no harm.
    streams.leave(peer, piece);
    streams.end(peer, Some(a));
}

/// A fragment that is larger than the window is sent alone. Without a window, no fragment waits.
#[test]
fn any_piece_finds_room() {
    let streams = Streams::default();
    let (peer, a, b) = (name(1), name(2), name(3));
    let last = asks(100, true);
    assert!(streams.enter(peer, (a, last), 1));
    assert!(!streams.enter(peer, (b, last), 1));
    streams.leave(peer, 100);
    assert_eq!(streams.called(peer, 1), Some(b));
    assert!(streams.enter(peer, (a, last), NO_WINDOW));
}

/// Each peer has its own limit of transfers, independent of other peers.
#[test]
fn a_peer_has_a_limit_of_its_own() {
    let streams = Streams::default();
    let (peer, other) = (name(1), name(2));
    assert!((0..MOST).all(|_| streams.begin(peer)));
    assert!(!streams.begin(peer));
    assert!(streams.begin(other));
    streams.end(peer, None);
    assert!(streams.begin(peer));
}
