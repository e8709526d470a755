//! Tests with batches that a faulty or hostile origin could send. No batch makes the target panic, access memory outside
//! its regions, or answer more than the batch asked for.

use std::cell::RefCell;

use plugin_api::{Access, ApplyRun, AtomicKind, AtomicOp, Datatype, Status};
use proptest::prelude::*;

use crate::base::lock::Lock;
use crate::fabric::msg::execute;
use crate::fabric::msg::inbox::Inbox;
use crate::fabric::msg::wire::{
    self, Entries, Form, Header, Kind, LARGEST_GET, MOST_ANSWER, Unread,
};
use crate::mem::handle::Handle;
use crate::mem::regions::{Known, Regions};
use crate::op::apply::{Apply, Area, Carried, Change};
use crate::op::responder::{self, APPLY, Command, GET, NOTIFY, PUT, Responder, SEND};

pub(super) const KEY: u64 = 7;
/// The keys of the target and of the origin.
pub(super) const OWN_KEY: u64 = 0x6b65_795f_6f66_5f74;
const ORIGIN_KEY: u64 = 0x6b65_795f_6f66_5f6f;
/// Words of a window, and words around the window that nothing may change.
pub(super) const WORDS: usize = 64;
pub(super) const GUARD: usize = 256;
const UNCHANGED: u64 = 0x5555_aaaa_5555_aaaa;
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;

/// Memory of the target: a registered window between guard words that are not registered, and the buffer that receives
/// messages.
pub(super) struct Memory {
    pub(super) words: Vec<u64>,
    pub(super) handle: Handle,
    pub(super) regions: Lock<Regions>,
    /// The buffer keeps the bytes of the previous message.
    buffer: RefCell<Vec<u64>>,
}

impl Memory {
    pub(super) fn new() -> Memory {
        let mut words = vec![UNCHANGED; WORDS + 2 * GUARD];
        words[GUARD..GUARD + WORDS].fill(0);
        let base = words[GUARD..].as_mut_ptr().expose_provenance() as u64;
        let access = Access::all();
        let handle = Handle::new(base, (WORDS * 8) as u64, KEY, access, 1);
        let mut regions = Regions::default();
        regions.insert(Known {
            handle,
            access,
            by_commands: false,
        });
        Memory {
            words,
            handle,
            regions: Lock::new(regions, false),
            buffer: RefCell::new(vec![0; MOST_ANSWER]),
        }
    }

    pub(super) fn command(&self, what: u32, count: u32, word: u64) -> Command {
        Command {
            what,
            count,
            address: self.handle.base() + 8 * word,
            key: KEY,
            cookie: self.handle.cookie(),
            compare: 0,
        }
    }

    pub(super) fn is_intact(&self) -> bool {
        let (before, after) = (&self.words[..GUARD], &self.words[GUARD + WORDS..]);
        before.iter().chain(after).all(|w| *w == UNCHANGED)
    }
}

/// Appends an entry without its operands.
fn push_entry(words: &mut Vec<u64>, c: &Command, form: &Form, region: &mut (u64, u64)) {
    let mut entry = vec![0; form.words()];
    // SAFETY: the entry has room for the words of its form.
    let end = unsafe { wire::write_entry(entry.as_mut_ptr(), c, form, region) };
    entry.truncate((end as usize - entry.as_ptr() as usize) / 8);
    words.extend(entry);
}

/// A batch in which each kind of command occurs.
fn batch(memory: &Memory) -> Vec<u64> {
    let atomic =
        |kind, datatype: Datatype, op: AtomicOp| responder::what(kind, datatype as u32, op as u32);
    let commands = [
        memory.command(PUT, 13, 0),
        memory.command(GET, 24, 1),
        memory.command(
            atomic(AtomicKind::Update, Datatype::Uint64, AtomicOp::Sum),
            2,
            4,
        ),
        memory.command(
            atomic(AtomicKind::Fetch, Datatype::Uint32, AtomicOp::Bor),
            3,
            6,
        ),
        memory.command(
            atomic(AtomicKind::Fetch, Datatype::Int64, AtomicOp::Read),
            1,
            8,
        ),
        Command {
            address: 9,
            ..memory.command(SEND, 21, 0)
        },
        memory.command(
            atomic(AtomicKind::Compare, Datatype::Uint64, AtomicOp::Cswap),
            1,
            9,
        ),
        memory.command(PUT, 8, 10),
        memory.command(NOTIFY, 1, 11),
    ];
    message(&commands)
}

/// A batch of these commands. All operands are ones.
fn message(commands: &[Command]) -> Vec<u64> {
    let mut words = vec![0; Header::WORDS];
    let (mut region, mut results) = ((0, 0), 0);
    for c in commands {
        let form = Form::of(c.what, c.count).unwrap();
        push_entry(&mut words, c, &form, &mut region);
        words.resize(words.len() + form.operands, ONES);
        results += form.results as u32;
    }
    Header {
        kind: Kind::Batch,
        cookie: 1,
        line: 2,
        client: 3,
        sequence: 4,
        entries: commands.len() as u32,
        results,
    }
    .write(OWN_KEY, &mut words);
    words
}

/// The header and the words of an answer.
pub(super) fn read(answer: &mut [u64]) -> (Header, &mut [u64]) {
    let bytes = size_of_val(answer);
    let (header, words, _) = Header::read(answer, bytes, ORIGIN_KEY).unwrap();
    (header, words)
}

/// The failures in the target's answer to these commands.
pub(super) fn failures(memory: &Memory, commands: &[Command]) -> Vec<(u32, Status)> {
    let mut answer = treat(memory, &message(commands)).unwrap();
    let (header, words) = read(&mut answer);
    let named = &words[Header::WORDS..][..header.entries as usize];
    let of = |w: &u64| (*w as u32, Status((w >> 32) as i32));
    named.iter().map(of).collect()
}

/// The header word that has the message's length in its lower half.
const LENGTH: usize = 5;

/// Passes the bytes of a message to a target. Returns the answer if the message is a valid batch.
pub(super) fn treat(memory: &Memory, bytes: &[u64]) -> Option<Vec<u64>> {
    let mut buffer = memory.buffer.borrow_mut();
    let length = bytes.len().min(MOST_ANSWER);
    buffer[..length].copy_from_slice(&bytes[..length]);
    let (header, words, _) = Header::read(&mut buffer, 8 * length, OWN_KEY).ok()?;
    let _ = wire::take_introduction(&words[Header::WORDS..]);
    execute::check(&header, (words, Header::WORDS), true, MOST_ANSWER).ok()?;
    let mut answer = Vec::new();
    let batch = (words, Header::WORDS);
    let mut inbox = Inbox::default();
    execute::execute(
        (&mut Responder::default(), Some((&mut inbox, None, None))),
        &memory.regions,
        batch,
        &mut answer,
        (header, ORIGIN_KEY),
    );
    let sends = inbox.begin(0);
    for send in sends.iter().flat_map(|sends| sends.iter()) {
        assert!(send.endpoint.is_null() && send.bytes.len() <= 8 * length);
    }
    Some(answer)
}

#[test]
fn each_kind_is_executed_and_answered() {
    let mut memory = Memory::new();
    memory.words[GUARD + 1] = u64::MAX;
    memory.words[GUARD + 8] = 42;
    let mut answer = treat(&memory, &batch(&memory)).unwrap();
    let (header, words) = read(&mut answer);
    assert_eq!((header.kind, header.entries), (Kind::Answer, 0));
    let results = &words[Header::WORDS..];
    let one = ONES;
    // The put writes 13 bytes. So the first word of the get, which reads words 1 to 3, has 5 of
    // these bytes.
    let got = u64::MAX << 40 | one & 0xff_ffff_ffff;
    // Three operands of half a word fill one and a half words; the origin sent the rest.
    assert_eq!(results, [got, 0, 0, 0, one << 32, 42, 0]);
    assert_eq!(memory.words[GUARD + 4..GUARD + 6], [one; 2]);
    assert_eq!(memory.words[GUARD + 9], one, "zero was expected and found");
    assert_eq!(memory.words[GUARD + 10..GUARD + 12], [one; 2], "notified");
    assert!(memory.is_intact());
}

/// A put and its notification are one operation: either both are executed, or the answer names only the notification as
/// failed.
#[test]
fn a_notification_shares_the_fate_of_its_put() {
    let memory = Memory::new();
    let outside = memory.command(PUT, 8, WORDS as u64);
    let stale = Command {
        key: 99,
        ..memory.command(PUT, 8, 0)
    };
    let notice = |word| memory.command(NOTIFY, 1, word);
    let commands = [
        notice(0),
        outside,
        notice(1),
        memory.command(PUT, 8, 2),
        notice(3),
        outside,
        stale,
        notice(4),
        memory.command(PUT, 8, 5),
        notice(WORDS as u64),
        notice(6),
        memory.command(PUT, 8, 7),
        Command {
            address: memory.handle.base() + 8 * 8 + 1,
            ..notice(0)
        },
    ];
    let bounds = Status::VALUE_OUT_OF_BOUNDS;
    let expected = [
        (2, bounds),
        (5, bounds),
        (7, Status::PERM),
        // A notification behind a failed notification fails, too. Only a hostile origin sends this.
        (10, bounds),
        (12, Status::BAD_PARAM),
    ];
    assert_eq!(failures(&memory, &commands), expected);
    let mut words = [0; WORDS];
    [0, 2, 3, 5, 7]
        .iter()
        .for_each(|i: &usize| words[*i] = ONES);
    assert_eq!(memory.words[GUARD..GUARD + WORDS], words);
    assert!(memory.is_intact());
    assert!(Form::of(NOTIFY, 0).is_none() && Form::of(NOTIFY, 2).is_none());
    assert!(Form::of(8 << 16, 1).is_none());
}

/// Gets whose results fit in an answer are executed, and fail because the window is too small. A batch whose results do not
/// fit is refused as a whole.
#[test]
fn answers_have_a_longest_length() {
    let memory = Memory::new();
    let gets = |size: usize, count: usize| vec![memory.command(GET, size as u32, 0); count];
    for (size, most) in [(LARGEST_GET, 1), (16 << 10, 3)] {
        let named = failures(&memory, &gets(size, most));
        assert_eq!(named.len(), most);
        assert!(treat(&memory, &message(&gets(size, most + 1))).is_none());
    }
    assert!(Form::of(GET, LARGEST_GET as u32 + 1).is_none());
    assert!(memory.is_intact());
}

#[test]
fn refused_entries_are_named_and_the_others_executed() {
    let memory = Memory::new();
    let mut words = vec![0; Header::WORDS];
    let mut region = (0, 0);
    let outside = memory.command(PUT, 8, WORDS as u64);
    let unknown = Command {
        key: 99,
        ..memory.command(GET, 8, 0)
    };
    for c in [outside, memory.command(PUT, 8, 3), unknown] {
        let form = Form::of(c.what, c.count).unwrap();
        push_entry(&mut words, &c, &form, &mut region);
        words.resize(words.len() + form.operands, 5);
    }
    let header = Header {
        kind: Kind::Batch,
        cookie: 0,
        line: 0,
        client: 0,
        sequence: 0,
        entries: 3,
        results: 1,
    };
    header.write(OWN_KEY, &mut words);
    let mut answer = treat(&memory, &words).unwrap();
    let (header, words) = read(&mut answer);
    assert_eq!((header.entries, header.results), (2, 0));
    let failures = &words[Header::WORDS..][..2];
    let named = failures
        .iter()
        .map(|w| (*w as u32, Status((w >> 32) as i32)));
    let expected = [(0, Status::VALUE_OUT_OF_BOUNDS), (2, Status::PERM)];
    assert!(named.eq(expected), "{failures:?}");
    assert_eq!(memory.words[GUARD + 3], 5);
    assert!(memory.is_intact());
}

/// A message without the key is ignored, independently of its other bytes and of the previous content of the
/// buffer.
#[test]
fn strangers_are_not_listened_to() {
    let memory = Memory::new();
    let whole = batch(&memory);
    for key in (0..64).map(|bit| OWN_KEY ^ 1 << bit).chain([0, u64::MAX]) {
        let mut words = whole.clone();
        words[0] = key;
        let bytes = size_of_val(&*words);
        let read = Header::read(&mut words, bytes, OWN_KEY).map(drop);
        assert_eq!(read, Err(Unread::Stranger));
        assert!(treat(&memory, &words).is_none());
    }
    assert!(memory.words[GUARD..GUARD + WORDS].iter().all(|w| *w == 0));
    // The buffer holds a complete valid batch. So the bytes behind a short message are right, and
    // only the number of received bytes shows that the message is too short.
    assert!(treat(&memory, &whole).is_some());
    let buffer = &mut *memory.buffer.borrow_mut();
    for bytes in 0..8 * Header::WORDS {
        let read = Header::read(buffer, bytes, OWN_KEY).map(drop);
        assert_eq!(read, Err(Unread::Stranger), "{bytes} bytes");
    }
    let longest = 8 * buffer.len();
    for bytes in [longest + 8, usize::MAX] {
        let read = Header::read(buffer, bytes, OWN_KEY).map(drop);
        assert_eq!(read, Err(Unread::Stranger), "longer than the buffer");
    }
}

/// A header that claims the length of an earlier batch does not execute that batch again.
#[test]
fn earlier_messages_are_not_executed_again() {
    let memory = Memory::new();
    let whole = batch(&memory);
    assert!(treat(&memory, &whole).is_some());
    for own in Header::WORDS..whole.len() {
        assert!(treat(&memory, &whole[..own]).is_none(), "{own} words");
    }
    let buffer = &mut *memory.buffer.borrow_mut();
    for bytes in 8 * Header::WORDS..8 * whole.len() + 8 {
        let read = Header::read(buffer, bytes, OWN_KEY);
        assert_eq!(read.is_ok(), bytes == 8 * whole.len(), "{bytes} bytes");
    }
}

/// A target refuses every prefix of a batch, and every batch whose header gives another length.
#[test]
fn parts_of_a_batch_are_refused() {
    let memory = Memory::new();
    let whole = batch(&memory);
    for end in 0..whole.len() {
        let mut words = whole[..end].to_vec();
        if end >= Header::WORDS {
            // The header gives the true length of the message.
            words[LENGTH] = words[LENGTH] >> 32 << 32 | end as u64;
        }
        assert!(treat(&memory, &words).is_none(), "{end} words");
    }
    for length in (0..MOST_ANSWER as u64 + 10).filter(|n| *n != whole.len() as u64) {
        let mut words = whole.clone();
        words[LENGTH] = words[LENGTH] >> 32 << 32 | length;
        assert!(treat(&memory, &words).is_none(), "length {length}");
    }
    assert!(memory.words[GUARD..GUARD + WORDS].iter().all(|w| *w == 0));
}

/// The answer to an accepted batch has the form that the header and the batch determine.
fn holds(memory: &Memory, words: &[u64]) -> Result<(), TestCaseError> {
    if let Some(mut answer) = treat(memory, words) {
        let most = answer.len();
        prop_assert!(most <= MOST_ANSWER);
        let (header, words) = read(&mut answer);
        let expected = Header::WORDS + header.entries as usize + header.results as usize;
        prop_assert_eq!(words.len(), expected);
    }
    prop_assert!(memory.is_intact(), "memory outside the region was changed");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_batches(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..64u32, any::<u16>()), 1..5),
    ) {
        let memory = Memory::new();
        let mut words = batch(&memory);
        for (at, shift, value) in changes {
            let at = at.index(words.len());
            words[at] ^= u64::from(value).rotate_left(shift);
        }
        holds(&memory, &words)?;
    }

    #[test]
    fn random_entries(
        entries in prop::collection::vec(any::<u64>(), 0..40),
        count in 0..5u32,
        results in 0..5u32,
    ) {
        let memory = Memory::new();
        let mut words = vec![0; Header::WORDS];
        words.extend(entries);
        let header = Header { kind: Kind::Batch, cookie: 0, line: 0, client: 0, sequence: 0, entries: count, results };
        header.write(OWN_KEY, &mut words);
        holds(&memory, &words)?;
        // Words that look like the beginning of real entries.
        let codes = [PUT, GET, responder::what(AtomicKind::Fetch, 7, 2), NOTIFY];
        words[Header::WORDS..].iter_mut().step_by(3).zip(codes.iter().cycle()).for_each(|(w, code)| {
            *w = *w & (7 << 32) | u64::from(*code);
        });
        holds(&memory, &words)?;
        let mut entries = Entries::at(Header::WORDS);
        while let Ok(Some(_)) = entries.next(&words) {}
    }
}

/// A change of words, in a batch with an operation of any kind.
fn change(op: Option<AtomicOp>) -> Change {
    Change {
        size: 8,
        datatype: Some(Datatype::Uint64),
        op,
        code: 5,
        is_transfer: false,
    }
}

/// A put or get of several runs.
fn transfer(op: AtomicOp) -> Change {
    Change {
        size: 1,
        datatype: None,
        op: Some(op),
        code: 0,
        is_transfer: true,
    }
}

/// A batch with a put, and behind it an apply of two runs. The apply fetches, unless it is a put.
fn batch_of_apply(memory: &Memory, change: Change) -> Vec<u64> {
    let runs = [(1, 8), (40, 16)].map(|(offset, length)| ApplyRun {
        offset,
        length,
        stride: 24,
        count: 2,
    });
    batch_of_runs(memory, change, &runs)
}

/// The same batch with three runs that are listed.
fn batch_of_listed(memory: &Memory, change: Change) -> Vec<u64> {
    let runs = [80, 8, 40].map(|offset| ApplyRun {
        offset,
        length: 8,
        stride: 0,
        count: 1,
    });
    batch_of_runs(memory, change, &runs)
}

fn batch_of_runs(memory: &Memory, change: Change, runs: &[ApplyRun]) -> Vec<u64> {
    let mut results = [0u64; 6];
    let operands = [ONES; 12];
    let puts = change.is_transfer && change.op == Some(AtomicOp::Write);
    let apply = Apply {
        remote: &memory.handle,
        address: memory.handle.base(),
        runs,
        change,
        operands: operands.as_ptr().cast(),
        results: match puts {
            true => std::ptr::null_mut(),
            false => results.as_mut_ptr().cast(),
        },
        completion: None,
    };
    let mut area = Area::new();
    // SAFETY: there are operands for all elements.
    let carried = unsafe { area.fill(&apply) }.unwrap();
    let mut words = message(&[
        memory.command(PUT, 8, 0),
        memory.command(APPLY, carried.count(), 0),
    ]);
    let operands = words.len() - carried.operands.div_ceil(8);
    words[operands..].copy_from_slice(area.words(carried));
    words
}

#[test]
fn an_apply_is_answered_with_the_old_values() {
    let memory = Memory::new();
    let mut answer = treat(
        &memory,
        &batch_of_apply(&memory, change(Some(AtomicOp::Write))),
    )
    .unwrap();
    let (header, words) = read(&mut answer);
    assert_eq!((header.entries, header.results), (0, 6));
    assert_eq!(words[Header::WORDS..], [ONES >> 8, 0, 0, 0, 0, 0]);
    assert_eq!(memory.words[GUARD + 5..GUARD + 7], [ONES; 2]);
    // The target has no function for additions on unaligned elements, so it changes none.
    let memory = Memory::new();
    let mut answer = treat(
        &memory,
        &batch_of_apply(&memory, change(Some(AtomicOp::Sum))),
    )
    .unwrap();
    let (header, words) = read(&mut answer);
    assert_eq!((header.entries, header.results), (1, 0));
    let failed = u64::from(Status::NOT_SUPPORTED.0 as u32) << 32 | 1;
    assert_eq!(words[Header::WORDS..], [failed]);
    assert_eq!(memory.words[GUARD], ONES, "the put");
    assert!(
        memory.words[GUARD + 1..GUARD + WORDS]
            .iter()
            .all(|w| *w == 0)
    );
    let possible = |operands, results| Form::of(APPLY, Carried { operands, results }.count());
    assert!(possible(24, 0).is_some() && possible(23, 0).is_none());
    assert!(possible(12288, 12288).is_some());
    assert!(possible(12289, 0).is_none() && possible(40, 12289).is_none());
}

/// Runs of one length take half a word each, and are executed in the order in which they are listed. If one run is out of
/// bounds, all runs are refused.
#[test]
fn listed_runs_are_executed() {
    let memory = Memory::new();
    let words = batch_of_listed(&memory, change(Some(AtomicOp::Sum)));
    let runs = [3 | 8 << 32, 10 | 1 << 32, 5];
    let at = words.windows(3).position(|words| words == runs).unwrap();
    assert_eq!(words.len() - at, 3 + 3, "the operands behind them");
    let mut answer = treat(&memory, &words).unwrap();
    let (header, results) = read(&mut answer);
    assert_eq!((header.entries, header.results), (0, 3));
    assert_eq!(results[Header::WORDS..], [0; 3]);
    let expected = |changed: &[usize]| -> Vec<u64> {
        let one = |i| if changed.contains(&i) { ONES } else { 0 };
        (0..WORDS).map(one).collect()
    };
    assert_eq!(memory.words[GUARD..][..WORDS], expected(&[0, 10, 1, 5]));
    let bounds = u64::from(Status::VALUE_OUT_OF_BOUNDS.0 as u32) << 32 | 1;
    let wrong = u64::from(Status::BAD_PARAM.0 as u32) << 32 | 1;
    for (second, places, failure) in [
        (runs[0], [WORDS as u64 | 1 << 32, 5], bounds),
        (runs[0], [10 | u64::from(u32::MAX) << 32, 5], bounds),
        (runs[0], [10 | 1 << 32, WORDS as u64], bounds),
        (2 | 8 << 32, [runs[1], runs[2]], wrong),
        (3 | 7 << 32, [runs[1], runs[2]], wrong),
        (3 | 16 << 32, [runs[1], runs[2]], wrong),
        (3, [runs[1], runs[2]], wrong),
        (u64::from(u32::MAX) | 8 << 32, [runs[1], runs[2]], wrong),
        (u64::MAX, [runs[1], runs[2]], wrong),
    ] {
        let memory = Memory::new();
        let mut words = batch_of_listed(&memory, change(Some(AtomicOp::Sum)));
        words[at..at + 3].copy_from_slice(&[second, places[0], places[1]]);
        let mut answer = treat(&memory, &words).unwrap();
        let (header, words) = read(&mut answer);
        assert_eq!((header.entries, header.results), (1, 0), "{second:#x}");
        assert_eq!(words[Header::WORDS..], [failure], "{second:#x}");
        assert_eq!(
            memory.words[GUARD..][..WORDS],
            expected(&[0]),
            "the put alone"
        );
        assert!(memory.is_intact());
    }
}

#[test]
fn a_transfer_of_runs_is_executed() {
    let memory = Memory::new();
    let mut answer = treat(&memory, &batch_of_apply(&memory, transfer(AtomicOp::Write))).unwrap();
    let (header, _) = read(&mut answer);
    assert_eq!((header.entries, header.results), (0, 0));
    // The runs at bytes 1, 25, 40 and 64.
    assert_eq!(memory.words[GUARD + 1], ONES >> 56);
    assert_eq!(memory.words[GUARD + 5..GUARD + 7], [ONES; 2]);
    assert_eq!(memory.words[GUARD + 8..GUARD + 11], [ONES, ONES, 0]);
    let mut answer = treat(&memory, &batch_of_apply(&memory, transfer(AtomicOp::Read))).unwrap();
    let (header, words) = read(&mut answer);
    assert_eq!((header.entries, header.results), (0, 6));
    assert_eq!(words[Header::WORDS..], [ONES; 6]);
    // An older target without transfers of runs does not know their bit, as this target does not
    // know the next bit.
    let mut words = batch_of_apply(&memory, transfer(AtomicOp::Write));
    let first = 1 << 32 | 0xff << 40 | (AtomicOp::Write as u64) << 48 | 1 << 56;
    let first = words.iter().position(|word| *word == first).unwrap();
    words[first] ^= 1 << 58;
    let mut answer = treat(&memory, &words).unwrap();
    let (header, words) = read(&mut answer);
    assert_eq!(header.entries, 1);
    let failed = u64::from(Status::BAD_PARAM.0 as u32) << 32 | 1;
    assert_eq!(words[Header::WORDS..], [failed]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_applies(
        changed in prop::sample::select(vec![
            change(None),
            change(Some(AtomicOp::Write)),
            change(Some(AtomicOp::Read)),
            change(Some(AtomicOp::Cswap)),
            transfer(AtomicOp::Write),
            transfer(AtomicOp::Read),
            change(Some(AtomicOp::Sum)),
        ]),
        is_listed: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..64u32, any::<u16>()), 1..4),
    ) {
        let memory = Memory::new();
        let mut words = match is_listed {
            true => batch_of_listed(&memory, changed),
            false => batch_of_apply(&memory, changed),
        };
        for (at, shift, value) in changes {
            // The corrupt word lies behind the header, so that the header stays valid.
            let at = Header::WORDS + at.index(words.len() - Header::WORDS);
            words[at] ^= u64::from(value).rotate_left(shift);
        }
        holds(&memory, &words)?;
    }
}

/// Compares the form that the origin knows for its own commands with the form that the target
/// computes.
#[test]
fn both_sides_see_the_same_form() {
    let codes = AtomicKind::ALL.iter().flat_map(|&kind| {
        Datatype::ALL.iter().flat_map(move |&datatype| {
            AtomicOp::ALL.iter().map(move |&op| {
                (
                    responder::what(kind, datatype as u32, op as u32),
                    datatype.size(),
                )
            })
        })
    });
    for (what, size) in codes.chain([(PUT, 1), (GET, 1)]) {
        for count in [1, 3, 8, 100] {
            let Some(form) = Form::of(what, count) else {
                continue;
            };
            let known = Form::known(what, count as usize * size);
            let parts = |f: Form| (f.words(), f.operands, f.results);
            assert_eq!(parts(known), parts(form), "{what:#x}, {count}");
        }
    }
}
