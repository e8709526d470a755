//! Messages to peers that die, fall silent, come back, or answer while another does not. The provider has no atomics.

use crate::lab::prelude::*;

/// The word of a script that ends a silence after a number of queue reads, and a number that exceeds the length of a
/// run.
const BACK: &str = "back=";
const LATE: u32 = 600_000;

fn faults(script: &str) -> Shape {
    vec![
        ("ATOMICS", "0".to_owned()),
        ("FAULTS", script.to_owned()),
        ("SEND_ORDER", "0".to_owned()),
    ]
}

fn single(shape: &Shape, settings: &[(&str, Value)]) -> Transport {
    opened(shape, ThreadLevel::Single, settings)
}

/// The number of operations that failed; each was called back once or `refused`.
fn judge(calls: &[AtomicU32], refused: usize) -> usize {
    let calls: Vec<u32> = calls.iter().map(|c| c.load(Ordering::Relaxed)).collect();
    let of = |kind: u32| calls.iter().filter(|c| **c == kind).count();
    let failed = of(FAILED) + refused;
    assert_eq!(of(1) + failed, calls.len(), "{refused} refused, {calls:?}");
    failed
}

/// A peer is killed while batches are unanswered, and other batches are gathered or waiting.
#[test]
fn peers_are_killed() {
    alone(|| {
        for seed in 0..12usize {
            println!("@at seed {seed}");
            let (many, at) = [(100, 50), (100, 99), (3000, 2000), (3000, 2999)][seed % 4];
            let script = format!(
                "seed={seed},delay={},reorder=1,again=50,burst=3",
                seed % 5 * 7
            );
            let t = single(&faults(&script), &[]);
            let mut target = Target::start(&t, "lab", false);
            let to = target.there();
            let calls = counters(many);
            let mut words = vec![1u64; many];
            if seed >= 6 {
                // The target knows this process; before this put, only the first batch could be
                // sent.
                let first = AtomicU32::new(0);
                assert!(to.accepts(0, &mut words[0], &first));
                assert_eq!(t.flush(None), Status::SUCCESS);
            }
            let mut refused = 0;
            for (i, (calls, word)) in calls.iter().zip(&mut words).enumerate() {
                if i == at {
                    target.kill();
                }
                refused += usize::from(!to.accepts(i, word, calls));
                if seed % 3 == 0 {
                    t.progress();
                    std::thread::yield_now();
                }
            }
            assert_eq!(t.flush(None), Status::UNREACH, "seed {seed}");
            assert_eq!(t.flush(None), Status::SUCCESS, "said by one flush");
            assert_eq!(to.release(), Status::SUCCESS);
            drop(target);
            t.close().unwrap();
            judge(&calls, refused);
        }
    });
}

/// Makes operations to two processes, while the origin's provider follows the script. `lost` is the number of
/// peers that are given up, if only the script decides it.
fn silence(script: &str, lost: Option<usize>) {
    println!("@at {script}");
    const COUNT: usize = 120;
    let t = single(
        &faults(&format!("seed=9,{script}")),
        &[
            ("btl_ofi_peer_check_interval", Value::Unsigned(10)),
            ("btl_ofi_peer_timeout", Value::Unsigned(100)),
        ],
    );
    // The targets make no faults.
    drop(single(&faults(""), &[]));
    let targets = [0, 1].map(|proc| Target::start_as(proc, &t, "lab", false));
    let place = |i: usize| targets[i % 2].there();
    let calls = counters(COUNT);
    let mut words = vec![0u64; COUNT];
    let mut refused = 0;
    for (i, (calls, word)) in calls.iter().zip(&mut words).enumerate() {
        refused += usize::from(!place(i).accepts(i, word, calls));
        if i % 10 == 0 {
            t.progress();
        }
    }
    let status = t.flush(None);
    let failed = judge(&calls, refused);
    // Peers that were not lost continue: messages to a lost peer do not block others.
    let more = counters(2);
    let taken = (0..2).filter(|i| place(*i).accepts(3, &mut words[*i], &more[*i]));
    let taken = taken.count();
    let last = t.flush(None);
    if let Some(lost) = lost {
        assert_eq!(status == Status::SUCCESS, lost == 0, "{script}: {status}");
        assert_eq!(failed > 0, lost > 0, "{script}");
        assert_eq!((taken, last), (2 - lost, Status::SUCCESS), "{script}");
        let good = more.iter().filter(|c| c.load(Ordering::Relaxed) == 1);
        assert_eq!(good.count(), taken, "{script}");
    }
    // No report comes later, even if a silent peer comes back.
    let counts = || -> Vec<u32> { calls.iter().map(|c| c.load(Ordering::Relaxed)).collect() };
    let before = counts();
    let late = if script.ends_with(&format!("{BACK}{LATE}")) {
        LATE
    } else {
        5000
    };
    for _ in 0..late {
        t.progress();
    }
    assert_eq!(counts(), before, "{script}");
    drop(targets);
    t.close().unwrap();
}

fn silent(part: usize) {
    let late = format!("silent=1,{BACK}{LATE}");
    let scripts = [
        // A peer stops answering, at its first message or at a later one.
        ("silent=1", 1),
        ("silent=2,delay=20,reorder=1,again=100,burst=3", 1),
        // The peer comes back too late, or in time.
        (&*late, 1),
        ("silent=1,back=300", 0),
        ("silent=2,back=1000,delay=20,reorder=1", 0),
        // Completions without a name lose answers.
        ("nullok=1000", 2),
        ("stray=1000", 0),
        // The provider accepts no operation, from the beginning or after a while, or accepts no
        // sends.
        ("againfrom=1", 2),
        ("againfrom=3,delay=10", 2),
        ("sendagain=1", 2),
        ("sendagain=2,recvagain=2", 0),
    ];
    for (script, lost) in scripts.iter().skip(part).step_by(2) {
        silence(script, Some(*lost));
    }
    // Errors without a name. Some of the messages arrive.
    let nameless = ["error=1000,nameless=1000", "error=300,nameless=1000"];
    silence(nameless[part], None);
}

#[test]
fn silence_ends() {
    // The children wait for time, not for processors, so all run at the same time.
    if let Some(tally) = isolated_as(&["0", "1"], |part| silent(part.parse().unwrap())) {
        tally.insist("silent peers");
    }
}

/// A flush of one peer ends although another peer does not answer, and another thread keeps
/// posting.
#[test]
fn flush_is_exact() {
    alone(|| {
        let shape = faults("seed=1,delay=5,reorder=1");
        let a = opened(&shape, ThreadLevel::Multiple, &[]);
        let (b, c) = (single(&shape, &[]), single(&shape, &[]));
        let mut windows = [[0u64; 60]; 2];
        let [of_b, of_c] = &mut windows;
        let regions = [(&b, of_b), (&c, of_c)].map(|(t, w)| register(t, w, Access::all()));
        let [to_b, to_c] =
            [(&b, 1), (&c, 2)].map(|(t, proc)| There::of(&a, proc, t, &regions[proc as usize - 1]));
        let (calls_b, calls_c) = (counters(60), counters(60));
        let mut words = [vec![0u64; 60], vec![0u64; 60]];
        attended(&b, || {
            for i in 0..60 {
                assert!(to_b.accepts(i, &mut words[0][i], &calls_b[i]));
                assert!(to_c.accepts(i, &mut words[1][i], &calls_c[i]));
            }
            assert_eq!(to_b.flush(), Status::SUCCESS);
            assert!(calls_b.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            assert!(calls_c.iter().all(|n| n.load(Ordering::Relaxed) == 0));
            attended(&c, || assert_eq!(a.flush(None), Status::SUCCESS));
            assert!(calls_c.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            let stop = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    let mut word = Box::new(0);
                    while !stop.load(Ordering::Relaxed) {
                        to_b.insist(|there| there.one_of_three(5, &mut word, None));
                    }
                    assert_eq!(a.flush(None), Status::SUCCESS);
                });
                let mut word = 0;
                for round in 0..50 {
                    let calls = AtomicU32::new(0);
                    assert!(to_b.accepts(0, &mut word, &calls));
                    let flushed = match round % 2 {
                        0 => to_b.flush(),
                        _ => a.flush(None),
                    };
                    assert_eq!(flushed, Status::SUCCESS);
                    assert_eq!(calls.load(Ordering::Relaxed), 1);
                }
                stop.store(true, Ordering::Relaxed);
            });
        });
        a.close().unwrap();
        drop(regions);
        b.close().unwrap();
        c.close().unwrap();
        assert_eq!((judge(&calls_b, 0), judge(&calls_c, 0)), (0, 0));
    });
}

/// A transport loses its provider while it owes an answer. The transport no longer waits to send
/// the answer.
#[test]
fn a_cut_off_target_closes() {
    alone(|| {
        let settings = [
            ("btl_ofi_peer_check_interval", Value::Unsigned(10)),
            ("btl_ofi_peer_timeout", Value::Unsigned(100)),
            ("btl_ofi_message_limit", Value::Unsigned(64)),
        ];
        let a = single(&faults("silent=1,sendagain=1"), &settings);
        let [b, c] = [(); 2].map(|()| single(&faults(""), &settings));
        let mut windows = [[0u64; 60]; 2];
        let [of_a, of_b] = &mut windows;
        let regions = [(&a, of_a), (&b, of_b)].map(|(t, w)| register(t, w, Access::all()));
        let to_a = There::of(&c, 1, &a, &regions[0]);
        let mut word = 0;
        assert_eq!(to_a.one_of_three(2, &mut word, None), Status::SUCCESS);
        let deadline = Patience::new();
        let executed = ptr::with_exposed_provenance::<u64>(to_a.at(16) as usize);
        // SAFETY: the word lies in the window, which lives.
        while unsafe { executed.read_volatile() } == 0 {
            assert!(deadline.lasts(), "the target executes nothing");
            c.progress();
            a.progress();
        }
        // The provider makes a put of this size. The peer of the first put is silent.
        let to_b = There::of(&a, 2, &b, &regions[1]);
        to_b.insist(|there| there.put(0, &[0u64; 10], None));
        assert_eq!(a.flush(None), Status::FATAL);
        assert_eq!(c.flush(None), Status::UNREACH);
        drop(regions);
        let before = worked();
        a.close().unwrap();
        let spent = worked() - before;
        assert!(
            spent < Duration::from_secs(2),
            "closing worked for {spent:?}"
        );
        b.close().unwrap();
        c.close().unwrap();
    });
}
