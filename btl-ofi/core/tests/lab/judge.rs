//! The judge: random operations on a window, each compared with a model of the window and the
//! results.
//!
//! Between two flushes, each operation has its own slot of the window, so any order of effects leads
//! to the same result. An operation that is reported as failed may have taken effect or not; any
//! other operation must have taken effect.

use crate::common::Calls as _;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use btl_ofi::{Apply, Change, Endpoint, Handle, Notice, Op, Transport};
use plugin_api::{ApplyRun, AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status};

use super::Tally;
use super::dice::Dice;
use super::model::{ADD_BYTES, Issued, SLOT, Words, arithmetic, bytes, first, from_bytes, replace};
use super::said::{Kept, Losses};
use crate::common::Patience;
use crate::common::told::Ended as _;

/// The number of polls of origin and target after which no earlier operation is outstanding. No script delays an
/// operation longer.
const QUIET: u64 = 300;

/// One thread's share of a window.
pub(crate) struct Judge<'a> {
    pub(crate) t: &'a Transport,
    pub(crate) peers: Vec<NonNull<Endpoint>>,
    pub(crate) handle: Handle,
    /// The slots of this judge.
    pub(crate) slots: Range<usize>,
    pub(crate) dice: Dice,
    /// Whether operations may fail.
    pub(crate) faults: bool,
    /// Whether peers may be given up.
    pub(crate) gone: bool,
    /// Whether some operations have no callback.
    pub(crate) untracked: bool,
    pub(crate) losses: &'a Losses,
    pub(crate) tally: Tally,
    pub(crate) model: HashMap<usize, Words>,
    /// The memory that callbacks may still write; checked once the transport is closed.
    pub(crate) kept: Kept,
    /// The number of the target's progress calls. `None` unless the target itself executes operations,
    /// even after they were given up.
    pub(crate) target_polls: Option<&'a AtomicU64>,
}

impl<'a> Judge<'a> {
    /// A judge without faults.
    pub(crate) fn new(
        t: &'a Transport,
        peers: &[usize],
        handle: Handle,
        slots: Range<usize>,
        seed: u64,
        losses: &'a Losses,
    ) -> Judge<'a> {
        let peer = |p: &usize| NonNull::new(*p as *mut _).unwrap();
        Judge {
            t,
            peers: peers.iter().map(peer).collect(),
            handle,
            slots,
            dice: Dice(seed),
            faults: false,
            gone: false,
            untracked: true,
            losses,
            tally: Tally::default(),
            model: HashMap::new(),
            kept: Kept::default(),
            target_polls: None,
        }
    }

    fn place(&self, slot: usize) -> u64 {
        self.handle.base() + (slot * SLOT * 8) as u64
    }

    fn actual(&self, slot: usize) -> Words {
        let at = self.place(slot) as *const u64;
        // SAFETY: the window lives as long as its region; other judges have other slots.
        std::array::from_fn(|i| unsafe { ptr::read_volatile(at.add(i)) })
    }

    /// Runs epochs of operations; each epoch ends with a flush and is judged.
    pub(crate) fn epochs(&mut self, count: usize) {
        for slot in self.slots.clone() {
            let now = self.actual(slot);
            self.model.insert(slot, now);
        }
        for _ in 0..count {
            let mut issued = Vec::new();
            let before = self.losses.untracked.load(Ordering::Relaxed);
            for slot in self.slots.clone() {
                if self.dice.below(8) != 0 {
                    let operation = self.issue(slot);
                    issued.push(operation);
                }
                if self.dice.below(6) == 0 {
                    self.t.progress();
                }
            }
            let status = self.flush();
            if self.faults && self.by_order() {
                self.await_late();
            }
            let lost = self.tally.lost;
            self.judge(&issued, status, before);
            for o in &mut issued {
                if let Some(outcome) = o.outcome.take() {
                    let taken = o.refused.is_none();
                    self.kept.keep(&o.what, outcome, taken);
                }
            }
            if self.tally.lost > lost {
                // An operation without callback may be outstanding and use these buffers.
                std::mem::forget(issued);
            }
        }
    }

    /// Whether read-backs confirm puts (completion by order).
    fn by_order(&self) -> bool {
        let way = self.t.capabilities().completion.to_string_lossy();
        way.contains("by a read behind")
    }

    /// The bytes of a put still arrive if the put was sent, then reported as failed because no read confirmed
    /// it.
    fn await_late(&self) {
        for _ in 0..QUIET {
            self.t.progress();
        }
    }

    /// Flushes all peers at once, or one after another.
    fn flush(&mut self) -> Status {
        if self.dice.below(2) == 0 {
            return self.t.flush(None);
        }
        let mut worst = Status::SUCCESS;
        for peer in &self.peers {
            // SAFETY: peers live until the transport closes.
            let status = self.t.flush(Some(unsafe { peer.as_ref() }));
            if status != Status::SUCCESS {
                worst = status;
            }
        }
        worst
    }

    /// Starts one random operation on a slot.
    fn issue(&mut self, slot: usize) -> Issued {
        let now = self.model[&slot];
        let mut o = Issued {
            what: String::new(),
            slot,
            then: now,
            half: None,
            fetched: Vec::new(),
            source: Box::new(self.dice.words()),
            result: Box::new([0; SLOT]),
            outcome: None,
            refused: None,
        };
        if !self.untracked || self.dice.below(2) == 0 {
            o.outcome = Some(Box::default());
        }
        let completion = o.outcome.as_ref().and_then(|o| o.completion());
        let peer = self.dice.pick(&self.peers);
        let (t, h, at, none) = (self.t, self.handle, self.place(slot), ptr::null_mut());
        let source = o.source.as_mut_ptr().cast::<c_void>();
        let result = o.result.as_mut_ptr().cast::<c_void>();
        let narrow = self.dice.below(2) == 0;
        let flags = if narrow {
            OpFlags::WORD_32
        } else {
            OpFlags::empty()
        };
        let width = if narrow { 4 } else { 8 };
        let op = self.dice.pick(BtlAtomicOp::ALL);
        let operand = if narrow {
            o.source[0] & 0xffff_ffff
        } else {
            o.source[0]
        };
        let old = first(now[0], narrow);
        let kinds = if t.uses_messages() { 10 } else { 8 };
        match self.dice.below(kinds) {
            0 => {
                let size = 1 + self.dice.below(SLOT * 8);
                let mut then = bytes(&now);
                then[..size].copy_from_slice(&bytes(&o.source[..])[..size]);
                o.then = from_bytes(&then);
                o.what = format!("put of {size}");
                o.refused = self.insist(|| t.put(peer, source, at, &h, size, completion));
            }
            1 => {
                let size = 1 + self.dice.below(SLOT * 8);
                o.fetched = bytes(&now)[..size].to_vec();
                o.what = format!("get of {size}");
                o.refused = self.insist(|| t.get(peer, result, at, &h, size, completion));
            }
            2 => {
                o.then[0] = replace(now[0], arithmetic(op, old, operand, narrow), narrow);
                o.what = format!("{op:?} of {width}");
                o.refused =
                    self.insist(|| t.atomic_op_of(peer, at, &h, op, operand, flags, completion));
            }
            3 => {
                o.then[0] = replace(now[0], arithmetic(op, old, operand, narrow), narrow);
                o.fetched = now[0].to_ne_bytes()[..width].to_vec();
                o.what = format!("fetching {op:?} of {width}");
                o.refused = self.insist(|| {
                    t.atomic_fop_of(peer, result, at, &h, op, operand, flags, completion)
                });
            }
            4 => {
                let compare = if self.dice.below(2) == 0 {
                    old
                } else {
                    old ^ 1
                };
                if compare == old {
                    o.then[0] = replace(now[0], operand, narrow);
                }
                o.fetched = now[0].to_ne_bytes()[..width].to_vec();
                o.what = format!("compare-swap of {width}");
                o.refused = self.insist(|| {
                    t.atomic_cswap_of(peer, result, at, &h, compare, operand, flags, completion)
                });
            }
            5 => {
                let size = self.dice.below((SLOT - 1) * 8 + 1);
                let mut then = bytes(&now);
                then[..size].copy_from_slice(&bytes(&o.source[..])[..size]);
                let half = from_bytes(&then);
                o.half = Some(half);
                o.then = half;
                o.then[SLOT - 1] = half[SLOT - 1].wrapping_add(o.source[SLOT - 1]);
                o.what = format!("put of {size} with notification");
                let put = Op::put(&h, at, (source, none), size).with_completion(completion);
                let notice = Notice {
                    counter: &h,
                    address: at + 8 * (SLOT as u64 - 1),
                    add: o.source[SLOT - 1],
                };
                // SAFETY: buffers and peers outlive the flush.
                o.refused = self.insist(|| unsafe { t.put_notify(peer, &put, &notice) });
            }
            8.. => {
                let (run, elements) = self.run();
                let adds = self.dice.below(2) == 0;
                let fetches = self.dice.below(2) == 0;
                let blocks = (0..run.count).map(|i| (run.offset + i * run.stride) as usize);
                let places = blocks.flat_map(|at| at..at + run.length as usize);
                let (before, operands) = (bytes(&now), bytes(&o.source[..]));
                let mut then = before.clone();
                for (place, operand) in places.zip(operands) {
                    then[place] = match adds {
                        true => before[place].wrapping_add(operand),
                        false => operand,
                    };
                    if fetches {
                        o.fetched.push(before[place]);
                    }
                }
                o.then = from_bytes(&then);
                o.what = format!("apply to {run:?}, elements of {elements}, adds: {adds}");
                let apply = Apply {
                    remote: &h,
                    address: at,
                    runs: &[run],
                    change: Change {
                        size: elements,
                        datatype: None,
                        op: (!adds).then_some(AtomicOp::Write),
                        code: ADD_BYTES,
                        is_transfer: false,
                    },
                    operands: source,
                    results: if fetches { result } else { ptr::null_mut() },
                    completion,
                };
                // SAFETY: the result and the peers outlive the flush.
                o.refused = self.insist(|| unsafe { t.apply(peer, &apply) });
            }
            kind => {
                let (datatype, sum) = (Datatype::Uint64, AtomicOp::Sum);
                let most = t.atomic_count(AtomicKind::Fetch, datatype, sum).unwrap();
                let n = 1 + self.dice.below(most.min(SLOT));
                for (then, operand) in o.then.iter_mut().zip(&o.source[..n]) {
                    *then = then.wrapping_add(*operand);
                }
                o.what = format!("vector of {n}, kind {kind}");
                if kind == 7 {
                    o.fetched = bytes(&now[..n]);
                }
                o.refused = self.insist(|| {
                    if kind == 7 {
                        t.atomic_fopv(peer, source, result, at, &h, datatype, sum, n, completion)
                    } else {
                        t.atomic_opv(peer, source, at, &h, datatype, sum, n, completion)
                    }
                });
            }
        }
        o
    }

    /// Some blocks of a slot, and the size of their elements.
    fn run(&mut self) -> (ApplyRun, usize) {
        let size = 1 + self.dice.below(16);
        let length = size * (1 + self.dice.below(2));
        let stride = length + self.dice.below(5);
        let most = 1 + (SLOT * 8 - length) / stride;
        let count = 1 + self.dice.below(most);
        let offset = self
            .dice
            .below(SLOT * 8 - (count - 1) * stride - length + 1);
        let run = ApplyRun {
            offset: offset as u64,
            length: length as u64,
            stride: stride as u64,
            count: count as u64,
        };
        (run, size)
    }

    /// Posts until the provider accepts the operation; returns the status of a refusal for another
    /// reason.
    fn insist(&self, mut post: impl FnMut() -> Status) -> Option<Status> {
        let deadline = Patience::new();
        loop {
            let status = post();
            if status == Status::SUCCESS {
                return None;
            }
            if !status.is_again() {
                assert!(self.faults, "a post was refused: {status}");
                return Some(status);
            }
            assert!(deadline.lasts(), "the provider takes nothing");
            self.t.progress();
        }
    }

    /// Reports operations that were neither completed nor reported, or were reported twice.
    fn lose(&mut self, count: u64, what: &str) {
        println!("@lost {count}: {what}");
        self.tally.lost += count;
    }

    /// Compares every slot and result with the model, and copies the effect of failed operations
    /// into the model. Each operation is completed, reported, or lost.
    fn judge(&mut self, issued: &[Issued], flushed: Status, losses_before: u64) {
        let gone = flushed == Status::UNREACH || flushed == Status::FATAL;
        assert!(self.gone || !gone, "no peer is gone, flush said {flushed}");
        if self.gone {
            self.settle();
        }
        let reported = self.losses.untracked.load(Ordering::Relaxed) - losses_before;
        let mut undone = 0;
        for o in issued {
            self.tally.checked += 1;
            let (now, was) = (self.actual(o.slot), self.model[&o.slot]);
            self.model.insert(o.slot, now);
            let may_fail = match (&o.outcome, o.refused) {
                (_, Some(_)) => true,
                (Some(outcome), None) => {
                    let calls = outcome.calls.load(Ordering::Relaxed);
                    if calls != 1 {
                        let what = format!("{}: {calls} callbacks, flush said {flushed}", o.what);
                        self.lose(1, &what);
                        continue;
                    }
                    outcome.status.load(Ordering::Relaxed) != Status::SUCCESS.0
                }
                // The transport reports only the number of failed operations without callback, not
                // which they are.
                (None, None) => flushed != Status::SUCCESS || reported > 0,
            };
            if may_fail {
                assert!(self.faults, "{}: failed (flush said {flushed})", o.what);
                let done = now == o.then && o.result_begins();
                if now != o.then && now != was && Some(now) != o.half {
                    self.lose(1, &format!("{}: half done", o.what));
                } else if o.outcome.is_some() || o.refused.is_some() {
                    self.tally.failed += 1;
                } else if !done {
                    undone += 1;
                }
            } else if now != o.then {
                let what = format!("{}: {now:x?} from {was:x?}, not {:x?}", o.what, o.then);
                self.lose(1, &what);
            } else if !o.result_begins() {
                self.lose(1, &format!("{}: fetched {:x?}", o.what, o.result));
            }
        }
        if gone {
            // Each operation that had no effect belongs to the peer that the flush reports as lost.
            self.tally.failed += reported.max(undone);
        } else {
            self.tally.failed += reported;
            if undone > reported {
                let what = format!("{undone} without callback failed, {reported} were reported");
                self.lose(undone - reported, &what);
            }
            assert!(
                reported == 0 || flushed == Status::ERROR,
                "{reported} were lost, flush must say so, and said {flushed}"
            );
            // With several threads, the flush of one thread may report another thread's failure. After a
            // peer was given up, the next flush reports the failures since then.
            assert!(
                reported > 0 || !self.untracked || self.gone || flushed == Status::SUCCESS,
                "nothing was lost since the last flush, and this one said {flushed}"
            );
        }
        for slot in self.slots.clone() {
            assert_eq!(
                self.actual(slot),
                self.model[&slot],
                "slot {slot} changed by itself"
            );
        }
    }

    /// A peer that was given up may still change the buffers of operations that were outstanding to
    /// it. Waits until the provider holds no operation, or no longer accesses any memory.
    fn settle(&self) {
        let deadline = Patience::new();
        loop {
            let stats = self.t.stats();
            if self.losses.is_cut_off() || stats.posted == stats.completed + stats.failed {
                break;
            }
            assert!(deadline.lasts(), "operations never end: {stats:?}");
            self.t.progress();
        }
        let Some(polls) = self.target_polls else {
            return;
        };
        for _ in 0..QUIET {
            self.t.progress();
        }
        let until = polls.load(Ordering::Relaxed) + QUIET;
        while polls.load(Ordering::Relaxed) < until {
            assert!(deadline.lasts(), "the target does nothing");
            self.t.progress();
            std::thread::yield_now();
        }
    }
}
