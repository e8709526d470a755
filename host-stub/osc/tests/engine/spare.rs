//! Segments of freed windows, which serve later windows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use osc_engine::door::Group;
use osc_engine::win::{Assertion, COUNTERS, LockKind, Target, Window};

use super::world::{Rank, World, on_world};
use super::{NONE, allocate, get, one, own, put};

const WORDS: usize = 700;

/// Begins a put of a value; the epoch's end completes it.
///
/// # Safety
/// The value lives until then.
unsafe fn begin_put(window: &Window, value: &u64, rank: usize) {
    let layout = one();
    let target = Target {
        rank,
        displacement: 0,
        layout: &layout,
    };
    // SAFETY: the caller guarantees the same condition.
    unsafe { window.put(std::ptr::from_ref(value).cast(), &layout, target) }.unwrap();
}

/// Meets the other rank.
fn meet(window: &Window) {
    window.fence(Assertion::NOSUCCEED).unwrap();
}

/// Finds all memory and synchronisation as in a new window, and uses all of it.
fn use_all(window: &Window, mine: usize, value: u64) {
    let other = 1 - mine;
    for counter in 0..COUNTERS {
        assert_eq!(window.notifications(counter).unwrap(), 0);
    }
    window.lock_all(NONE).unwrap();
    for at in 0..WORDS {
        assert_eq!(get(window, other, at as u64), 0);
    }
    window.unlock_all().unwrap();
    meet(window);
    window.lock(LockKind::Exclusive, other, NONE).unwrap();
    for at in 0..WORDS {
        put(window, value + mine as u64, other, at as u64);
    }
    window.unlock(other).unwrap();
    meet(window);
    assert_eq!(own(window, WORDS - 1), value + other as u64);

    window.post(&[other], NONE).unwrap();
    window.start(&[other], NONE).unwrap();
    // SAFETY: the value lives until the completion.
    unsafe { begin_put(window, &value, other) };
    window.complete().unwrap();
    window.wait().unwrap();
    assert_eq!(own(window, 0), value);

    window.lock_all(NONE).unwrap();
    let layout = one();
    for counter in 0..COUNTERS {
        let target = Target {
            rank: other,
            displacement: 2,
            layout: &layout,
        };
        let from = std::ptr::from_ref(&value).cast();
        // SAFETY: the value lives until the unlock.
        unsafe { window.put_notify(from, &layout, target, counter) }.unwrap();
        window.wait_notified(counter, 1).unwrap();
    }
    window.unlock_all().unwrap();
}

/// A window of the same layout as the one before takes one exchange, and looks like a new window. Another layout takes a new
/// segment.
#[test]
fn a_freed_segment_serves_the_next_window_of_its_layout() {
    let world = World::new(2, true);
    on_world(&world, 1, &|rank: &Arc<Rank>| {
        let mut exchanges = 0;
        // A window's words, and its exchanges.
        for (words, expected) in [
            (WORDS, 3),
            (WORDS, 1),
            (WORDS, 1),
            (8, 3),
            (WORDS, 3),
            (WORDS, 1),
        ] {
            let window = allocate(rank, words);
            exchanges += expected;
            // The other rank cannot end another exchange before this one enters it.
            assert_eq!(world.exchanges.load(Ordering::Relaxed), exchanges);
            if words == WORDS {
                use_all(&window, rank.rank(), 1 << exchanges);
            }
            window.free().unwrap();
        }
    });
}

/// A window holds its segment alone: of two windows of one layout, only one takes the kept segment.
#[test]
fn two_windows_have_two_segments() {
    let world = World::new(2, true);
    on_world(&world, 1, &|rank: &Arc<Rank>| {
        allocate(rank, 8).free().unwrap();
        let (one, two) = (allocate(rank, 8), allocate(rank, 8));
        assert_ne!(one.base(), two.base());
        one.free().unwrap();
        two.free().unwrap();
        assert_eq!(world.exchanges.load(Ordering::Relaxed), 3 + 1 + 3);
    });
}

/// Large segments are freed with their windows.
#[test]
fn a_large_segment_is_not_kept() {
    let world = World::new(2, true);
    on_world(&world, 1, &|rank: &Arc<Rank>| {
        for _ in 0..2 {
            allocate(rank, 1 << 17).free().unwrap();
        }
        assert_eq!(world.exchanges.load(Ordering::Relaxed), 3 + 3);
    });
}

/// The barriers of a later window wait for all ranks, though their word has counted those of earlier windows.
#[test]
fn barriers_of_later_windows_wait_for_all_ranks() {
    let world = World::new(2, true);
    on_world(&world, 1, &|rank: &Arc<Rank>| {
        for turn in 1..200 {
            let window = allocate(rank, 8);
            window.fence(NONE).unwrap();
            if rank.rank() == 0 {
                // SAFETY: the value lives until the fence.
                unsafe { begin_put(&window, &turn, 1) };
            }
            window.fence(Assertion::NOSUCCEED).unwrap();
            assert_eq!(own(&window, 0), turn * rank.rank() as u64);
            window.free().unwrap();
        }
    });
}
