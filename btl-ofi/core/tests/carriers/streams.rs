//! Large transfers over TCP in pieces: many at a time transfer the right bytes and complete once, for every window. If their
//! peer is killed or released, waiting transfers are reported once.

mod callbacks;

use crate::common::prelude::*;

const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];
/// The smallest transfer that counts in the window.
const SMALLEST: usize = 64 * 1024;
/// The number of words that each transfer may use.
const ROOM: usize = 160 * 1024;

fn window(bytes: u64) -> (&'static str, Value) {
    ("btl_ofi_stream_window", Value::Unsigned(bytes))
}

/// One of many transfers: whether it is a put, its size, and its offset in its room.
struct Transfer {
    put: bool,
    size: usize,
    skipped: usize,
}

impl Transfer {
    fn any(numbers: &mut Numbers) -> Transfer {
        let most = 8 * (ROOM - 16);
        let size = match numbers.below(4) {
            0 => SMALLEST - 1 + numbers.below(3),
            1 => SMALLEST,
            _ => 1 + numbers.below(most),
        };
        Transfer {
            put: numbers.below(2) == 0,
            size,
            skipped: numbers.below(64),
        }
    }
}

/// The byte at an offset before the transfer.
fn content(at: usize) -> u8 {
    (at as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()[0]
}

fn fill(words: &mut [u64], with: impl Fn(usize) -> u8) {
    for (at, word) in words.iter_mut().enumerate() {
        *word = u64::from_ne_bytes(std::array::from_fn(|byte| with(8 * at + byte)));
    }
}

/// Makes all transfers at the same time, half of them with a callback, and checks every byte of both
/// sides.
fn make((a, b): (&Transport, &Transport), address: &[u8], transfers: &[Transfer]) {
    let mut mine = vec![0u64; ROOM * transfers.len()];
    let mut theirs = vec![0u64; ROOM * transfers.len()];
    fill(&mut mine, content);
    fill(&mut theirs, |at| !content(at));
    let region = register(b, &mut theirs, Access::all());
    let h = region.handle();
    let peer = a.connect(address, 1).unwrap();
    let seen = Seen::default();
    let first: *mut u64 = mine.as_mut_ptr();
    attended(b, || {
        for (number, t) in transfers.iter().enumerate() {
            let skipped = 8 * ROOM * number + t.skipped;
            let with = (number % 2 == 0).then(|| seen.completion()).flatten();
            let (local, remote) = (
                first.wrapping_byte_add(skipped).cast(),
                h.base() + skipped as u64,
            );
            insist(a, || match t.put {
                true => a.put(peer, local, remote, &h, t.size, with),
                false => a.get(peer, local, remote, &h, t.size, with),
            });
        }
        assert_eq!(a.flush(None), Status::SUCCESS);
        until(&[a], "no callback", || {
            seen.all() >= transfers.len().div_ceil(2) as u32
        });
    });
    assert_eq!(seen.both(), (transfers.len().div_ceil(2) as u32, 0));
    let has = |words: &[u64], at: usize| words[at / 8].to_ne_bytes()[at % 8];
    for (number, t) in transfers.iter().enumerate() {
        let start = 8 * ROOM * number;
        for at in start..start + 8 * ROOM {
            let moved = (start + t.skipped..start + t.skipped + t.size).contains(&at);
            let (here, there) = match (moved, t.put) {
                (false, _) => (content(at), !content(at)),
                (true, true) => (content(at), content(at)),
                (true, false) => (!content(at), !content(at)),
            };
            assert_eq!(
                (has(&mine, at), has(&theirs, at)),
                (here, there),
                "{number}: {at}"
            );
        }
    }
    // SAFETY: connected once, and nothing is outstanding.
    assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
    region.close().unwrap();
    let stats = a.stats();
    assert_eq!(stats.posted, stats.completed, "{stats:?}");
}

#[test]
fn many_at_a_time_bring_their_bytes() {
    for provider in PROVIDERS {
        for (seed, bytes) in [
            (1, 544 << 10),
            (2, 544 << 10),
            (3, 0),
            (4, 1),
            (5, 100_000),
            (6, 1 << 30),
        ] {
            let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[window(bytes)]));
            let mut numbers = Numbers(seed);
            let transfers: Vec<_> = (0..24).map(|_| Transfer::any(&mut numbers)).collect();
            make((&a, &b), b.address(), &transfers);
            close([], [a, b]);
        }
    }
}

/// The address of a peer, changed to look like an address on another machine.
fn elsewhere(address: &[u8]) -> Vec<u8> {
    let length = |at: usize| usize::from(u16::from_le_bytes([address[at], address[at + 1]]));
    let machine = 52 + length(44) + length(50);
    let mut other = address.to_vec();
    other[machine] ^= 1;
    other
}

/// The number of provider operations of a put of `size` bytes to a peer, whose address `seen_as` may change.
fn pieces(provider: &str, seen_as: fn(&[u8]) -> Vec<u8>, bytes: u64, size: usize) -> u64 {
    let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[window(bytes)]));
    let before = a.stats().operations[Carrier::Provider as usize];
    let transfer = Transfer {
        put: true,
        size,
        skipped: 0,
    };
    make((&a, &b), &seen_as(b.address()), &[transfer]);
    let made = a.stats().operations[Carrier::Provider as usize] - before;
    close([], [a, b]);
    made
}

/// The window decides the number of pieces of a transfer; the first piece may be short. The window does not apply to
/// other machines.
#[test]
fn the_window_divides() {
    const SIZE: usize = 1 << 20;
    for provider in PROVIDERS {
        for (bytes, count) in [(544 << 10, 5), (256 << 10, 9), (0, 1)] {
            let made = pieces(provider, <[u8]>::to_vec, bytes, SIZE);
            assert!(
                (count..=count + 1).contains(&made),
                "{provider}: {bytes}: {made}"
            );
            let made = pieces(provider, elsewhere, bytes, SIZE);
            assert!((1..=2).contains(&made), "{provider}: {bytes}: {made}");
        }
        assert_eq!(pieces(provider, <[u8]>::to_vec, 544 << 10, SMALLEST), 1);
    }
}

/// While the peer receives nothing, transfers wait until the queue is full and a further transfer is refused with
/// OUT_OF_RESOURCE. Later all transfers arrive.
#[test]
fn a_long_queue_refuses_and_loses_nothing() {
    let [a, b] = [(); 2].map(|()| open("net", ThreadLevel::Single, &[]));
    let mut theirs = vec![0u64; SMALLEST / 8];
    let mut mine = vec![7u64; SMALLEST / 8];
    let region = register(&b, &mut theirs, Access::all());
    let h = region.handle();
    let peer = a.connect(b.address(), 1).unwrap();
    let seen = Seen::default();
    let put = || {
        let local = mine.as_ptr().cast_mut().cast();
        a.put(peer, local, h.base(), &h, SMALLEST, seen.completion())
    };
    attended(&b, || insist(&a, put));
    let mut posted = 1;
    let refused = loop {
        match put() {
            Status::SUCCESS => posted += 1,
            status => break status,
        }
        assert!(posted < 10_000, "nothing bounds the queue");
    };
    assert!(refused.is_again(), "{refused}");
    attended(&b, || {
        insist(&a, put);
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    assert_eq!(seen.both(), (posted + 1, 0));
    assert!(theirs.iter().all(|word| *word == 7));
    mine.clear();
    close([region], [a, b]);
}

/// A target that was contacted once and is stopped now.
fn stopped_target<'a>(
    t: &'a Transport,
    provider: &str,
    mine: &mut [u64],
    seen: &Seen,
) -> Target<'a> {
    let target = Target::start(t, provider, false);
    post_many(t, (target.peer, &target.handle), mine, seen, 1);
    assert_eq!(t.flush(None), Status::SUCCESS);
    signal(target.child.id(), libc::SIGSTOP);
    target
}

/// Posts `count` transfers.
fn post_many(
    t: &Transport,
    (peer, h): (NonNull<Endpoint>, &Handle),
    mine: &mut [u64],
    seen: &Seen,
    count: u32,
) {
    for number in 0..count {
        let local = mine.as_mut_ptr().cast();
        let size = size_of_val(mine);
        insist(t, || match number % 2 {
            0 => t.put(peer, local, h.base(), h, size, seen.completion()),
            _ => t.get(peer, local, h.base(), h, size, seen.completion()),
        });
    }
}

/// Sent and waiting transfers are reported once, as failed, when their peer is killed.
#[test]
fn a_killed_peer_fails_those_that_wait() {
    const COUNT: u32 = 40;
    for provider in PROVIDERS {
        let t = open(provider, ThreadLevel::Single, &[]);
        let mut mine = vec![0u64; 128 * 1024 / 8];
        let seen = Seen::default();
        let mut target = stopped_target(&t, provider, &mut mine, &seen);
        post_many(&t, (target.peer, &target.handle), &mut mine, &seen, COUNT);
        for _ in 0..100 {
            t.progress();
        }
        assert!(seen.all() < COUNT, "{provider}");
        target.kill();
        assert!(!t.flush(None).is_ok(), "{provider}");
        until(
            &[&t],
            format_args!("{provider}: reports are missing"),
            || seen.all() > COUNT,
        );
        assert_eq!(t.flush(None), Status::SUCCESS, "{provider}");
        assert_eq!(seen.all(), 1 + COUNT, "{provider}");
        assert!(seen.failed() > 0, "{provider}");
        drop(target);
        t.close().unwrap();
    }
}

/// A peer that never received anything is given up alone. A transfer that waits for its first piece is not at the provider,
/// so the endpoints stay open for the other peers.
#[test]
fn a_silent_peer_with_nothing_on_the_way_is_given_up_alone() {
    let t = open(
        "net",
        ThreadLevel::Single,
        &[
            ("btl_ofi_peer_check_interval", Value::Unsigned(20)),
            ("btl_ofi_peer_timeout", Value::Unsigned(300)),
        ],
    );
    let mut memory = vec![0u64; 128 * 1024 / 8 + 1024];
    // The memory has the alignment of a large malloc block, so the first piece is sent alone.
    let skipped = (4096 + 16 - memory.as_ptr() as usize % 4096) % 4096 / 8;
    let mine = &mut memory[skipped..][..128 * 1024 / 8];
    let (lost, kept) = (Seen::default(), Seen::default());
    let stopped = Target::start(&t, "net", false);
    let living = Target::start_as(1, &t, "net", false);
    signal(stopped.child.id(), libc::SIGSTOP);
    post_many(&t, (stopped.peer, &stopped.handle), mine, &lost, 1);
    until(&[&t], "nobody ends it", || lost.all() != 0);
    assert_eq!(lost.both(), (0, 1));
    post_many(&t, (living.peer, &living.handle), mine, &kept, 2);
    assert!(!t.flush(None).is_ok(), "the loss is told once");
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert_eq!(kept.both(), (2, 0));
    signal(stopped.child.id(), libc::SIGCONT);
    drop((stopped, living));
    t.close().unwrap();
}

/// A peer is released while it receives nothing: the waiting transfers are reported, and the transport
/// closes.
#[test]
fn a_released_peer_ends_those_that_wait() {
    const COUNT: u32 = 40;
    let t = open("net", ThreadLevel::Single, &[]);
    let mut mine = vec![0u64; 128 * 1024 / 8];
    let seen = Seen::default();
    let target = stopped_target(&t, "net", &mut mine, &seen);
    post_many(&t, (target.peer, &target.handle), &mut mine, &seen, COUNT);
    // SAFETY: the peer was connected once; outstanding operations keep their buffers until the
    // transport is closed.
    let status = unsafe { t.disconnect(target.peer) };
    assert_eq!(status, Status::TIMEOUT);
    for _ in 0..100 {
        t.progress();
    }
    // About four transfers were sent, and may still complete late.
    assert!(seen.failed() >= COUNT - 8, "{:?}", seen.both());
    assert!(seen.all() <= 1 + COUNT);
    drop(target);
    t.close().unwrap();
}

/// Threads share the window of a peer.
#[test]
fn threads_take_turns() {
    const EACH: usize = 60;
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Multiple, &[]));
        let mut theirs = vec![0u64; 3 * ROOM];
        let region = register(&b, &mut theirs, Access::all());
        let h = region.handle();
        let peer = a
            .connect(b.address(), 1)
            .unwrap()
            .as_ptr()
            .expose_provenance();
        let seen = Seen::default();
        attended(&b, || {
            std::thread::scope(|s| {
                for thread in 0..3 {
                    let (a, h, seen) = (&a, &h, &seen);
                    s.spawn(move || {
                        let peer = NonNull::new(ptr::with_exposed_provenance_mut::<Endpoint>(peer))
                            .unwrap();
                        let mut mine = vec![thread as u64 + 1; ROOM];
                        let remote = h.base() + (8 * ROOM * thread) as u64;
                        for round in 0..EACH {
                            let size = SMALLEST + (round * 12_345) % (8 * ROOM - SMALLEST);
                            let local = mine.as_mut_ptr().cast();
                            insist(a, || a.put(peer, local, remote, h, size, seen.completion()));
                        }
                        assert_eq!(a.flush(None), Status::SUCCESS);
                    });
                }
            });
        });
        assert_eq!(seen.both(), (3 * EACH as u32, 0), "{provider}");
        for (thread, words) in theirs.chunks(ROOM).enumerate() {
            let put = SMALLEST / 8;
            assert!(
                words[..put].iter().all(|word| *word == thread as u64 + 1),
                "{provider}"
            );
        }
        close([region], [a, b]);
    }
}
