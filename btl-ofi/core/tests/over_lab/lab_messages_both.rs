//! Messages between transports of one process: both sides are origin and target, with little room; callbacks post; peers
//! receive nothing, or are released before they answer. The provider has no atomics.

use crate::lab::prelude::*;

fn shape(rx_size: &str, faults: &str) -> Shape {
    vec![
        ("ATOMICS", "0".to_owned()),
        ("SEND_ORDER", "0".to_owned()),
        ("RX_SIZE", rx_size.to_owned()),
        ("TX_SIZE", "2".to_owned()),
        ("FAULTS", faults.to_owned()),
    ]
}

/// Two transports post to each other at full speed, with room for one message each.
#[test]
fn both_sides_with_little_room() {
    alone(|| {
        const MANY: u64 = 4000;
        let scripts = [
            "",
            "seed=2,again=300,burst=9,sendagain=2,recvagain=2,delay=9,reorder=1",
        ];
        for (rx_size, script) in [("1", scripts[0]), ("1", scripts[1]), ("2", scripts[1])] {
            println!("@at {rx_size} {script}");
            let one = [("btl_ofi_rd_num", Value::Int(1))];
            let shape = shape(rx_size, script);
            let all = [(); 2].map(|()| opened(&shape, ThreadLevel::Single, &one));
            let mut windows = [[0u64; 1]; 2];
            let [first, second] = &mut windows;
            let regions = [(0, first), (1, second)]
                .map(|(of, window)| register(&all[of], window, Access::all()));
            let handles = regions.each_ref().map(Region::handle);
            let done = AtomicUsize::new(0);
            std::thread::scope(|s| {
                for own in 0..2 {
                    let (t, other, h, done) = (&all[own], &all[1 - own], handles[1 - own], &done);
                    s.spawn(move || {
                        let peer = t.connect(other.address(), 1).unwrap();
                        let (there, seen) = (There::new(t, peer, h), Seen::default());
                        for i in 0..MANY {
                            let callback = (i % 3 == 0).then(|| seen.completion()).flatten();
                            there.insist(|there| there.add(0, callback));
                        }
                        assert_eq!(t.flush(None), Status::SUCCESS);
                        assert_eq!(seen.both(), (MANY.div_ceil(3) as u32, 0));
                        done.fetch_add(1, Ordering::Relaxed);
                        while done.load(Ordering::Relaxed) < 2 {
                            t.progress();
                            std::thread::yield_now();
                        }
                    });
                }
            });
            drop(regions);
            let [a, b] = all;
            std::thread::scope(|s| {
                // Each transport may wait until the other takes its last answers.
                s.spawn(|| a.close().unwrap());
                b.close().unwrap();
            });
            assert_eq!(windows, [[MANY], [MANY]]);
        }
    });
}

/// The arguments of a callback that posts.
struct Chain<'a> {
    there: There<'a>,
    left: Cell<u32>,
    good: Cell<u32>,
    bad: Cell<u32>,
}

impl Ended for Chain<'_> {
    fn ended(&self, status: Status) {
        let count = if status.is_ok() {
            &self.good
        } else {
            &self.bad
        };
        count.set(count.get() + 1);
        if self.left.get() == 0 {
            return;
        }
        self.left.set(self.left.get() - 1);
        let posted = self.there.add(0, self.completion());
        if posted != Status::SUCCESS {
            assert!(posted.is_again() || !status.is_ok(), "{posted}");
            self.left.set(self.left.get() + 1);
        }
    }
}

/// Callbacks post as many operations as they complete, to living peers and to a peer that fails meanwhile.
#[test]
fn callbacks_post() {
    alone(|| {
        for script in ["seed=4,delay=3,reorder=1", "seed=4,nth=5,delay=3"] {
            println!("@at {script}");
            let a = opened(&shape("2", script), ThreadLevel::Single, &[]);
            let b = opened(&shape("2", ""), ThreadLevel::Single, &[]);
            let pair = Pair::of(a, b, vec![0]);
            let (a, b, there) = (&pair.a, &pair.b, pair.there());
            let chain = Chain {
                there,
                left: Cell::new(20_000),
                good: Cell::new(0),
                bad: Cell::new(0),
            };
            let fails = script.contains("nth");
            let mut begun = 0;
            attended(b, || {
                for _ in 0..3000 {
                    let status = there.add(0, chain.completion());
                    begun += u32::from(status == Status::SUCCESS);
                    assert!(
                        status == Status::SUCCESS || status.is_again() || fails,
                        "{status}"
                    );
                }
                let mut status = a.flush(None);
                while status == Status::SUCCESS && a.stats().posted != a.stats().completed {
                    status = a.flush(None);
                }
                assert_eq!(status == Status::UNREACH, fails, "{status}");
            });
            let posted = begun + 20_000 - chain.left.get();
            assert_eq!(chain.good.get() + chain.bad.get(), posted);
            assert_eq!(chain.bad.get() > 0, fails);
            let good = chain.good.get();
            assert!(pair.close()[0] >= u64::from(good));
        }
    });
}

/// A peer, which knows this process or not, is released while it does not answer. The outstanding operations to the
/// peer are reported, and its late answers do no harm, even those that it has not sent yet. The peer is connected again
/// afterwards.
fn released(known: bool) {
    let a = opened(&shape("256", "seed=1"), ThreadLevel::Single, &[]);
    let late = shape("256", "seed=1,sendagain=2,burst=300,again=500");
    let b = opened(&late, ThreadLevel::Single, &[]);
    let pair = Pair::of(a, b, vec![0]);
    let (a, b, there) = (&pair.a, &pair.b, pair.there());
    if known {
        there.insist(|there| there.add(0, None));
        attended(b, || assert_eq!(a.flush(None), Status::SUCCESS));
    }
    let seen = Seen::default();
    let mut posted = 0;
    while there.add(0, seen.completion()) == Status::SUCCESS {
        posted += 1;
    }
    assert_eq!(there.release(), Status::TIMEOUT);
    assert_eq!(seen.both(), (0, posted));
    assert_eq!(seen.status(), Status::TIMEOUT);
    let stats = a.stats();
    assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    attended(b, || {
        for _ in 0..3000 {
            a.progress();
        }
    });
    // The next line finds the target unchanged.
    let peer = a.connect(b.address(), 1).unwrap();
    let there = There { peer, ..there };
    attended(b, || {
        for _ in 0..100 {
            there.insist(|there| there.add(0, None));
        }
        // A release waits only some seconds, in which a busy machine may not run the target.
        assert_eq!(there.flush(), Status::SUCCESS);
        assert_eq!(there.release(), Status::SUCCESS);
    });
    assert_eq!(seen.all(), posted, "nothing comes later");
    pair.close();
    assert_eq!(violations(), "");
}

#[test]
fn peers_are_released_unanswered() {
    // A release waits some seconds.
    if let Some(tally) = isolated_as(&["known", "unknown"], |role| released(role == "known")) {
        tally.insist("released peers");
    }
}

/// A target that receives nothing does not fill the provider's queue, however often the origin asks whether it is
/// alive.
#[test]
fn a_silent_peer_starves_nobody() {
    alone(|| {
        let mut room = shape("2", "");
        // The queue has room for a question of each line below, and for a batch to another peer.
        room.push(("TX_SIZE", "4".to_owned()));
        let a = opened(&room, ThreadLevel::Single, &[]);
        let [b, c] = [(); 2].map(|()| opened(&shape("2", ""), ThreadLevel::Single, &[]));
        let mut windows = [[0u64; 1]; 2];
        let [of_b, of_c] = &mut windows;
        let regions = [(&b, of_b), (&c, of_c)].map(|(t, w)| register(t, w, Access::all()));
        let lines = [1, 2, 3].map(|proc| There::of(&a, proc, &b, &regions[0]));
        let other = There::of(&a, 4, &c, &regions[1]);
        attended(&b, || {
            for line in lines {
                line.insist(|there| there.add(0, None));
            }
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        let mut posted = 3;
        // The batches of these lines fill most of the target's mailbox. Every 4096th refusal sends
        // a question.
        for i in 0..80 * 4096 {
            posted += u64::from(lines[i % 3].add(0, None) == Status::SUCCESS);
        }
        attended(&c, || {
            for _ in 0..100 {
                other.insist(|there| there.add(0, None));
            }
            assert_eq!(other.flush(), Status::SUCCESS);
        });
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        close(regions, [a, b]);
        c.close().unwrap();
        assert_eq!(windows, [[posted], [100]]);
    });
}

/// A target receives nothing: the number of accepted operations is bounded, before and after the target knows
/// this process.
#[test]
fn memory_is_bounded() {
    alone(|| {
        for receives in ["1", "2", "256"] {
            println!("@at {receives}");
            let one = [("btl_ofi_rd_num", Value::Int(1))];
            let pair = Pair::new(1, || {
                opened(&shape(receives, ""), ThreadLevel::Single, &one)
            });
            let there = pair.there();
            let mut total = 0;
            for most in [5_000, 12_000] {
                let mut taken = 0;
                for _ in 0..3 * most {
                    match there.add(0, None) {
                        Status::SUCCESS => taken += 1,
                        status => assert_eq!(status, Status::TEMP_OUT_OF_RESOURCE),
                    }
                }
                assert!((500..most).contains(&taken), "{taken}");
                attended(&pair.b, || assert_eq!(there.t.flush(None), Status::SUCCESS));
                total += taken;
            }
            assert_eq!(pair.close(), [total]);
        }
    });
}
