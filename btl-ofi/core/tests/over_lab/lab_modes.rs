//! The transport over every registration mode that it supports, with every kind of operation
//! compared with a model; and the refusals of unsupported modes, which name the mode.

use crate::lab::registration_modes as supported;

use crate::lab::prelude::*;

const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// Opens the provider in its present shape and runs epochs with `threads` threads.
fn run(contexts: usize, threads: usize, seed: u64) -> Tally {
    let level = if threads > 1 {
        ThreadLevel::Multiple
    } else {
        ThreadLevel::Single
    };
    let n = Value::Int(contexts as i32);
    let t = open("lab", level, &[("btl_ofi_num_contexts_per_module", n)]);
    serve_applies(&t);
    assert_eq!(t.capabilities().contexts, contexts);
    let losses = Losses::default();
    t.on_error(Some(losses.report()));
    let connect = |proc| t.connect(t.address(), proc).unwrap().as_ptr() as usize;
    let peers = [0, 1].map(connect);
    let mut window = vec![0u64; SLOTS * SLOT];
    let region = register(&t, &mut window, ALL);
    let handle = region.handle();
    let (told, kept) = judged_shares(threads, 4, |slots, thread| {
        Judge::new(&t, &peers, handle, slots, seed + thread as u64, &losses)
    });
    region.close().unwrap();
    disconnect_all(&t, &peers);
    let stats = t.stats();
    assert_eq!((stats.posted, stats.failed), (stats.completed, 0));
    t.close().unwrap();
    let mut tally = Tally::from(());
    tally += told;
    kept.into_iter().for_each(|kept| kept.check(&mut tally));
    tally
}

/// One registration mode with all combinations of the other settings.
fn one_mode(mode: &str) -> Tally {
    let mut tally = Tally::default();
    let chosen = mode.contains("PROV_KEY") || mode == "BASIC";
    let keys: &[(&str, &str)] = if chosen {
        &[("low", "8"), ("high", "8"), ("random", "8"), ("high", "2")]
    } else {
        &[("low", "8"), ("low", "4"), ("low", "1")]
    };
    let mut seed = 1;
    for contexts in [1, 2, 8] {
        for context_mode in ["", "CONTEXT", "CONTEXT2", "CONTEXT,CONTEXT2"] {
            for (keys, key_size) in keys {
                for threads in [1, 4] {
                    seed += 100;
                    println!("@at {mode} {contexts} {context_mode} {keys} {key_size} {threads}");
                    // Odd seeds deliver late and in any order.
                    let faults = if seed % 200 == 1 {
                        format!("seed={seed},delay=5,reorder=1")
                    } else {
                        String::new()
                    };
                    let most = contexts.to_string();
                    shape(&[
                        ("MR_MODE", mode),
                        ("MODE", context_mode),
                        ("TX_CTX", &most),
                        ("KEYS", keys),
                        ("MR_KEY_SIZE", key_size),
                        ("FAULTS", &faults),
                    ]);
                    tally += run(contexts, threads, seed);
                }
            }
        }
    }
    tally
}

#[test]
fn every_supported_mode() {
    let Some(total) = isolated_as(&supported(), |mode| one_mode(mode)) else {
        return;
    };
    total.summary("modes");
}

/// Shapes that the transport does not support; each refusal names the shape.
#[test]
fn every_unsupported_mode() {
    alone(|| {
        let bits = ["LOCAL", "RAW", "MMU_NOTIFY", "RMA_EVENT", "HMEM"];
        for bit in bits {
            for also in supported() {
                // The old words cannot be combined with others.
                if ["BASIC", "SCALABLE"].contains(&also.as_str()) {
                    continue;
                }
                let mode = format!("{bit},{also}");
                println!("@at {mode}");
                shape(&[("MR_MODE", &mode)]);
                let text = refusal("lab", &[]);
                assert!(
                    text.contains(&format!("lab: it requires FI_MR_{bit}")),
                    "{mode}: {text}"
                );
            }
        }
        // An old word does not hide an unsupported bit.
        for old in ["BASIC", "SCALABLE"] {
            for bit in ["RAW", "MMU_NOTIFY", "RMA_EVENT", "HMEM"] {
                let mode = format!("{bit},VIRT_ADDR,ALLOCATED,PROV_KEY");
                shape(&[("MR_MODE", &mode), ("OLD_MODE", old)]);
                let text = refusal("lab", &[]);
                assert!(
                    text.contains(&format!("lab: it requires FI_MR_{bit}")),
                    "{mode}: {text}"
                );
            }
        }
        let fetch = "fi_query_atomic refuses a fetching 64-bit sum";
        let compare = "fi_query_atomic refuses a 64-bit compare-and-swap";
        for (without, why) in [("1:*:*", fetch), ("*:7:2", fetch), ("2:7:*", compare)] {
            shape(&[("WITHOUT", without)]);
            let text = refusal("lab", &[]);
            assert!(text.contains(why), "{without}: {text}");
        }
    });
}

/// Keys of one byte run out after 256, and a returned key is used again.
#[test]
fn keys_run_out() {
    alone(|| {
        shape(&[("MR_KEY_SIZE", "1")]);
        let t = open("lab", ThreadLevel::Single, &[]);
        let mut memory = vec![0u64; 257];
        let base = memory.as_mut_ptr();
        // SAFETY: the memory lives until the regions are closed.
        let register = |i: usize| unsafe { t.register(base.add(i).cast(), 8, ALL) };
        let mut regions: Vec<_> = (0..256).map(|i| register(i).unwrap()).collect();
        let refused = register(256).err().unwrap();
        assert_eq!(refused.status(), Status::OUT_OF_RESOURCE);
        regions.swap_remove(100).close().unwrap();
        regions.push(register(256).unwrap());
        assert_eq!(register(0).err().unwrap().status(), Status::OUT_OF_RESOURCE);
        drop(regions);
        t.close().unwrap();
    });
}

/// Atomics from one origin take effect in the order of their posts if the provider granted this
/// order, even if they complete in another order.
#[test]
fn order_in_every_mode() {
    alone(|| {
        for mode in supported() {
            for granted in [true, false] {
                println!("@at {mode} {granted}");
                shape(&[
                    ("MR_MODE", &mode),
                    ("ORDER", if granted { "1" } else { "0" }),
                    ("FAULTS", "seed=5,delay=9,reorder=1"),
                ]);
                let t = open("lab", ThreadLevel::Single, &[]);
                let flags = t.capabilities().flags;
                let ordered = flags.contains(ModuleFlags::ATOMICS_ORDERED);
                assert_eq!(ordered, granted, "{mode}");
                let own = Own::new(t, 1);
                let mut old = [0u64; 100];
                for result in &mut old {
                    own.there().insist(|there| there.fetch_add(0, result, None));
                }
                assert_eq!(own.t.flush(None), Status::SUCCESS);
                let in_order = old.iter().enumerate().all(|(i, &v)| v == i as u64);
                assert_eq!(in_order, granted, "{mode}: {old:?}");
                own.close();
            }
        }
    });
}
