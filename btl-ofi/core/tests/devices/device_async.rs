//! Asynchronous copies of device memory: several are outstanding at the same time, beside transfers, and the data that
//! arrives is correct. The simulated device makes a copy after a number of queries, not when the copy is started.

use super::device_stream::stream::{fresh, overrides, with};
use super::device_stream::{BYTES, OnDevice, over_each, transfer};
use crate::common::pair::WORDS;
use crate::common::prelude::*;

/// The number of queries after which a copy is complete.
const QUESTIONS: usize = 5;
/// The same number for a slow device, on which a dead peer is detected during a copy.
const MANY_QUESTIONS: usize = 100_000;

/// A device buffer of this process, and the window for its puts and gets.
struct Bench<'a> {
    there: There<'a>,
    buffer: OnDevice,
}

impl Bench<'_> {
    /// Makes a put or a get; returns whether it succeeded.
    fn moves(&mut self, puts: bool) -> bool {
        transfer(self.there, puts, &mut self.buffer, BYTES, None);
        let done = self.there.t.flush(None).is_ok();
        with(|device| assert!(device.queue.is_empty(), "a copy was forgotten"));
        done
    }

    fn put(&mut self) -> bool {
        self.moves(true)
    }

    fn get(&mut self) -> bool {
        self.moves(false)
    }

    fn fill(&mut self, first: u64) {
        for (value, word) in (first..).zip(&mut self.buffer.words) {
            *word = value;
        }
    }

    fn holds(&self, first: u64) -> bool {
        let mut words = (first..).zip(&self.buffer.words);
        words.all(|(value, word)| *word == value)
    }
}

fn with_each(mut test: impl FnMut(&mut Bench<'_>, &str)) {
    over_each(&[], |there, what| {
        with(|device| device.questions = QUESTIONS);
        let buffer = OnDevice::new(there.t, 0);
        let mut bench = Bench { there, buffer };
        test(&mut bench, what);
        bench.buffer.region.close().unwrap();
    });
}

#[test]
fn fragments_are_copied_at_once() {
    with_each(|bench, what| {
        bench.fill(7);
        assert!(bench.put(), "{what}");
        let (started, most) = with(|device| (device.started, std::mem::take(&mut device.most)));
        assert!(started >= 4 && most >= 2, "{what}: {most} of {started}");
        bench.fill(1_000_000);
        assert!(bench.get(), "{what}");
        assert!(bench.holds(7), "{what}");
        let (all, most) = with(|device| (device.started, device.most));
        assert!(all >= 2 * started && most >= 2, "{what}: {most} of {all}");
    });
}

/// A copy fails after it has begun: its operation fails, and the next operation succeeds.
#[test]
fn a_copy_that_fails_later() {
    with_each(|bench, what| {
        for nth in [1, 3] {
            bench.fill(5);
            with(|device| device.fails = Some(device.started + nth));
            assert!(!bench.put(), "{what}");
            assert!(bench.put(), "{what}");
            bench.fill(9);
            with(|device| device.fails = Some(device.started + nth));
            assert!(!bench.get(), "{what}");
            assert!(bench.get(), "{what}");
            assert!(bench.holds(5), "{what}");
        }
    });
}

/// The device has no event for a copy: the copy is made immediately.
#[test]
fn a_copy_without_an_event() {
    with_each(|bench, what| {
        bench.fill(3);
        with(|device| device.refuses = Some(device.started + 2));
        assert!(bench.put(), "{what}");
        bench.fill(4);
        with(|device| device.refuses = Some(device.started + 2));
        assert!(bench.get(), "{what}");
        assert!(bench.holds(3), "{what}");
    });
}

/// The reports about an operation to a dead peer.
struct Reports {
    count: AtomicU32,
    /// The number of the operation's last copy.
    last: usize,
}

impl Ended for Reports {
    fn ended(&self, status: Status) {
        assert!(!status.is_ok());
        with(|device| {
            let mut numbers = device.queue.iter().map(|copy| copy.number);
            assert!(numbers.all(|n| n > self.last), "a copy uses the buffer");
        });
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A peer dies while the device copies for an operation to it. The operation is reported once, after the copies are over,
/// because they use its buffer.
#[test]
fn a_peer_that_dies_during_a_copy() {
    for staged in [false, true] {
        let _turn = fresh();
        let interval = ("btl_ofi_peer_check_interval", Value::Unsigned(1));
        let t = open(near(), ThreadLevel::Single, &[interval]);
        t.set_overrides(Some(&overrides()));
        let mut source = OnDevice::new(&t, 7);
        let mut dead = match staged {
            true => Target::start_on_device(&t, near(), DeviceWay::Thread),
            false => Target::start(&t, near(), false),
        };
        let there = dead.there();
        let mut put = |done| transfer(there, true, &mut source, WORDS * 8, done);
        // The first put makes contact with the peer, and takes a lane.
        put(None);
        assert!(t.flush(None).is_ok());
        with(|device| device.questions = MANY_QUESTIONS);
        // The operation has one fragment.
        let reports = Reports {
            count: AtomicU32::new(0),
            last: with(|device| device.started) + 1,
        };
        put(reports.completion());
        put(None);
        // A staged operation takes a lane first.
        let begins = || with(|device| !device.queue.is_empty());
        until(&[&t], "no copy begins", begins);
        dead.kill();
        assert_eq!(there.flush(), Status::UNREACH, "staged {staged}");
        with(|device| assert!(device.queue.is_empty(), "staged {staged}"));
        assert_eq!(reports.count.load(Ordering::Relaxed), 1, "{staged}");
        drop(dead);
        close([source.region], [t]);
        assert_eq!(reports.count.load(Ordering::Relaxed), 1, "{staged}");
    }
}
