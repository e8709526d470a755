//! Fences, and post, start, complete and wait: the events for which each call waits.

use std::sync::atomic::Ordering;

use osc_engine::door::Group;
use osc_engine::win::{Assertion, Window};

use super::world::{Carried, World, on_ranks, on_world};
use super::{NONE, allocate, one, own};

/// Puts a value at the first word of a rank.
///
/// # Safety
/// The value stays until the end of the epoch.
unsafe fn put_first(window: &Window, value: &u64, rank: usize) {
    let layout = one();
    let target = layout.at(rank, 0);
    // SAFETY: the caller guarantees the same conditions.
    unsafe { window.put(std::ptr::from_ref(value).cast(), &layout, target) }.unwrap();
}

#[test]
fn post_start_complete_and_wait_meet_in_pairs() {
    on_ranks(4, |rank| {
        let window = allocate(rank, 1);
        let (mine, size) = (rank.rank(), rank.size());
        let (before, after) = ((mine + size - 1) % size, (mine + 1) % size);
        for round in 0..8u64 {
            window.post(&[before], NONE).unwrap();
            window.start(&[after], NONE).unwrap();
            let mut value = round * 100 + mine as u64;
            // SAFETY: the value stays until the completion.
            unsafe { put_first(&window, &value, after) };
            window.complete().unwrap();
            // The buffer is the program's again.
            value = u64::MAX;
            std::hint::black_box(value);
            if round % 2 == 0 {
                window.wait().unwrap();
            } else {
                while !window.test().unwrap() {}
            }
            assert_eq!(own(&window, 0), round * 100 + before as u64);
        }
        window.free().unwrap();
    });
}

/// Where messages carry operations, complete waits for no target: bytes are copied, and the notice follows them.
#[test]
fn complete_does_not_wait_for_targets() {
    let world = World::carrying(2, false, Carried::InOrder);
    on_world(&world, 1, &|rank| {
        let window = allocate(rank, 1);
        if rank.rank() == 0 {
            window.start(&[1], NONE).unwrap();
            world.is_silent.store(true, Ordering::Release);
            // SAFETY: the value is static.
            unsafe { put_first(&window, &7, 1) };
            window.complete().unwrap();
            world.is_silent.store(false, Ordering::Release);
        } else {
            window.post(&[0], NONE).unwrap();
            window.wait().unwrap();
            assert_eq!(own(&window, 0), 7);
        }
        window.free().unwrap();
    });
}

/// The call complete waits for the values that it fetches.
#[test]
fn complete_waits_for_fetched_bytes() {
    on_ranks(2, |rank| {
        let window = allocate(rank, 1);
        let (other, layout) = (1 - rank.rank(), one());
        // SAFETY: the window has the word, and other ranks read it in the epoch that follows.
        unsafe { window.base().cast::<u64>().write(5 + rank.rank() as u64) };
        window.post(&[other], NONE).unwrap();
        window.start(&[other], NONE).unwrap();
        let mut to = 0u64;
        let target = layout.at(other, 0);
        // SAFETY: the place stays until the completion.
        unsafe { window.get(std::ptr::from_mut(&mut to).cast(), &layout, target) }.unwrap();
        window.complete().unwrap();
        assert_eq!(to, 5 + other as u64);
        window.wait().unwrap();
        window.free().unwrap();
    });
}

/// After a fence every rank sees the operations of all ranks, at third ranks too, whatever the targets do.
#[test]
fn a_fence_completes_all_operations_for_all_ranks() {
    on_ranks(5, |rank| {
        let window = allocate(rank, 1);
        let base = window.base() as u64;
        let bases = rank.allgather(&base.to_ne_bytes()).unwrap();
        let next = (rank.rank() + 1) % rank.size();
        for round in 1..=64u64 {
            window.fence(NONE).unwrap();
            // SAFETY: the value stays until the fence.
            unsafe { put_first(&window, &round, next) };
            window.fence(NONE).unwrap();
            for there in &bases {
                let there = u64::from_ne_bytes(there.as_slice().try_into().unwrap()) as *const u64;
                // SAFETY: the ranks are threads of one process, and nobody writes there until the next fence.
                assert_eq!(unsafe { there.read_volatile() }, round);
            }
        }
        window.fence(Assertion::NOSUCCEED).unwrap();
        window.free().unwrap();
    });
}
