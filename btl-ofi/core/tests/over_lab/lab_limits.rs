//! The transport within the limits that a provider sets: any number of transmit contexts, the largest message, inject sizes, and
//! progress modes.

use btl_ofi::Options;

use crate::lab::prelude::*;

/// An open transport that is its own peer, with a window of `words` words.
fn to_itself(overrides: &[(&str, Value)], words: usize) -> Own {
    Own::new(open("lab", ThreadLevel::Single, overrides), words)
}

/// Puts bytes and gets them back.
fn round_trip(there: There<'_>, size: usize, mark: u8) {
    let from: Vec<u8> = (0..size).map(|i| mark.wrapping_add(i as u8)).collect();
    let mut back = vec![0u8; size];
    there.insist(|there| there.put(0, &from, None));
    assert_eq!(there.t.flush(None), Status::SUCCESS);
    there.insist(|there| there.get(0, &mut back, None));
    assert_eq!(there.t.flush(None), Status::SUCCESS);
    assert!(from == back, "{size} bytes");
}

/// Posts 200 puts of a word; the provider has room for them.
fn post_many(there: There<'_>) {
    for _ in 0..POSTED {
        assert_eq!(there.put(0, &[7u64], None), Status::SUCCESS);
    }
}

const POSTED: usize = 200;

/// The transport opens as many contexts as requested, within the provider's limit.
#[test]
fn any_number_of_contexts() {
    alone(|| {
        for most in [0usize, 1, 2, 3, 8, 63, 64] {
            for asked in [1usize, 2, 3, 8, 64] {
                println!("@at {asked} of {most}");
                shape(&[("TX_CTX", &most.to_string())]);
                let n = Value::Int(asked as i32);
                let own = to_itself(&[("btl_ofi_num_contexts_per_module", n)], 32);
                // One endpoint is its own context, whatever number the provider reports.
                assert_eq!(own.t.capabilities().contexts, asked.min(most).max(1));
                let there = own.there();
                // Separate consecutive threads use several contexts.
                for mark in 0..4 {
                    std::thread::scope(|s| {
                        s.spawn(move || round_trip(there, 256, mark));
                    });
                }
                own.close();
            }
        }
    });
}

/// Messages of every size up to the provider's largest succeed, and larger messages are refused;
/// inject sizes have no effect.
#[test]
fn messages_of_every_size() {
    alone(|| {
        for most in [8usize, 9, 64, 1000, 65_537, 1 << 20] {
            for inject in [0usize, 1, 7, 64, 4097] {
                println!("@at {most} {inject}");
                shape(&[
                    ("MAX_MSG", &most.to_string()),
                    ("INJECT", &inject.to_string()),
                ]);
                let own = to_itself(&[], most / 8 + 1);
                let (c, there) = (own.t.capabilities(), own.there());
                assert_eq!((c.put_limit, c.get_limit), (most, most));
                for size in [1, 7, inject, inject + 1, most - 1, most] {
                    if (1..=most).contains(&size) {
                        round_trip(there, size, size as u8);
                    }
                }
                let mut buffer = vec![0u8; most + 1];
                let put = there.put(0, &buffer, None);
                let get = there.get(0, &mut buffer, None);
                let beyond = Status::VALUE_OUT_OF_BOUNDS;
                assert_eq!((put, get), (beyond, beyond));
                own.close();
            }
        }
    });
}

/// The transport skips a provider whose largest message is too small, and takes the next provider
/// if there is one.
#[test]
fn a_provider_of_small_messages_is_passed_over() {
    alone(|| {
        shape(&[("MAX_MSG", "4095")]);
        loopback();
        let offered = |include: &'static str, need: usize| {
            let mut o = options(&[("btl_ofi_provider_include", Value::str(include))]);
            o.need_limit(need);
            o
        };
        let open_as = |o: &Options| try_open(o, ThreadLevel::Serialized);
        let refused = open_as(&offered("lab", 4096)).err().unwrap().to_string();
        let why = "it moves at most 4095 bytes at once";
        assert!(
            refused.contains(why) && refused.contains("4096 are needed"),
            "{refused}"
        );
        shape(&[]);
        open_as(&offered("lab", 4096)).unwrap().close().unwrap();
        // The limit that the user set counts too.
        let narrow = [
            ("btl_ofi_provider_include", Value::str("lab")),
            ("btl_ofi_get_limit", Value::Unsigned(1000)),
        ];
        let mut o = options(&narrow);
        open_as(&o).unwrap().close().unwrap();
        o.need_limit(4096);
        let refused = open_as(&o).err().unwrap().to_string();
        assert!(refused.contains("at most 1000 bytes"), "{refused}");
    });
}

/// The transport reads completions in batches of the size that the user permits.
#[test]
fn batches_of_completions() {
    alone(|| {
        for batch in [1usize, 7, 64] {
            println!("@at {batch}");
            shape(&[]);
            let settings = [
                ("btl_ofi_num_cq_read", Value::Int(batch as i32)),
                // Posting reads no completions.
                ("btl_ofi_progress_threshold", Value::Int(i32::MAX)),
            ];
            let own = to_itself(&settings, 1);
            post_many(own.there());
            // All completions are due: each read takes a whole batch, and the last read the rest.
            let mut left = POSTED;
            while left > 0 {
                assert_eq!(own.t.progress(), left.min(batch));
                left -= left.min(batch);
            }
            assert_eq!(own.t.flush(None), Status::SUCCESS);
            own.close();
        }
    });
}

/// If the outstanding operations exceed the threshold, posting reads completions.
#[test]
fn posts_progress_beyond_the_threshold() {
    alone(|| {
        for threshold in [1usize, 10, 1000] {
            println!("@at {threshold}");
            shape(&[]);
            let most = Value::Int(threshold as i32);
            let own = to_itself(&[("btl_ofi_progress_threshold", most)], 1);
            post_many(own.there());
            let mut left = 0;
            loop {
                match own.t.progress() {
                    0 => break,
                    more => left += more,
                }
            }
            assert!(left <= threshold, "{left} operations outstanding");
            assert_eq!(left == POSTED, threshold >= POSTED, "{left} outstanding");
            assert_eq!(own.t.flush(None), Status::SUCCESS);
            own.close();
        }
    });
}

/// The transport uses the progress mode that the user requests, if the provider supports it.
#[test]
fn both_progress_modes() {
    alone(|| {
        for offered in ["manual", "auto"] {
            // The modes are unspecified, automatic and manual, in the parameter's terms.
            for asked in ["unspec", "auto", "manual"] {
                for hmem in ["0", "1"] {
                    println!("@at {offered} {asked} {hmem}");
                    shape(&[("PROGRESS", offered), ("HMEM", hmem)]);
                    let mode = ("btl_ofi_progress_mode", Value::str(asked));
                    if (offered, asked) == ("manual", "auto") {
                        refusal("lab", &[mode]);
                        continue;
                    }
                    let own = to_itself(&[mode], 64);
                    round_trip(own.there(), 512, 3);
                    own.close();
                }
            }
        }
    });
}
