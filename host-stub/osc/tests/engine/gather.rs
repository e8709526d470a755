//! Accumulates that are gathered behind others: the number of their commands, their order, and their
//! failures.

use std::sync::atomic::Ordering;

use osc_engine::door::Group;
use osc_engine::win::{Assertion, Datatype, Layout, Op, Window};

use super::world::{Carried, Random, World, on_world};
use super::{NONE, allocate, get, members, one, own};

fn accumulate(window: &Window, value: &u64, rank: usize, at: u64, op: Op) {
    let layout = one();
    let target = layout.at(rank, at);
    // SAFETY: the caller keeps the value until a flush.
    unsafe { window.accumulate(std::ptr::from_ref(value).cast(), &layout, target, op) }.unwrap();
}

/// Runs `work` at rank 0 on the memory of rank 1, and checks the memory there.
pub(super) fn on_a_pair(
    carried: Carried,
    seed: u64,
    work: impl Fn(&Window, &World) + Sync,
    expected: &[u64],
) {
    let world = World::carrying(2, false, carried);
    on_world(&world, seed, &|rank| {
        let window = allocate(rank, 64);
        rank.allgather(&[]).unwrap();
        if rank.rank() == 0 {
            window.lock_all(NONE).unwrap();
            work(&window, &world);
            window.unlock_all().unwrap();
        }
        // The other rank begins no operation before this, because the works count the operations of
        // all ranks.
        rank.allgather(&[]).unwrap();
        window.fence(NONE).unwrap();
        window.fence(Assertion::NOSUCCEED).unwrap();
        if rank.rank() == 1 {
            let found: Vec<u64> = (0..expected.len()).map(|at| own(&window, at)).collect();
            assert_eq!(found, expected);
        }
        window.free().unwrap();
    });
}

#[test]
fn those_behind_others_are_one_command() {
    // One accumulate without predecessors, one that shows that commands are taken, and the commands of
    // 100 words.
    let work = |window: &Window, world: &World| {
        let before = world.begun.load(Ordering::Relaxed);
        let values: [u64; 102] = std::array::from_fn(|i| i as u64);
        for (i, value) in values.iter().enumerate() {
            accumulate(window, value, 1, (i * i % 3) as u64, Op::Sum);
        }
        assert_eq!(world.begun.load(Ordering::Relaxed) - before, 2);
        window.flush(1).unwrap();
        assert_eq!(world.begun.load(Ordering::Relaxed) - before, 3);
    };
    let mut expected = [0; 3];
    (0..102).for_each(|i| expected[i * i % 3] += i as u64);
    (1..=8).for_each(|seed| on_a_pair(Carried::InOrder, seed, work, &expected));
}

/// An origin may reuse its buffer after the call: gathered accumulates are copied.
#[test]
fn a_command_has_room_for_256_runs() {
    let work = |window: &Window, world: &World| {
        let before = world.begun.load(Ordering::Relaxed);
        let values: Vec<u64> = (0..2 + 3 * 256).map(|i| i as u64).collect();
        for (i, value) in values.iter().enumerate() {
            // Neither contiguous nor at equal distances.
            accumulate(window, value, 1, [0, 7, 1, 40, 2][i % 5], Op::Sum);
        }
        window.flush_all().unwrap();
        assert!(world.begun.load(Ordering::Relaxed) - before <= 2 + 2);
    };
    let mut expected = [0; 41];
    (0..2 + 3 * 256).for_each(|i| expected[[0, 7, 1, 40, 2][i % 5]] += i as u64);
    (1..=8).for_each(|seed| on_a_pair(Carried::InOrder, seed, work, &expected));
}

/// One origin's operations on one element take effect in the order of their calls, on any path.
#[test]
fn all_ways_stay_in_order() {
    for seed in 1..=32u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut next = |below: u64| random.word() % below;
        let steps: Vec<[u64; 3]> = (0..300).map(|_| [next(8), next(4), next(1000)]).collect();
        let mut words = [0u64; 8];
        let mut fetched = Vec::new();
        for [what, at, value] in &steps {
            let word = &mut words[*at as usize];
            match what {
                0..=3 => *word = word.wrapping_add(*value),
                4 => *word = *value,
                5 => fetched.push(std::mem::replace(word, word.wrapping_add(*value))),
                6 => {
                    fetched.push(*word);
                    if *word == *value {
                        *word = 1;
                    }
                }
                _ => (0..8).for_each(|i| words[i] = words[i].wrapping_add(*value)),
            }
        }
        let work = |window: &Window, _: &World| {
            let eight = Layout::contiguous(Datatype::Uint64, 8);
            let blocks: Vec<[u64; 8]> = steps.iter().map(|step| [step[2]; 8]).collect();
            let mut results = vec![u64::MAX; fetched.len()];
            let mut places = results.iter_mut();
            for ([what, at, value], block) in steps.iter().zip(&blocks) {
                let (from, one) = (std::ptr::from_ref(value).cast(), &1u64);
                let mut result = || std::ptr::from_mut(places.next().unwrap()).cast();
                // SAFETY: all buffers stay until the flush.
                unsafe {
                    match what {
                        0..=3 => accumulate(window, value, 1, *at, Op::Sum),
                        4 => accumulate(window, value, 1, *at, Op::Replace),
                        5 => window
                            .fetch_and_op(from, result(), Datatype::Uint64, 1, *at, Op::Sum)
                            .unwrap(),
                        6 => {
                            let new = std::ptr::from_ref(one).cast();
                            window
                                .compare_and_swap(new, from, result(), Datatype::Uint64, 1, *at)
                                .unwrap();
                        }
                        _ => {
                            let target = eight.at(1, 0);
                            let from = block.as_ptr().cast();
                            window.accumulate(from, &eight, target, Op::Sum).unwrap();
                        }
                    }
                }
            }
            window.flush(1).unwrap();
            assert_eq!(results, fetched);
        };
        on_a_pair(Carried::InOrder, seed, work, &words);
    }
}

#[test]
fn where_commands_are_refused_each_goes_by_itself() {
    let work = |window: &Window, world: &World| {
        let before = world.begun.load(Ordering::Relaxed);
        let values = [1u64; 20];
        values
            .iter()
            .for_each(|value| accumulate(window, value, 1, 0, Op::Sum));
        window.flush(1).unwrap();
        assert_eq!(world.begun.load(Ordering::Relaxed) - before, 20);
    };
    (1..=4).for_each(|seed| on_a_pair(Carried::Refused, seed, work, &[20]));
}

/// Unaligned elements may be gathered even if aligned ones are refused.
#[test]
fn alignment_decides_what_is_refused() {
    for seed in 1..=8 {
        let world = World::carrying(2, false, Carried::Refused);
        on_world(&world, seed, &|rank| {
            let window = Window::allocate(members(rank), 64, 1).unwrap();
            rank.allgather(&[]).unwrap();
            if rank.rank() == 0 {
                window.lock_all(NONE).unwrap();
                let values = [1u64; 40];
                let places = [17, 17, 17, 0, 17, 0, 0, 33];
                for (i, value) in values.iter().enumerate() {
                    accumulate(&window, value, 1, places[i % 8], Op::Sum);
                }
                window.flush(1).unwrap();
                window.unlock_all().unwrap();
            }
            window.fence(NONE).unwrap();
            window.fence(Assertion::NOSUCCEED).unwrap();
            if rank.rank() == 1 {
                let found = [0, 17, 33].map(|at| {
                    let mut bytes = [0; 8];
                    window.read_local(at, &mut bytes).unwrap();
                    u64::from_ne_bytes(bytes)
                });
                assert_eq!(found, [15, 20, 5]);
            }
            window.free().unwrap();
        });
    }
}

/// Targets that share a place: 0 and 64.
#[test]
fn more_targets_than_places() {
    let world = World::carrying(66, false, Carried::InOrder);
    on_world(&world, 1, &|rank| {
        let window = allocate(rank, 1);
        rank.allgather(&[]).unwrap();
        if rank.rank() == 65 {
            window.lock_all(NONE).unwrap();
            let value = 1u64;
            for i in 0..660 {
                accumulate(&window, &value, i * 64 % 66, 0, Op::Sum);
            }
            window.unlock_all().unwrap();
        }
        window.fence(NONE).unwrap();
        window.fence(Assertion::NOSUCCEED).unwrap();
        assert_eq!(own(&window, 0), if rank.rank() % 2 == 0 { 20 } else { 0 });
        window.free().unwrap();
    });
}

/// A flush of one thread waits for all accumulates gathered before, but not for later ones of another thread.
#[test]
fn threads_flush_while_others_gather() {
    const EACH: u64 = 300;
    for seed in 1..=8 {
        let work = |window: &Window, _: &World| {
            std::thread::scope(|scope| {
                for thread in 0..3u64 {
                    scope.spawn(move || {
                        let value = 1u64;
                        for i in 0..EACH {
                            accumulate(window, &value, 1, thread, Op::Sum);
                            if (i + seed) % (7 + 20 * thread) == 0 {
                                window.flush(1).unwrap();
                                assert_eq!(get(window, 1, thread), i + 1);
                            }
                        }
                    });
                }
            });
        };
        on_a_pair(Carried::InOrder, seed, work, &[EACH; 3]);
    }
}

#[test]
fn a_lost_target_fails_the_flush_of_what_is_gathered() {
    for seed in 1..=8 {
        let world = World::carrying(2, false, Carried::InOrder);
        on_world(&world, seed, &|rank| {
            let window = allocate(rank, 1);
            rank.allgather(&[]).unwrap();
            if rank.rank() == 1 {
                world.lose(1);
                rank.allgather(&[]).unwrap();
                std::mem::forget(window);
                return;
            }
            window.lock_all(Assertion::NOCHECK).unwrap();
            rank.allgather(&[]).unwrap();
            let value = 1u64;
            (0..10).for_each(|_| accumulate(&window, &value, 1, 0, Op::Sum));
            assert!(window.flush(1).is_err());
            window.wait_idle(Some(1));
            assert!(window.unlock_all().is_err() || window.free().is_err());
        });
    }
}
