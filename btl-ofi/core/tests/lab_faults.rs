//! The transport over a provider that fails by script. In every case each operation is either completed or reported as
//! failed, exactly once; flush returns; no resource leaks; no call hangs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;
#[path = "lab_faults/refused.rs"]
mod refused;

use lab::prelude::*;

/// The number of seeds of an ordinary run, and of one child.
const SEEDS: u64 = 600;
const BATCH: u64 = 50;
const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// libfabric's numbers of errors that do not concern the peer: EIO, EINVAL, ETRUNC, EMSGSIZE,
/// EKEYREJECTED, ENOMEM, EAGAIN, EACCES.
const ERRORS: [u32; 8] = [5, 22, 265, 90, 129, 12, 11, 13];
/// Errors that say that the peer is dead: ESHUTDOWN, EHOSTUNREACH, ECONNRESET, ENOTCONN.
const GONE: [u32; 4] = [108, 113, 104, 107];

/// A shape and a script, which depend only on a seed.
struct Script {
    contexts: usize,
    threads: usize,
    gone: bool,
    /// Whether some operations never complete; the transport then gives up their peers.
    silence: bool,
    pairs: Vec<(&'static str, String)>,
}

fn script(seed: u64) -> Script {
    let mut dice = Dice(seed);
    let bits = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];
    let modes: Vec<_> = bits.into_iter().filter(|_| dice.below(2) == 0).collect();
    let contexts = dice.pick(&[1, 1, 2, 8]);
    let gone = dice.below(8) == 0;
    let errno = if gone {
        dice.pick(&GONE)
    } else {
        dice.pick(&ERRORS)
    };
    let mut faults = vec![format!("seed={seed}"), format!("errno={errno}")];
    let often = |dice: &mut Dice, name: &str, values: &[u64]| {
        let value = dice.pick(values);
        format!("{name}={value}")
    };
    faults.push(often(&mut dice, "error", &[0, 5, 50, 500, 1000]));
    faults.push(often(&mut dice, "nth", &[0, 0, 1, 2, 100]));
    faults.push(often(&mut dice, "nameless", &[0, 0, 200, 1000]));
    faults.push(often(&mut dice, "again", &[0, 10, 200, 700]));
    faults.push(often(&mut dice, "burst", &[0, 3, 40]));
    faults.push(often(&mut dice, "delay", &[0, 3, 40]));
    faults.push(often(&mut dice, "reorder", &[0, 1]));
    faults.push(often(&mut dice, "stray", &[0, 0, 300]));
    faults.push(often(&mut dice, "nomem", &[0, 0, 300]));
    faults.push(often(&mut dice, "keyrejected", &[0, 0, 300]));
    let context_mode = dice.pick(&["", "CONTEXT", "CONTEXT2"]);
    // Each run with silence takes long.
    let silence = dice.below(12) == 0;
    if silence {
        let kinds = ["silent", "silent", "nullok", "againfrom"];
        let kind = dice.pick(&kinds);
        faults.push(often(&mut dice, kind, &[1, 3, 40, 150]));
        if kind == "silent" {
            faults.push(often(&mut dice, "back", &[0, 0, 30, 3000, 2_000_000]));
        }
    }
    if silence && gone {
        // A peer was given up before, so an operation to it that never ends is not checked: it was reported.
        faults[1] = format!("errno={}", ERRORS[0]);
    }
    let gone = gone || silence;
    // Reads confirm puts, and the reads fail too. An error without a name may belong to a read, and fails no operation.
    let by_order = seed.is_multiple_of(4);
    let kept = |fault: &String| {
        !["nameless", "nomem", "keyrejected"]
            .iter()
            .any(|f| fault.starts_with(f))
    };
    if by_order {
        faults.retain(kept);
    }
    let (confirms, read_order, context_mode) = match by_order {
        true => ("0", "1", ""),
        false => ("1", "0", context_mode),
    };
    Script {
        contexts,
        silence,
        // Only a test with one thread can wait for the late writes of a peer that was given up.
        threads: if gone { 1 } else { dice.pick(&[1, 1, 4]) },
        gone,
        pairs: vec![
            ("MR_MODE", modes.join(",")),
            ("MODE", context_mode.to_owned()),
            ("CONFIRMS", confirms.to_owned()),
            ("READ_ORDER", read_order.to_owned()),
            ("TX_CTX", contexts.to_string()),
            ("TX_SIZE", dice.pick(&["2", "16", "256"]).to_owned()),
            ("KEYS", dice.pick(&["low", "high", "random"]).to_owned()),
            ("ORDER", dice.pick(&["0", "1"]).to_owned()),
            ("FAULTS", faults.join(",")),
        ],
    }
}

/// Registers memory; retries when the script refuses, as hosts do.
fn register(t: &Transport, memory: &mut [u64]) -> Region {
    for _ in 0..10_000 {
        let size = size_of_val(memory);
        // SAFETY: the memory outlives the region in every test here.
        match unsafe { t.register(memory.as_mut_ptr().cast(), size, ALL) } {
            Ok(region) => return region,
            Err(e) => {
                let expected = [Status::OUT_OF_RESOURCE, Status::PERM];
                assert!(expected.contains(&e.status()), "{e}");
            }
        }
    }
    panic!("no registration succeeds");
}

fn run(script: &Script, seed: u64) -> Tally {
    let pairs: Vec<_> = script.pairs.iter().map(|(n, v)| (*n, v.as_str())).collect();
    shape(&pairs);
    let level = if script.threads > 1 {
        ThreadLevel::Multiple
    } else {
        ThreadLevel::Single
    };
    let n = Value::Int(script.contexts as i32);
    let mut settings = vec![("btl_ofi_num_contexts_per_module", n)];
    if script.silence {
        settings.push(("btl_ofi_peer_check_interval", Value::Unsigned(20)));
        settings.push(("btl_ofi_peer_timeout", Value::Unsigned(100)));
    }
    let t = open("lab", level, &settings);
    serve_applies(&t);
    let losses = Losses::default();
    t.on_error(Some(losses.report()));
    let peers = [0, 1, 2].map(|proc| t.connect(t.address(), proc).unwrap());
    let peers = peers.map(|p| p.as_ptr() as usize);
    let mut window = vec![0u64; SLOTS * SLOT];
    let region = register(&t, &mut window);
    let handle = region.handle();
    let mut tally = Tally::from(());
    let mut kept = Vec::new();
    let share = SLOTS / script.threads;
    std::thread::scope(|s| {
        let (t, losses) = (&t, &losses);
        let workers = (0..script.threads).map(|i| {
            s.spawn(move || {
                let slots = i * share..(i + 1) * share;
                let mut judge = Judge {
                    faults: true,
                    gone: script.gone,
                    // Several threads flush, and the thread whose flush reports these failures is
                    // not defined.
                    untracked: script.threads == 1,
                    ..Judge::new(t, &peers, handle, slots, seed + i as u64, losses)
                };
                judge.epochs(4);
                // The test registers and deregisters memory meanwhile.
                let mut memory = [0u64; 4];
                if !losses.is_cut_off() {
                    drop(register(t, &mut memory));
                }
                judge.epochs(2);
                (judge.tally, judge.kept)
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            let (told, outcomes) = worker.join().unwrap();
            tally += told;
            kept.push(outcomes);
        }
    });
    region.close().unwrap();
    let stats = t.stats();
    if !script.gone {
        assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    }
    assert_eq!((stats.registrations, stats.endpoints), (0, 3));
    t.close().unwrap();
    for outcomes in kept {
        outcomes.check(&mut tally);
    }
    tally
}

#[test]
fn hundreds_of_seeds() {
    let (first, many) = seeds(SEEDS);
    let total = isolated_seeds((first, many), BATCH, |seed| {
        let script = script(seed);
        let (n, threads) = (script.contexts, script.threads);
        println!(
            "@at seed {seed} (./dev soak --one core --seed {seed}): {n} contexts, {threads} threads, {:?}",
            script.pairs
        );
        run(&script, seed)
    });
    let Some(total) = total else {
        return;
    };
    total.summary(&format!("faults, {many} seeds from {first}"));
    assert_eq!(total.run, many);
    if many >= SEEDS {
        assert!(total.faults > 10_000 && total.failed > 1000, "{total:?}");
    }
}

/// A peer is killed with operations outstanding: each operation is reported once, the flush returns
/// an error, and later posts are refused or reported too.
#[test]
fn peers_are_killed() {
    alone(|| {
        for seed in 0..20 {
            println!("@at {seed}");
            let contexts = if seed % 2 == 0 { "1" } else { "4" };
            let (confirms, mode) = [("1", "CONTEXT2"), ("1", ""), ("0", "")][seed % 3];
            let faults = format!("seed={seed},delay=30,reorder=1,again=50,burst=3");
            shape(&[
                ("TX_CTX", contexts),
                ("MODE", mode),
                ("CONFIRMS", confirms),
                ("READ_ORDER", "1"),
                ("FAULTS", &faults),
            ]);
            let n = Value::Int(contexts.parse().unwrap());
            let t = open(
                "lab",
                ThreadLevel::Single,
                &[("btl_ofi_num_contexts_per_module", n)],
            );
            let mut target = Target::start(&t, "lab", true);
            let there = target.there();
            let calls = counters(200);
            let (mut refused, word) = (0, [1u64]);
            for (i, calls) in calls.iter().enumerate() {
                if i == 100 {
                    target.kill();
                }
                loop {
                    let status = there.put(8 * i, &word, calls.completion());
                    if status.is_again() {
                        t.progress();
                        continue;
                    }
                    if status != Status::SUCCESS {
                        assert_eq!(status, Status::UNREACH);
                        refused += 1;
                    }
                    break;
                }
            }
            assert_eq!(t.flush(None), Status::UNREACH);
            assert_eq!(
                t.flush(None),
                Status::SUCCESS,
                "a failure is reported by one flush"
            );
            drop(target);
            t.close().unwrap();
            let of = |kind| {
                calls
                    .iter()
                    .filter(move |c| c.load(Ordering::Relaxed) == kind)
            };
            let reported = of(1).count() + of(FAILED).count();
            assert_eq!(
                reported + refused,
                calls.len(),
                "{refused} refused, {calls:?}"
            );
        }
    });
}
