//! The transport over a provider without some atomics, by kind, type and operation.

use plugin_api::AtomicFlags;

use crate::lab::prelude::*;

/// The transport supports exactly the kinds, types and operations that the provider supports: it
/// offers and tries no others.
#[test]
fn atomics_that_are_missing() {
    alone(|| {
        for seed in 0..40u64 {
            let mut dice = Dice(seed);
            let mut without = Vec::new();
            for _ in 0..1 + dice.below(40) {
                let part = |dice: &mut Dice, n: usize| match dice.below(n + 1) {
                    number if number == n => String::from("*"),
                    number => number.to_string(),
                };
                // Kind, type, operation; the atomics that every transport needs stay.
                let word = [part(&mut dice, 3), part(&mut dice, 10), part(&mut dice, 12)];
                let hits = |kind: &str, op: &str| {
                    [&word[0], &word[1], &word[2]]
                        .iter()
                        .zip([kind, "7", op])
                        .all(|(w, needed)| *w == "*" || *w == needed)
                };
                if !hits("1", "2") && !hits("2", "12") {
                    without.push(word.join(":"));
                }
            }
            let without = without.join(",");
            println!("@at {seed} {without}");
            shape(&[("WITHOUT", &without)]);
            let t = open("lab", ThreadLevel::Single, &[]);
            let peer = t.connect(t.address(), 0).unwrap();
            serves_what_it_says(&t, peer, &without);
            t.close().unwrap();
        }
    });
}

/// Whether a list of missing atomics contains an atomic.
fn is_without(without: &str, asked: [u32; 3]) -> bool {
    without.split(',').filter(|w| !w.is_empty()).any(|word| {
        let mut parts = word.split(':').zip(asked);
        parts.all(|(part, asked)| part == "*" || part == asked.to_string())
    })
}

fn serves_what_it_says(t: &Transport, peer: ptr::NonNull<btl_ofi::Endpoint>, without: &str) {
    let mut words = vec![0u64; 4];
    let region = register(t, &mut words, Access::all());
    let h = region.handle();
    for &kind in &[AtomicKind::Update, AtomicKind::Fetch] {
        for &datatype in Datatype::ALL {
            for &op in AtomicOp::ALL {
                let float = [Datatype::Float, Datatype::Double].contains(&datatype);
                let bitwise = [AtomicOp::Bor, AtomicOp::Band, AtomicOp::Bxor].contains(&op);
                let none_at_all = op == AtomicOp::Cswap
                    || (op == AtomicOp::Read && kind == AtomicKind::Update)
                    || (float && bitwise);
                let numbers = [kind as u32, datatype as u32, op as u32];
                // A floating-point type is left to targets where its bits cannot be read, written and compared.
                let bits = match datatype {
                    Datatype::Float => Datatype::Uint32,
                    _ => Datatype::Uint64,
                };
                let bits_lack = |(kind, op): (AtomicKind, AtomicOp)| {
                    is_without(without, [kind as u32, bits as u32, op as u32])
                };
                let of_bits = [
                    (AtomicKind::Fetch, AtomicOp::Read),
                    (AtomicKind::Update, AtomicOp::Write),
                    (AtomicKind::Compare, AtomicOp::Cswap),
                ];
                let left = float && of_bits.into_iter().any(bits_lack);
                let served = !none_at_all && !left && !is_without(without, numbers);
                let count = t.atomic_count(kind, datatype, op);
                assert_eq!(count.is_some(), served, "{kind:?} {datatype:?} {op:?}");
                let (mut operand, mut result) = ([0u64; 2], [0u64; 2]);
                let from = operand.as_mut_ptr().cast();
                let to = result.as_mut_ptr().cast();
                let post = || match kind {
                    AtomicKind::Update => {
                        t.atomic_opv(peer, from, h.base(), &h, datatype, op, 1, None)
                    }
                    _ => t.atomic_fopv(peer, from, to, h.base(), &h, datatype, op, 1, None),
                };
                if served {
                    insist(t, post);
                    assert_eq!(t.flush(None), Status::SUCCESS);
                } else {
                    assert_eq!(
                        post(),
                        Status::NOT_SUPPORTED,
                        "{kind:?} {datatype:?} {op:?}"
                    );
                }
            }
        }
    }
    // A flag for the words of the BTL guarantees that the operation works.
    let flags = t.capabilities().atomic_flags;
    for (op, flag) in [
        (BtlAtomicOp::Add, AtomicFlags::ADD),
        (BtlAtomicOp::Xor, AtomicFlags::XOR),
        (BtlAtomicOp::Swap, AtomicFlags::SWAP),
        (BtlAtomicOp::Max, AtomicFlags::MAX),
    ] {
        if flags.contains(flag) {
            insist(t, || t.atomic_op(peer, h.base(), &h, op, 1, None));
            assert_eq!(t.flush(None), Status::SUCCESS);
        }
    }
    region.close().unwrap();
}
