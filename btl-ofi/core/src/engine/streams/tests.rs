use super::*;

const WINDOW: usize = 512 * 1024;

/// An address that stands for a peer or an operation, which nothing follows.
fn name<T>(number: usize) -> NonNull<T> {
    NonNull::without_provenance((number * 64).try_into().expect("not 0"))
}

fn bytes(streams: &Streams, endpoint: NonNull<Endpoint>) -> usize {
    streams
        .lock()
        .get(&endpoint)
        .map_or(0, |flight| flight.bytes)
}

fn stream(size: usize, head: usize, window: usize) -> Stream {
    Stream {
        put: true,
        local: ptr::null_mut(),
        target: Target::default(),
        size,
        head,
        piece: piece_of(window),
        next: 0,
        pieces: 0,
        is_next: false,
        status: Status::SUCCESS,
    }
}

fn pieces(mut stream: Stream) -> Vec<usize> {
    let mut found = Vec::new();
    while stream.next_size() > 0 {
        found.push(stream.next_size());
        stream.next += stream.next_size();
    }
    assert_eq!(stream.next, stream.size);
    found
}

#[test]
fn pieces_are_half_a_window_at_most_and_the_last_one_takes_a_rest() {
    let piece = 252 * 1024;
    for (size, expected) in [
        (SMALLEST, vec![SMALLEST]),
        (WINDOW / 2, vec![WINDOW / 2]),
        (piece * 3 / 2 - 1, vec![piece * 3 / 2 - 1]),
        (piece * 3 / 2, vec![piece, piece / 2]),
        (WINDOW, vec![piece, WINDOW - piece]),
        (1 << 20, vec![piece, piece, piece, (1 << 20) - 3 * piece]),
    ] {
        assert_eq!(pieces(stream(size, 0, WINDOW)), expected, "{size}");
    }
    for size in [SMALLEST, SMALLEST + 1, 300_000, 1 << 20, 1_234_567] {
        assert_eq!(pieces(stream(size, 64, NO_WINDOW)), [64, size - 64]);
        assert_eq!(pieces(stream(size, 0, NO_WINDOW)), [size]);
        let small = pieces(stream(size, 64, 1));
        assert_eq!(small[0], 64);
        assert!(small.iter().all(|size| *size < 2 * SMALLEST_PIECE));
    }
}

/// A window takes operations until it is full. Those that wait are called in order, before others, and one that finds no room
/// keeps its place.
#[test]
fn operations_wait_in_order() {
    let streams = Streams::default();
    let (peer, other) = (name(1), name(2));
    let (a, b, c, d) = (name(3), name(4), name(5), name(6));
    let half = WINDOW / 2;
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
    assert_eq!(bytes(&streams, peer), half);
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
