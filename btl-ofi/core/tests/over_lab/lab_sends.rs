//! Two-sided messages over the lab provider: sends and receives that are refused, late and in any order, small queues, and
//! errors. Each accepted message arrives once, complete and in order, as long as the peer lives.

use crate::lab::prelude::*;

const SEEDS: u64 = 120;
const BATCH: u64 = 30;
const MANY: usize = 300;

/// The received messages, in order.
struct Came {
    next: AtomicUsize,
    wrong: Mutex<Vec<String>>,
    sizes: Vec<usize>,
}

impl Receives for Came {
    fn receive(&self, _: *mut plugin_api::Endpoint, tag: u8, bytes: &[u8]) {
        let (i, size) = (self.next.fetch_add(1, Ordering::Relaxed), bytes.len());
        let is_wrong = tag != i as u8 || Some(&size) != self.sizes.get(i);
        if is_wrong || bytes.iter().any(|b| *b != i as u8) {
            let what = format!("message {i}: tag {tag}, {size} bytes");
            self.wrong.lock().unwrap().push(what);
        }
    }
}

/// Random messages and puts to one target, with the faults of a seed.
fn one_seed(seed: u64) -> Tally {
    let mut dice = Dice(seed);
    let mut faults = vec![format!("seed={seed}")];
    for (name, values) in [
        ("again", &[0, 10, 200, 700][..]),
        ("burst", &[0, 3, 40]),
        ("sendagain", &[0, 2, 3]),
        ("recvagain", &[0, 2, 3]),
        ("delay", &[0, 3, 40]),
        ("reorder", &[0, 1]),
        ("stray", &[0, 0, 300]),
    ] {
        let value = dice.pick(values);
        faults.push(format!("{name}={value}"));
    }
    let atomics = dice.pick(&["0", "1"]);
    let (tx, rx) = (
        dice.pick(&["2", "16", "256"]),
        dice.pick(&["1", "2", "256"]),
    );
    let order = dice.pick(&["0", "1"]);
    let faults = faults.join(",");
    println!("@at seed {seed}: {faults}, atomics {atomics}, queues {tx} {rx}, order {order}");
    shape(&[
        ("ATOMICS", atomics),
        ("MODE", ["", "CONTEXT", "CONTEXT2"][seed as usize % 3]),
        ("TX_SIZE", tx),
        ("RX_SIZE", rx),
        ("SEND_ORDER", order),
        ("FAULTS", &faults),
    ]);
    let settings = [
        ("btl_ofi_mode", Value::Int(2)),
        ("btl_ofi_rd_num", Value::Int(dice.pick(&[1, 2, 10]))),
    ];
    let [a, b] = [(); 2].map(|()| open("lab", ThreadLevel::Single, &settings));
    let came = Came {
        sizes: (0..MANY)
            .map(|_| dice.pick(&[0, 1, 8, 100, 4000, 12 * 1024, 128 * 1024]))
            .collect(),
        next: AtomicUsize::new(0),
        wrong: Mutex::default(),
    };
    let sizes = came.sizes.clone();
    came.receive_of(&b);
    let pair = Pair::of(a, b, vec![0u64; MANY]);
    let (a, b, there, peer) = (&pair.a, &pair.b, pair.there(), pair.peer);
    let values: Vec<u64> = (1..=MANY as u64).collect();
    let deadline = Patience::new();
    let insist = |post: &mut dyn FnMut() -> Status| loop {
        let status = post();
        if status.is_ok() {
            break;
        }
        assert!(status.is_again(), "seed {seed}: {status}");
        assert!(deadline.lasts(), "seed {seed}: no room");
        a.progress();
        b.progress();
    };
    let mut put = 0;
    for (i, size) in sizes.iter().enumerate() {
        // SAFETY: the endpoint is connected, and `fill` writes `size` bytes.
        insist(&mut || unsafe {
            let sent = a.send(peer, (i as u8, *size, Leaves::Later), |to| {
                ptr::write_bytes(to, i as u8, *size)
            });
            sent.err().unwrap_or(Status::SUCCESS)
        });
        if dice.below(4) == 0 {
            put += 1;
            insist(&mut || there.put(8 * i, &values[i..=i], None));
        }
    }
    // Operations behind the last message may come with a later message.
    let done = || window_is_done(a);
    while came.next.load(Ordering::Relaxed) < MANY || !done() {
        assert!(
            deadline.lasts(),
            "seed {seed}: {} of {MANY} came",
            came.next.load(Ordering::Relaxed)
        );
        a.progress();
        b.progress();
    }
    assert_eq!(*came.wrong.lock().unwrap(), [""; 0], "seed {seed}");
    assert_eq!(a.flush(None), Status::SUCCESS, "seed {seed}");
    let written = pair.close().iter().filter(|w| **w != 0).count();
    assert_eq!(written, put, "seed {seed}");
    Tally {
        run: 1,
        checked: (MANY + put) as u64,
        ..Tally::default()
    }
}

/// Whether no operation is outstanding.
fn window_is_done(t: &Transport) -> bool {
    let stats = t.stats();
    stats.completed + stats.failed == stats.posted
}

#[test]
fn messages_survive_faults() {
    let (first, many) = seeds(SEEDS);
    if let Some(total) = isolated_seeds((first, many), BATCH, |seed| one_seed(seed)) {
        total.summary(&format!("sends, {many} seeds from {first}"));
        assert_eq!(total.run, many);
    }
}

/// The two-sided modes refuse providers whose messages the transport cannot use.
#[test]
fn unusable_messages() {
    alone(|| {
        for (name, value) in [("MAX_MSG", "15999"), ("MESSAGES", "0")] {
            shape(&[("ATOMICS", "1"), (name, value)]);
            let said = refusal("lab", &[("btl_ofi_mode", Value::Int(1))]);
            assert!(said.contains("btl_ofi_mode"), "{name} {value}: {said}");
            let one_sided = [("btl_ofi_mode", Value::Int(0))];
            open("lab", ThreadLevel::Single, &one_sided)
                .close()
                .unwrap();
        }
    });
}
