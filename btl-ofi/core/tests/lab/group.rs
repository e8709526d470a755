//! An origin and its target, two transports of this process that exchange messages, and the judge between them.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use btl_ofi::{Completion, Transport};
use mca_params::Value;
use plugin_api::{Access, Module, Status, ThreadLevel};

use super::dice::Dice;
use super::judge::Judge;
use super::model::{SLOT, serve_applies};
use super::said::{Kept, Losses};
use super::{Tally, shape};
use crate::common::{open, register};

const SLOTS: usize = 64;

/// What a callback that tells of a failure counts for; one that does not is 1.
pub(crate) const FAILED: u32 = 1000;

/// Environment of the provider, without the `LAB_` of each name.
pub(crate) type Shape = Vec<(&'static str, String)>;

/// What a run consists of.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) epochs: usize,
    /// How often the target is connected. Each time makes another line of messages.
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

/// Counts the progress calls of `t` while `run` runs, and makes them.
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
        // Also when the test fails, or the scope would wait for ever.
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
    let mut tally = Tally {
        run: 1,
        ..Tally::default()
    };
    let share = SLOTS / plan.threads;
    let work = |thread: usize| {
        let endpoint = |p: &usize| NonNull::new(*p as *mut _).unwrap();
        let mut judge = Judge {
            t: &t,
            peers: peers.iter().map(endpoint).collect(),
            handle,
            slots: thread * share..(thread + 1) * share,
            dice: Dice(plan.seed + thread as u64),
            faults: plan.faults,
            gone: plan.gone,
            // Which thread's flush tells of those that fail is not said.
            untracked: plan.threads == 1 || !plan.faults,
            losses: &losses,
            tally: Tally::default(),
            model: HashMap::new(),
            kept: Kept::default(),
            target_polls: Some(&polls),
        };
        judge.epochs(plan.epochs);
        (judge.tally, judge.kept)
    };
    let ends = counted(&target, &polls, || {
        std::thread::scope(|s| {
            let work = &work;
            let workers: Vec<_> = (0..plan.threads)
                .map(|i| s.spawn(move || work(i)))
                .collect();
            let ends: Vec<_> = workers.into_iter().map(|w| w.join().unwrap()).collect();
            if !plan.gone {
                for peer in &peers {
                    // SAFETY: connected once each.
                    let status = unsafe { t.disconnect(NonNull::new(*peer as *mut _).unwrap()) };
                    assert_eq!(status, Status::SUCCESS);
                }
            }
            ends
        })
    });
    let stats = t.stats();
    if !losses.is_cut_off() {
        assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    }
    t.close().unwrap();
    region.close().unwrap();
    target.close().unwrap();
    for (told, outcomes) in ends {
        tally += told;
        outcomes.check(&mut tally);
    }
    tally
}

unsafe extern "C" fn count(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    let call = if status == 0 { 1 } else { FAILED };
    // SAFETY: the tests pass a counter that outlives the transport.
    unsafe { &*context.cast::<AtomicU32>() }.fetch_add(call, Ordering::Relaxed);
}

/// A callback that counts.
pub(crate) fn counting(calls: &AtomicU32) -> Option<Completion> {
    Some(Completion {
        function: count,
        context: ptr::from_ref(calls).cast_mut().cast(),
        data: ptr::null_mut(),
    })
}

/// Counters of so many operations.
pub(crate) fn counters(n: usize) -> Vec<AtomicU32> {
    (0..n).map(|_| AtomicU32::new(0)).collect()
}
