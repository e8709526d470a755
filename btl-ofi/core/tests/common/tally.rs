//! Origins that change the words of one window by atomics of every width, and counts of their changes. If the
//! words match the counts, each operation was atomic with respect to all others.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::thread;

use btl_ofi::{Endpoint, Handle, Transport};
use plugin_api::{AtomicOp, BtlAtomicOp, Datatype, Status};

use super::numbers::Numbers;
use super::{Calls as _, Patience};

/// The indices of the window's words, by the operations that change them.
const COUNTED: u64 = 0;
const SWAPPED: u64 = 1;
const XORED: u64 = 2;
const SUMMED: u64 = 3;
const HALVES: u64 = 4;
pub(crate) const WORDS: usize = 5;

/// The number of attempts of one compare-and-swap until the word has the expected value.
const SWAPS: usize = 4;

/// The counts of one origin's changes.
#[derive(Default)]
pub(crate) struct Tally {
    fetched: Vec<u64>,
    swapped: u64,
    xored: u64,
    summed: f64,
    halves: [u32; 2],
}

impl Tally {
    /// The counts as text, for another process.
    pub(crate) fn text(&self) -> String {
        let Tally {
            swapped,
            xored,
            summed,
            halves: [low, high],
            ..
        } = self;
        let fetched: String = self.fetched.iter().map(|old| format!(" {old}")).collect();
        format!(
            "{swapped} {xored} {} {low} {high}{fetched}",
            summed.to_bits()
        )
    }

    pub(crate) fn from_text(text: &str) -> Tally {
        let mut numbers = text.split(' ').map(|n| n.parse::<u64>().unwrap());
        let mut next = || numbers.next().unwrap();
        Tally {
            swapped: next(),
            xored: next(),
            summed: f64::from_bits(next()),
            halves: [next() as u32, next() as u32],
            fetched: numbers.collect(),
        }
    }
}

/// An origin of atomics to one window.
pub(crate) struct Origin<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    h: Handle,
    numbers: Numbers,
    pub(crate) tally: Tally,
}

impl<'a> Origin<'a> {
    pub(crate) fn new(t: &'a Transport, address: &[u8], h: Handle, seed: u64) -> Origin<'a> {
        Origin {
            t,
            peer: t.connect(address, 0).unwrap(),
            h,
            numbers: Numbers(seed),
            tally: Tally::default(),
        }
    }

    /// Posts until the operation is accepted, and waits until it is complete.
    fn complete(&self, mut post: impl FnMut(&Transport) -> Status) {
        let deadline = Patience::new();
        loop {
            let status = post(self.t);
            if status == Status::SUCCESS {
                break;
            }
            assert!(status.is_again(), "{status}");
            assert!(deadline.lasts(), "nothing is taken");
            self.t.progress();
            thread::yield_now();
        }
        assert_eq!(self.t.flush(None), Status::SUCCESS);
    }

    /// Makes one operation, which the origin's random numbers choose.
    pub(crate) fn one(&mut self) {
        let (peer, h) = (self.peer, self.h);
        let at = |word| h.base() + 8 * word;
        let mut old = 0u64;
        let out: *mut c_void = (&raw mut old).cast();
        match self.numbers.below(5) {
            0 => {
                let op = BtlAtomicOp::Add;
                self.complete(|t| t.atomic_fop(peer, out, at(COUNTED), &h, op, 1, None));
                self.tally.fetched.push(old);
            }
            1 => {
                // Local origins may always win against remote origins, so not every swap succeeds.
                let mut expected = 0;
                for _ in 0..SWAPS {
                    let wanted = expected + 1;
                    self.complete(|t| {
                        t.atomic_cswap(peer, out, at(SWAPPED), &h, expected, wanted, None)
                    });
                    if old == expected {
                        self.tally.swapped += 1;
                        break;
                    }
                    expected = old;
                }
            }
            2 => {
                let value = (self.numbers.below(1 << 20) as u64) << 13;
                let op = BtlAtomicOp::Xor;
                self.complete(|t| t.atomic_op(peer, at(XORED), &h, op, value, None));
                self.tally.xored ^= value;
            }
            3 => {
                // Sums of small whole numbers are exact.
                let value = self.numbers.below(100) as f64;
                let (d, op, from) = (Datatype::Double, AtomicOp::Sum, (&raw const value).cast());
                self.complete(|t| t.atomic_opv(peer, from, at(SUMMED), &h, d, op, 1, None));
                self.tally.summed += value;
            }
            _ => {
                let value = [self.numbers.below(9) as u32, self.numbers.below(9) as u32];
                let (d, op, from) = (Datatype::Uint32, AtomicOp::Sum, value.as_ptr().cast());
                let mut into = [0u32; 2];
                let into: *mut c_void = into.as_mut_ptr().cast();
                self.complete(|t| t.atomic_fopv(peer, from, into, at(HALVES), &h, d, op, 2, None));
                for (sum, value) in self.tally.halves.iter_mut().zip(value) {
                    *sum += value;
                }
            }
        }
    }
}

/// Compares the window's words with the counts of its origins.
pub(crate) fn check(words: [u64; WORDS], tallies: &[Tally], seed: u64) {
    let word = |n: u64| words[n as usize];
    let fetched: Vec<u64> = tallies.iter().flat_map(|t| t.fetched.clone()).collect();
    assert_eq!(word(COUNTED), fetched.len() as u64, "seed {seed}");
    let distinct: HashSet<u64> = fetched.iter().copied().collect();
    assert_eq!(distinct.len(), fetched.len(), "seed {seed}");
    let swapped = tallies.iter().map(|t| t.swapped).sum::<u64>();
    assert_eq!(word(SWAPPED), swapped, "seed {seed}");
    let xored = tallies.iter().fold(0, |all, t| all ^ t.xored);
    assert_eq!(word(XORED), xored, "seed {seed}");
    let summed = tallies.iter().map(|t| t.summed).sum::<f64>();
    assert_eq!(f64::from_bits(word(SUMMED)), summed, "seed {seed}");
    let halves = [0, 1].map(|n| tallies.iter().map(|t| t.halves[n]).sum::<u32>());
    let seen = word(HALVES).to_ne_bytes();
    let (low, high) = seen.split_at(4);
    let seen = [low, high].map(|half| u32::from_ne_bytes(half.try_into().unwrap()));
    assert_eq!(seen, halves, "seed {seed}");
}
