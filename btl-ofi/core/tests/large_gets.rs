//! Other work during a large get: completions of other operations are taken, and peers are served.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::sync::{MutexGuard, PoisonError};

use common::prelude::*;

const WORDS: usize = 1 << 20;
/// The number of times that a get of [`WORDS`] words should serve others: every MiB.
const LOOKS: u32 = ((8 * WORDS) >> 20) as u32 - 1;

/// Gets the first `count` words.
fn get(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, to: *mut u64, count: usize) -> Status {
    t.get(peer, to.cast(), h.base(), h, 8 * count, None)
}

/// Fetch-adds to a peer of this thread; the completion of each posts the next.
struct Chain<'a> {
    t: &'a Transport,
    /// The target, which makes progress when the test asks for it.
    other: &'a Transport,
    peer: NonNull<Endpoint>,
    h: Handle,
    /// Fetch-adds by the same target to this process's own window.
    back: (NonNull<Endpoint>, Handle),
    old: Cell<[u64; 2]>,
    runs: Cell<u32>,
    ends: Cell<bool>,
}

impl Chain<'_> {
    /// Posts one fetch-add in each direction, and makes the target execute its fetch-add.
    fn post(&self) {
        let add = |t: &Transport, peer, h: &Handle, at: usize, completion| {
            let op = BtlAtomicOp::Add;
            let out = self.old.as_ptr().cast::<u64>().wrapping_add(at).cast();
            let status = t.atomic_fop(peer, out, h.base(), h, op, 1, completion);
            assert_eq!(status, Status::SUCCESS);
        };
        add(self.t, self.peer, &self.h, 0, self.completion());
        add(self.other, self.back.0, &self.back.1, 1, None);
        self.other.progress();
    }
}

impl Ended for Chain<'_> {
    fn ended(&self, status: Status) {
        assert_eq!(status, Status::SUCCESS);
        self.runs.set(self.runs.get() + 1);
        if !self.ends.get() {
            self.post();
        }
    }
}

/// A target is fast only while it has a core, and two tests at the same time would compete for cores.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// During one get, callbacks of other operations run repeatedly, and a peer's operations are executed. If the target
/// pauses, the kernel makes much of a get, so the test repeats gets until the target makes one.
#[test]
fn a_large_get_lets_others_in() {
    let _alone = alone();
    let open = || open(near(), ThreadLevel::Single, &[]);
    let (a, b, c) = (open(), open(), open());
    let mut window: Vec<u64> = (0..WORDS as u64).collect();
    let (mut of_a, mut of_c) = ([0u64; 1], [0u64; 1]);
    let region = register(&b, &mut window, Access::all());
    let (at_a, at_c) = (
        register(&a, &mut of_a, Access::all()),
        register(&c, &mut of_c, Access::all()),
    );
    let h = region.handle();
    let chain = Chain {
        t: &a,
        other: &c,
        peer: a.connect(c.address(), 1).unwrap(),
        h: at_c.handle(),
        back: (c.connect(a.address(), 0).unwrap(), at_a.handle()),
        old: Cell::new([0; 2]),
        runs: Cell::new(0),
        ends: Cell::new(false),
    };
    let own = of_a.as_ptr();
    let executed = || {
        // SAFETY: the word belongs to the test, and only calls of this thread change the word.
        unsafe { own.read_volatile() }
    };
    chain.post();
    let mut got = vec![0u64; WORDS];
    let deadline = Patience::times(3);
    let mut most = (0, 0);
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            // The loop has no pause, because a pause would leave the get to the kernel.
            while !over.load(Ordering::Relaxed) {
                b.progress();
            }
        });
        while (most.0 < LOOKS || most.1 < u64::from(LOOKS)) && deadline.lasts() {
            let peer = a.connect(b.address(), 0).unwrap();
            let to = got.as_mut_ptr();
            // The first get finds the ring; the next get uses the ring, whatever the transport knew
            // before.
            insist(&a, || get(&a, peer, &h, to, 1));
            assert_eq!(a.flush(None), Status::SUCCESS);
            let before = (chain.runs.get(), executed());
            insist(&a, || get(&a, peer, &h, to, WORDS));
            let after = (chain.runs.get(), executed());
            most.0 = most.0.max(after.0 - before.0);
            most.1 = most.1.max(after.1 - before.1);

            // SAFETY: connected once.
            assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(
        most.0 >= LOOKS && most.1 >= u64::from(LOOKS),
        "{most:?} of {LOOKS} looks"
    );
    assert!(got.iter().enumerate().all(|(i, w)| *w == i as u64));
    chain.ends.set(true);
    assert_eq!(a.flush(None), Status::SUCCESS);
    region.close().unwrap();
    at_a.close().unwrap();
    at_c.close().unwrap();
    for t in [a, b, c] {
        t.close().unwrap();
    }
}
