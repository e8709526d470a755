//! Atomics of every kind and type through a ring, and of a process on its own memory, compared with a model that processes
//! one word after the other.

use super::*;

/// Random operations of every kind and type on one window, in order, compared with a model: the fetched values and the
/// final window. The number of operations makes rings and payloads wrap many times.
fn matches_the_model(seed: u64, rounds: usize, to_itself: bool) {
    const WORDS: usize = 256;
    let [a, b] = [(); 2].map(|()| open(near(), ThreadLevel::Single, &[]));
    let mut window = vec![0u64; WORDS];
    let target = if to_itself { &a } else { &b };
    let region = register(target, &mut window, ALL);
    let h = region.handle();
    let peer = a.connect(target.address(), 0).unwrap();
    let mut model = vec![0u8; WORDS * 8];
    let mut numbers = Numbers(seed);
    attended(&b, || {
        for _ in 0..rounds {
            let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for _ in 0..300 {
                let (seen, old) = operate(&a, peer, &h, &mut model, &mut numbers);
                expected.push((seen, old));
            }
            assert_eq!(a.flush(None), Status::SUCCESS);
            for (seen, old) in expected {
                assert_eq!(seen, old, "seed {seed}: what was there before");
            }
        }
    });
    let bytes: Vec<u8> = window.iter().flat_map(|w| w.to_ne_bytes()).collect();
    assert!(bytes == model, "seed {seed}: what is there in the end");
    close([region], [a, b]);
}

/// Posts one operation, and applies it to the model. Returns the address of the result, and the
/// expected result.
fn operate(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    model: &mut [u8],
    numbers: &mut Numbers,
) -> (Vec<u8>, Vec<u8>) {
    let (kind, datatype, op, most) = loop {
        let kind = AtomicKind::ALL[numbers.below(3)];
        let datatype = Datatype::ALL[numbers.below(10)];
        let op = AtomicOp::ALL[numbers.below(AtomicOp::ALL.len())];
        if let Some(most) = t.atomic_count(kind, datatype, op) {
            break (kind, datatype, op, most);
        }
    };
    let size = datatype.size();
    // Integers of all widths share the first half, and floats of each width have a quarter, so no
    // float arithmetic uses other bytes.
    let (start, length) = match datatype {
        Datatype::Float => (model.len() / 2, model.len() / 4),
        Datatype::Double => (model.len() * 3 / 4, model.len() / 4),
        _ => (0, model.len() / 2),
    };
    let count = match kind {
        AtomicKind::Compare => 1,
        _ => match numbers.below(4) {
            0 => 1 + numbers.below(most.min(length / size)),
            _ => 1 + numbers.below(3),
        },
    };
    let at = start + size * numbers.below(length / size - count + 1);
    let operands: Vec<u64> = (0..count)
        .map(|_| match datatype {
            Datatype::Float => u64::from([1f32, -1.0, 2.0, -2.0][numbers.below(4)].to_bits()),
            Datatype::Double => [1f64, -1.0, 2.0, -2.0][numbers.below(4)].to_bits(),
            _ => numbers.word() >> numbers.below(64),
        })
        .collect();
    let element = |model: &[u8], i: usize| {
        let mut word = [0u8; 8];
        word[..size].copy_from_slice(&model[at + i * size..][..size]);
        u64::from_ne_bytes(word)
    };
    // Half the time, the comparand equals the old value, so the swap takes place.
    let compare = element(model, 0) ^ (numbers.word() & 1);
    let old = model[at..at + count * size].to_vec();
    for (i, operand) in operands.iter().enumerate() {
        let new = after(datatype, op, element(model, i), *operand, compare);
        model[at + i * size..][..size].copy_from_slice(&new.to_ne_bytes()[..size]);
    }
    // The address is off by one byte, because the interface requires no alignment of local buffers.
    let mut local = vec![0u8; 1 + count * size];
    for (i, operand) in operands.iter().enumerate() {
        local[1 + i * size..][..size].copy_from_slice(&operand.to_ne_bytes()[..size]);
    }
    let mut seen = vec![0u8; count * size];
    let out = seen.as_mut_ptr().cast::<c_void>();
    let from = local[1..].as_ptr().cast::<c_void>();
    let remote = h.base() + at as u64;
    insist(t, || match kind {
        AtomicKind::Update => t.atomic_opv(peer, from, remote, h, datatype, op, count, None),
        AtomicKind::Fetch => t.atomic_fopv(peer, from, out, remote, h, datatype, op, count, None),
        AtomicKind::Compare => {
            t.atomic_cswapv(peer, operands[0], compare, out, remote, h, datatype, None)
        }
    });
    match kind {
        AtomicKind::Update => (Vec::new(), Vec::new()),
        _ => (seen, old),
    }
}

#[test]
fn every_type_in_order() {
    for seed in 1..=8 {
        matches_the_model(seed, 5, seed % 4 == 0);
    }
}
