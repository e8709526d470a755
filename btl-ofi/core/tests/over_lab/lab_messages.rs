//! Messages over a provider that has no atomics: every registration mode, and scripts of faults. Each operation is
//! completed or reported as failed, exactly once.

use crate::lab::prelude::*;

/// The number of seeds of an ordinary run, and of one child.
const SEEDS: u64 = 100;
const BATCH: u64 = 50;

/// libfabric's numbers of errors that do not concern the peer: EIO, ENOMEM, EAGAIN, EACCES.
const ERRORS: [u32; 4] = [5, 12, 11, 13];
/// Errors that say that the peer is dead: ESHUTDOWN, EHOSTUNREACH, ECONNRESET, ENOTCONN.
const GONE: [u32; 4] = [108, 113, 104, 107];

/// The contexts of messages that the provider claims.
fn claimed(number: u64) -> String {
    ["", "CONTEXT", "CONTEXT2"][number as usize % 3].to_owned()
}

/// One registration mode with all combinations of the other settings.
fn one_mode(role: &str) -> Tally {
    let (number, mode) = role.split_once(' ').unwrap();
    let number: usize = number.parse().unwrap();
    let mut tally = Tally::default();
    let mut seed = 0;
    for (at, (contexts, threads)) in [(1, 1), (1, 4), (4, 4)].into_iter().enumerate() {
        let reads = [(1, "auto"), (3, "manual"), (64, "unspec")];
        for (of, (read, progress)) in reads.into_iter().enumerate() {
            seed += 100;
            // Each mode uses three of the nine combinations, and the next mode others.
            if (at + of) % 3 != number % 3 {
                continue;
            }
            println!("@at seed {seed}, {mode} {contexts} {threads} {read} {progress}");
            let faults = match seed % 200 {
                0 => format!("seed={seed},delay=5,reorder=1"),
                _ => String::new(),
            };
            let shape: Shape = vec![
                ("ATOMICS", "0".to_owned()),
                ("MODE", claimed(seed / 100)),
                ("MR_MODE", mode.to_owned()),
                ("TX_CTX", contexts.to_string()),
                ("PROGRESS", progress.to_owned()),
                ("FAULTS", faults),
            ];
            tally += judged(&Plan {
                seed,
                threads,
                epochs: 3,
                peers: 2,
                faults: false,
                gone: false,
                settings: vec![
                    ("btl_ofi_num_contexts_per_module", Value::Int(contexts)),
                    ("btl_ofi_num_cq_read", Value::Int(read)),
                    ("btl_ofi_progress_mode", Value::str(progress)),
                    // Slots have 64 bytes, so some transfers are messages and some are not.
                    ("btl_ofi_message_limit", Value::Unsigned(seed / 100 * 6)),
                ],
                origin: shape.clone(),
                target: shape,
            });
        }
    }
    tally
}

#[test]
fn every_registration_mode() {
    let modes = registration_modes().into_iter().enumerate();
    let roles: Vec<_> = modes.map(|(n, mode)| format!("{n} {mode}")).collect();
    if let Some(total) = isolated_as(&roles, |role| one_mode(role)) {
        total.summary("messages, modes");
        assert_eq!(total.run, 20 * 3);
    }
}

/// A plan that depends only on a seed.
fn plan(seed: u64) -> Plan {
    let mut dice = Dice(seed);
    let modes = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];
    let mode: Vec<_> = modes.into_iter().filter(|_| dice.below(2) == 0).collect();
    let contexts = dice.pick(&[1, 1, 2, 8]);
    let errors = dice.below(3) == 0;
    // Each run with silence takes long.
    let silence = !errors && dice.below(12) == 0;
    let gone = errors || silence;
    let mut faults = vec![format!("seed={seed}")];
    let often = |dice: &mut Dice, name: &str, values: &[u64]| {
        let value = dice.pick(values);
        format!("{name}={value}")
    };
    faults.push(often(&mut dice, "again", &[0, 10, 200, 700]));
    faults.push(often(&mut dice, "burst", &[0, 3, 40]));
    faults.push(often(&mut dice, "sendagain", &[0, 0, 2, 3]));
    faults.push(often(&mut dice, "recvagain", &[0, 0, 2, 3]));
    faults.push(often(&mut dice, "delay", &[0, 3, 40]));
    faults.push(often(&mut dice, "reorder", &[0, 1]));
    faults.push(often(&mut dice, "stray", &[0, 0, 300]));
    let target = faults.clone();
    let mut target_faults = target.join(",");
    if errors {
        let errno = match dice.below(2) {
            0 => dice.pick(&ERRORS),
            _ => dice.pick(&GONE),
        };
        faults.push(format!("errno={errno}"));
        faults.push(often(&mut dice, "error", &[0, 5, 50, 500, 1000]));
        faults.push(often(&mut dice, "nth", &[0, 1, 2, 3, 20]));
        // A failed answer is sent again, unless the error says that its receiver is dead.
        let of_answers = often(&mut dice, "error", &[0, 5, 100]);
        target_faults = format!("{target_faults},{of_answers}");
    }
    if silence {
        let kind = dice.pick(&["silent", "nullok", "againfrom", "nameless"]);
        match kind {
            "nameless" => faults.push("nameless=1000,error=20".to_owned()),
            "nullok" => faults.push("nullok=100".to_owned()),
            _ => faults.push(often(&mut dice, kind, &[1, 3, 10, 60])),
        }
        if kind == "silent" {
            faults.push(often(&mut dice, "back", &[0, 0, 30, 150]));
        }
    }
    let shape = |dice: &mut Dice, faults: String| -> Shape {
        vec![
            ("ATOMICS", "0".to_owned()),
            ("MODE", claimed(seed)),
            ("MR_MODE", mode.join(",")),
            ("TX_CTX", contexts.to_string()),
            ("TX_SIZE", dice.pick(&["2", "16", "256"]).to_owned()),
            ("RX_SIZE", dice.pick(&["1", "2", "256"]).to_owned()),
            ("SEND_ORDER", dice.pick(&["0", "1"]).to_owned()),
            ("FAULTS", faults),
        ]
    };
    let mut settings = vec![
        ("btl_ofi_num_contexts_per_module", Value::Int(contexts)),
        (
            "btl_ofi_num_cq_read",
            Value::Int(dice.pick(&[1, 2, 16, 64])),
        ),
        ("btl_ofi_rd_num", Value::Int(dice.pick(&[1, 2, 10]))),
        (
            "btl_ofi_message_limit",
            Value::Unsigned(dice.pick(&[0, 1, 8, 40, 64, 4096])),
        ),
    ];
    if silence {
        settings.push(("btl_ofi_peer_check_interval", Value::Unsigned(20)));
        settings.push(("btl_ofi_peer_timeout", Value::Unsigned(100)));
    }
    Plan {
        seed,
        // Only a test with one thread can wait for the late writes of a peer that was given up.
        threads: if gone { 1 } else { dice.pick(&[1, 1, 4]) },
        epochs: 6,
        peers: 3,
        faults: gone,
        gone,
        settings,
        origin: shape(&mut dice, faults.join(",")),
        target: shape(&mut dice, target_faults),
    }
}

#[test]
fn a_hundred_seeds() {
    let (first, many) = seeds(SEEDS);
    let total = isolated_seeds((first, many), BATCH, |seed| {
        let plan = plan(seed);
        println!(
            "@at seed {seed} (./dev soak --one messages --seed {seed}): {} threads, {:?}, {:?}, {:?}",
            plan.threads, plan.settings, plan.origin, plan.target
        );
        judged(&plan)
    });
    let Some(total) = total else {
        return;
    };
    total.summary(&format!("messages, {many} seeds from {first}"));
    assert_eq!(total.run, many);
    if many >= SEEDS {
        assert!(total.faults > 5000 && total.failed > 500, "{total:?}");
    }
}

/// Shapes without atomics whose messages the transport cannot use either.
#[test]
fn unusable_messages() {
    alone(|| {
        let shapes = [("MAX_MSG", "15999", "too short"), ("MESSAGES", "0", "lab")];
        for (name, value, why) in shapes {
            shape(&[("ATOMICS", "0"), (name, value)]);
            let said = refusal("lab", &[]);
            assert!(said.contains(why), "{name} {value}: {said}");
        }
        shape(&[("ATOMICS", "0"), ("MAX_MSG", "16000")]);
        open("lab", ThreadLevel::Single, &[]).close().unwrap();
    });
}

/// Without messages, no target would change elements that the provider's atomics do not serve.
#[test]
fn a_host_that_makes_applies_refuses_a_provider_without_messages() {
    alone(|| {
        for (name, value) in [("MAX_MSG", "15999"), ("MESSAGES", "0")] {
            shape(&[(name, value)]);
            let mut o = options(&[("btl_ofi_provider_include", Value::str("lab"))]);
            try_open(&o, ThreadLevel::Single).unwrap().close().unwrap();
            o.need_applies();
            let said = match try_open(&o, ThreadLevel::Single) {
                Ok(_) => panic!("{name} {value}: it was opened"),
                Err(e) => e.to_string(),
            };
            assert!(
                said.contains("targets change elements that no atomic serves"),
                "{name} {value}: {said}"
            );
        }
    });
}
