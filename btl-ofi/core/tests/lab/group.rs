//! An origin and its target, two transports of this process that exchange messages, and the judge between them.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use btl_ofi::Transport;
use mca_params::Value;
use plugin_api::{Access, Status, ThreadLevel};

use super::judge::Judge;
use super::model::{SLOT, serve_applies};
use super::said::{Kept, Losses};
use super::{Tally, shape};
use crate::common::{open, register};

pub(crate) const SLOTS: usize = 64;

/// The environment of the provider; the names lack their prefix `LAB_`.
pub(crate) type Shape = Vec<(&'static str, String)>;

/// The parameters of a run.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) epochs: usize,
    /// The number of times that the target is connected. Each connection makes another line of
    /// messages.
    pub(crate) peers: u64,
    /// Whether posts may be refused and operations fail.
    pub(crate) faults: bool,
    /// Whether peers may be given up.
    pub(crate) gone: bool,
    pub(crate) settings: Vec<(&'static str, Value)>,
    pub(crate) origin: Shape,
    pub(crate) target: Shape,
}

/// Opens a transport over the provider in a shape.
pub(crate) fn opened(shape_of: &Shape, level: ThreadLevel, o: &[(&str, Value)]) -> Transport {
    let pairs: Vec<_> = shape_of.iter().map(|(n, v)| (*n, v.as_str())).collect();
    shape(&pairs);
    open("lab", level, o)
}

/// Runs `run` while another thread makes and counts progress calls of `t`.
fn counted<T>(t: &Transport, polls: &AtomicU64, run: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                t.progress();
                polls.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        // The flag is set even if the test fails, because the scope would otherwise wait forever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|e| std::panic::resume_unwind(e))
    })
}

/// Runs the plan: the origin's threads issue operations to the target and judge them, while the target makes progress.
pub(crate) fn judged(plan: &Plan) -> Tally {
    let level = match plan.threads {
        1 => ThreadLevel::Single,
        _ => ThreadLevel::Multiple,
    };
    let target = opened(&plan.target, ThreadLevel::Single, &plan.settings);
    serve_applies(&target);
    let t = opened(&plan.origin, level, &plan.settings);
    let losses = Losses::default();
    t.on_error(Some(losses.report()));
    let mut window = vec![0u64; SLOTS * SLOT];
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let region = register(&target, &mut window, access);
    let handle = region.handle();
    let connect = |proc| t.connect(target.address(), proc).unwrap().as_ptr() as usize;
    let peers: Vec<usize> = (0..plan.peers).map(connect).collect();
    let polls = AtomicU64::new(0);
    let (told, outcomes) = counted(&target, &polls, || {
        let ends = judged_shares(plan.threads, plan.epochs, |slots, thread| Judge {
            faults: plan.faults,
            gone: plan.gone,
            // Several threads flush, and the thread whose flush reports a failure is not defined.
            untracked: plan.threads == 1 || !plan.faults,
            target_polls: Some(&polls),
            ..Judge::new(
                &t,
                &peers,
                handle,
                slots,
                plan.seed + thread as u64,
                &losses,
            )
        });
        if !plan.gone {
            disconnect_all(&t, &peers);
        }
        ends
    });
    let stats = t.stats();
    if !losses.is_cut_off() {
        assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    }
    t.close().unwrap();
    region.close().unwrap();
    target.close().unwrap();
    let mut tally = Tally::from(());
    tally += told;
    outcomes.into_iter().for_each(|kept| kept.check(&mut tally));
    tally
}

/// Runs epochs on the shares of `threads` threads. Returns the sum of the threads' tallies, and the outcomes to check
/// after the transport was closed.
pub(crate) fn judged_shares<'a>(
    threads: usize,
    epochs: usize,
    judge: impl Fn(Range<usize>, usize) -> Judge<'a> + Sync,
) -> (Tally, Vec<Kept>) {
    let (share, judge) = (SLOTS / threads, &judge);
    std::thread::scope(|s| {
        let work = |thread: usize| {
            let mut judge = judge(thread * share..(thread + 1) * share, thread);
            judge.epochs(epochs);
            (judge.tally, judge.kept)
        };
        let workers = (0..threads).map(|i| s.spawn(move || work(i)));
        let workers: Vec<_> = workers.collect();
        let mut told = Tally::default();
        let kept = workers.into_iter().map(|worker| {
            let (tally, kept) = worker.join().unwrap();
            told += tally;
            kept
        });
        let kept = kept.collect();
        (told, kept)
    })
}

/// Releases peers that were connected once each.
pub(crate) fn disconnect_all(t: &Transport, peers: &[usize]) {
    for peer in peers {
        // SAFETY: the caller connected each peer once.
        let status = unsafe { t.disconnect(NonNull::new(*peer as *mut _).unwrap()) };
        assert_eq!(status, Status::SUCCESS);
    }
}

/// Counters of `n` operations.
pub(crate) fn counters(n: usize) -> Vec<AtomicU32> {
    (0..n).map(|_| AtomicU32::new(0)).collect()
}
