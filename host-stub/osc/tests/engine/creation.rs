//! What a window's creation takes: registrations and control blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use osc_engine::door::{Context, Group, Members};
use osc_engine::transport::EndpointRef;
use osc_engine::win::{Assertion, LockKind, Window};

use crate::members;
use crate::world::{Rank, World, on_world};

const NONE: Assertion = Assertion::empty();

/// A window of the caller's memory.
fn create(rank: &Arc<Rank>, memory: &mut [u64]) -> Window {
    let (base, bytes) = (memory.as_mut_ptr().cast(), size_of_val(memory));
    // SAFETY: the memory lives until the window was freed, and only the window uses it meanwhile.
    unsafe { Window::create(members(rank), base, bytes, 8) }.unwrap()
}

/// A group of one rank, whose exchanges fail.
struct Failing(Arc<Rank>);

impl Group for Failing {
    fn context(&self) -> &Arc<Context> {
        self.0.context()
    }

    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn process(&self, rank: usize) -> u64 {
        self.0.process(rank)
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        self.0.endpoint(rank)
    }

    fn node(&self, rank: usize) -> u32 {
        self.0.node(rank)
    }

    fn allgather(&self, _mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        Err("another rank is lost".to_owned())
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
            // With the block of another window this would wait for ever.
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
        let last = create(rank, fourth);
        assert_eq!(word(&last), next_word);
        last.free().unwrap();

        // After a failed exchange other ranks may have the window, with the block of the last one.
        let failing = Members::new(Arc::new(Failing(Arc::clone(rank))));
        let (base, bytes) = (fifth.as_mut_ptr().cast(), size_of_val(fifth));
        // SAFETY: the memory outlives the window, which is not made.
        unsafe { Window::create(failing, base, bytes, 8) }.unwrap_err();
        let after = create(rank, sixth);
        assert_ne!(word(&after), next_word);
        after.free().unwrap();
    });
}
