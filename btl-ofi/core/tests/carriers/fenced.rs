//! Atomics behind all operations that were posted before: messages keep that order; elsewhere the call refuses and has no effect.

use crate::common::prelude::*;

const PUTS: usize = 24;
/// Words of a put: a message carries it, or none does.
const SHORT: usize = 64;
const LONG: usize = 1 << 17;

fn put(there: There<'_>, word: usize, from: &[u64]) {
    let local = (from.as_ptr().cast_mut().cast(), ptr::null_mut());
    let op = Op::put(&there.h, there.at(8 * word), local, size_of_val(from));
    // SAFETY: the tests keep their buffers until a flush.
    there.insist(|there| unsafe { there.t.submit(there.peer, &op) });
}

/// Adds one to a word, behind the puts.
fn add(there: There<'_>, word: usize) -> Status {
    add_with(OpFlags::FENCE, there, word)
}

fn add_with(flags: OpFlags, there: There<'_>, word: usize) -> Status {
    let target = (&there.h, there.at(8 * word));
    let op = Op::word((BtlAtomicOp::Add, flags), target, 1, None);
    // SAFETY: the operand is copied.
    unsafe { there.t.submit(there.peer, &op) }
}

/// Connects, by a put of zero.
fn introduce(pair: &Pair) {
    put(pair.there(), 0, &[0]);
    flush(pair);
}

fn flush(pair: &Pair) {
    attended(&pair.b, || {
        assert_eq!(pair.a.flush(None), Status::SUCCESS);
    });
}

#[test]
fn a_fenced_atomic_follows_the_puts_before_it() {
    for provider in ["tcp;ofi_rxm", "net"] {
        const LAST: usize = PUTS * SHORT;
        let open = || open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]);
        let pair = Pair::new(LAST + 1, open);
        let (a, b, there) = (&pair.a, &pair.b, pair.there());
        let mut numbers = Numbers(1);
        for round in 1..=50u64 {
            let ours = [round; SHORT];
            for i in 0..1 + numbers.below(PUTS) {
                put(there, i * SHORT, &ours[..1 + numbers.below(SHORT)]);
            }
            put(there, 0, &ours[..1]);
            insist(a, || add(there, LAST));
            until(&[a, b], format_args!("{provider}: {round}"), || {
                pair.word(LAST) >= round
            });
            assert_eq!(pair.word(0), round, "{provider}");
            attended(b, || assert_eq!(a.flush(None), Status::SUCCESS));
        }
        pair.close();
    }
}

#[test]
fn a_fenced_atomic_is_refused_behind_what_the_provider_makes() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let open = || open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]);
        let pair = Pair::new(LONG + 1, open);
        let (a, there) = (&pair.a, pair.there());
        let ours = vec![1u64; LONG];
        attended(&pair.b, || {
            insist(a, || add(there, LONG));
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        put(there, 0, &ours[..1]);
        put(there, 0, &ours);
        assert_eq!(add(there, LONG), Status::NOT_SUPPORTED, "{provider}");
        attended(&pair.b, || {
            assert_eq!(a.flush(None), Status::SUCCESS);
            insist(a, || add(there, LONG));
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        let theirs = pair.close();
        assert_eq!((theirs[0], theirs[LONG]), (1, 2), "{provider}");
    }
}

/// Behind puts, whose bytes messages copy, an atomic finds no buffer in use; behind a get it does.
#[test]
fn an_atomic_behind_copied_bytes_is_refused_behind_a_get() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let open = || open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]);
        let pair = Pair::new(SHORT + 1, open);
        let (a, there) = (&pair.a, pair.there());
        let add_copied = || add_with(OpFlags::COPIED, there, SHORT);
        assert_eq!(
            add_copied(),
            Status::NOT_SUPPORTED,
            "there is no connection"
        );
        introduce(&pair);
        put(there, 0, &[9]);
        insist(a, add_copied);
        let mut to = [0u64];
        there.insist(|there| there.get(0, &mut to, None));
        assert_eq!(add_copied(), Status::NOT_SUPPORTED, "{provider}");
        insist(a, || add(there, SHORT));
        attended(&pair.b, || assert_eq!(a.flush(None), Status::SUCCESS));
        assert_eq!((to[0], pair.close()[SHORT]), (9, 2), "{provider}");
    }
}

/// An atomic is refused behind more bytes than the socket takes without further progress of this process.
#[test]
fn an_atomic_behind_copied_bytes_is_refused_behind_many() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let open = || open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]);
        let pair = Pair::new(SHORT + 1, open);
        let there = pair.there();
        let add_copied = || add_with(OpFlags::COPIED, there, SHORT);
        introduce(&pair);
        (0..40).for_each(|_| put(there, 0, &[1; SHORT]));
        assert_eq!(add_copied(), Status::NOT_SUPPORTED, "{provider}");
        flush(&pair);
        insist(&pair.a, add_copied);
        flush(&pair);
        assert_eq!(pair.close()[SHORT], 1, "{provider}");
    }
}

/// Two processes signal each other in turns, and do not wait for the answers. A flush finds all operations ended.
#[test]
fn unawaited_operations_end_in_a_flush() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let open = || open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]);
        let (pair, mut ours) = (Pair::new(2, open), vec![0u64; 2]);
        let (a, b) = (&pair.a, &pair.b);
        let region = register(a, &mut ours, Access::all());
        let (there, back) = (pair.there(), There::of(b, 2, a, &region));
        let signal = |there: There<'_>| {
            let flags = OpFlags::COPIED | OpFlags::UNAWAITED;
            insist(there.t, || add_with(flags, there, 1));
        };
        let flush_both = || {
            attended(b, || assert_eq!(a.flush(None), Status::SUCCESS));
            attended(a, || assert_eq!(b.flush(None), Status::SUCCESS));
        };
        put(there, 0, &[0]);
        put(back, 0, &[0]);
        flush_both();
        for round in 1..=100 {
            for (from, to) in [(there, b), (back, a)] {
                put(from, 0, &[round]);
                signal(from);
                let counter = from.at(8) as *const u64;
                until(&[from.t, to], format_args!("{provider}: {round}"), || {
                    // SAFETY: a word of a region that is open.
                    unsafe { counter.read_volatile() >= round }
                });
            }
            if round % 20 == 0 {
                flush_both();
            }
        }
        region.close().unwrap();
        assert_eq!(
            (pair.close(), ours),
            (vec![100; 2], vec![100; 2]),
            "{provider}"
        );
    }
}
