//! The cost of a window's creation: registrations, control blocks, and bytes of each rank.

use std::alloc::{GlobalAlloc, Layout as AllocLayout, System};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use osc_engine::door::{Context, Group, Members, NotMet};
use osc_engine::transport::EndpointRef;
use osc_engine::win::{Assertion, LockKind, WinResult, Window};

use crate::members;
use crate::world::{Rank, World, on_world};

const NONE: Assertion = Assertion::empty();

/// A window of the caller's memory.
fn create(rank: &Arc<Rank>, memory: &mut [u64]) -> Window {
    let (base, bytes) = (memory.as_mut_ptr().cast(), size_of_val(memory));
    // SAFETY: the memory lives until the window was freed, and only the window uses it meanwhile.
    unsafe { Window::create(members(rank), base, bytes, 8) }.unwrap()
}

/// Counts the bytes that each thread has allocated and not given back.
struct Counting;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: the calls go to the system's allocator with unchanged arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: AllocLayout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
        // SAFETY: the caller guarantees the same conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: AllocLayout) {
        BYTES.set(BYTES.get() - layout.size() as isize);
        // SAFETY: the caller guarantees the same conditions.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a call allocates and keeps, and its result.
fn kept<T>(call: impl FnOnce() -> T) -> (isize, T) {
    let before = BYTES.get();
    let result = call();
    (BYTES.get() - before, result)
}

/// The result of the first exchange between a rank and others.
pub(crate) enum Answer {
    /// The cards of all ranks.
    All(Vec<Vec<u8>>),
    /// All ranks end the creation, because of this one.
    Refused(usize, &'static str),
    /// The exchange fails.
    Failed,
}

/// One rank, and the answer to its card.
pub(crate) struct Scripted {
    rank: Arc<Rank>,
    size: usize,
    answer: Answer,
    /// The card that this rank gave.
    gave: Mutex<Vec<u8>>,
}

impl Scripted {
    pub(crate) fn new(rank: &Arc<Rank>, size: usize, answer: Answer) -> Arc<Scripted> {
        Arc::new(Scripted {
            rank: Arc::clone(rank),
            size,
            answer,
            gave: Mutex::default(),
        })
    }

    pub(crate) fn members(self: &Arc<Self>) -> Members {
        Members::new(Arc::clone(self) as Arc<dyn Group>)
    }

    /// The card that this rank gave.
    pub(crate) fn gave(&self) -> Vec<u8> {
        self.gave.lock().unwrap().clone()
    }

    /// A window of memory that outlives the window.
    pub(crate) fn create(self: &Arc<Self>, memory: &mut [u64]) -> WinResult<Window> {
        let (base, bytes) = (memory.as_mut_ptr().cast(), size_of_val(memory));
        // SAFETY: as in `create`.
        unsafe { Window::create(self.members(), base, bytes, 8) }
    }
}

impl Group for Scripted {
    fn context(&self) -> &Arc<Context> {
        self.rank.context()
    }

    fn rank(&self) -> usize {
        self.rank.rank()
    }

    fn size(&self) -> usize {
        self.size
    }

    fn process(&self, rank: usize) -> u64 {
        self.rank.process(rank)
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        self.rank.endpoint(rank)
    }

    fn is_beside(&self, rank: usize) -> bool {
        self.rank.is_beside(rank)
    }

    fn meet(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, NotMet> {
        *self.gave.lock().unwrap() = mine.to_vec();
        match &self.answer {
            Answer::All(all) => Ok(all.clone()),
            Answer::Refused(rank, reason) => Err(NotMet::Refused {
                rank: *rank,
                reason: (*reason).to_owned(),
            }),
            Answer::Failed => Err(NotMet::Failed("another rank is lost".to_owned())),
        }
    }

    fn allgather(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        Err("nobody expects a second exchange".to_owned())
    }
}

/// Uses every kind of word of the control blocks.
fn use_all(window: &Window, rank: usize, size: usize) {
    let next = (rank + 1) % size;
    window.fence(NONE).unwrap();
    window.fence(Assertion::NOSUCCEED).unwrap();
    let all: Vec<usize> = (0..size).collect();
    window.post(&all, NONE).unwrap();
    window.start(&all, NONE).unwrap();
    window.complete().unwrap();
    window.wait().unwrap();
    window.lock(LockKind::Exclusive, next, NONE).unwrap();
    window.unlock(next).unwrap();
    window.lock_all(NONE).unwrap();
    window.unlock_all().unwrap();
}

#[test]
fn control_blocks_of_freed_windows_serve_again_without_registration() {
    const SIZE: usize = 3;
    for seed in 1..=4 {
        let world = World::new(SIZE, false);
        on_world(&world, seed, &|rank: &Arc<Rank>| {
            let mut memory = [0u64; 4];
            for round in 0..20 {
                let window = create(rank, &mut memory);
                use_all(&window, rank.rank(), SIZE);
                window.free().unwrap();
                assert_eq!(memory, [0; 4], "round {round}");
            }
        });
        // Each rank's memory in each round, and the memory of its blocks once.
        let registered = world.keys.load(Ordering::Relaxed) - 1;
        assert_eq!(registered, 20 * SIZE as u64 + SIZE as u64);
    }
}

#[test]
fn windows_at_once_have_blocks_of_their_own() {
    let world = World::new(2, false);
    on_world(&world, 1, &|rank: &Arc<Rank>| {
        let mut memory = [[0u64; 1]; 20];
        let windows: Vec<Window> = memory.iter_mut().map(|one| create(rank, one)).collect();
        for window in &windows {
            // With the block of another window this wait would never end.
            let own = rank.rank();
            window.lock(LockKind::Exclusive, own, NONE).unwrap();
        }
        for window in &windows {
            window.unlock(rank.rank()).unwrap();
            use_all(window, rank.rank(), 2);
        }
        for window in windows {
            window.free().unwrap();
        }
    });
    // Eight blocks of such windows fit one registration.
    let registered = world.keys.load(Ordering::Relaxed) - 1;
    assert_eq!(registered, 2 * 20 + 2 * 3);
}

#[test]
fn a_block_that_peers_may_still_change_serves_no_other_window() {
    let world = World::new(1, false);
    on_world(&world, 1, &|rank: &Arc<Rank>| {
        let mut memory = [[0u64; 1]; 6];
        let [first, second, third, fourth, fifth, sixth] = &mut memory;
        let word = |window: &Window| {
            window.lock(LockKind::Shared, 0, NONE).unwrap();
            window.unlock(0).unwrap();
            world.changed_word.load(Ordering::Relaxed)
        };
        let freed = create(rank, first);
        let freed_word = word(&freed);
        freed.free().unwrap();
        let dropped = create(rank, second);
        assert_eq!(word(&dropped), freed_word, "a freed block serves again");
        drop(dropped);
        let next = create(rank, third);
        let next_word = word(&next);
        assert_ne!(next_word, freed_word, "peers may still have the lock");
        next.free().unwrap();
        // If all ranks refuse together, no rank has a window.
        let refused = Scripted::new(rank, 1, Answer::Refused(0, "no reason"));
        refused.create(fourth).unwrap_err();
        let last = create(rank, fourth);
        assert_eq!(word(&last), next_word);
        last.free().unwrap();

        // After a failed exchange other ranks may have the window, with the block of the last one.
        let failing = Scripted::new(rank, 1, Answer::Failed);
        failing.create(fifth).unwrap_err();
        let after = create(rank, sixth);
        assert_ne!(word(&after), next_word);
        after.free().unwrap();
    });
}

/// Bytes that a window among `size` ranks takes, and then a lock of each of them.
fn bytes_among(size: usize) -> (isize, isize) {
    let world = World::new(size, false);
    // The cards that other ranks would give, from processes of their own: their addresses and keys
    // differ.
    let mut memory = vec![[0u64; 4]; size];
    let mut ranks = Vec::new();
    let mut all = Vec::new();
    for (number, memory) in memory.iter_mut().enumerate() {
        let rank = Rank::new(&world, number, 1);
        let other = Scripted::new(&rank, size, Answer::Failed);
        other.create(memory).unwrap_err();
        all.push(other.gave());
        ranks.push(rank);
    }
    let group = Scripted::new(&ranks[0], size, Answer::All(all));
    let (made, window) = kept(|| group.create(&mut memory[0]).unwrap());
    let (used, ()) = kept(|| {
        for rank in 0..size {
            window
                .lock(LockKind::Shared, rank, Assertion::NOCHECK)
                .unwrap();
            window.unlock(rank).unwrap();
        }
    });
    // The other ranks never come to free the window.
    drop(window);
    (made, used)
}

#[test]
fn a_rank_takes_few_bytes_of_a_window_and_more_once_it_is_used() {
    let (few, few_used) = bytes_among(2);
    for size in [64, 256, 1000] {
        let (many, many_used) = bytes_among(size);
        let each = |many: isize, few: isize| (many - few) as f64 / (size - 2) as f64;
        let (made, used) = (each(many, few), each(many_used, few_used));
        println!("{size} ranks: a window takes {made:.1} B of each, {used:.1} B once it is used");
        // A pointer, four numbers (addresses and keys), a word of the control block, a byte. A handle has one number here.
        assert!(made <= 56.0, "{size} ranks: {made:.1} B each");
        assert!(used <= 264.0, "{size} ranks: {used:.1} B each");
    }
}
