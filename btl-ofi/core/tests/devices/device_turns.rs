//! Several origins at a target's mailbox for device memory, and an origin that returns its lane in the middle of
//! its work: each origin's operations take effect in order, and each origin gets its turn.

use crate::common::prelude::*;

/// The number of requests after which the transport returns a lane even if more requests wait.
const TURN: u32 = 64;
/// The number of lanes of a mailbox.
const LANES: usize = 8;
/// The number of outstanding operations of a busy initiator.
const UNDER_WAY: u32 = 32;
/// The index of the word that records the order, and of the word that keeps lanes busy.
const ORDERED: usize = 0;
const BUSY: usize = 8;

/// One initiator. All initiators of a process begin their search at the same lane.
struct Initiator<'a> {
    there: There<'a>,
    posted: u32,
    over: Box<Seen>,
    /// The address for unused results.
    any: Box<u64>,
}

impl<'a> Initiator<'a> {
    fn new(there: There<'a>) -> Initiator<'a> {
        Initiator {
            there,
            posted: 0,
            over: Box::default(),
            any: Box::default(),
        }
    }

    /// Adds one to a word; the old value goes to `old`, if given.
    fn add(&mut self, word: usize, old: Option<&mut u64>) {
        let (with, old) = (self.over.completion(), old.unwrap_or(&mut self.any));
        let there = self.there;
        there.insist(|there| there.fetch_add(word, old, with));
        self.posted += 1;
    }

    fn over(&self) -> u32 {
        self.over.succeeded()
    }

    /// Makes progress until `over` operations have completed.
    fn reach(&self, over: u32) {
        until(
            &[self.there.t],
            format_args!("{over} operations are never over"),
            || self.over() >= over,
        );
    }

    /// Takes a lane, and keeps it while the initiator makes no progress: some requests are answered,
    /// some are not, and the number is below a turn.
    fn hold(&mut self) {
        for _ in 0..20 {
            let before = self.over();
            for _ in 0..TURN - 16 {
                self.add(BUSY, None);
            }
            self.reach(before + 1);
            if self.over() < self.posted {
                return;
            }
            // The owner answered all requests already.
            self.finish();
        }
    }

    fn finish(&self) {
        self.reach(self.posted);
        // The initiator returns the lane after its last operation, without any event that the test
        // can see.
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            self.there.t.progress();
            std::thread::yield_now();
        }
    }
}

/// New operations at the end of a turn do not overtake the `waiting` earlier operations, or each
/// other.
fn turns(provider: &str, waiting: u32) {
    let t = open(
        provider,
        ThreadLevel::Single,
        &DeviceWay::Progress.parameters(),
    );
    let target = Target::start_on_device(&t, provider, DeviceWay::Progress);
    let mut initiator = Initiator::new(target.there());
    let mut seen = vec![u64::MAX; 4 * TURN as usize];
    let (first, later) = seen.split_at_mut((TURN + waiting) as usize);
    for old in first {
        initiator.add(ORDERED, Some(old));
    }
    // The initiator returns the lane here; the other operations wait until it takes a lane again.
    initiator.reach(TURN);
    for old in later {
        initiator.add(ORDERED, Some(old));
    }
    initiator.finish();
    let order: Vec<u64> = (0..seen.len() as u64).collect();
    assert_eq!(seen, order, "{provider}");
    target.end_and_release();
}

/// An initiator that finds its lane taken goes to the next lane. The requests there have the numbers
/// that the first lane has already answered.
fn moves(provider: &str) {
    let wanted = DeviceWay::Progress.parameters();
    let t = open(provider, ThreadLevel::Single, &wanted);
    let target = Target::start_on_device(&t, provider, DeviceWay::Progress);
    let mut first = Initiator::new(target.there());
    let other = open(provider, ThreadLevel::Single, &wanted);
    let mut holder = Initiator::new(target.reached_by(&other));
    let mut seen = [u64::MAX; 12];
    let (before, after) = seen.split_at_mut(4);
    for old in before {
        first.add(ORDERED, Some(old));
    }
    first.finish();
    holder.hold();
    for old in after {
        first.add(ORDERED, Some(old));
    }
    first.finish();
    holder.finish();
    assert_eq!(seen, std::array::from_fn(|i| i as u64), "{provider}");
    drop(holder);
    target.end_and_release();
}

/// Initiators with endless requests hold all lanes; another initiator still gets its turn.
fn shares(provider: &str) {
    let wanted = DeviceWay::Progress.parameters();
    let t = open(provider, ThreadLevel::Single, &wanted);
    let target = Target::start_on_device(&t, provider, DeviceWay::Progress);
    let others: Vec<Transport> = (0..LANES)
        .map(|_| open(provider, ThreadLevel::Single, &wanted))
        .collect();
    let mut busy: Vec<Initiator<'_>> = others
        .iter()
        .map(|t| Initiator::new(target.reached_by(t)))
        .collect();
    let work = |busy: &mut [Initiator<'_>]| {
        for initiator in busy {
            while initiator.posted - initiator.over() < UNDER_WAY {
                initiator.add(BUSY, None);
            }
            initiator.there.t.progress();
        }
    };
    let deadline = Patience::times(3);
    while busy.iter().any(|initiator| initiator.over() == 0) {
        work(&mut busy);
        assert!(deadline.lasts(), "{provider}: no lane for each");
    }
    let mut late = Initiator::new(target.there());
    late.add(ORDERED, None);
    while late.over() == 0 {
        work(&mut busy);
        t.progress();
        assert!(deadline.lasts(), "{provider}: never its turn");
    }
    for initiator in &busy {
        initiator.reach(initiator.posted);
    }
    drop(busy);
    target.end_and_release();
}

/// A value that one thread at a time uses.
struct Alone<T>(T);

// SAFETY: one thread at a time uses a transport and its endpoints.
unsafe impl<T> Sync for Alone<T> {}

/// An origin waits for a lane while others hold all lanes: the owner answers the origin, so the owner does
/// not count as silent.
fn waits(provider: &str) {
    const LIMIT: u64 = 50;
    let way = DeviceWay::Progress.parameters();
    let limits = [
        ("btl_ofi_peer_timeout", Value::Unsigned(LIMIT)),
        ("btl_ofi_peer_check_interval", Value::Unsigned(5)),
    ];
    let t = open(
        provider,
        ThreadLevel::Single,
        &[way.as_slice(), &limits].concat(),
    );
    let target = Target::start_on_device(&t, provider, DeviceWay::Progress);
    let others: Vec<Transport> = (0..LANES)
        .map(|_| open(provider, ThreadLevel::Single, &way))
        .collect();
    let mut holders: Vec<Initiator<'_>> = others
        .iter()
        .map(|t| Initiator::new(target.reached_by(t)))
        .collect();
    for holder in &mut holders {
        holder.hold();
        assert!(holder.over() < holder.posted, "{provider}: holds no lane");
    }
    let mut late = Initiator::new(target.there());
    late.add(ORDERED, None);
    let holders = Alone(holders);
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(Duration::from_millis(10 * LIMIT));
            let Alone(holders) = &holders;
            for holder in holders {
                holder.finish();
            }
        });
        // A flush checks its peers.
        assert_eq!(t.flush(None), Status::SUCCESS, "{provider}");
    });
    late.reach(1);
    drop(holders);
    target.end_and_release();
}

#[test]
fn a_wait_for_a_lane_is_no_silence() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        waits(provider);
    }
}

#[test]
fn turns_keep_the_order() {
    for provider in ["shm", "tcp;ofi_rxm", "sockets"] {
        turns(provider, 8);
        turns(provider, 0);
    }
}

#[test]
fn lanes_have_numbers_of_their_own() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        moves(provider);
    }
}

#[test]
fn more_initiators_than_lanes() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        shares(provider);
    }
}

/// The operands are in local device memory, the result is on the host, and the bytes exceed a request. The result
/// stays intact although the operands go through a bounce buffer.
#[test]
fn operands_of_a_device_spare_a_result_on_the_host() {
    const WORDS: usize = 512;
    let way = DeviceWay::Progress;
    let t = open("tcp;ofi_rxm", ThreadLevel::Single, &way.parameters());
    t.set_overrides(Some(&device::copies()));
    let target = Target::start_on_device(&t, "tcp;ofi_rxm", way);
    let mut operands = [7u64; WORDS];
    let at = device::address(operands.as_mut_ptr().cast());
    let region = device::register(&t, &mut operands, Access::all());
    let (mut local, none) = (region.handle(), ptr::null_mut());
    let (h, u, sum) = (target.handle, Datatype::Uint64, AtomicOp::Sum);
    for round in 0..3u64 {
        let mut old = [1u64; WORDS];
        let (result, from) = (old.as_mut_ptr().cast(), at.cast_const());
        let handle = (&raw mut local).cast();
        insist(&t, || {
            t.atomic_fopv_with(
                target.peer,
                from,
                result,
                target.window,
                handle,
                none,
                &h,
                u,
                sum,
                WORDS,
                None,
            )
        });
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!(old, [7 * round; WORDS]);
    }
    region.close().unwrap();
    target.end();
    t.close().unwrap();
}
