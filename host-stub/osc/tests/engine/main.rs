//! Windows without processes: the ranks are threads, and the transport between them executes operations in an order that a
//! seed chooses.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod active;
mod creation;
mod dynamic;
mod exchanges;
mod gather;
mod scatter;
mod spare;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use osc_engine::door::{Group, Members};
use osc_engine::win::{Assertion, Datatype, Layout, LockKind, Op, Window};

use world::{Rank, World, on_ranks, on_world};

fn members(rank: &Arc<Rank>) -> Members {
    Members::new(Arc::clone(rank) as Arc<dyn Group>)
}

fn allocate(rank: &Arc<Rank>, words: usize) -> Window {
    Window::allocate(members(rank), words * 8, 8).unwrap()
}

fn one() -> Layout {
    Layout::contiguous(Datatype::Uint64, 1)
}

fn put(window: &Window, value: u64, rank: usize, at: u64) {
    let (layout, from) = (one(), [value]);
    let target = layout.at(rank, at);
    // SAFETY: the value stays until the flush.
    unsafe { window.put(from.as_ptr().cast(), &layout, target) }.unwrap();
    window.flush(rank).unwrap();
}

fn get(window: &Window, rank: usize, at: u64) -> u64 {
    let (layout, mut to) = (one(), [0u64]);
    let target = layout.at(rank, at);
    // SAFETY: the place stays until the flush.
    unsafe { window.get(to.as_mut_ptr().cast(), &layout, target) }.unwrap();
    window.flush(rank).unwrap();
    to[0]
}

fn own(window: &Window, at: usize) -> u64 {
    let mut bytes = [0; 8];
    window.read_local(at * 8, &mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

const NONE: Assertion = Assertion::empty();

/// The release follows the put although the rank does not wait in between.
#[test]
fn a_shared_lock_is_released_behind_its_operations() {
    const ROUNDS: u64 = 8;
    let (locked, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    let wait = |window: &Window, turn: &AtomicU64, round| {
        while turn.load(Ordering::Acquire) != round {
            window.sync().unwrap();
            std::thread::yield_now();
        }
    };
    on_ranks(2, |rank| {
        let window = allocate(rank, 1);
        for round in 1..=ROUNDS {
            if rank.rank() == 0 {
                window.lock(LockKind::Shared, 1, NONE).unwrap();
                locked.store(round, Ordering::Release);
                let (layout, value) = (one(), [round]);
                let target = layout.at(1, 0);
                // SAFETY: the value stays until the unlock.
                unsafe { window.put(value.as_ptr().cast(), &layout, target) }.unwrap();
                window.unlock(1).unwrap();
                wait(&window, &seen, round);
            } else {
                wait(&window, &locked, round);
                window.lock(LockKind::Exclusive, 1, NONE).unwrap();
                assert_eq!(own(&window, 0), round);
                window.unlock(1).unwrap();
                seen.store(round, Ordering::Release);
            }
        }
        window.free().unwrap();
        // For the next world.
        locked.store(0, Ordering::Release);
        seen.store(0, Ordering::Release);
    });
}

#[test]
fn accumulates_of_all_ranks_add_up() {
    on_ranks(3, |rank| {
        let window = allocate(rank, 2);
        let (layout, operand) = (one(), [1u64]);
        window.lock_all(NONE).unwrap();
        let mut fetched = [0u64; 10];
        for place in &mut fetched {
            let target = layout.at(0, 0);
            // SAFETY: the buffers stay until the unlock.
            unsafe {
                let (from, to) = (operand.as_ptr().cast(), std::ptr::from_mut(place).cast());
                window.accumulate(from, &layout, target, Op::Sum).unwrap();
                window
                    .fetch_and_op(from, to, Datatype::Uint64, 0, 1, Op::Sum)
                    .unwrap();
            }
        }
        window.unlock_all().unwrap();
        // Each fetched number is fetched once, and the numbers grow.
        assert!(fetched.is_sorted_by(|a, b| a < b), "{fetched:?}");
        window.fence(NONE).unwrap();
        window.fence(Assertion::NOSUCCEED).unwrap();
        if rank.rank() == 0 {
            let all = 10 * rank.size() as u64;
            assert_eq!((own(&window, 0), own(&window, 1)), (all, all));
        }
        window.free().unwrap();
    });
}

#[test]
fn an_epoch_of_64_puts_is_64_operations_and_two_of_its_lock() {
    let world = World::new(2, false);
    on_world(&world, 1, &|rank| {
        let window = allocate(rank, 64);
        window.fence(NONE).unwrap();
        window.fence(Assertion::NOSUCCEED).unwrap();
        rank.allgather(&[]).unwrap();
        if rank.rank() == 0 {
            let before = world.begun.load(Ordering::Relaxed);
            let (layout, value) = (one(), [3u64]);
            window.lock(LockKind::Shared, 1, NONE).unwrap();
            for displacement in 0..64 {
                let target = layout.at(1, displacement);
                // SAFETY: the value stays until the unlock.
                unsafe { window.put(value.as_ptr().cast(), &layout, target) }.unwrap();
            }
            window.unlock(1).unwrap();
            assert_eq!(world.begun.load(Ordering::Relaxed) - before, 64 + 2);
        }
        rank.allgather(&[]).unwrap();
        window.free().unwrap();
    });
}

/// A thread whose put finds no room does not keep the flush of another thread waiting.
#[test]
fn a_flush_does_not_wait_for_a_put_without_room() {
    let world = World::new(2, false);
    on_world(&world, 1, &|rank| {
        let window = allocate(rank, 1);
        if rank.rank() == 0 {
            window.lock_all(NONE).unwrap();
            world.is_full.store(true, Ordering::Release);
            std::thread::scope(|scope| {
                scope.spawn(|| put(&window, 7, 1, 0));
                while world.refused.load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
                window.flush(1).unwrap();
                world.is_full.store(false, Ordering::Release);
            });
            assert_eq!(get(&window, 1, 0), 7);
            window.unlock_all().unwrap();
        }
        rank.allgather(&[]).unwrap();
        window.free().unwrap();
    });
}
