use super::*;

/// Sums of elements among other threads. `results` may be NULL.
fn sums<T>(
    datatype: Datatype,
    count: usize,
    at: *mut T,
    operands: *const u8,
    results: *mut u8,
) -> Elements {
    Elements {
        datatype,
        op: AtomicOp::Sum,
        count,
        at: at.cast(),
        operands,
        compare: 0,
        results,
        alone: false,
    }
}

/// Applies `op` to one element of any type in the low bytes of `start`. Returns the old value and the new word.
fn one(datatype: Datatype, op: AtomicOp, start: u64, operand: u64, compare: u64) -> (u64, u64) {
    let (mut at, mut old) = (start, 0u64);
    let (operands, results) = ((&raw const operand).cast(), (&raw mut old).cast());
    let e = Elements {
        op,
        compare,
        ..sums(datatype, 1, &raw mut at, operands, results)
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
    let (from, into) = (operands[1..].as_ptr(), results[1..].as_mut_ptr());
    let e = sums(Datatype::Uint32, 3, at.as_mut_ptr(), from, into);
    // SAFETY: each buffer holds three elements.
    unsafe { apply(&e) };
    assert_eq!(at, [11, 22, 33]);
    let old = results[1..].chunks_exact(4);
    let old: Vec<u32> = old
        .map(|c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]]))
        .collect();
    assert_eq!(old, [1, 2, 3]);
}

/// Tests vectors of every type and length, aligned as one element. Each vector has the same result as its
/// elements one by one.
#[test]
fn long_vectors_compute_what_elements_do() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = |n: usize| -> Vec<u8> {
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.to_ne_bytes()
        };
        (0..n.div_ceil(8)).flat_map(|_| next()).collect()
    };
    for &datatype in Datatype::ALL {
        for &op in AtomicOp::ALL {
            if !serves(AtomicKind::Fetch, datatype, op) {
                continue;
            }
            let size = datatype.size();
            for (first, count) in [(0, 4), (1, 9), (2, 17), (3, 64), (1, 3)] {
                let start = bytes(16 + 80 * size);
                let operands = bytes(80 * size + 1);
                let mut words = vec![0u128; start.len().div_ceil(16)];
                let at = words.as_mut_ptr().cast::<u8>();
                let mut results = vec![0xeeu8; count * size + 1];
                let (from, into) = (operands[1..].as_ptr(), results[1..].as_mut_ptr());
                let mut elements = Elements {
                    op,
                    ..sums(datatype, count, at.wrapping_add(first * size), from, into)
                };
                let what = format!("{op:?} of {count} {datatype:?} from element {first} on");
                let vector = &start[first * size..][..count * size];
                let places: Vec<u32> = (0..count as u32).collect();
                let [after, alone, listed] =
                    [(false, false), (true, false), (false, true)].map(|(alone, is_listed)| {
                        results[1..].fill(0xee);
                        elements.alone = alone;
                        // SAFETY: the words have room for `start`, and each buffer for this number
                        // of elements.
                        let after = unsafe {
                            std::ptr::copy_nonoverlapping(start.as_ptr(), at, start.len());
                            match is_listed {
                                true => apply_to_listed(&elements, &places),
                                false => apply(&elements),
                            }
                            std::slice::from_raw_parts(at, start.len()).to_vec()
                        };
                        assert_eq!(&results[1..], vector, "{what}");
                        after
                    });
                assert_eq!(after, alone, "{what}");
                assert_eq!(after, listed, "{what}");
                let mut wanted = start.clone();
                for i in 0..count {
                    let mut word = [0u64];
                    let element = &mut wanted[(first + i) * size..][..size];
                    elements.count = 1;
                    elements.at = word.as_mut_ptr().cast();
                    elements.operands = operands[1 + i * size..].as_ptr();
                    elements.results = std::ptr::null_mut();
                    // SAFETY: a word has room for an element.
                    unsafe {
                        std::ptr::copy_nonoverlapping(element.as_ptr(), elements.at, size);
                        apply(&elements);
                        std::ptr::copy_nonoverlapping(elements.at, element.as_mut_ptr(), size);
                    }
                }
                assert_eq!(after, wanted, "{what}");
            }
        }
    }
}

/// Some threads change whole vectors, and others change single elements of them. No change is lost.
#[test]
fn vectors_and_elements_exclude_each_other() {
    const COUNT: usize = 21;
    const TURNS: usize = 40_000;
    for datatype in [
        Datatype::Double,
        Datatype::Float,
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Int64,
    ] {
        let number = |n: usize| match datatype {
            Datatype::Double => (n as f64).to_ne_bytes().to_vec(),
            Datatype::Float => (n as f32).to_ne_bytes().to_vec(),
            _ => n.to_ne_bytes()[..datatype.size()].to_vec(),
        };
        let one = number(1).repeat(COUNT);
        let mut words = [0u128; COUNT];
        let (size, place) = (datatype.size(), words.as_mut_ptr().expose_provenance());
        let add = |first: usize, count: usize| {
            let at = std::ptr::with_exposed_provenance_mut::<u8>(place + first * size);
            let e = sums(datatype, count, at, one.as_ptr(), std::ptr::null_mut());
            // SAFETY: the words outlive the threads.
            unsafe { apply(&e) };
        };
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    together.wait();
                    (0..TURNS).for_each(|_| add(0, COUNT));
                });
                s.spawn(|| {
                    together.wait();
                    (0..TURNS).for_each(|turn| add(turn % COUNT, 1));
                });
            }
        });
        for i in 0..COUNT {
            let mut element = vec![0u8; size];
            // SAFETY: the pointer is to an element of the words.
            unsafe {
                let at = words.as_ptr().cast::<u8>().add(i * size);
                std::ptr::copy_nonoverlapping(at, element.as_mut_ptr(), size);
            }
            let alone = TURNS / COUNT + usize::from(i < TURNS % COUNT);
            let end = number(2 * TURNS + 2 * alone);
            assert_eq!(element, end, "{datatype:?}, element {i}");
        }
    }
}

/// Each position has the operand of the same index, and an element that is listed twice is changed
/// twice.
#[test]
fn listed_elements_are_changed_in_order() {
    for alone in [false, true] {
        let (mut at, mut old) = ([1u32, 2, 3, 4, 5], [0u32; 4]);
        let operands = [10u32, 20, 30, 40];
        let (from, into) = (operands.as_ptr().cast(), old.as_mut_ptr().cast());
        let e = Elements {
            alone,
            ..sums(Datatype::Uint32, 4, at.as_mut_ptr(), from, into)
        };
        // SAFETY: all positions are elements of the array, and there are as many operands and
        // results.
        unsafe { apply_to_listed(&e, &[4, 0, 4, 2]) };
        assert_eq!(at, [21, 2, 43, 4, 45]);
        assert_eq!(old, [5, 1, 15, 3]);
    }
}
