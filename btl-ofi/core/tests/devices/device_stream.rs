//! Copies of device memory on a stream that is busy: they begin when the test lets the stream go on.

pub(crate) mod stream;

use crate::common::pair::WORDS;
use stream::{fresh, with};

use crate::common::prelude::*;

/// The size of a transfer in bytes: at least four fragments.
pub(crate) const BYTES: usize = 1 << 20;
/// The peer timeout, milliseconds.
const LIMIT: u64 = 50;
/// Longer than a peer may be silent.
const LONG: Duration = Duration::from_millis(6 * LIMIT);
const PROVIDERS: [&str; 2] = ["shm", "tcp;ofi_rxm"];

/// Memory of this process on the device, registered for transfers.
pub(crate) struct OnDevice {
    pub(crate) words: Vec<u64>,
    pub(crate) region: Region,
}

impl OnDevice {
    pub(crate) fn new(t: &Transport, value: u64) -> OnDevice {
        let mut words = vec![value; BYTES / 8];
        OnDevice {
            region: device::register(t, &mut words, Access::all()),
            words,
        }
    }

    fn address(&mut self) -> *mut c_void {
        device::address(self.words.as_mut_ptr().cast())
    }
}

/// Puts `bytes` of the device's memory.
fn put(there: There<'_>, source: &mut OnDevice, bytes: usize, done: Option<Completion>) {
    transfer(there, true, source, bytes, done);
}

/// Puts `bytes` of the device's memory, or gets them there.
pub(crate) fn transfer(
    there: There<'_>,
    puts: bool,
    memory: &mut OnDevice,
    bytes: usize,
    done: Option<Completion>,
) {
    let (here, mut local) = (memory.address(), memory.region.handle());
    let There { t, peer, h, base } = there;
    insist(t, || {
        let local = (&raw mut local).cast();
        match puts {
            true => t.put_with(peer, here, base, local, &h, bytes, done),
            false => t.get_with(peer, here, base, local, &h, bytes, done),
        }
    });
}

/// Makes progress for longer than a peer may be silent.
fn wait(t: &Transport) {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        t.progress();
        std::thread::yield_now();
    }
}

/// A window of this process, on the host or on the device, as it reaches it itself.
fn to_itself<'a>(
    t: &'a Transport,
    staged: bool,
    window: &mut OnDevice,
    host: &Region,
) -> There<'a> {
    match staged {
        true => There {
            base: window.address() as u64,
            ..There::of(t, 0, t, &window.region)
        },
        false => There::of(t, 0, t, host),
    }
}

/// Runs a test with each provider, with a window on the host and with a window on a device, both in this process.
pub(crate) fn over_each(parameters: &[(&str, Value)], mut test: impl FnMut(There<'_>, &str)) {
    for provider in PROVIDERS {
        for staged in [false, true] {
            let _turn = fresh();
            let all = [&DeviceWay::Progress.parameters(), parameters].concat();
            let t = open(provider, ThreadLevel::Single, &all);
            t.set_overrides(Some(&stream::overrides()));
            let what = format!("{provider}, staged {staged}");
            let (mut window, mut host) = (OnDevice::new(&t, 0), vec![0u64; BYTES / 8]);
            let region = register(&t, &mut host, Access::all());
            let there = to_itself(&t, staged, &mut window, &region);
            test(there, &what);
            there.release();
            region.close().unwrap();
            window.region.close().unwrap();
            t.close().unwrap();
        }
    }
}

/// A peer does not count as silent while an operation to it waits for a copy of this process.
#[test]
fn a_busy_stream_is_no_silence_of_a_peer() {
    let limits = [
        ("btl_ofi_peer_timeout", Value::Unsigned(LIMIT)),
        ("btl_ofi_peer_check_interval", Value::Unsigned(5)),
    ];
    over_each(&limits, |there, what| {
        let (t, reports) = (there.t, Reports::of(there.t));
        let (mut source, seen) = (OnDevice::new(t, 7), Seen::default());
        with(|stream| {
            stream.is_busy = true;
            stream.busy_while_well = Some(there.peer);
        });
        put(there, &mut source, BYTES, seen.completion());
        until(&[t], what, || with(|stream| !stream.queue.is_empty()));
        wait(t);
        assert_eq!((there.failure(), reports.all()), (None, vec![]), "{what}");
        with(|stream| stream.is_busy = false);
        assert_eq!(t.flush(None), Status::SUCCESS, "{what}");
        assert_eq!(seen.both(), (1, 0), "{what}");
        source.region.close().unwrap();
    });
}

/// The device copies for an operation to a stopped peer, and the provider does not know the operation yet. The peer is
/// given up, and the other peers stay reachable.
#[test]
fn a_copy_is_not_outstanding_at_the_provider() {
    // On a busy machine, running peers need more than [`LIMIT`] to answer. Between two checks, which are many polls apart,
    // at most the interval counts as silence.
    const ANSWERED: u64 = 3000;
    const INTERVAL: u64 = 500;
    for provider in ["tcp;ofi_rxm", "sockets"] {
        let _turn = fresh();
        let limits = [
            ("btl_ofi_peer_timeout", Value::Unsigned(ANSWERED)),
            ("btl_ofi_peer_check_interval", Value::Unsigned(INTERVAL)),
        ];
        let t = open(provider, ThreadLevel::Single, &limits);
        let reports = Reports::of(&t);
        t.set_overrides(Some(&stream::overrides()));
        let stopped = Target::start(&t, provider, false);
        let (there, mut source) = (stopped.there(), OnDevice::new(&t, 7));
        // The first put makes contact with the peer.
        put(there, &mut source, WORDS * 8, None);
        assert_eq!(t.flush(None), Status::SUCCESS, "{provider}");
        let seen = Seen::default();
        with(|stream| {
            stream.is_busy = true;
            stream.busy_while_well = Some(there.peer);
        });
        // The put is longer than the bytes that are copied at once.
        const { assert!(WORDS * 8 >= 8 << 10) };
        put(there, &mut source, WORDS * 8, seen.completion());
        until(&[&t], provider, || with(|stream| !stream.queue.is_empty()));
        signal(stopped.child.id(), libc::SIGSTOP);
        until(&[&t], provider, || {
            // Peers are checked every 1024 polls without completions. The loop polls 64 times per turn, because a busy
            // machine may take a time slice between two turns; the sleep prevents checks that come much more often than
            // the interval.
            (0..64).for_each(|_| _ = t.progress());
            std::thread::sleep(Duration::from_millis(5));
            seen.all() > 0
        });
        assert_eq!(seen.status(), Status::UNREACH, "{provider}");
        with(|stream| *stream = Default::default());
        let mut window = vec![0u64; WORDS];
        let region = register(&t, &mut window, Access::all());
        let own = There::of(&t, 1, &t, &region);
        put(own, &mut source, WORDS * 8, None);
        assert_eq!(
            own.flush(),
            Status::SUCCESS,
            "{provider}: {:?}",
            reports.all()
        );
        assert!(window.iter().all(|word| *word == 7), "{provider}");
        signal(stopped.child.id(), libc::SIGCONT);
        drop(stopped);
        region.close().unwrap();
        source.region.close().unwrap();
        t.close().unwrap();
    }
}

/// A copy that returns too few bytes fails its operation; the memory stays allocated until the copy is
/// over.
#[test]
fn a_short_copy_is_waited_for() {
    over_each(&[], |there, what| {
        let t = there.t;
        let (mut source, seen) = (OnDevice::new(t, 7), Seen::default());
        with(|stream| (stream.is_busy, stream.is_short) = (true, true));
        put(there, &mut source, BYTES, seen.completion());
        until(&[t], what, || with(|stream| !stream.queue.is_empty()));
        for _ in 0..1000 {
            t.progress();
        }
        assert_eq!(seen.all(), 0, "{what}: reported during a copy");
        with(|stream| (stream.is_busy, stream.is_short) = (false, false));
        until(&[t], what, || seen.all() > 0);
        assert_eq!(seen.both(), (0, 1), "{what}");
        with(|stream| assert!(stream.queue.is_empty(), "{what}: a copy was forgotten"));
        // The next put succeeds.
        put(there, &mut source, BYTES, None);
        assert_eq!(t.flush(None), Status::SUCCESS, "{what}");
        source.region.close().unwrap();
    });
}

/// A transport that is closed during a copy does not free the copy's memory.
#[test]
fn closing_spares_the_memory_of_a_copy() {
    for staged in [false, true] {
        let _turn = fresh();
        let t = open(PROVIDERS[0], ThreadLevel::Single, &[]);
        t.set_overrides(Some(&stream::overrides()));
        let (mut source, mut window) = (OnDevice::new(&t, 7), OnDevice::new(&t, 0));
        let mut host = vec![0u64; BYTES / 8];
        let region = register(&t, &mut host, Access::all());
        with(|stream| stream.is_busy = true);
        let there = to_itself(&t, staged, &mut window, &region);
        put(there, &mut source, BYTES, None);
        until(&[&t], "a copy", || with(|stream| !stream.queue.is_empty()));
        with(stream::watch_memory);
        t.close().unwrap();
        with(|stream| {
            assert!(!stream::was_freed(), "staged {staged}");
            // The device continues.
            stream.is_busy = false;
            while !stream.queue.is_empty() {
                stream.copy_next();
            }
        });
        for region in [source.region, window.region, region] {
            region.close().unwrap();
        }
    }
}

/// A put waits for the stream before its request, a get after its reply. Later operations to the same owner and operations
/// of other origins do not wait for the stream.
#[test]
fn other_operations_pass_those_that_wait_for_the_stream() {
    for provider in PROVIDERS {
        passes(provider, true);
        passes(provider, false);
    }
}

fn passes(provider: &str, puts: bool) {
    let _turn = fresh();
    let way = DeviceWay::Progress;
    let t = open(provider, ThreadLevel::Single, &way.parameters());
    let owner = Target::start_on_device(&t, provider, way);
    // The number of origins exceeds the number of a mailbox's lanes by one.
    let others: Vec<Transport> = (0..8)
        .map(|_| open(provider, ThreadLevel::Single, &way.parameters()))
        .collect();
    let first = Seen::default();
    with(|stream| stream.is_busy = true);
    let mut waiting: Vec<(&Transport, OnDevice)> = Vec::new();
    for other in &others {
        other.set_overrides(Some(&stream::overrides()));
        let there = owner.reached_by(other);
        let mut source = OnDevice::new(other, 7);
        let before = with(|stream| stream.queue.len());
        transfer(there, puts, &mut source, WORDS * 8, first.completion());
        until(&[other], provider, || {
            with(|stream| stream.queue.len() > before)
        });
        waiting.push((other, source));
        later_ones(there, provider);
    }
    later_ones(owner.there(), provider);
    assert_eq!(first.all(), 0, "{provider}");
    with(|stream| stream.is_busy = false);
    for (other, source) in waiting {
        assert_eq!(other.flush(None), Status::SUCCESS, "{provider}");
        source.region.close().unwrap();
    }
    assert_eq!(first.both(), (8, 0), "{provider}");
    for other in others {
        other.close().unwrap();
    }
    owner.end();
    t.close().unwrap();
}

/// Makes more puts, gets and atomics of host memory than a lane has slots. The operations complete.
fn later_ones(there: There<'_>, what: &str) {
    let (seen, mut words, mut old) = (Seen::default(), [5u64; 64], 0u64);
    for kind in 0..12 {
        there.insist(|there| match kind % 3 {
            0 => there.put(0, &words, seen.completion()),
            1 => there.get(0, &mut words, seen.completion()),
            _ => there.fetch_add(0, &mut old, seen.completion()),
        });
    }
    until(&[there.t], what, || seen.all() == 12);
    assert_eq!(seen.both(), (12, 0), "{what}");
}

/// Atomics take effect in the order of issue, even if a stream copies the operands of an earlier
/// atomic.
#[test]
fn atomics_keep_their_order() {
    const OPERANDS: usize = 2048;
    for provider in PROVIDERS {
        let _turn = fresh();
        let way = DeviceWay::Progress;
        let t = open(provider, ThreadLevel::Single, &way.parameters());
        t.set_overrides(Some(&stream::overrides()));
        let owner = Target::start_on_device(&t, provider, way);
        let (peer, h, at) = (owner.peer, owner.handle, owner.window);
        let (mut source, seen) = (OnDevice::new(&t, 7), Seen::default());
        let (mut first, mut second) = ([1u64; OPERANDS], 1u64);
        let (from, mut local) = (source.address().cast_const(), source.region.handle());
        let (u, sum, none) = (Datatype::Uint64, AtomicOp::Sum, ptr::null_mut());
        with(|stream| stream.is_busy = true);
        insist(&t, || {
            let (old, local) = (first.as_mut_ptr().cast(), (&raw mut local).cast());
            let with = seen.completion();
            t.atomic_fopv_with(peer, from, old, at, local, none, &h, u, sum, OPERANDS, with)
        });
        until(&[&t], provider, || with(|stream| !stream.queue.is_empty()));
        let there = owner.there();
        there.insist(|there| there.fetch_add(0, &mut second, seen.completion()));
        for _ in 0..1000 {
            t.progress();
        }
        assert_eq!(seen.all(), 0, "{provider}");
        with(|stream| stream.is_busy = false);
        until(&[&t], provider, || seen.all() == 2);
        assert_eq!(seen.both(), (2, 0), "{provider}");
        assert_eq!((first, second), ([0; OPERANDS], 7), "{provider}");
        source.region.close().unwrap();
        owner.end();
        t.close().unwrap();
    }
}
