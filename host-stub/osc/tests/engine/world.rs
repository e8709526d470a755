//! Ranks that are threads of one process, and a transport between them that a seed drives.
//!
//! An operation is executed when its origin makes progress, in an order that the seed chooses. Only completion orders
//! operations, and the engine may rely on nothing else. If the world [carries](Carried) commands, atomics and commands of one
//! origin to one target are in order. Each region has its own key. An operation on a region that is no longer registered fails.

mod operations;
mod sim;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use osc_engine::door::{Context, Group, Pace, Until, Waiter};
use osc_engine::transport::{EndpointRef, Failures, Transport};
use osc_engine::win::WinResult;
use plugin_api::ThreadLevel;

use self::sim::{sim, transport};

/// The fate of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// The transport has no commands, and no order.
    Nothing,
    /// They are executed, in order with atomics.
    InOrder,
    /// They are refused for elements of atomics, as by a network card, and for puts and gets; so are puts and gets with keys that may
    /// have ended.
    Refused,
    /// Like [`InOrder`](Self::InOrder), but puts and gets with a run of more than [`LONGEST`] bytes are refused.
    Short,
    /// As [`InOrder`](Self::InOrder); puts and gets are complete when their call returns.
    AtOnce,
}

/// Bytes of a run of a put or get that a world of [`Carried::Short`] carries, and of one with a key that may have ended.
pub(super) const LONGEST: u64 = 1024;

/// Numbers that every run repeats. The seed is not 0.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.word() >> 8) as usize % end
    }
}

/// The state that all ranks share.
pub(super) struct World {
    size: usize,
    /// Whether ranks may share memory.
    beside: bool,
    carried: Carried,
    /// The next key: registrations so far, and one.
    pub(super) keys: AtomicU64,
    /// Address of the word that was changed last.
    pub(super) changed_word: AtomicU64,
    /// Address and bytes of each region, by its key.
    regions: Mutex<HashMap<u64, (u64, usize)>>,
    /// The number of the exchange, and what the ranks gave.
    exchange: Mutex<Exchange>,
    /// Exchanges so far.
    pub(super) exchanges: AtomicUsize,
    changed: Condvar,
    /// Operations that were begun.
    pub(super) begun: AtomicUsize,
    /// Puts and gets that were refused: of several runs, with keys that may have ended, and without room.
    pub(super) refused: AtomicUsize,
    /// Whether there is no room for puts and gets.
    pub(super) is_full: AtomicBool,
    /// Whether no operation is executed.
    pub(super) is_silent: AtomicBool,
    lost: Mutex<Vec<usize>>,
    /// Held while elements that are not aligned are changed.
    changing: Mutex<()>,
}

#[derive(Default)]
struct Exchange {
    given: Vec<Option<Vec<u8>>>,
    taken: usize,
    /// Whether a rank failed: the others would wait for it.
    failed: bool,
    all: Option<Arc<Vec<Vec<u8>>>>,
}

impl World {
    pub(super) fn new(size: usize, beside: bool) -> Arc<World> {
        Self::carrying(size, beside, Carried::Nothing)
    }

    pub(super) fn carrying(size: usize, beside: bool, carried: Carried) -> Arc<World> {
        Arc::new(World {
            size,
            beside,
            carried,
            keys: AtomicU64::new(1),
            changed_word: AtomicU64::new(0),
            regions: Mutex::default(),
            exchange: Mutex::new(Exchange {
                given: vec![None; size],
                ..Exchange::default()
            }),
            exchanges: AtomicUsize::new(0),
            changed: Condvar::new(),
            begun: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            lost: Mutex::default(),
            changing: Mutex::default(),
        })
    }

    fn allgather(&self, rank: usize, mine: &[u8]) -> Vec<Vec<u8>> {
        let mut exchange = self.exchange.lock().unwrap();
        // The previous exchange may not have ended for all ranks.
        while exchange.all.is_some() {
            exchange = self.changed.wait(exchange).unwrap();
            assert!(!exchange.failed, "another rank failed");
        }
        exchange.given[rank] = Some(mine.to_vec());
        if exchange.given.iter().all(Option::is_some) {
            let all = exchange.given.iter_mut().map(|given| given.take().unwrap());
            exchange.all = Some(Arc::new(all.collect()));
            self.exchanges.fetch_add(1, Ordering::Relaxed);
            self.changed.notify_all();
        }
        let all = loop {
            match &exchange.all {
                Some(all) => break Arc::clone(all),
                None => exchange = self.changed.wait(exchange).unwrap(),
            }
            assert!(!exchange.failed, "another rank failed");
        };
        exchange.taken += 1;
        if exchange.taken == self.size {
            (exchange.taken, exchange.all) = (0, None);
            self.changed.notify_all();
        }
        (*all).clone()
    }

    /// Whether a range is registered under a key.
    fn holds(&self, key: u64, address: u64, size: usize) -> bool {
        let regions = self.regions.lock().unwrap();
        regions.get(&key).is_some_and(|(base, len)| {
            let offset = address.checked_sub(*base);
            offset.is_some_and(|offset| offset + size as u64 <= *len as u64)
        })
    }

    /// Marks a rank as gone: operations to it fail from now on.
    pub(super) fn lose(&self, rank: usize) {
        self.lost.lock().unwrap().push(rank);
    }
}

/// Waits by making progress.
struct Loop(Transport);

impl Waiter for Loop {
    fn progress(&self) -> i32 {
        self.0.progress()
    }

    fn visit(&self) {
        self.0.progress();
        std::thread::yield_now();
    }

    fn wait(&self, what: &dyn Until) -> WinResult<()> {
        while !what.is_done() {
            what.look()?;
            self.visit();
        }
        Ok(())
    }

    fn step(&self, _pace: &mut Pace, what: &dyn Until) -> WinResult<()> {
        self.visit();
        what.look()
    }
}

/// One rank: a thread.
pub(super) struct Rank {
    context: Arc<Context>,
    world: Arc<World>,
    rank: usize,
    endpoints: Vec<EndpointRef>,
}

impl Rank {
    pub(super) fn new(world: &Arc<World>, rank: usize, seed: u64) -> Arc<Rank> {
        let transport = transport(
            world,
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rank as u64,
        );
        let procs: Vec<u64> = (0..world.size as u64).collect();
        let endpoints = transport.connect(&procs).unwrap();
        let failures = Failures::of(&transport).unwrap();
        let waiter = Box::new(Loop(transport.clone()));
        Arc::new(Rank {
            context: Arc::new(Context::new(
                transport,
                failures,
                ThreadLevel::Multiple,
                waiter,
            )),
            world: Arc::clone(world),
            rank,
            endpoints: endpoints.into_iter().map(Option::unwrap).collect(),
        })
    }

    /// Makes progress once.
    pub(super) fn progress(&self) {
        self.context.transport().progress();
    }
}

impl Group for Rank {
    fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.size
    }

    fn process(&self, rank: usize) -> u64 {
        rank as u64
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        Ok(self.endpoints[rank])
    }

    fn is_beside(&self, rank: usize) -> bool {
        self.world.beside || rank == self.rank
    }

    /// Finishes the operations under way before it blocks: a rank that is met here makes no progress, and others may wait
    /// for it.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        // SAFETY: the module is one of `transport`.
        let sim = unsafe { sim(self.context.transport().module()) };
        while !sim.state.lock().unwrap().under_way.is_empty() {
            self.progress();
        }
        Ok(self.world.allgather(self.rank, mine))
    }
}

/// Runs a function on each of `size` ranks, with and without shared memory, and with several seeds.
pub(super) fn on_ranks(size: usize, run: impl Fn(&Arc<Rank>) + Sync) {
    for beside in [false, true] {
        for seed in 1..=16 {
            on_world(&World::new(size, beside), seed, &run);
            on_world(&World::carrying(size, beside, Carried::InOrder), seed, &run);
        }
    }
}

/// Tells the other ranks that the function of one rank panics.
struct Failing<'a>(&'a World, usize);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lose(self.1);
            if let Ok(mut exchange) = self.0.exchange.lock() {
                exchange.failed = true;
            }
            self.0.changed.notify_all();
        }
    }
}

/// Runs a function on each rank of a world.
pub(super) fn on_world(world: &Arc<World>, seed: u64, run: &(impl Fn(&Arc<Rank>) + Sync)) {
    std::thread::scope(|scope| {
        for rank in 0..world.size {
            scope.spawn(move || {
                let _failing = Failing(world, rank);
                run(&Rank::new(world, rank, seed));
            });
        }
    });
}
