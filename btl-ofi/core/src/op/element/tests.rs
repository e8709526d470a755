use super::*;

/// Applies `op` to one element of any type in the low bytes of `start`; returns the old value and the new word.
fn one(datatype: Datatype, op: AtomicOp, start: u64, operand: u64, compare: u64) -> (u64, u64) {
    let (mut at, mut old) = (start, 0u64);
    let e = Elements {
        datatype,
        op,
        count: 1,
        at: (&raw mut at).cast(),
        operands: (&raw const operand).cast(),
        compare,
        results: (&raw mut old).cast(),
    };
    // SAFETY: all pointers are to 8-byte words, which hold one element of any type.
    unsafe { apply(&e) };
    (old, at)
}

#[test]
fn integers_of_every_width() {
    use AtomicOp as O;
    for (&datatype, signed) in Datatype::ALL[..8].iter().zip([true, false].iter().cycle()) {
        let mask = u64::MAX >> (64 - 8 * datatype.size());
        let minus = |n: u64| n.wrapping_neg() & mask;
        let less = if *signed { minus(3) } else { 2 };
        let more = if *signed { 2 } else { minus(3) };
        for (op, start, operand, end) in [
            (O::Sum, mask, 2, 1),
            (O::Prod, minus(3), 2, minus(6)),
            (O::Min, minus(3), 2, less),
            (O::Max, 2, minus(3), more),
            (O::Band, 0b1100, 0b1010, 0b1000),
            (O::Bor, 0b1100, 0b1010, 0b1110),
            (O::Bxor, 0b1100, 0b1010, 0b0110),
            (O::Land, 5, 0, 0),
            (O::Land, 5, 6, 1),
            (O::Lor, 5, 0, 1),
            (O::Lxor, 5, 6, 0),
            (O::Lxor, 0, 6, 1),
            (O::Write, 5, 6, 6),
            (O::Read, 5, 6, 5),
        ] {
            let seen = one(datatype, op, start, operand, 0);
            assert_eq!(seen, (start, end), "{op:?} of {datatype:?}");
        }
        let cases = [(5, 5, 6), (4, 5, 5)];
        for (compare, start, end) in cases {
            let seen = one(datatype, O::Cswap, start, 6, compare);
            assert_eq!(seen, (start, end), "{datatype:?}");
        }
        // The bytes next to the element do not change.
        if datatype.size() < 8 {
            let (_, at) = one(datatype, O::Sum, u64::MAX, 1, 0);
            assert_eq!(at, !mask);
        }
    }
}

#[test]
fn floating_point() {
    use AtomicOp as O;
    let f = |v: f64| v.to_bits();
    let nan = f64::NAN;
    for (op, start, operand, end) in [
        (O::Sum, 1.5, 2.25, 3.75),
        (O::Prod, 1.5, -2.0, -3.0),
        (O::Min, 1.5, -2.0, -2.0),
        (O::Max, 1.5, -2.0, 1.5),
        (O::Min, 1.5, nan, 1.5),
        (O::Max, 1.5, nan, 1.5),
        (O::Land, 1.5, 0.0, 0.0),
        (O::Lor, 0.0, 2.5, 1.0),
        (O::Lxor, 1.5, 2.5, 0.0),
        (O::Write, 1.5, 2.5, 2.5),
    ] {
        let seen = one(Datatype::Double, op, f(start), f(operand), 0);
        assert_eq!(seen, (f(start), f(end)), "{op:?}");
        let g = |v: f64| u64::from((v as f32).to_bits());
        let seen = one(Datatype::Float, op, g(start), g(operand), 0);
        assert_eq!(seen, (g(start), g(end)), "{op:?}");
    }
    let same = one(Datatype::Double, O::Cswap, f(nan), f(1.0), f(nan));
    assert_eq!(same, (f(nan), f(1.0)), "bits are compared");
}

#[test]
fn vectors_from_anywhere_to_anywhere() {
    let mut at = [1u32, 2, 3];
    let mut operands = [0u8; 13];
    for (i, v) in [10u32, 20, 30].iter().enumerate() {
        operands[1 + 4 * i..5 + 4 * i].copy_from_slice(&v.to_ne_bytes());
    }
    let mut results = [0u8; 13];
    let e = Elements {
        datatype: Datatype::Uint32,
        op: AtomicOp::Sum,
        count: 3,
        at: at.as_mut_ptr().cast(),
        operands: operands[1..].as_ptr(),
        compare: 0,
        results: results[1..].as_mut_ptr(),
    };
    // SAFETY: each buffer holds three elements.
    unsafe { apply(&e) };
    assert_eq!(at, [11, 22, 33]);
    let old = results[1..].chunks_exact(4);
    let old: Vec<u32> = old
        .map(|c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]]))
        .collect();
    assert_eq!(old, [1, 2, 3]);
}

#[test]
fn elements_stay_whole_among_threads() {
    for datatype in [Datatype::Double, Datatype::Uint8, Datatype::Int64] {
        let mut at = 0u64;
        let place = &raw mut at as usize;
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let operand = match datatype {
                        Datatype::Double => 1f64.to_bits(),
                        _ => 1,
                    };
                    for _ in 0..10_000 {
                        let e = Elements {
                            datatype,
                            op: AtomicOp::Sum,
                            count: 1,
                            at: std::ptr::with_exposed_provenance_mut(place),
                            operands: (&raw const operand).cast(),
                            compare: 0,
                            results: std::ptr::null_mut(),
                        };
                        // SAFETY: the pointers are to words that outlive the scope.
                        unsafe { apply(&e) };
                    }
                });
            }
        });
        let end = match datatype {
            Datatype::Double => 30_000f64.to_bits(),
            Datatype::Uint8 => u64::from(30_000u32 as u8),
            _ => 30_000,
        };
        assert_eq!(at, end, "{datatype:?}");
    }
}
