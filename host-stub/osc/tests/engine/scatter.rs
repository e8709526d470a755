//! Puts and gets of many small runs: the number of their commands, the bytes that they write and read, and the cases in which
//! each run is one operation.

use std::sync::atomic::Ordering;

use osc_engine::door::Group;
use osc_engine::win::{Assertion, Block, Datatype, Layout, Op, Target, Window};

use super::gather::on_a_pair;
use super::world::{Carried, Random, World, on_world};
use super::{NONE, allocate, members, one};

/// Words of a window.
const WORDS: usize = 64;

/// Puts elements and waits for nothing.
fn put(window: &Window, from: &[u64], layout: &Layout, to: Target<'_>) {
    // SAFETY: the caller keeps the elements until a flush.
    unsafe { window.put(from.as_ptr().cast(), layout, to) }.unwrap();
}

fn get(window: &Window, to: &mut [u64], layout: &Layout, from: Target<'_>) {
    // SAFETY: the caller keeps the place until a flush.
    unsafe { window.get(to.as_mut_ptr().cast(), layout, from) }.unwrap();
}

fn begun(world: &World) -> usize {
    world.begun.load(Ordering::Relaxed)
}

/// A column of 16 words, put and got: one command each, whatever the shape at the origin.
#[test]
fn a_column_is_one_command() {
    let column = Layout::strided(Datatype::Uint64, 16, 1, 4).unwrap();
    let row = Layout::contiguous(Datatype::Uint64, 16);
    let values: [u64; WORDS] = std::array::from_fn(|i| 100 + i as u64);
    let work = |window: &Window, world: &World| {
        let before = begun(world);
        put(window, &values, &row, column.at(1, 0));
        put(window, &values, &column, column.at(1, 1));
        put(window, &values, &column, row.at(1, 48));
        assert_eq!(begun(world) - before, 3);
        window.flush(1).unwrap();
        let (mut packed, mut apart) = ([0; 16], [7; WORDS]);
        get(window, &mut packed, &row, column.at(1, 1));
        get(window, &mut apart, &column, column.at(1, 0));
        get(window, &mut apart[1..], &column, row.at(1, 0));
        assert_eq!(begun(world) - before, 6);
        window.flush(1).unwrap();
        for i in 0..12 {
            assert_eq!(packed[i], values[4 * i]);
            assert_eq!(apart[4 * i], values[i]);
            assert_eq!(apart[4 * i + 2..][..2], [7; 2]);
        }
    };
    let mut expected = [0; WORDS];
    for i in 0..16 {
        expected[4 * i] = values[i];
        expected[4 * i + 1] = values[4 * i];
    }
    (0..16).for_each(|i| expected[48 + i] = values[4 * i]);
    for carried in [Carried::InOrder, Carried::AtOnce] {
        // Bytes that are contiguous at both ends are read after the last put, which follows the others where order
        // is kept.
        (1..=8).for_each(|seed| on_a_pair(carried, seed, work, &expected));
    }
}

/// The next command begins where the one before is full, with a whole element.
#[test]
fn what_is_larger_goes_in_several_commands() {
    const COUNT: usize = 4096;
    let world = World::carrying(2, false, Carried::InOrder);
    on_world(&world, 3, &|rank| {
        let window = allocate(rank, 2 * COUNT);
        rank.allgather(&[]).unwrap();
        if rank.rank() == 0 {
            window.lock_all(NONE).unwrap();
            let every = Layout::strided(Datatype::Uint64, COUNT, 1, 2).unwrap();
            let row = Layout::contiguous(Datatype::Uint64, COUNT);
            let values: Vec<u64> = (0..COUNT).map(|i| i as u64 * 3).collect();
            let before = begun(&world);
            put(&window, &values, &row, every.at(1, 0));
            window.flush(1).unwrap();
            let mut apart = vec![7; 2 * COUNT];
            get(&window, &mut apart, &every, every.at(1, 0));
            window.flush(1).unwrap();
            // 32 KiB each, and 3952 bytes of a command.
            assert_eq!(begun(&world) - before, 2 * 9);
            let found: Vec<u64> = apart.iter().step_by(2).copied().collect();
            assert_eq!(found, values);
            assert!(apart.iter().skip(1).step_by(2).all(|word| *word == 7));
            window.unlock_all().unwrap();
        }
        rank.allgather(&[]).unwrap();
        window.free().unwrap();
    });
}

/// The program may change the bytes of a put when the call has returned.
#[test]
fn what_is_put_is_copied() {
    let column = Layout::strided(Datatype::Uint64, 16, 1, 4).unwrap();
    let row = Layout::contiguous(Datatype::Uint64, 16);
    let work = |window: &Window, _: &World| {
        let mut values = [5; 16];
        put(window, &values, &row, column.at(1, 0));
        values.fill(9);
        std::hint::black_box(&mut values);
        window.flush(1).unwrap();
    };
    let expected: [u64; WORDS] = std::array::from_fn(|i| if i % 4 == 0 { 5 } else { 0 });
    (1..=8).for_each(|seed| on_a_pair(Carried::InOrder, seed, work, &expected));
}

/// Runs of a put of more than 128 bytes, and of a get of more than 256, are transfers of their own.
#[test]
fn long_runs_go_by_themselves() {
    let world = World::carrying(2, false, Carried::InOrder);
    on_world(&world, 3, &|rank| {
        let window = allocate(rank, 512);
        rank.allgather(&[]).unwrap();
        if rank.rank() == 0 {
            window.lock_all(NONE).unwrap();
            for (words, puts, gets) in [(16, 1, 1), (17, 4, 1), (32, 4, 1), (33, 4, 4)] {
                let row = Layout::contiguous(Datatype::Uint64, 4 * words);
                let apart = Layout::strided(Datatype::Uint64, 4, words, 2 * words).unwrap();
                let mut values = vec![1; 4 * words];
                let before = begun(&world);
                put(&window, &values, &row, apart.at(1, 0));
                window.flush(1).unwrap();
                get(&window, &mut values, &row, apart.at(1, 0));
                window.flush(1).unwrap();
                assert_eq!(begun(&world) - before, puts + gets, "{words} words");
            }
            window.unlock_all().unwrap();
        }
        rank.allgather(&[]).unwrap();
        window.free().unwrap();
    });
}

/// If a long run follows many short runs, the target may refuse the command with the long run after it took the commands
/// before. The rest is then sent alone, once.
#[test]
fn a_long_run_behind_short_ones_goes_by_itself() {
    const SHORT: usize = 300;
    const LONG: usize = 400;
    const END: usize = SHORT * SHORT;
    let world = World::carrying(2, false, Carried::Short);
    on_world(&world, 3, &|rank| {
        let window = allocate(rank, END + LONG);
        rank.allgather(&[]).unwrap();
        if rank.rank() == 0 {
            window.lock_all(NONE).unwrap();
            let block = |displacement, length| Block {
                displacement,
                length,
            };
            // The elements have unequal distances, so that they are many runs.
            let mut blocks: Vec<Block> = (0..SHORT).map(|i| block(i * i, 1)).collect();
            blocks.push(block(END, LONG));
            let apart = Layout::indexed(Datatype::Uint64, &blocks).unwrap();
            let row = Layout::contiguous(Datatype::Uint64, SHORT + LONG);
            let values: Vec<u64> = (1..).take(SHORT + LONG).collect();
            put(&window, &values, &row, apart.at(1, 0));
            window.flush(1).unwrap();
            let (mut packed, mut there) = (vec![0; SHORT + LONG], vec![0; END + LONG]);
            get(&window, &mut packed, &row, apart.at(1, 0));
            get(&window, &mut there, &apart, apart.at(1, 0));
            window.flush(1).unwrap();
            assert_eq!(packed, values);
            let short = (0..SHORT).map(|i| there[i * i]);
            let found: Vec<u64> = short.chain(there[END..].iter().copied()).collect();
            assert_eq!(found, values);
            assert_eq!(world.refused.load(Ordering::Relaxed), 3);
            window.unlock_all().unwrap();
        }
        rank.allgather(&[]).unwrap();
        window.free().unwrap();
    });
}

/// A rank that takes no such commands is asked once.
#[test]
fn where_they_are_refused_each_run_goes_by_itself() {
    let column = Layout::strided(Datatype::Uint64, 16, 1, 4).unwrap();
    let row = Layout::contiguous(Datatype::Uint64, 16);
    let values = [3; 16];
    let work = |window: &Window, world: &World| {
        let before = begun(world);
        for _ in 0..3 {
            put(window, &values, &row, column.at(1, 0));
        }
        let mut found = [0; WORDS];
        window.flush(1).unwrap();
        get(window, &mut found, &column, column.at(1, 0));
        window.flush(1).unwrap();
        assert_eq!(begun(world) - before, 64);
        assert_eq!(world.refused.load(Ordering::Relaxed), 1);
        assert!(found.iter().step_by(4).all(|word| *word == 3));
    };
    let expected: [u64; WORDS] = std::array::from_fn(|i| if i % 4 == 0 { 3 } else { 0 });
    on_a_pair(Carried::Refused, 5, work, &expected);
}

/// The regions of a dynamic window may be of different kinds, so each call asks.
#[test]
fn a_dynamic_window_asks_each_time() {
    for (carried, refused, transfers) in [(Carried::Refused, 2, 32), (Carried::InOrder, 0, 2)] {
        let world = World::carrying(2, false, carried);
        on_world(&world, 2, &|rank| {
            let window = Window::dynamic(members(rank)).unwrap();
            let mut memory = vec![0u64; WORDS];
            let base = memory.as_mut_ptr();
            // SAFETY: the memory stays until the window is freed.
            unsafe { window.attach(base.cast(), 8 * WORDS) }.unwrap();
            let all = rank.allgather(&(base as u64).to_ne_bytes()).unwrap();
            if rank.rank() == 0 {
                let there = u64::from_ne_bytes(all[1].as_slice().try_into().unwrap());
                let column = Layout::strided(Datatype::Uint64, 16, 1, 4).unwrap();
                let row = Layout::contiguous(Datatype::Uint64, 16);
                window.lock_all(NONE).unwrap();
                // The first one reads what is attached.
                put(&window, &[0], &one(), one().at(1, there));
                window.flush(1).unwrap();
                let versions = 2;
                let before = begun(&world);
                for value in [1, 2] {
                    put(&window, &[value; 16], &row, column.at(1, there));
                    window.flush(1).unwrap();
                }
                assert_eq!(begun(&world) - before, transfers + versions);
                assert_eq!(world.refused.load(Ordering::Relaxed), refused);
                window.unlock_all().unwrap();
            }
            rank.allgather(&[]).unwrap();
            window.fence(NONE).unwrap();
            window.fence(Assertion::NOSUCCEED).unwrap();
            if rank.rank() == 1 {
                let word = |i: usize| memory[i];
                assert!((0..WORDS).all(|i| word(i) == if i % 4 == 0 { 2 } else { 0 }));
            }
            window.free().unwrap();
        });
    }
}

/// Layouts that a seed chooses.
impl Random {
    /// A layout of `count` elements, and the index of each.
    fn layout(&mut self, datatype: Datatype, count: usize) -> (Layout, Vec<usize>) {
        match self.below(3) {
            0 => (Layout::contiguous(datatype, count), (0..count).collect()),
            1 => {
                let length = [1, 2, 3, 4][self.below(4)];
                let stride = length + self.below(3);
                let layout = Layout::strided(datatype, count / length, length, stride).unwrap();
                let run = |i| i * stride..i * stride + length;
                (layout, (0..count / length).flat_map(run).collect())
            }
            _ => {
                let (mut at, mut left, mut blocks) = (0, count, Vec::new());
                while left > 0 {
                    let displacement = at + self.below(3);
                    let length = (1 + self.below(4)).min(left);
                    blocks.push(Block {
                        displacement,
                        length,
                    });
                    at = displacement + length;
                    left -= length;
                }
                let first = self.below(blocks.len());
                blocks.rotate_left(first);
                let run = |block: &Block| block.displacement..block.displacement + block.length;
                let places = blocks.iter().flat_map(run).collect();
                (Layout::indexed(datatype, &blocks).unwrap(), places)
            }
        }
    }
}

/// Any layout to any, with a request or without one, among accumulates on another part of the window, whose order they leave alone.
#[test]
fn layouts_against_a_model() {
    /// Elements of a transfer, and bytes of the window that transfers and accumulates use.
    const COUNT: usize = 24;
    const BYTES: usize = 16 << 10;
    let types = [
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Float,
        Datatype::Double,
    ];
    let ways = [
        Carried::Nothing,
        Carried::InOrder,
        Carried::AtOnce,
        Carried::Refused,
    ];
    for (seed, carried) in (1..=24).zip(ways.into_iter().cycle()) {
        let world = World::carrying(2, false, carried);
        on_world(&world, seed, &|rank| {
            let window = Window::allocate(members(rank), BYTES + 8, 1).unwrap();
            rank.allgather(&[]).unwrap();
            if rank.rank() == 0 {
                let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let mut model = vec![0u8; BYTES];
                window.lock_all(NONE).unwrap();
                for round in 0..60u64 {
                    let datatype = types[random.below(4)];
                    let size = datatype.size();
                    let (origin, from) = random.layout(datatype, COUNT);
                    let (remote, to) = random.layout(datatype, COUNT);
                    let at = random.below(BYTES - remote.extent() + 1);
                    let mut buffer: Vec<u8> = (0..origin.extent())
                        .map(|_| random.below(256) as u8)
                        .collect();
                    let mut wanted = buffer.clone();
                    let puts = random.below(2) == 0;
                    for (here, there) in from.iter().zip(&to) {
                        let (here, there) = (here * size, at + there * size);
                        match puts {
                            true => model[there..][..size].copy_from_slice(&buffer[here..][..size]),
                            false => {
                                wanted[here..][..size].copy_from_slice(&model[there..][..size])
                            }
                        }
                    }
                    let to = remote.at(1, at as u64);
                    let (one, sum) = (one(), round);
                    let last = one.at(1, BYTES as u64);
                    let place = buffer.as_mut_ptr();
                    // SAFETY: the buffers stay until the flush.
                    unsafe {
                        let update = |op| {
                            let from = std::ptr::from_ref(&sum).cast();
                            window.accumulate(from, &one, last, op).unwrap();
                        };
                        update(Op::Replace);
                        match (puts, random.below(2) == 0) {
                            (true, false) => window.put(place, &origin, to).unwrap(),
                            (false, false) => window.get(place, &origin, to).unwrap(),
                            (true, true) => {
                                window.rput(place, &origin, to).unwrap().wait().unwrap()
                            }
                            (false, true) => {
                                window.rget(place, &origin, to).unwrap().wait().unwrap()
                            }
                        }
                        update(Op::Sum);
                    }
                    window.flush(1).unwrap();
                    assert_eq!(buffer, wanted, "seed {seed}, round {round}");
                }
                let mut found = vec![0u8; BYTES + 8];
                let all = Layout::contiguous(Datatype::Uint8, BYTES + 8);
                // SAFETY: the buffer stays until the flush.
                unsafe { window.get(found.as_mut_ptr(), &all, all.at(1, 0)) }.unwrap();
                window.flush(1).unwrap();
                assert_eq!(found[..BYTES], model, "seed {seed}");
                assert_eq!(found[BYTES..], (2 * 59u64).to_ne_bytes(), "seed {seed}");
                window.unlock_all().unwrap();
            }
            rank.allgather(&[]).unwrap();
            window.free().unwrap();
        });
    }
}

/// Transfers to a rank that is lost: the flush fails, and what was to be got is not written.
#[test]
fn a_lost_rank() {
    let world = World::carrying(2, false, Carried::InOrder);
    on_world(&world, 7, &|rank| {
        let window = allocate(rank, WORDS);
        rank.allgather(&[]).unwrap();
        if rank.rank() == 1 {
            world.lose(1);
            rank.allgather(&[]).unwrap();
            // Its memory stays: a window that was not freed leaks.
            std::mem::forget(window);
            return;
        }
        rank.allgather(&[]).unwrap();
        let column = Layout::strided(Datatype::Uint64, 16, 1, 4).unwrap();
        let mut found = [7; WORDS];
        window.lock_all(Assertion::NOCHECK).unwrap();
        get(&window, &mut found, &column, column.at(1, 0));
        put(&window, &[1; WORDS], &column, column.at(1, 0));
        assert!(window.flush(1).is_err());
        window.wait_idle(None);
        assert_eq!(found, [7; WORDS]);
        assert!(window.unlock_all().is_err() | window.free().is_err());
    });
}
