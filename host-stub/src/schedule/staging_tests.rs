//! Plans with buffers on devices, against plans whose buffers were copied before and after.

use plugin_api::Datatype;

use super::combine_into;
use super::plan::Step;
use super::staging::{FRAGMENT, OnDevice, pointer, range, staged};
use crate::base::Op;

/// Memory of a test: two device buffers with host memory in their place, scratch, and memory of the program.
struct World {
    devices: [Vec<u64>; 2],
    hosts: [Vec<u64>; 2],
    scratch: Vec<u64>,
    own: Vec<u64>,
}

/// Words of each: several fragments.
const WORDS: usize = 3 * FRAGMENT / 8 + 5;

impl World {
    fn new() -> World {
        let words = |salt: u64| (0..WORDS as u64).map(|at| at * 7 + salt).collect();
        World {
            devices: [words(1), words(2)],
            hosts: [vec![0; WORDS], vec![0; WORDS]],
            scratch: vec![0; WORDS],
            own: words(3),
        }
    }

    /// A range of one of the memories: the hosts, scratch, own.
    fn at(&mut self, which: usize, word: usize) -> *mut u8 {
        let memory = match which {
            0 | 1 => &mut self.hosts[which],
            2 => &mut self.scratch,
            _ => &mut self.own,
        };
        memory[word..].as_mut_ptr().cast()
    }

    fn buffers(&mut self) -> [OnDevice; 2] {
        [0, 1].map(|which| OnDevice {
            host: self.hosts[which].as_mut_ptr().cast(),
            len: WORDS * 8,
            iface: 1,
            address: self.devices[which].as_mut_ptr() as u64,
            read: true,
        })
    }
}

/// A stream of numbers (Knuth's MMIX generator).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    /// A range of so many words of a memory.
    fn place(&mut self, world: &mut World, which: usize, len: usize) -> *mut u8 {
        world.at(which, self.below(WORDS - len))
    }
}

fn any_steps(world: &mut World, random: &mut Random) -> Vec<Step> {
    let count = random.below(14);
    (0..count)
        .map(|_| {
            let most = [9, WORDS / 3][random.below(2)];
            let words = 1 + random.below(most);
            // Operands do not overlap.
            let which = random.below(4);
            let one = random.place(world, which, words);
            let elsewhere = (which + 1 + random.below(3)) % 4;
            let two = random.place(world, elsewhere, words);
            let len = words * 8;
            match random.below(7) {
                0 => Step::Round,
                1 => Step::Send {
                    to: 0,
                    at: one,
                    len,
                },
                2 => Step::Receive {
                    from: 0,
                    at: one,
                    len,
                },
                3 => Step::Combine {
                    op: Op::Bxor,
                    datatype: Datatype::Uint64,
                    left: one,
                    right: two,
                    into: two,
                    count: words,
                },
                4 => Step::Copy {
                    from: one,
                    to: two,
                    len,
                },
                _ => Step::Copy {
                    from: one,
                    to: random.place(world, which, words),
                    len,
                },
            }
        })
        .collect()
}

/// When copies that were started are made.
#[derive(Clone, Copy, PartialEq)]
enum When {
    AtOnce,
    /// When something waits for them.
    AtLast,
}

/// Runs steps, and gives what was sent. A receive is there at once, or when its round ends: reads of it before that are
/// not of this collective.
fn run(steps: &[Step], when: When) -> Vec<u8> {
    let (mut sent, mut received) = (Vec::new(), 0u8);
    let (mut fetches, mut returns): (Vec<[usize; 3]>, Vec<[usize; 3]>) = (Vec::new(), Vec::new());
    let copy = |[from, to, len]: [usize; 3]| {
        // SAFETY: ranges of the test's memories, which may overlap.
        unsafe { std::ptr::copy(pointer(from).cast_const(), pointer(to), len) };
    };
    for step in steps {
        match *step {
            Step::Send { at, len, .. } => {
                // SAFETY: as above.
                sent.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
            }
            Step::Receive { at, len, .. } => {
                received += 1;
                // SAFETY: as above.
                unsafe { at.write_bytes(received, len) };
            }
            Step::Copy { from, to, len } => copy([from as usize, to as usize, len]),
            Step::Combine {
                op,
                datatype,
                left,
                right,
                into,
                count,
                // SAFETY: as above.
            } => unsafe { combine_into(datatype, op, left, right, into, count) },
            Step::Fetch { from, to, len, .. } => match when {
                When::AtOnce => copy([from as usize, to as usize, len]),
                When::AtLast => fetches.push([from as usize, to as usize, len]),
            },
            Step::Fetched { .. } => fetches.drain(..).for_each(copy),
            Step::Return { from, to, len, .. } => match when {
                When::AtOnce => copy([from as usize, to as usize, len]),
                When::AtLast => returns.push([from as usize, to as usize, len]),
            },
            Step::Round => {}
        }
    }
    returns.into_iter().for_each(copy);
    sent
}

/// Whatever a plan does, and whenever copies are made, the devices, what is sent and the program's memory are as if the
/// buffers had been copied before and after.
#[test]
fn fragments_do_what_whole_copies_do() {
    for seed in 0..150 {
        let mut random = Random(seed * 977 + 5);
        let mut world = World::new();
        let steps = any_steps(&mut world, &mut random);
        let fresh = World::new();
        let reset = |world: &mut World| {
            for which in [0, 1] {
                world.devices[which].copy_from_slice(&fresh.devices[which]);
                world.hosts[which].fill(0);
            }
            world.scratch.fill(0);
            world.own.copy_from_slice(&fresh.own);
        };
        for which in [0, 1] {
            let there = world.devices[which].clone();
            world.hosts[which].copy_from_slice(&there);
        }
        let sent = run(&steps, When::AtOnce);
        let (wanted, own) = (world.hosts.clone(), world.own.clone());
        let buffers = world.buffers();
        let result = range(world.own.as_ptr().cast(), WORDS * 8);
        let made = staged(steps, &buffers, Some(result));
        for when in [When::AtOnce, When::AtLast] {
            reset(&mut world);
            let found = run(&made, when);
            assert!(found == sent, "seed {seed}: other bytes were sent");
            assert!(world.devices == wanted, "seed {seed}: the devices differ");
            assert!(
                world.own == own,
                "seed {seed}: the program's memory differs"
            );
        }
    }
}

fn names(steps: &[Step]) -> String {
    let name = |step: &Step| match step {
        Step::Send { .. } => 's',
        Step::Receive { .. } => 'r',
        Step::Copy { .. } => 'c',
        Step::Fetch { .. } => 'F',
        Step::Fetched { .. } => 'w',
        Step::Return { .. } => 'R',
        Step::Round => '|',
        Step::Combine { .. } => '+',
    };
    steps.iter().map(name).collect()
}

/// Each copy stands where it overlaps: behind what was sent before, and behind what the next round has begun.
#[test]
fn copies_stand_between_transfers() {
    let mut world = World::new();
    let buffers = world.buffers();
    let send = |at| Step::Send {
        to: 1,
        at,
        len: FRAGMENT,
    };
    let receive = |at| Step::Receive {
        from: 1,
        at,
        len: FRAGMENT,
    };
    let mut at = |which, fragment: usize| world.at(which, fragment * FRAGMENT / 8);
    let steps = vec![
        send(at(0, 0)),
        receive(at(1, 0)),
        Step::Round,
        send(at(0, 1)),
        receive(at(1, 1)),
        Step::Round,
    ];
    assert_eq!(names(&staged(steps, &buffers, None)), "Fwsr|FwsrR|R");
    // What is only copied on is fetched once, to where it is used; what nobody uses is not.
    let steps = vec![
        Step::Copy {
            from: at(0, 0),
            to: at(2, 0),
            len: 2 * FRAGMENT,
        },
        send(at(2, 1)),
    ];
    assert_eq!(names(&staged(steps, &buffers, None)), "Fws");
}
