//! Tests with applies that a faulty or hostile origin could leave in its ring. No apply makes the target panic, or access
//! memory outside its regions.

use plugin_api::{Access, AtomicOp};
use proptest::prelude::*;

use super::*;
use crate::mem::handle::Handle;
use crate::mem::regions::Known;
use crate::sm::segment::{Claim, OWN, OWN_LONG, Place};

const KEY: u64 = 5;
/// Words of the target's region, between guard words that must not change.
const WORDS: usize = 32;
const GUARD: usize = 64;
const UNCHANGED: u64 = 0x5555_aaaa_5555_aaaa;

struct Target {
    server: Server,
    claim: Claim,
    regions: Lock<Regions>,
    memory: Vec<u64>,
    handle: Handle,
    position: u32,
}

impl Target {
    fn new() -> Target {
        let segment = Segment::make(9).unwrap();
        let place = Place {
            pid: std::process::id(),
            descriptor: segment.descriptor(),
            nonce: 9,
        };
        let claim = place.claim().unwrap();
        claim.allocate_own(OWN_LONG).unwrap();
        let mut memory = vec![UNCHANGED; WORDS + 2 * GUARD];
        memory[GUARD..GUARD + WORDS].fill(0);
        let base = memory[GUARD..].as_mut_ptr().expose_provenance() as u64;
        let handle = Handle::new(base, 8 * WORDS as u64, KEY, Access::all(), 1);
        let mut regions = Regions::default();
        let access = Access::all();
        regions.insert(Known {
            handle,
            access,
            by_commands: false,
        });
        Target {
            server: Server::new(segment),
            position: claim.position,
            claim,
            regions: Lock::new(regions, false),
            memory,
            handle,
        }
    }

    /// Lets the target execute an apply whose operands are in the ring's own payload. Returns the status of the answer.
    fn execute(&mut self, words: &[u64], count: u32, payload: u32) -> i32 {
        let ring = self.claim.ring();
        // SAFETY: the payload was allocated, and the target does not run meanwhile.
        unsafe {
            ring.own()
                .cast::<u64>()
                .copy_from(words.as_ptr(), words.len())
        };
        let slot = ring.slot(self.position);
        slot.publish(
            self.position,
            &Command {
                what: APPLY,
                count,
                payload,
                address: self.handle.base(),
                key: KEY,
                cookie: self.handle.cookie(),
                ..Command::default()
            },
        );
        self.claim.announce();
        self.server.attend(&self.regions);
        let answer = self
            .claim
            .ring()
            .slot(self.position)
            .answered(self.position);
        self.position += 1;
        answer.unwrap().status
    }

    fn is_intact(&self) -> bool {
        let (before, after) = (&self.memory[..GUARD], &self.memory[GUARD + WORDS..]);
        before.iter().chain(after).all(|w| *w == UNCHANGED)
    }
}

/// The operands of a fetching replacement of two blocks of an unaligned element of 12 bytes, and
/// the bytes that it carries.
fn words() -> (Vec<u64>, Carried) {
    let first = 12 << 32 | 0xff << 40 | (AtomicOp::Write as u64) << 48;
    let mut words = vec![first, 1, 3, 12 | 2 << 32, 20];
    words.extend([0x0101_0101_0101_0101; 3]);
    let carried = Carried {
        operands: 40 + 24,
        results: 24,
    };
    (words, carried)
}

/// The operands of a put of two runs of 12 bytes, and the bytes that it carries.
fn put_words() -> (Vec<u64>, Carried) {
    let (mut words, mut carried) = words();
    words[0] = 1 << 32 | 0xff << 40 | (AtomicOp::Write as u64) << 48 | 1 << 56;
    carried.results = 0;
    (words, carried)
}

#[test]
fn a_command_is_executed_and_hostile_ones_are_refused() {
    let mut target = Target::new();
    let (words, carried) = words();
    assert_eq!(target.execute(&words, carried.count(), OWN), 0);
    let bytes: Vec<u8> = target.memory[GUARD..GUARD + WORDS]
        .iter()
        .flat_map(|w| w.to_ne_bytes())
        .collect();
    let changed = |i: usize| (3..15).contains(&i) || (23..35).contains(&i);
    assert!((0..bytes.len()).all(|i| bytes[i] == u8::from(changed(i))));
    target.memory[GUARD..GUARD + WORDS].fill(0);
    let (put, put_carried) = put_words();
    assert_eq!(target.execute(&put, put_carried.count(), OWN), 0);
    let put: Vec<u8> = target.memory[GUARD..GUARD + WORDS]
        .iter()
        .flat_map(|w| w.to_ne_bytes())
        .collect();
    assert_eq!(put, bytes);
    let long = (OWN_LONG as u32 - 32) | OWN;
    let whole = carried.count();
    for (count, payload) in [
        (0, OWN),
        (1, OWN),
        (whole + 1, OWN),
        (whole - 8, OWN),
        (whole | 0xffff, OWN),
        (whole | 0xffff << 16, OWN),
        (u32::MAX, OWN),
        (whole, long),
        (whole, u32::MAX),
        (whole, !OWN),
    ] {
        let status = target.execute(&words, count, payload);
        assert_eq!(
            Status(status),
            Status::BAD_PARAM,
            "{count:#x}, {payload:#x}"
        );
    }
    assert!(target.is_intact());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_applies(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..64u32, any::<u16>()), 1..4),
        count in prop_oneof![Just(None), any::<u32>().prop_map(Some)],
        transfers: bool,
    ) {
        let mut target = Target::new();
        let (mut words, carried) = if transfers { put_words() } else { words() };
        for (at, shift, value) in changes {
            let at = at.index(words.len());
            words[at] ^= u64::from(value).rotate_left(shift);
        }
        let status = target.execute(&words, count.unwrap_or(carried.count()), OWN);
        prop_assert!(status <= 0);
        prop_assert!(target.is_intact(), "memory outside of the region was changed");
    }
}
