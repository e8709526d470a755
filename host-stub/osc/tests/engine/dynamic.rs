//! Dynamic windows: the knowledge of origins about memory that is attached and detached, and their
//! requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use osc_engine::door::Group;
use osc_engine::win::{Assertion, Datatype, Layout, WinError, Window, unboxed};

use super::world::{Carried, LONGEST, Random, Rank, World, on_ranks, on_world};
use super::{NONE, get, members, one, put};

const ALL: [Carried; 4] = [
    Carried::Nothing,
    Carried::InOrder,
    Carried::Refused,
    Carried::AtOnce,
];

/// Sends an address to every rank, and returns the addresses of all.
fn addresses(rank: &Rank, mine: u64) -> Vec<u64> {
    let all = rank.allgather(&mine.to_ne_bytes()).unwrap();
    let words = all.iter().map(|bytes| bytes[..].try_into().unwrap());
    words.map(u64::from_ne_bytes).collect()
}

/// If targets check keys, a put or get is one operation. If targets do not check keys, or not for this length, the origin
/// reads the version before.
#[test]
fn puts_and_gets_that_targets_check_ask_for_nothing() {
    const BYTES: usize = LONGEST as usize + 1;
    for carried in ALL {
        let world = World::carrying(2, false, carried);
        on_world(&world, 1, &|rank| {
            let window = Window::dynamic(members(rank)).unwrap();
            let mut memory = vec![0u8; 2 * BYTES];
            // SAFETY: the memory stays until the window is freed.
            unsafe { window.attach(memory.as_mut_ptr(), memory.len()) }.unwrap();
            let there = addresses(rank, memory.as_ptr() as u64)[1];
            if rank.rank() == 0 {
                window.lock_all(NONE).unwrap();
                put(&window, 1, 1, there);
                let (bytes, mut long) = (Layout::contiguous(Datatype::Uint8, BYTES), [0u8; BYTES]);
                let begun = |work: &mut dyn FnMut()| {
                    let before = world.begun.load(Ordering::Relaxed);
                    work();
                    world.begun.load(Ordering::Relaxed) - before
                };
                let checks = matches!(carried, Carried::InOrder | Carried::AtOnce);
                for _ in 0..3 {
                    let asks = usize::from(!checks);
                    assert_eq!(begun(&mut || put(&window, 2, 1, there)), 1 + asks);
                    assert_eq!(
                        begun(&mut || assert_eq!(get(&window, 1, there), 2)),
                        1 + asks
                    );
                    let mut get_long = || {
                        let target = bytes.at(1, there);
                        // SAFETY: the place stays until the flush.
                        unsafe { window.get(long.as_mut_ptr(), &bytes, target) }.unwrap();
                        window.flush(1).unwrap();
                    };
                    assert_eq!(begun(&mut get_long), 2);
                }
                // A length that was refused once is not tried again: a put of 8 B, a get of 8 B or a longer one.
                let wanted = match carried {
                    Carried::Nothing => 0,
                    Carried::Refused => 2,
                    _ => 1,
                };
                assert_eq!(world.refused.load(Ordering::Relaxed), wanted);
                window.unlock_all().unwrap();
            }
            rank.allgather(&[]).unwrap();
            window.free().unwrap();
        });
    }
}

/// Slots of memory. The seed decides how the slots are attached in regions of one to three slots, detached, and
/// attached again in other regions.
struct Slots {
    memory: Vec<u64>,
    /// First slot and number of slots of each region.
    regions: Vec<(usize, usize)>,
    random: Random,
}

impl Slots {
    const COUNT: usize = 12;
    /// Words of a slot.
    const WORDS: usize = 4;

    fn base(&mut self, slot: usize) -> *mut u8 {
        self.memory
            .as_mut_ptr()
            .wrapping_add(slot * Self::WORDS)
            .cast()
    }

    /// Attaches the slots of a range.
    fn attach(&mut self, window: &Window, mut from: usize, to: usize) {
        while from < to {
            let count = (1 + self.random.below(3)).min(to - from);
            let base = self.base(from);
            // SAFETY: the memory stays until the window is freed.
            unsafe { window.attach(base, count * Self::WORDS * 8) }.unwrap();
            self.regions.push((from, count));
            from += count;
        }
    }

    /// Detaches some regions that lie side by side, and attaches their slots again.
    fn change(&mut self, window: &Window) {
        self.regions.sort_unstable();
        let first = self.random.below(self.regions.len());
        let last = (first + 1 + self.random.below(3)).min(self.regions.len());
        let gone: Vec<_> = self.regions.drain(first..last).collect();
        for (slot, _) in &gone {
            let base = self.base(*slot);
            window.detach(base).unwrap();
        }
        let end = gone.last().map_or(0, |(slot, count)| slot + count);
        self.attach(window, gone[0].0, end);
    }
}

/// An origin's puts and gets find the memory that is attached at the time of the call, with any keys, any order of execution
/// and refusal, and any completing call.
#[test]
fn puts_and_gets_follow_memory_that_comes_and_goes() {
    const ROUNDS: u64 = 24;
    for (carried, seed) in ALL.iter().flat_map(|c| (1..=6).map(move |seed| (*c, seed))) {
        on_world(&World::carrying(3, false, carried), seed, &|rank| {
            let window = Window::dynamic(members(rank)).unwrap();
            let mut slots = Slots {
                memory: vec![0; Slots::COUNT * Slots::WORDS],
                regions: Vec::new(),
                random: Random((seed << 8) | (1 + rank.rank() as u64)),
            };
            slots.attach(&window, 0, Slots::COUNT);
            let all = addresses(rank, slots.memory.as_ptr() as u64);
            let layout = one();
            let word =
                |to: usize, slot: usize| all[to] + (slot * Slots::WORDS + rank.rank()) as u64 * 8;
            let other = |n: u64| (rank.rank() + 1 + n as usize % 2) % 3;
            let mut sent = [0u64; Slots::COUNT];
            let mut found = [0u64; Slots::COUNT];
            window.lock_all(NONE).unwrap();
            for round in 0..ROUNDS {
                if slots.random.below(2) == 0 {
                    slots.change(&window);
                }
                rank.allgather(&[]).unwrap();
                // Even rounds put to one rank, odd rounds read the value there.
                let to = other(round / 2);
                for slot in 0..Slots::COUNT {
                    let target = layout.at(to, word(to, slot));
                    // SAFETY: the places stay, and are not accessed, until the completing call.
                    unsafe {
                        if round % 2 == 0 {
                            sent[slot] = round << 32 | slot as u64;
                            window
                                .put(sent[slot..].as_ptr().cast(), &layout, target)
                                .unwrap();
                        } else {
                            found[slot] = u64::MAX;
                            window
                                .get(found[slot..].as_mut_ptr().cast(), &layout, target)
                                .unwrap();
                        }
                    }
                }
                match slots.random.below(5) {
                    0 => window.flush(to).unwrap(),
                    1 => window.flush_all().unwrap(),
                    2 => window.flush_local(to).unwrap(),
                    3 => window.flush_local_all().unwrap(),
                    _ => {
                        window.unlock_all().unwrap();
                        window.lock_all(NONE).unwrap();
                    }
                }
                if round % 2 == 1 {
                    assert_eq!(found, sent, "round {round}, seed {seed}");
                }
                rank.allgather(&[]).unwrap();
            }
            window.unlock_all().unwrap();
            window.free().unwrap();
        });
    }
}

/// Attaches four words at every rank. Then rank 1 attaches its words anew, as two regions, and rank 0, which knows the old key,
/// runs `work` with the address.
fn with_a_key_that_ended(seed: u64, work: impl Fn(&Window, u64) + Sync, expected: u64) {
    on_world(
        &World::carrying(2, false, Carried::InOrder),
        seed,
        &|rank| {
            let window = Window::dynamic(members(rank)).unwrap();
            let mut memory = Box::new([7u64; 4]);
            let base: *mut u8 = memory.as_mut_ptr().cast();
            // SAFETY: here and below, the memory stays until the window is freed.
            unsafe { window.attach(base, 32) }.unwrap();
            let there = addresses(rank, base as u64)[1];
            window.lock_all(NONE).unwrap();
            if rank.rank() == 0 {
                assert_eq!(get(&window, 1, there), 7);
            }
            rank.allgather(&[]).unwrap();
            if rank.rank() == 1 {
                window.detach(base).unwrap();
                // SAFETY: the memory stays until it is detached or the window is freed.
                unsafe {
                    window.attach(base, 8).unwrap();
                    window.attach(base.wrapping_add(8), 24).unwrap();
                }
            }
            rank.allgather(&[]).unwrap();
            if rank.rank() == 0 {
                work(&window, there);
            }
            window.unlock_all().unwrap();
            rank.allgather(&[]).unwrap();
            window.free().unwrap();
            assert!(rank.rank() == 0 || memory[0] == expected, "{memory:?}");
        },
    );
}

/// A flush completes the operations of all threads.
#[test]
fn a_flush_repeats_what_was_refused_to_another_thread() {
    for seed in 1..=8 {
        let work = |window: &Window, there: u64| {
            let (layout, values) = (one(), [8u64, 9]);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let (layout, values) = (&layout, &values);
                    let issue = move || {
                        // SAFETY: the values stay until the flush below.
                        unsafe {
                            window.put(values[1..].as_ptr().cast(), layout, layout.at(1, there))
                        }
                        .unwrap();
                    };
                    scope.spawn(issue).join().unwrap();
                }
                // Two concurrent flushes.
                scope.spawn(|| window.flush(1).unwrap());
                window.flush_all().unwrap();
            });
            assert_eq!(get(window, 1, there), 9);
        };
        with_a_key_that_ended(seed, work, 9);
    }
}

/// The target's regions may differ from the regions that the origin knows.
#[test]
fn what_was_refused_is_divided_where_regions_end() {
    for (puts, seed) in (1..=8).flat_map(|seed| [(true, seed), (false, seed)]) {
        let work = |window: &Window, there: u64| {
            let (layout, mut words) = (Layout::contiguous(Datatype::Uint64, 3), [8u64, 9, 10]);
            let (buffer, target) = (words.as_mut_ptr().cast::<u8>(), layout.at(1, there));
            // SAFETY: the words stay until the flush.
            let issued = unsafe {
                match puts {
                    true => window.put(buffer, &layout, target),
                    false => window.get(buffer, &layout, target),
                }
            };
            issued.unwrap();
            window.flush_all().unwrap();
            let there = [0, 8, 16].map(|offset| get(window, 1, there + offset));
            assert_eq!(words, there);
        };
        with_a_key_that_ended(seed, work, if puts { 8 } else { 7 });
    }
}

/// If no flush can repeat a refused operation any longer, the next flush of its target fails.
#[test]
fn refused_operations_of_an_epoch_that_failed_are_given_up() {
    let work = |window: &Window, there: u64| {
        let (layout, value) = (one(), [9u64]);
        // SAFETY: the value stays until nothing is under way.
        unsafe { window.put(value.as_ptr().cast(), &layout, layout.at(1, there)) }.unwrap();
        window.wait_idle(None);
        let failed = window.flush(1);
        assert!(
            matches!(unboxed(&failed), Err(WinError::Transport { rank: 1, .. })),
            "{failed:?}"
        );
        window.flush(1).unwrap();
    };
    with_a_key_that_ended(3, work, 7);
}

#[test]
fn detached_memory_is_reached_by_nobody() {
    let run = |rank: &Arc<Rank>| {
        let window = Window::dynamic(members(rank)).unwrap();
        let mut memory = Box::new([7u64; 4]);
        let base = memory.as_mut_ptr();
        // SAFETY: the memory stays until it was detached.
        unsafe { window.attach(base.cast(), 32) }.unwrap();
        let addresses = addresses(rank, base as u64);
        let other = 1 - rank.rank();
        window.lock_all(NONE).unwrap();
        put(
            &window,
            40 + rank.rank() as u64,
            other,
            addresses[other] + 8,
        );
        assert_eq!(get(&window, other, addresses[other]), 7);
        window.unlock_all().unwrap();
        rank.allgather(&[]).unwrap();
        window.detach(base.cast()).unwrap();
        assert_eq!(memory[1], 40 + other as u64);
        rank.allgather(&[]).unwrap();
        window.lock_all(NONE).unwrap();
        let (layout, mut to) = (one(), [0u64]);
        let target = layout.at(other, addresses[other]);
        // SAFETY: the place stays until the flush.
        let refused = unsafe { window.get(to.as_mut_ptr().cast(), &layout, target) };
        let refused = refused.and_then(|()| window.flush(other));
        assert!(
            matches!(unboxed(&refused), Err(WinError::NotAttached { rank, .. }) if *rank == other),
            "{refused:?} {to:?}"
        );
        window.unlock_all().unwrap();
        window.free().unwrap();
    };
    on_ranks(2, run);
    for seed in 1..=4 {
        on_world(&World::carrying(2, false, Carried::InOrder), seed, &run);
    }
}

/// Until a flush, incomplete puts keep their region attached, so its key is read once.
#[test]
fn an_epoch_of_64_puts_reads_once_what_is_attached() {
    let world = World::new(2, false);
    on_world(&world, 1, &|rank| {
        let window = Window::dynamic(members(rank)).unwrap();
        let mut memory = Box::new([[0u64; 64]; 2]);
        for part in memory.iter_mut() {
            // SAFETY: the memory stays until the window is freed.
            unsafe { window.attach(part.as_mut_ptr().cast(), 512) }.unwrap();
        }
        let base = memory.as_mut_ptr() as u64;
        let there = addresses(rank, base)[1];
        if rank.rank() == 0 {
            window.lock_all(NONE).unwrap();
            // The first puts read the attached regions.
            put(&window, 0, 1, there);
            put(&window, 0, 0, base);
            let (layout, value) = (one(), [3u64]);
            let puts = |to: usize, at: u64| {
                let before = world.begun.load(Ordering::Relaxed);
                for word in 0..64 {
                    let target = layout.at(to, at + 8 * word);
                    // SAFETY: the value stays until the flush.
                    unsafe { window.put(value.as_ptr().cast(), &layout, target) }.unwrap();
                }
                world.begun.load(Ordering::Relaxed) - before
            };
            for _ in 0..2 {
                assert_eq!(puts(1, there), 64 + 1);
                assert_eq!(puts(1, there + 512), 64 + 1, "another region");
                assert_eq!(puts(1, there), 64, "both are kept");
                assert_eq!(
                    puts(0, base),
                    64,
                    "what this rank has attached is known here"
                );
                window.flush(1).unwrap();
            }
            window.unlock_all().unwrap();
        }
        rank.allgather(&[]).unwrap();
        window.fence(NONE).unwrap();
        window.fence(Assertion::NOSUCCEED).unwrap();
        assert!(memory.as_flattened().iter().all(|word| *word == 3) || rank.rank() == 0);
        window.free().unwrap();
    });
}

/// Memory that is attached again has another key. The owner of memory may attach it again when the owner knows, by
/// any means, that the operations are complete, while the origin stays in its epoch.
#[test]
fn memory_that_is_attached_again_is_found() {
    for (carried, seed) in ALL.iter().flat_map(|c| (1..=4).map(move |seed| (*c, seed))) {
        on_world(&World::carrying(2, false, carried), seed, &|rank| {
            let window = Window::dynamic(members(rank)).unwrap();
            let mut memory = Box::new([7u64; 4]);
            let base: *mut u8 = memory.as_mut_ptr().cast();
            // SAFETY: here and below, the memory stays until it was detached.
            unsafe { window.attach(base, 32) }.unwrap();
            let there = addresses(rank, base as u64)[1];
            let layout = one();
            let target = layout.at(1, there);
            let (mut found, value) = ([0u64], [9u64]);
            if rank.rank() == 0 {
                window.lock_all(NONE).unwrap();
            }
            for way in 0..5 {
                if rank.rank() == 0 {
                    let to = found.as_mut_ptr().cast();
                    let from = value.as_ptr().cast();
                    match way {
                        0 => put(&window, 8, 1, there),
                        2 => {
                            // SAFETY: the place stays until the request has ended.
                            let request = unsafe { window.rget(to, &layout, target) };
                            request.unwrap().wait().unwrap();
                        }
                        // SAFETY: the value stays until the window is freed.
                        3 => unsafe { window.put_notify(from, &layout, target, 1) }.unwrap(),
                        _ => {
                            // SAFETY: the place stays until the flush, or the end of the epoch.
                            unsafe { window.get(to, &layout, target) }.unwrap();
                            if way == 1 {
                                window.flush_local_all().unwrap();
                            } else {
                                window.unlock_all().unwrap();
                                window.lock_all(NONE).unwrap();
                            }
                        }
                    }
                    if way != 3 {
                        rank.allgather(&[]).unwrap();
                    }
                } else {
                    match way {
                        3 => window.wait_notified(1, 1).unwrap(),
                        _ => drop(rank.allgather(&[]).unwrap()),
                    }
                    window.detach(base).unwrap();
                    // SAFETY: the memory stays until it is detached or the window is freed.
                    unsafe { window.attach(base, 32) }.unwrap();
                }
                rank.allgather(&[]).unwrap();
            }
            if rank.rank() == 0 {
                put(&window, 5, 1, there);
                window.unlock_all().unwrap();
            }
            rank.allgather(&[]).unwrap();
            window.free().unwrap();
            assert_eq!(memory[0], if rank.rank() == 0 { 7 } else { 5 });
        });
    }
}
