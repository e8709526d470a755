use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use plugin_api::{Access, ApplyRun, MOST_APPLIED};
use proptest::prelude::*;

use super::*;
use crate::mem::handle::Handle;
use crate::mem::regions::Known;
use crate::op::apply::{Apply, Area};
use crate::op::responder::APPLY;

const KEY: u64 = 3;
/// Bytes of a window, and bytes on each side of it that must not change.
const BYTES: usize = 512;
const GUARD: usize = 128;

/// Number of calls of the user's function, and the largest number of elements in one call.
#[derive(Default)]
struct Calls {
    number: AtomicU32,
    most: AtomicU32,
}

/// The codes of the user's function.
const ADD_BYTES: u32 = 1;
const REFUSED: u32 = 2;
const AGAIN: u32 = 3;
const ADD_WORDS: u32 = 4;

/// Adds byte by byte, or in elements of 8 bytes.
unsafe extern "C" fn combine(
    context: *mut c_void,
    code: u32,
    size: usize,
    elements: *mut c_void,
    operands: *const c_void,
    count: usize,
) -> Status {
    // SAFETY: the tests pass live counts.
    let calls = unsafe { &*context.cast::<Calls>() };
    calls.number.fetch_add(1, Ordering::Relaxed);
    calls.most.fetch_max(count as u32, Ordering::Relaxed);
    assert!(elements.cast::<u64>().is_aligned() && operands.cast::<u64>().is_aligned());
    // SAFETY: the module passes `count` elements and operands of this size.
    unsafe {
        match code {
            ADD_BYTES => {
                for i in 0..count * size {
                    let at = elements.cast::<u8>().add(i);
                    *at = at.read().wrapping_add(*operands.cast::<u8>().add(i));
                }
                Status::SUCCESS
            }
            ADD_WORDS => {
                let at = elements.cast::<u64>();
                *at = at.read().wrapping_add(*operands.cast::<u64>());
                Status::SUCCESS
            }
            AGAIN => Status::TEMP_OUT_OF_RESOURCE,
            _ => {
                elements.cast::<u8>().write(0xee);
                Status::NOT_SUPPORTED
            }
        }
    }
}

/// A window between bytes that nothing may change.
struct Memory {
    bytes: Vec<u64>,
    handle: Handle,
    regions: Regions,
    calls: Box<Calls>,
}

impl Memory {
    fn new(access: Access) -> Memory {
        Memory::of(access, false)
    }

    fn of(access: Access, by_commands: bool) -> Memory {
        let mut bytes = vec![0u64; (BYTES + 2 * GUARD) / 8];
        let base = bytes.as_mut_ptr().expose_provenance() as u64 + GUARD as u64;
        let handle = Handle::new(base, BYTES as u64, KEY, access, 1);
        let calls = Box::<Calls>::default();
        let mut regions = Regions::default();
        regions.insert(Known {
            handle,
            access,
            by_commands,
        });
        regions.arithmetic = Some(Arithmetic {
            function: combine,
            context: (&raw const *calls).cast_mut().cast(),
        });
        let mut memory = Memory {
            bytes,
            handle,
            regions,
            calls,
        };
        for (i, byte) in memory.all().iter_mut().enumerate() {
            *byte = (i * 7 + 1) as u8;
        }
        memory
    }

    fn all(&mut self) -> &mut [u8] {
        // SAFETY: the slice has the bytes of live words.
        unsafe {
            std::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast(), 8 * self.bytes.len())
        }
    }

    fn window(&mut self) -> &mut [u8] {
        &mut self.all()[GUARD..][..BYTES]
    }

    /// Executes an apply as the responder of a carrier would.
    fn run(&self, apply: &Apply<'_>) -> Result<(), Status> {
        let mut area = Area::new();
        // SAFETY: the tests pass operands and results of the runs' size.
        unsafe {
            let carried = area.fill(apply)?;
            let c = Command {
                what: APPLY,
                count: carried.count(),
                address: apply.address,
                key: apply.remote.key(),
                cookie: apply.remote.cookie(),
                compare: 0,
            };
            let words = area.words(carried);
            Responder::default().apply(&self.regions, &c, words, apply.results.cast())
        }
    }

    fn apply<'a>(&'a self, runs: &'a [ApplyRun], change: Change, operands: &[u8]) -> Apply<'a> {
        Apply {
            remote: &self.handle,
            address: self.handle.base(),
            runs,
            change,
            operands: operands.as_ptr().cast(),
            results: ptr::null_mut(),
            completion: None,
        }
    }
}

fn one(offset: u64, length: u64) -> ApplyRun {
    ApplyRun {
        offset,
        length,
        stride: 0,
        count: 1,
    }
}

/// A bytewise addition to elements of this size, which the user's function makes.
fn adding(size: usize) -> Change {
    Change {
        size,
        datatype: None,
        op: None,
        code: ADD_BYTES,
        is_transfer: false,
    }
}

fn sum(datatype: Datatype) -> Change {
    Change {
        size: datatype.size(),
        datatype: Some(datatype),
        op: Some(AtomicOp::Sum),
        code: ADD_BYTES,
        is_transfer: false,
    }
}

/// The changes of a put and of a get of several runs.
const PUT: Change = Change {
    size: 1,
    datatype: None,
    op: Some(AtomicOp::Write),
    code: 0,
    is_transfer: true,
};
const GET: Change = Change {
    op: Some(AtomicOp::Read),
    ..PUT
};

/// A put needs the right to write, and a get the right to read. The right to update atomically
/// includes neither the right to write nor the right to read.
#[test]
fn transfers_need_the_rights_of_transfers() {
    let rights = [
        Access::REMOTE_READ,
        Access::REMOTE_WRITE,
        Access::REMOTE_ATOMIC,
    ];
    let all = (0..8).map(|set| {
        let chosen = (0..3).filter(|i| set >> i & 1 == 1);
        chosen.fold(Access::empty(), |access, i| access | rights[i])
    });
    let (runs, ones) = ([one(3, 8), one(40, 8)], [1; 16]);
    for access in all {
        let memory = Memory::new(access);
        let mut results = [0u8; 16];
        let get = Apply {
            results: results.as_mut_ptr().cast(),
            ..memory.apply(&runs, GET, &[])
        };
        let outcome = |allowed| if allowed { Ok(()) } else { Err(Status::PERM) };
        let put = memory.run(&memory.apply(&runs, PUT, &ones));
        let may = |right| outcome(access.contains(right));
        assert_eq!(put, may(Access::REMOTE_WRITE), "{access:?}");
        assert_eq!(memory.run(&get), may(Access::REMOTE_READ), "{access:?}");
    }
}

/// A transfer of runs is a put or a get; other changes are refused.
#[test]
fn transfers_have_no_elements_and_no_code() {
    let mut memory = Memory::new(Access::all());
    let before = memory.all().to_vec();
    let runs = [one(0, 8), one(16, 8)];
    let wrong = [
        Change { size: 2, ..PUT },
        Change { code: 1, ..PUT },
        Change {
            datatype: Some(Datatype::Uint8),
            ..PUT
        },
        Change { op: None, ..PUT },
        Change {
            op: Some(AtomicOp::Sum),
            ..PUT
        },
        Change {
            op: Some(AtomicOp::Cswap),
            ..PUT
        },
        GET,
    ];
    for change in wrong {
        let apply = memory.apply(&runs, change, &[1; 16]);
        assert_eq!(memory.run(&apply), Err(Status::BAD_PARAM), "{change:?}");
    }
    let mut results = [0u8; 16];
    for change in wrong[..6].iter().chain([&PUT]) {
        let apply = Apply {
            results: results.as_mut_ptr().cast(),
            ..memory.apply(&runs, *change, &[1; 32])
        };
        assert_eq!(memory.run(&apply), Err(Status::BAD_PARAM), "{change:?}");
    }
    assert_eq!((memory.all().to_vec(), results), (before, [0; 16]));
}

/// Reads a word until it has changed often enough that a torn value would have been seen.
fn look_at(mut word: impl FnMut() -> u64) {
    let (mut last, mut changes) = (0, 0);
    while changes < 1000 {
        let found = word();
        assert!(found == 0 || found == u64::MAX, "{found:#x} is torn");
        changes += u32::from(found != last);
        last = found;
    }
}

/// An aligned word that is a run by itself is written and read in one access, wherever it lies among the packed bytes.
/// Updates of the bytes between the runs are not lost.
#[test]
fn words_of_transfers_are_not_torn() {
    let mut memory = Memory::new(Access::all());
    memory.window().fill(0);
    let memory = &memory;
    let word = |offset: usize| {
        let at = ptr::with_exposed_provenance_mut(memory.handle.base() as usize + offset);
        // SAFETY: the pointer is to an aligned word of the live window.
        unsafe { AtomicU64::from_ptr(at) }
    };
    // The first run shifts the packed bytes behind it.
    let runs = [one(1, 3), one(16, 8), one(32, 8)];
    let mut updates = 0;
    thread::scope(|s| {
        let puts = s.spawn(|| {
            look_at(|| {
                updates += 1;
                word(24).fetch_add(1, Ordering::Relaxed);
                word(32).load(Ordering::Relaxed)
            });
        });
        for value in [0xff, 0].into_iter().cycle() {
            if puts.is_finished() {
                break;
            }
            assert_eq!(memory.run(&memory.apply(&runs, PUT, &[value; 19])), Ok(()));
        }
        puts.join().expect("no word is torn");
    });
    assert_eq!(word(24).load(Ordering::Relaxed), updates);
    thread::scope(|s| {
        let gets = s.spawn(|| {
            look_at(|| {
                let mut bytes = [0u8; 19];
                let get = Apply {
                    results: bytes.as_mut_ptr().cast(),
                    ..memory.apply(&runs, GET, &[])
                };
                assert_eq!(memory.run(&get), Ok(()));
                u64::from_ne_bytes(bytes[3..11].try_into().expect("8 bytes"))
            });
        });
        for value in [u64::MAX, 0].into_iter().cycle() {
            if gets.is_finished() {
                break;
            }
            word(16).store(value, Ordering::Relaxed);
        }
        gets.join().expect("no word is torn");
    });
}

/// Tests each row of the rule. The calls of the user's function show which code changed an element.
#[test]
fn size_and_alignment_choose_who_changes_an_element() {
    // Each row has the change, the first byte, the number of bytes, the calls of the function, and
    // the largest number of elements in a call.
    let rows = [
        (sum(Datatype::Uint64), 8, 32, (0, 0)),
        (sum(Datatype::Uint64), 9, 32, (1, 4)),
        (sum(Datatype::Uint16), 2, 32, (0, 0)),
        (sum(Datatype::Uint16), 3, 32, (1, 16)),
        (sum(Datatype::Int8), 3, 32, (0, 0)),
        (adding(8), 8, 32, (4, 1)),
        (adding(8), 12, 32, (1, 4)),
        (adding(4), 4, 32, (8, 1)),
        (adding(2), 1, 32, (1, 16)),
        (adding(1), 1, 5, (5, 1)),
        (adding(16), 16, 64, (1, 4)),
        (adding(16), 8, 64, (1, 4)),
        (adding(3), 0, 30, (1, 10)),
        (adding(64), 1, 448, (1, 7)),
    ];
    for (change, first, bytes, calls) in rows {
        let mut memory = Memory::new(Access::all());
        let mut expected = memory.window().to_vec();
        // No byte carries into the next one.
        memory.window().fill(5);
        expected.fill(5);
        let operands = vec![3; bytes];
        expected[first..][..bytes].fill(8);
        let runs = [one(first as u64, bytes as u64)];
        assert_eq!(memory.run(&memory.apply(&runs, change, &operands)), Ok(()));
        let counted = (
            memory.calls.number.load(Ordering::Relaxed),
            memory.calls.most.load(Ordering::Relaxed),
        );
        assert_eq!(counted, calls, "{change:?} at {first}");
        assert_eq!(memory.window(), expected, "{change:?} at {first}");
    }
}

/// If only commands change elements, no atomic changes them: the user's function takes many elements at
/// once.
#[test]
fn commands_alone_need_no_atomics() {
    for (change, first, calls) in [(adding(8), 8, (1, 4)), (sum(Datatype::Uint64), 8, (0, 0))] {
        let mut memory = Memory::of(Access::all(), true);
        memory.window().fill(5);
        let mut expected = memory.window().to_vec();
        expected[first..][..32].fill(8);
        let (runs, operands) = ([one(first as u64, 32)], [3; 32]);
        assert_eq!(memory.run(&memory.apply(&runs, change, &operands)), Ok(()));
        let counted = (
            memory.calls.number.load(Ordering::Relaxed),
            memory.calls.most.load(Ordering::Relaxed),
        );
        assert_eq!(counted, calls, "{change:?}");
        assert_eq!(memory.window(), expected, "{change:?}");
    }
}

/// Changes the same aligned element by the processor's atomics and by the user's function.
#[test]
fn an_aligned_element_excludes_the_processors_atomics() {
    let mut memory = Memory::new(Access::all());
    memory.window().fill(0);
    let (memory, rounds) = (&memory, 20_000u64);
    let at: *mut u64 = ptr::with_exposed_provenance_mut(memory.handle.base() as usize + 16);
    // SAFETY: the pointer is to an aligned word of the window, and only atomics change it.
    let word = unsafe { AtomicU64::from_ptr(at) };
    let by_function = Change {
        op: None,
        code: ADD_WORDS,
        ..adding(8)
    };
    let runs = [one(16, 8)];
    thread::scope(|s| {
        s.spawn(|| (0..rounds).for_each(|_| _ = word.fetch_add(1, Ordering::Relaxed)));
        let operand = 1u64.to_ne_bytes();
        for change in [by_function, sum(Datatype::Uint64)] {
            let apply = memory.apply(&runs, change, &operand);
            (0..rounds).for_each(|_| assert_eq!(memory.run(&apply), Ok(())));
        }
    });
    assert_eq!(word.load(Ordering::Relaxed), 3 * rounds);
}

#[test]
fn a_compare_and_swap_of_any_size_and_alignment() {
    for (size, first) in [(8, 16), (8, 3), (16, 32), (4, 4), (3, 7), (1, 9)] {
        let mut memory = Memory::new(Access::all());
        let mut expected = memory.window().to_vec();
        let change = Change {
            op: Some(AtomicOp::Cswap),
            ..adding(size)
        };
        let found = expected[first..][..2 * size].to_vec();
        // The first element equals its operand, the second does not.
        let mut operands = found.clone();
        operands[size] ^= 1;
        operands.extend(vec![0x99; 2 * size]);
        expected[first..][..size].fill(0x99);
        let runs = [one(first as u64, 2 * size as u64)];
        let mut results = vec![0; 2 * size];
        let apply = Apply {
            results: results.as_mut_ptr().cast(),
            ..memory.apply(&runs, change, &operands)
        };
        assert_eq!(memory.run(&apply), Ok(()));
        assert_eq!(results, found);
        assert_eq!(memory.window(), expected);
    }
}

/// Elements whose bytes lie in several runs, like those of MPI_SHORT_INT, are changed as one element. The bytes between the
/// runs do not change.
#[test]
fn an_element_in_parts_is_one_element() {
    let strided = ApplyRun {
        stride: 8,
        count: 3,
        ..one(4, 6)
    };
    let pairs = vec![one(0, 2), strided, one(28, 4)];
    let halves = [0, 8, 24, 16].map(|offset| one(offset, 4)).to_vec();
    let with_op = |size, op| Change {
        op: Some(op),
        ..adding(size)
    };
    for (runs, size, count) in [(pairs, 6, 4), (halves, 8, 2)] {
        let blocks = |run: &ApplyRun| {
            let run = *run;
            let firsts = (0..run.count).map(move |i| (run.offset + i * run.stride) as usize);
            firsts.flat_map(move |first| first..first + run.length as usize)
        };
        let places: Vec<usize> = runs.iter().flat_map(blocks).collect();
        assert_eq!(places.len(), size * count);
        for change in [
            adding(size),
            with_op(size, AtomicOp::Write),
            with_op(size, AtomicOp::Read),
            with_op(size, AtomicOp::Cswap),
        ] {
            for by_commands in [false, true] {
                let mut memory = Memory::of(Access::all(), by_commands);
                let mut expected = memory.window().to_vec();
                let found: Vec<u8> = places.iter().map(|at| expected[*at]).collect();
                let is_compare = change.op == Some(AtomicOp::Cswap);
                // All elements equal their operands except the second, which differs in its last
                // byte.
                let mut operands = if is_compare {
                    found.clone()
                } else {
                    Vec::new()
                };
                if let Some(last) = operands.get_mut(2 * size - 1) {
                    *last ^= 1;
                }
                operands.resize(operands.len() + places.len(), 3);
                for (i, at) in places.iter().enumerate() {
                    match change.op {
                        Some(AtomicOp::Read) => {}
                        Some(AtomicOp::Cswap) if i / size == 1 => {}
                        Some(_) => expected[*at] = 3,
                        None => expected[*at] = expected[*at].wrapping_add(3),
                    }
                }
                let mut results = vec![0; places.len()];
                let apply = Apply {
                    results: results.as_mut_ptr().cast(),
                    ..memory.apply(&runs, change, &operands)
                };
                assert_eq!(memory.run(&apply), Ok(()), "{change:?}");
                assert_eq!(results, found, "{change:?}");
                assert_eq!(memory.window(), expected, "{change:?}");
                let counted = (
                    memory.calls.number.load(Ordering::Relaxed),
                    memory.calls.most.load(Ordering::Relaxed),
                );
                let calls = if change.op.is_none() {
                    (1, count as u32)
                } else {
                    (0, 0)
                };
                assert_eq!(counted, calls, "{change:?}: no atomic changes them");
            }
        }
    }
}

/// A refused change has no effect.
#[test]
fn what_is_refused_has_no_effect() {
    let mut memory = Memory::new(Access::all());
    let before = memory.all().to_vec();
    let eight = [1u8; 8];
    let end = BYTES as u64;
    let run = |offset, length, stride, count| ApplyRun {
        offset,
        length,
        stride,
        count,
    };
    let (bounds, param) = (Status::VALUE_OUT_OF_BOUNDS, Status::BAD_PARAM);
    let good = one(0, 8);
    let cases = [
        (vec![good, one(end, 8)], bounds),
        (vec![good, one(end - 4, 8)], bounds),
        (vec![good, one(0u64.wrapping_sub(8), 8)], bounds),
        (vec![good, one(u64::MAX - 4, 8)], bounds),
        (vec![run(0, 8, u64::MAX, 2)], bounds),
        (vec![run(0, 8, u64::MAX / 2, 3)], bounds),
        (vec![run(8, 8, end - 8, 2)], bounds),
        (vec![run(0, 8, 0, u64::MAX)], bounds),
        (vec![run(0, u64::MAX - 7, 0, u64::MAX)], bounds),
        (vec![run(0, u64::MAX - 7, 0, 1), one(0, 16)], bounds),
        (vec![run(0, 8, 0, 1 << 32)], bounds),
        (vec![run(0, 8, 0, 2048)], bounds),
        (vec![], param),
        (vec![good, one(8, 0)], param),
        (vec![good, run(8, 8, 0, 0)], param),
        (vec![good, one(8, 12)], param),
    ];
    for (runs, status) in cases {
        for change in [sum(Datatype::Uint64), adding(8)] {
            let apply = memory.apply(&runs, change, &eight);
            assert_eq!(memory.run(&apply), Err(status), "{runs:?}");
        }
    }
    let halves = [one(0, 4), one(8, 4)];
    let typed = memory.run(&memory.apply(&halves, sum(Datatype::Uint64), &eight));
    assert_eq!(typed, Err(param), "the typed atomics have no such element");
    let runs = [good];
    let with = |change| memory.run(&memory.apply(&runs, change, &eight));
    let coded = |code| Change { code, ..adding(8) };
    assert_eq!(with(coded(REFUSED)), Err(Status::NOT_SUPPORTED));
    assert_eq!(with(coded(AGAIN)), Err(Status::ERROR), "nobody repeats it");
    for size in [0, 65, usize::MAX] {
        assert_eq!(with(Change { size, ..adding(8) }), Err(param));
    }
    let other_size = Change {
        size: 4,
        ..sum(Datatype::Uint64)
    };
    assert_eq!(with(other_size), Err(param));
    for op in [AtomicOp::Read, AtomicOp::Cswap] {
        let change = Change {
            op: Some(op),
            ..adding(8)
        };
        assert_eq!(with(change), Err(param), "{op:?} without results");
    }
    let unaligned = [one(1, 16)];
    let apply = memory.apply(&unaligned, coded(REFUSED), &[1; 16]);
    assert_eq!(memory.run(&apply), Err(Status::NOT_SUPPORTED));
    // The handle allows these changes, but the target knows no such region.
    let stranger = Handle::new(memory.handle.base(), end, KEY + 1, Access::all(), 1);
    let apply = Apply {
        remote: &stranger,
        ..memory.apply(&runs, adding(8), &eight)
    };
    assert_eq!(memory.run(&apply), Err(Status::PERM));
    memory.regions.arithmetic = None;
    let none = memory.run(&memory.apply(&runs, adding(8), &eight));
    assert_eq!(none, Err(Status::NOT_SUPPORTED));
    assert_eq!(memory.all(), before);
    let read_only = Memory::new(Access::REMOTE_READ);
    let denied = read_only.run(&read_only.apply(&runs, adding(8), &eight));
    assert_eq!(denied, Err(Status::PERM));
}

#[test]
fn an_element_that_is_named_twice_is_changed_twice() {
    let mut memory = Memory::new(Access::all());
    let run = |offset, stride, count| ApplyRun {
        offset,
        length: 8,
        stride,
        count,
    };
    // The elements are changed by atomics, and on copies.
    for first in [16, 19] {
        let word = |memory: &mut Memory| {
            let bytes = &memory.window()[first as usize..][..8];
            u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
        };
        let before = word(&mut memory);
        let runs = [run(first, 0, 2), run(first + 8, 0, 1), run(first, 8, 2)];
        let operands: Vec<u8> = [1u64, 20, 300, 4000, 50000]
            .iter()
            .flat_map(|operand| operand.to_ne_bytes())
            .collect();
        let words = Change {
            code: ADD_WORDS,
            ..adding(8)
        };
        assert_eq!(memory.run(&memory.apply(&runs, words, &operands)), Ok(()));
        assert_eq!(word(&mut memory), before.wrapping_add(4021));
    }
}

#[test]
fn as_much_as_a_command_takes() {
    let memory = Memory::new(Access::all());
    let room = MOST_APPLIED - 40;
    let operands = vec![0u8; MOST_APPLIED];
    // All runs are on one byte.
    let run = |bytes: usize| ApplyRun {
        offset: 0,
        length: 1,
        stride: 0,
        count: bytes as u64,
    };
    let with = |bytes| memory.run(&memory.apply(&[run(bytes)], adding(1), &operands));
    assert_eq!(with(room), Ok(()));
    assert_eq!(with(room + 1), Err(Status::VALUE_OUT_OF_BOUNDS));
}

/// Returns all changes; a test selects one by its index.
fn changes() -> Vec<Change> {
    let with_op = |size, op| Change {
        op: Some(op),
        ..adding(size)
    };
    let mut all = vec![sum(Datatype::Uint8)];
    for size in [1, 2, 3, 4, 8, 10, 16, 32] {
        all.extend([
            adding(size),
            with_op(size, AtomicOp::Read),
            with_op(size, AtomicOp::Write),
        ]);
    }
    all.extend([PUT, GET]);
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tests any runs that do not overlap against a model.
    #[test]
    fn runs_against_a_model(
        number in 0..27usize,
        shape in prop::collection::vec((0..9u64, 1..4u64, 0..5u64, 1..4u64), 1..5),
        listed in 0..3u64,
        fetches: bool,
        by_commands: bool,
        in_parts: bool,
        seed: u8,
    ) {
        let mut memory = Memory::of(Access::all(), by_commands);
        let change = changes()[number];
        let size = change.size as u64;
        let in_parts = in_parts && change.datatype.is_none();
        // The runs have whole elements, or any number of bytes.
        let unit = if in_parts { 1 } else { size };
        let (mut end, mut runs) = (0, Vec::new());
        for (gap, elements, between, count) in shape {
            // Single blocks of one size at whole distances are listed.
            let (gap, elements, count) = match listed {
                0 => (gap, elements, count),
                length => (gap * unit, length, 1),
            };
            let run = ApplyRun { offset: end + gap, length: elements * unit, stride: elements * unit + between, count };
            end = run.offset + (count - 1) * run.stride + run.length;
            runs.push(run);
        }
        let bytes = |runs: &[ApplyRun]| runs.iter().map(|r| r.length * r.count).sum::<u64>();
        let missing = bytes(&runs).next_multiple_of(size) - bytes(&runs);
        if missing > 0 {
            runs.push(one(end, missing));
            end += missing;
        }
        let total = bytes(&runs);
        let operands: Vec<u8> = (0..total).map(|i| (i as u8).wrapping_mul(13).wrapping_add(seed)).collect();
        let mut results = vec![0xaa; total as usize];
        let reads = change.op == Some(AtomicOp::Read);
        let has_results = reads || fetches && !change.is_transfer;
        let before = memory.window().to_vec();
        let apply = Apply {
            results: match has_results {
                true => results.as_mut_ptr().cast(),
                false => ptr::null_mut(),
            },
            ..memory.apply(&runs, change, &operands)
        };
        let outcome = memory.run(&apply);
        if end > BYTES as u64 {
            prop_assert_eq!(outcome, Err(Status::VALUE_OUT_OF_BOUNDS));
            prop_assert_eq!(memory.window(), before);
            return Ok(());
        }
        prop_assert_eq!(outcome, Ok(()));
        let mut expected = before.clone();
        let (mut packed, mut old) = (operands.iter(), Vec::new());
        for run in &runs {
            for block in 0..run.count {
                let first = (run.offset + block * run.stride) as usize;
                for at in first..first + run.length as usize {
                    old.push(before[at]);
                    let operand = *packed.next().unwrap();
                    match change.op {
                        Some(AtomicOp::Read) => {}
                        Some(AtomicOp::Write) => expected[at] = operand,
                        _ => expected[at] = before[at].wrapping_add(operand),
                    }
                }
            }
        }
        prop_assert_eq!(memory.window(), expected);
        if has_results {
            prop_assert_eq!(results, old);
        }
        let guards = |i: &usize| !(GUARD..GUARD + BYTES).contains(i);
        let all = memory.all();
        let intact = (0..all.len()).filter(guards).all(|i| all[i] == (i * 7 + 1) as u8);
        prop_assert!(intact, "bytes outside of the window were changed");
    }
}
