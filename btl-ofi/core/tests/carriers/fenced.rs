//! Atomics behind all operations that were posted before: messages keep that order; elsewhere the call refuses and has no effect.

use crate::common::prelude::*;

const PUTS: usize = 24;
/// Words of a put: a message carries it, or none does.
const SHORT: usize = 64;
const LONG: usize = 1 << 17;

fn put(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, at: usize, from: &[u64]) {
    let local = (from.as_ptr().cast_mut().cast(), ptr::null_mut());
    let op = Op::put(h, h.base() + 8 * at as u64, local, size_of_val(from));
    // SAFETY: the tests keep their buffers until a flush.
    insist(t, || unsafe { t.submit(peer, &op) });
}

/// Adds one to the last word of a region.
fn add(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, words: usize) -> Status {
    add_with(OpFlags::FENCE, t, peer, h, words)
}

fn add_with(
    flags: OpFlags,
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    words: usize,
) -> Status {
    let target = (h, h.base() + 8 * (words as u64 - 1));
    let op = Op::word((BtlAtomicOp::Add, flags), target, 1, None);
    // SAFETY: the operand is copied.
    unsafe { t.submit(peer, &op) }
}

#[test]
fn a_fenced_atomic_follows_the_puts_before_it() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]));
        let peer = a.connect(b.address(), 1).unwrap();
        let mut theirs = vec![0u64; PUTS * SHORT + 1];
        let words = theirs.len();
        let region = register(&b, &mut theirs, Access::all());
        let h = region.handle();
        let mut numbers = Numbers(1);
        for round in 1..=50u64 {
            let ours = [round; SHORT];
            for i in 0..1 + numbers.below(PUTS) {
                put(&a, peer, &h, i * SHORT, &ours[..1 + numbers.below(SHORT)]);
            }
            put(&a, peer, &h, 0, &ours[..1]);
            insist(&a, || add(&a, peer, &h, words));
            let patience = Patience::new();
            // SAFETY: the words live to the end of the test.
            let word = |at: usize| unsafe { theirs.as_ptr().add(at).read_volatile() };
            while word(words - 1) < round {
                a.progress();
                b.progress();
                assert!(patience.lasts(), "{provider}: {round}");
            }
            assert_eq!(word(0), round, "{provider}");
            attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        }
        close([region], [a, b]);
    }
}

#[test]
fn a_fenced_atomic_is_refused_behind_what_the_provider_makes() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]));
        let peer = a.connect(b.address(), 1).unwrap();
        let mut theirs = vec![0u64; LONG + 1];
        let region = register(&b, &mut theirs, Access::all());
        let h = region.handle();
        let ours = vec![1u64; LONG];
        attended(&b, || {
            insist(&a, || add(&a, peer, &h, LONG + 1));
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        put(&a, peer, &h, 0, &ours[..1]);
        put(&a, peer, &h, 0, &ours);
        assert_eq!(
            add(&a, peer, &h, LONG + 1),
            Status::NOT_SUPPORTED,
            "{provider}"
        );
        attended(&b, || {
            assert_eq!(a.flush(None), Status::SUCCESS);
            insist(&a, || add(&a, peer, &h, LONG + 1));
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        assert_eq!((theirs[0], theirs[LONG]), (1, 2), "{provider}");
        close([region], [a, b]);
    }
}

/// Behind puts, whose bytes messages copy, an atomic finds no buffer in use; behind a get it does.
#[test]
fn an_atomic_behind_copied_bytes_is_refused_behind_a_get() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[SAME_NODE_OFF]));
        let peer = a.connect(b.address(), 1).unwrap();
        let mut theirs = vec![3u64; SHORT + 1];
        let words = theirs.len();
        let region = register(&b, &mut theirs, Access::all());
        let h = region.handle();
        let add_copied = || add_with(OpFlags::COPIED, &a, peer, &h, words);
        put(&a, peer, &h, 0, &[9]);
        insist(&a, add_copied);
        let mut to = 0u64;
        let local = ((&raw mut to).cast(), ptr::null_mut());
        let get = Op::get(&h, h.base(), local, 8);
        // SAFETY: the place stays until the flush.
        insist(&a, || unsafe { a.submit(peer, &get) });
        assert_eq!(add_copied(), Status::NOT_SUPPORTED, "{provider}");
        insist(&a, || add(&a, peer, &h, words));
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        assert_eq!((to, theirs[words - 1]), (9, 5), "{provider}");
        close([region], [a, b]);
    }
}
