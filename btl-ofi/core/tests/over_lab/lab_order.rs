//! Puts confirmed by order: the provider's bytes come after their completion, and its reads come behind puts. A
//! completed operation is visible after its callback, after a flush, and to later operations.

use crate::lab::prelude::*;

const SEEDS: u64 = 120;
const BATCH: u64 = 40;
/// The number of puts with a callback in each run.
const PUTS: usize = 200;

struct Script {
    contexts: usize,
    threads: usize,
    /// The mode: one-sided only, or also messages of the host.
    mode: i32,
    pairs: Vec<(&'static str, String)>,
}

fn script(seed: u64) -> Script {
    let mut dice = Dice(seed);
    let bits = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];
    let modes: Vec<_> = bits.into_iter().filter(|_| dice.below(2) == 0).collect();
    let contexts = dice.pick(&[1, 1, 2, 8]);
    let faults = format!(
        "seed={seed},again={},burst={},delay={},reorder={},stray={}",
        dice.pick(&[0, 10, 200]),
        dice.pick(&[0, 3, 40]),
        dice.pick(&[0, 3, 40]),
        dice.pick(&[0, 1]),
        dice.pick(&[0, 300]),
    );
    Script {
        contexts,
        threads: dice.pick(&[1, 1, 4]),
        mode: dice.pick(&[0, 0, 2]),
        pairs: vec![
            ("CONFIRMS", "0".to_owned()),
            ("READ_ORDER", "1".to_owned()),
            ("MR_MODE", modes.join(",")),
            ("TX_CTX", contexts.to_string()),
            ("TX_SIZE", dice.pick(&["2", "16", "256"]).to_owned()),
            ("KEYS", dice.pick(&["low", "high", "random"]).to_owned()),
            ("ORDER", dice.pick(&["0", "1"]).to_owned()),
            // If the provider has no atomics, messages carry atomics and small transfers.
            ("ATOMICS", dice.pick(&["1", "1", "0"]).to_owned()),
            ("FAULTS", faults),
        ],
    }
}

/// A put whose callback reads its target.
struct Put {
    at: *const u64,
    value: u64,
    calls: AtomicU32,
}

impl Ended for Put {
    fn ended(&self, status: Status) {
        // SAFETY: the word lies in the window, which outlives the put.
        let now = unsafe { self.at.read_volatile() };
        let visible = status.is_ok() && now == self.value;
        let call = if visible { 1 } else { FAILED };
        self.calls.fetch_add(call, Ordering::Relaxed);
    }
}

/// Makes puts with callbacks, between puts without, to separate places. Returns the number of puts that were
/// invisible at a check.
fn put_and_look(t: &Transport, peers: &[NonNull<Endpoint>], h: &Handle, dice: &mut Dice) -> usize {
    let source: Vec<u64> = (0..2 * PUTS).map(|_| dice.next() | 1).collect();
    let place = |i: usize| h.base() + 8 * i as u64;
    let put = |i: usize| Put {
        at: ptr::with_exposed_provenance(place(i) as usize),
        value: source[i],
        calls: AtomicU32::new(0),
    };
    let puts: Vec<Put> = (0..PUTS).map(put).collect();
    for (i, word) in source.iter().enumerate() {
        let completion = puts.get(i).and_then(Put::completion);
        let from = ptr::from_ref(word).cast_mut().cast();
        let peer = dice.pick(peers);
        insist(t, || t.put(peer, from, place(i), h, 8, completion));
        if dice.below(10) == 0 {
            t.progress();
        }
    }
    // The callbacks need no flush.
    while puts.iter().any(|p| p.calls.load(Ordering::Relaxed) == 0) {
        t.progress();
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    let unseen = puts
        .iter()
        .filter(|p| p.calls.load(Ordering::Relaxed) != 1)
        .count();
    let others = PUTS..2 * PUTS;
    // SAFETY: the words lie in the window.
    let lost = others.filter(|i| unsafe { put(*i).at.read_volatile() } != source[*i]);
    unseen + lost.count()
}

fn run(script: &Script, seed: u64) -> Tally {
    let pairs: Vec<_> = script.pairs.iter().map(|(n, v)| (*n, v.as_str())).collect();
    shape(&pairs);
    let level = match script.threads {
        1 => ThreadLevel::Single,
        _ => ThreadLevel::Multiple,
    };
    let settings = [
        (
            "btl_ofi_num_contexts_per_module",
            Value::Int(script.contexts as i32),
        ),
        ("btl_ofi_mode", Value::Int(script.mode)),
    ];
    let target = open("lab", level, &settings);
    serve_applies(&target);
    let t = open("lab", level, &settings);
    let way = t.capabilities().completion.to_string_lossy().into_owned();
    assert!(way.contains("puts are confirmed by a read behind"), "{way}");
    let losses = Losses::default();
    t.on_error(Some(losses.report()));
    let connect = |proc| t.connect(target.address(), proc).unwrap().as_ptr() as usize;
    let peers = [0, 1, 2].map(connect);
    let endpoints = || peers.map(|p| NonNull::new(p as *mut Endpoint).unwrap());
    let mut window = vec![0u64; SLOTS * SLOT];
    let region = register(&target, &mut window, Access::all());
    let handle = region.handle();
    let mut tally = Tally::from(());
    // The target executes operations that come by message.
    let (told, kept) = attended(&target, || {
        let ends = judged_shares(script.threads, 4, |slots, thread| {
            Judge::new(&t, &peers, handle, slots, seed + thread as u64, &losses)
        });
        let unseen = put_and_look(&t, &endpoints(), &handle, &mut Dice(seed));
        tally.checked += 2 * PUTS as u64;
        if unseen > 0 {
            println!("@lost {unseen}: not visible when complete");
            tally.lost += unseen as u64;
        }
        ends
    });
    tally += told;
    region.close().unwrap();
    let stats = t.stats();
    assert_eq!(stats.posted, stats.completed, "{stats:?}");
    assert_eq!((stats.failed, stats.registrations), (0, 0));
    t.close().unwrap();
    target.close().unwrap();
    kept.into_iter().for_each(|kept| kept.check(&mut tally));
    tally
}

#[test]
fn complete_is_visible_where_bytes_come_late() {
    let total = isolated_seeds((1, SEEDS), BATCH, |seed| {
        let script = script(seed);
        let (threads, pairs) = (script.threads, &script.pairs);
        println!("@at seed {seed}: {threads} threads, {pairs:?}");
        run(&script, seed)
    });
    if let Some(total) = total {
        total.summary(&format!("puts by order, {SEEDS} seeds"));
        assert_eq!(total.run, SEEDS);
    }
}

/// One read confirms many puts.
#[test]
fn one_read_confirms_many_puts() {
    alone(|| {
        shape(&[("CONFIRMS", "0"), ("READ_ORDER", "1")]);
        let own = Own::new(open("lab", ThreadLevel::Single, &[]), 64);
        for i in 0..50 {
            own.there().insist(|there| there.put(8 * i, &[7u64], None));
        }
        assert_eq!(own.t.flush(None), Status::SUCCESS);
        own.close();
        let posted = stats()["posted"];
        assert_eq!(posted, 51, "50 puts and a read");
    });
}
