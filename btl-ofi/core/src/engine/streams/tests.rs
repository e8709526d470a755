use std::ptr;

use super::*;

const WINDOW: usize = 544 * 1024;

/// An address that stands for a peer or an operation, which nothing follows.
fn name<T>(number: usize) -> NonNull<T> {
    NonNull::new(ptr::without_provenance_mut(number * 64)).expect("not 0")
}

fn bytes(streams: &Streams, endpoint: NonNull<Endpoint>) -> usize {
    streams
        .lock()
        .get(&endpoint)
        .map_or(0, |flight| flight.bytes)
}

/// The pieces of a transfer over a connection that is busy, or idle and with a head.
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
        is_next: false,
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

/// A window takes operations until it is full. Those that wait are called in order, before others, and one that finds no room
/// keeps its place.
#[test]
fn operations_wait_in_order() {
    let streams = Streams::default();
    let (peer, other) = (name(1), name(2));
    let (a, b, c, d) = (name(3), name(4), name(5), name(6));
    let half = 252 * 1024;
    assert!(streams.enter(peer, (a, Turn::Last), half, WINDOW));
    assert!(streams.enter(peer, (a, Turn::Begun), half, WINDOW));
    assert!(!streams.enter(peer, (a, Turn::Begun), half, WINDOW));
    assert!(!streams.enter(peer, (b, Turn::Last), half, WINDOW));
    assert!(!streams.enter(peer, (c, Turn::Last), half, WINDOW));
    assert_eq!(streams.called(peer, WINDOW), None);
    // Another peer has a window of its own.
    assert!(streams.enter(other, (d, Turn::Last), half, WINDOW));
    streams.leave(peer, half);
    // Nobody overtakes those that wait, but the one that has begun.
    assert!(!streams.enter(peer, (d, Turn::Last), half, WINDOW));
    assert_eq!(streams.called(peer, WINDOW), Some(b));
    assert!(streams.enter(peer, (a, Turn::Begun), half, WINDOW));
    assert!(!streams.enter(peer, (b, Turn::Next), half, WINDOW));
    streams.leave(peer, half);
    for waiting in [b, c, d] {
        assert_eq!(streams.called(peer, WINDOW), Some(waiting));
        assert!(streams.enter(peer, (waiting, Turn::Next), half, WINDOW));
        streams.leave(peer, half);
    }
    assert_eq!(bytes(&streams, peer), 256 * 1024);
    streams.leave(peer, half);
    streams.leave(other, half);
    assert!(streams.lock().is_empty());
    // A late end is no trouble.
    streams.leave(peer, half);
}

/// A piece that is larger than the window goes alone, and without a window nothing waits.
#[test]
fn any_piece_finds_room() {
    let streams = Streams::default();
    let (peer, a, b) = (name(1), name(2), name(3));
    assert!(streams.enter(peer, (a, Turn::Last), 100, 1));
    assert!(!streams.enter(peer, (b, Turn::Last), 100, 1));
    streams.leave(peer, 100);
    assert_eq!(streams.called(peer, 1), Some(b));
    assert!(streams.enter(peer, (b, Turn::Next), 100, 1));
    assert!(streams.enter(peer, (a, Turn::Last), 100, NO_WINDOW));
}
