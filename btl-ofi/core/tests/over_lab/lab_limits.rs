//! The transport within the limits that a provider sets: any number of transmit contexts, the largest message, inject sizes, and
//! progress modes.

use btl_ofi::Options;

use crate::lab::prelude::*;

const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// An open transport that is its own peer.
fn to_itself(overrides: &[(&str, Value)]) -> (Transport, ptr::NonNull<btl_ofi::Endpoint>) {
    let t = open("lab", ThreadLevel::Single, overrides);
    let peer = t.connect(t.address(), 0).unwrap();
    (t, peer)
}

fn register(t: &Transport, memory: &mut [u8]) -> Region {
    // SAFETY: the tests close regions before their memory is freed.
    unsafe { t.register(memory.as_mut_ptr().cast(), memory.len(), ALL) }.unwrap()
}

/// Puts bytes and gets them back.
fn round_trip(
    t: &Transport,
    peer: ptr::NonNull<btl_ofi::Endpoint>,
    region: &Region,
    size: usize,
    mark: u8,
) {
    let h = region.handle();
    let mut from: Vec<u8> = (0..size).map(|i| mark.wrapping_add(i as u8)).collect();
    let mut back = vec![0u8; size];
    insist(t, || {
        t.put(peer, from.as_mut_ptr().cast(), h.base(), &h, size, None)
    });
    assert_eq!(t.flush(None), Status::SUCCESS);
    insist(t, || {
        t.get(peer, back.as_mut_ptr().cast(), h.base(), &h, size, None)
    });
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert!(from == back, "{size} bytes");
}

/// The transport opens as many contexts as requested, within the provider's limit.
#[test]
fn any_number_of_contexts() {
    alone(|| {
        for most in [0usize, 1, 2, 3, 8, 63, 64] {
            for asked in [1usize, 2, 3, 8, 64] {
                println!("@at {asked} of {most}");
                shape(&[("TX_CTX", &most.to_string())]);
                let n = Value::Int(asked as i32);
                let (t, peer) = to_itself(&[("btl_ofi_num_contexts_per_module", n)]);
                // One endpoint is its own context, whatever number the provider reports.
                assert_eq!(t.capabilities().contexts, asked.min(most).max(1));
                let mut memory = [0u8; 256];
                let region = register(&t, &mut memory);
                let (t_, r_, p_) = (&t, &region, peer.as_ptr() as usize);
                // Separate consecutive threads use several contexts.
                for mark in 0..4 {
                    std::thread::scope(|s| {
                        s.spawn(move || {
                            let peer = ptr::NonNull::new(p_ as *mut btl_ofi::Endpoint).unwrap();
                            round_trip(t_, peer, r_, 256, mark);
                        });
                    });
                }
                close([region], [t]);
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
                let (t, peer) = to_itself(&[]);
                let c = t.capabilities();
                assert_eq!((c.put_limit, c.get_limit), (most, most));
                let mut memory = vec![0u8; most + 1];
                let region = register(&t, &mut memory);
                for size in [1, 7, inject, inject + 1, most - 1, most] {
                    if (1..=most).contains(&size) {
                        round_trip(&t, peer, &region, size, size as u8);
                    }
                }
                let h = region.handle();
                let mut buffer = vec![0u8; most + 1];
                let local = buffer.as_mut_ptr().cast();
                let refused = (
                    t.put(peer, local, h.base(), &h, most + 1, None),
                    t.get(peer, local, h.base(), &h, most + 1, None),
                );
                let beyond = Status::VALUE_OUT_OF_BOUNDS;
                assert_eq!(refused, (beyond, beyond));
                close([region], [t]);
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
        const POSTED: usize = 200;
        for batch in [1usize, 7, 64] {
            println!("@at {batch}");
            shape(&[]);
            let settings = [
                ("btl_ofi_num_cq_read", Value::Int(batch as i32)),
                // Posting reads no completions.
                ("btl_ofi_progress_threshold", Value::Int(i32::MAX)),
            ];
            let (t, peer) = to_itself(&settings);
            let mut memory = [0u8; 8];
            let region = register(&t, &mut memory);
            let (h, mut word) = (region.handle(), 7u64);
            let local = (&raw mut word).cast();
            for _ in 0..POSTED {
                let status = t.put(peer, local, h.base(), &h, 8, None);
                assert_eq!(status, Status::SUCCESS);
            }
            // All completions are due: each read takes a whole batch, and the last read the rest.
            let mut left = POSTED;
            while left > 0 {
                assert_eq!(t.progress(), left.min(batch));
                left -= left.min(batch);
            }
            assert_eq!(t.flush(None), Status::SUCCESS);
            close([region], [t]);
        }
    });
}

/// If the outstanding operations exceed the threshold, posting reads completions.
#[test]
fn posts_progress_beyond_the_threshold() {
    alone(|| {
        const POSTED: usize = 200;
        for threshold in [1usize, 10, 1000] {
            println!("@at {threshold}");
            shape(&[]);
            let most = Value::Int(threshold as i32);
            let (t, peer) = to_itself(&[("btl_ofi_progress_threshold", most)]);
            let mut memory = [0u8; 8];
            let region = register(&t, &mut memory);
            let (h, mut word) = (region.handle(), 7u64);
            let local = (&raw mut word).cast();
            for _ in 0..POSTED {
                let status = t.put(peer, local, h.base(), &h, 8, None);
                assert_eq!(status, Status::SUCCESS);
            }
            let mut left = 0;
            loop {
                match t.progress() {
                    0 => break,
                    more => left += more,
                }
            }
            assert!(left <= threshold, "{left} operations outstanding");
            assert_eq!(left == POSTED, threshold >= POSTED, "{left} outstanding");
            assert_eq!(t.flush(None), Status::SUCCESS);
            close([region], [t]);
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
                        let include = ("btl_ofi_provider_include", Value::str("lab"));
                        let o = options(&[include, mode]);
                        assert!(try_open(&o, ThreadLevel::Single).is_err());
                        continue;
                    }
                    let (t, peer) = to_itself(&[mode]);
                    let mut memory = [0u8; 512];
                    let region = register(&t, &mut memory);
                    round_trip(&t, peer, &region, 512, 3);
                    close([region], [t]);
                }
            }
        }
    });
}
