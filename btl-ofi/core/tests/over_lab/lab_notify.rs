//! Puts with notification over a provider that delivers late and out of order: no counter comes before the bytes, at any
//! point between two progress calls.

use crate::lab::prelude::*;

const SEEDS: u64 = 60;
/// The number of puts of one run, and the number of words of each put's place.
const PUTS: usize = 40;
const PLACE: usize = 16;

/// Runs one seed. Returns how often bytes arrived before their counter was raised; if this never happens, the test proves
/// nothing.
fn run(seed: u64) -> u32 {
    let mut dice = Dice(seed);
    let faults = format!(
        "seed={seed},delay={},reorder=1,again={},burst=3",
        dice.pick(&[3, 40]),
        dice.pick(&[0, 200])
    );
    let shape: Shape = vec![
        ("ATOMICS", (seed % 2).to_string()),
        ("CONFIRMS", (seed / 2 % 2).to_string()),
        ("READ_ORDER", "1".to_owned()),
        ("ORDER", dice.pick(&["0", "1"]).to_owned()),
        ("SEND_ORDER", "0".to_owned()),
        ("TX_CTX", dice.pick(&["1", "4"]).to_owned()),
        ("FAULTS", faults),
    ];
    let settings = [
        (
            "btl_ofi_message_limit",
            Value::Unsigned(dice.pick(&[0, 40, 4096])),
        ),
        (
            "btl_ofi_num_contexts_per_module",
            Value::Int(dice.pick(&[1, 4])),
        ),
    ];
    let target = opened(&shape, ThreadLevel::Single, &settings);
    let t = opened(&shape, ThreadLevel::Single, &settings);
    let mut window = vec![0u64; PUTS * PLACE + PUTS];
    let region = register(&target, &mut window, Access::all());
    let (there, h) = (There::of(&t, 1, &target, &region), region.handle());
    let word = |i: usize| {
        let at = ptr::with_exposed_provenance::<u64>(h.base() as usize + 8 * i);
        // SAFETY: the word lies in the window, which lives as long as the region.
        unsafe { at.read_volatile() }
    };
    let source = [u64::MAX; PLACE];
    let sizes: Vec<usize> = (0..PUTS).map(|_| 1 + dice.below(PLACE)).collect();
    let calls = counters(PUTS);
    let mut apart = 0;
    let mut look = || {
        for (i, words) in sizes.iter().enumerate() {
            let there = (0..*words)
                .filter(|at| word(i * PLACE + at) == u64::MAX)
                .count();
            match word(PUTS * PLACE + i) {
                0 => apart += u32::from(there == *words),
                counted => assert_eq!(
                    (counted, there),
                    (i as u64 + 1, *words),
                    "seed {seed}: put {i}"
                ),
            }
        }
    };
    let deadline = Patience::new();
    for (i, words) in sizes.iter().enumerate() {
        let counter = (&h, 8 * (PUTS * PLACE + i), i as u64 + 1);
        let (at, done) = (8 * PLACE * i, calls[i].completion());
        while there.put_notify(at, &source[..*words], counter, done) != Status::SUCCESS {
            assert!(deadline.lasts(), "seed {seed}: nothing is taken");
            t.progress();
            target.progress();
            look();
        }
    }
    let done = |c: &AtomicU32| c.load(Ordering::Relaxed) > 0;
    while !calls.iter().all(done) {
        assert!(deadline.lasts(), "seed {seed}: never complete");
        t.progress();
        look();
        target.progress();
        look();
    }
    for (i, calls) in calls.iter().enumerate() {
        assert_eq!(calls.load(Ordering::Relaxed), 1, "seed {seed}: put {i}");
        assert_eq!(
            word(PUTS * PLACE + i),
            i as u64 + 1,
            "complete means counted"
        );
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    let stats = t.stats();
    assert_eq!(stats.posted, stats.completed, "{stats:?}");
    t.close().unwrap();
    region.close().unwrap();
    target.close().unwrap();
    apart
}

#[test]
fn late_and_out_of_order() {
    alone(|| {
        let mut apart = 0;
        for seed in 1..=SEEDS {
            println!("@at seed {seed}");
            apart += run(seed);
            assert_eq!(violations(), "", "the provider's user broke its rules");
        }
        assert!(apart > 0, "bytes and counters always came together");
    });
}
