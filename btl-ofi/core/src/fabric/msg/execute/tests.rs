//! Tests that consecutive puts have the same effect as each put alone.

use plugin_api::{Access, Status};
use proptest::prelude::*;

use crate::fabric::msg::hostile::{GUARD, KEY, Memory, ONES, WORDS, failures};
use crate::mem::handle::Handle;
use crate::mem::regions::Known;
use crate::op::responder::{Command, GET, PUT};

/// The keys of a region of the same memory that allows no puts, and of a region that is not
/// registered.
const READ_ONLY: u64 = 8;
const UNKNOWN: u64 = 9;

/// An entry: its region, whether it is a put, its offset in the window, and its size in bytes.
type Entry = (u64, bool, u64, u32);

fn command(memory: &Memory, (key, put, first, size): Entry) -> Command {
    let read_only = read_only(memory);
    let (key, cookie) = match key {
        KEY => (KEY, memory.handle.cookie()),
        READ_ONLY => (READ_ONLY, read_only.cookie()),
        other => (other, memory.handle.cookie()),
    };
    Command {
        address: memory.handle.base() + first,
        key,
        cookie,
        ..memory.command(if put { PUT } else { GET }, size, 0)
    }
}

fn read_only(memory: &Memory) -> Handle {
    let (base, length) = (memory.handle.base(), memory.handle.length());
    Handle::new(base, length, READ_ONLY, Access::REMOTE_READ, 1)
}

/// Executes entries in one batch, and compares the effect with the effect of one batch per entry.
fn executed(entries: &[Entry]) -> Result<(), TestCaseError> {
    let memory = Memory::new();
    {
        let mut regions = memory.regions.lock();
        let mut insert = |handle, access| {
            regions.insert(Known {
                handle,
                access,
                by_commands: false,
            });
        };
        insert(memory.handle, Access::all());
        insert(read_only(&memory), Access::REMOTE_READ);
    }
    let mut bytes = vec![0u8; 8 * WORDS];
    let mut expected = Vec::new();
    for (&(key, put, first, size), number) in entries.iter().zip(0..) {
        let place = first as usize..first as usize + size as usize;
        if key == UNKNOWN || key == READ_ONLY && put {
            expected.push((number, Status::PERM));
        } else if place.end > bytes.len() {
            expected.push((number, Status::VALUE_OUT_OF_BOUNDS));
        } else if put {
            bytes[place].fill(ONES as u8);
        }
    }
    let commands: Vec<Command> = entries.iter().map(|e| command(&memory, *e)).collect();
    prop_assert_eq!(failures(&memory, &commands), expected);
    let window = &memory.words[GUARD..GUARD + WORDS];
    let window: Vec<u8> = window.iter().flat_map(|w| w.to_ne_bytes()).collect();
    prop_assert_eq!(window, bytes);
    prop_assert!(memory.is_intact());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn puts_in_a_row(
        // Most entries are puts to one region.
        entries in prop::collection::vec(
            (prop::sample::select(vec![KEY, KEY, KEY, KEY, READ_ONLY, UNKNOWN]), prop::bool::weighted(0.9), 0..520u64, 1..40u32),
            1..24,
        ),
    ) {
        executed(&entries)?;
    }
}
