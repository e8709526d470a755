//! Layers that fail while a communicator is made, and layers with collectives under way when one is
//! freed. The tests use the C plugin.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::ranks::passes;
use host_stub::coll::{CollArgs, CollRequest, CollTable, Collective, Pending};
use host_stub::comm::{Comm, CommError, CommResult, HookError, Layer};
use host_stub::win::{Datatype, Op};
use host_stub::{Job, JobOptions};

fn join() -> Arc<Job> {
    Job::init(JobOptions::default()).expect("init")
}

#[test]
fn a_world_that_failed_once_keeps_its_number() {
    passes(3, "rank_fails_at_the_world_once");
}

/// Fails at rank 1, the first time.
fn fails_once(comm: &Comm, failed: &AtomicBool) -> Result<(), HookError> {
    if comm.context() == 0 && comm.rank() == 1 && !failed.swap(true, Ordering::Relaxed) {
        return Err("not yet".into());
    }
    Ok(())
}

#[test]
#[ignore = "a rank of a_world_that_failed_once_keeps_its_number"]
fn rank_fails_at_the_world_once() {
    let job = join();
    job.comm_hooks()
        .register_create(Layer::PROGRAM, fails_once, AtomicBool::new(false));
    match Comm::world(&job) {
        Err(CommError::Creation { rank: 1, reason }) => {
            assert!(reason.contains("not yet"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let world = Comm::world(&job).expect("the second try");
    let dup = world.dup().expect("dup");
    assert_eq!((world.context(), dup.context()), (0, 1));
    // Both at once: each call gets only its own messages.
    let me = [job.rank() as u64, job.rank() as u64 + 100];
    let mut sums = [0u64; 2];
    let requests: Vec<CollRequest> = [&world, &dup]
        .into_iter()
        .zip(me.iter().zip(&mut sums))
        .map(|(comm, (from, into))| {
            let (from, into) = ((&raw const *from).cast(), (&raw mut *into).cast());
            // SAFETY: one element each, which live until the wait below.
            unsafe { comm.iallreduce(from, into, 1, Datatype::Uint64, Op::Sum) }.expect("start")
        })
        .collect();
    CollRequest::wait_all(requests).expect("wait");
    assert_eq!(sums, [3, 303]);
    dup.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
}

type Journal = Arc<Mutex<Vec<String>>>;

/// A hook's name, its journal, and the rank at which it fails.
struct Param(&'static str, Journal, Option<usize>);

fn write(param: &Param, what: &str) {
    let line = format!("{what} {}", param.0);
    param.1.lock().expect("journal").push(line);
}

fn created(comm: &Comm, param: &Param) -> Result<(), HookError> {
    write(param, "create");
    if param.2 == Some(comm.rank()) {
        return Err("no chairs left".into());
    }
    comm.exchange(param.0.as_bytes())?;
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a hook")]
fn destroyed(_: &Comm, param: &Param) -> Result<(), HookError> {
    write(param, "destroy");
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a hook")]
fn fails_before_it_talks(comm: &Comm, param: &Param) -> Result<(), HookError> {
    write(param, "create");
    if param.2 == Some(comm.rank()) {
        return Err("no chairs left".into());
    }
    Ok(())
}

#[test]
fn what_a_layer_did_is_undone_hook_by_hook() {
    passes(3, "rank_undoes_what_ran");
}

#[test]
#[ignore = "a rank of what_a_layer_did_is_undone_hook_by_hook"]
fn rank_undoes_what_ran() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let journal = Journal::default();
    let taken = || std::mem::take(&mut *journal.lock().expect("journal"));
    let param = |name, fails| Param(name, Arc::clone(&journal), fails);
    let hooks = job.comm_hooks();
    let layer = Layer::PROGRAM;
    hooks.register(layer, created, destroyed, param("first", None));
    // Hooks of one layer belong together, although they are registered separately.
    hooks.register_create(layer, fails_before_it_talks, param("second", Some(2)));
    hooks.register_destroy(layer, destroyed, param("second", None));
    hooks.register(layer, created, destroyed, param("third", None));
    hooks.register(Layer(2000), created, destroyed, param("upper", None));
    match world.dup() {
        Err(CommError::Creation { rank: 2, reason }) => {
            assert!(reason.contains("no chairs left"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let mut wanted = vec!["create upper", "create first", "create second"];
    if job.rank() != 2 {
        wanted.push("destroy second");
    }
    wanted.extend(["destroy first", "destroy upper"]);
    assert_eq!(taken(), wanted);

    // The number of a layer's hooks is compared as well.
    hooks.unregister(layer);
    for _ in 0..=usize::from(job.rank() == 1) {
        hooks.register(layer, created, destroyed, param("one of", None));
    }
    assert!(matches!(
        world.dup(),
        Err(CommError::Creation { rank: 1, .. })
    ));
    assert_eq!(taken(), [""; 0]);
    job.finalize().expect("finalize");
    println!("passed");
}

/// Overrides no entry, and remembers the table.
fn overrides(comm: &Comm, its: &Mutex<Option<Arc<CollTable>>>) -> Result<(), HookError> {
    let mut functions = comm.collectives().functions();
    functions.set_nonblocking(Collective::Barrier, staged_barrier);
    let table = comm.override_collectives(functions, None)?;
    *its.lock().expect("table") = Some(table);
    Ok(())
}

/// The layer finds the table that it set.
fn restores(comm: &Comm, its: &Mutex<Option<Arc<CollTable>>>) -> Result<(), HookError> {
    let table = its.lock().expect("table").take().expect("a table");
    assert!(Arc::ptr_eq(&table, &comm.collectives()), "not its own");
    comm.restore_collectives()?;
    FOUND.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

static FOUND: AtomicUsize = AtomicUsize::new(0);

/// Overrides, and then fails at rank 0.
fn overrides_and_fails(comm: &Comm, its: &Mutex<Option<Arc<CollTable>>>) -> Result<(), HookError> {
    overrides(comm, its)?;
    if comm.rank() == 0 {
        its.lock().expect("table").take();
        return Err("after all".into());
    }
    Ok(())
}

#[test]
fn a_layer_that_overrides_and_fails_leaves_no_table() {
    passes(2, "rank_overrides_and_fails");
}

#[test]
#[ignore = "a rank of a_layer_that_overrides_and_fails_leaves_no_table"]
fn rank_overrides_and_fails() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let before = job.live_collective_tables();
    let hooks = job.comm_hooks();
    hooks.register(Layer(2000), overrides, restores, Mutex::default());
    hooks.register(Layer(1500), overrides_and_fails, restores, Mutex::default());
    assert!(matches!(
        world.dup(),
        Err(CommError::Creation { rank: 0, .. })
    ));
    // The upper layer's hook ran at both ranks, the lower layer's only where it succeeded.
    assert_eq!(FOUND.load(Ordering::Relaxed), 1 + job.rank() as usize);
    assert_eq!(job.live_collective_tables(), before);
    job.finalize().expect("finalize");
    println!("passed");
}

/// Barriers of the layer below, one after the other.
struct Staged {
    table: Arc<CollTable>,
    comm: Comm,
    now: CollRequest,
    left: usize,
}

static STAGES: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

impl Pending for Staged {
    fn test(&mut self) -> CommResult<bool> {
        if !self.now.test()? {
            return Ok(false);
        }
        STAGES.fetch_add(1, Ordering::Relaxed);
        if self.left == 0 {
            return Ok(true);
        }
        self.left -= 1;
        let none = CollArgs::default();
        // SAFETY: there are no buffers.
        self.now = unsafe { self.table.start(Collective::Barrier, &self.comm, &none) }?;
        Ok(false)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe fn staged_barrier(
    table: &CollTable,
    comm: &Comm,
    args: &CollArgs<'_>,
) -> CommResult<CollRequest> {
    let table = table.previous().expect("a table below");
    let staged = Staged {
        // SAFETY: there are no buffers.
        now: unsafe { table.start(Collective::Barrier, comm, args) }?,
        table: Arc::clone(table),
        comm: comm.clone(),
        left: 3,
    };
    Ok(CollRequest::of_layer(comm, Box::new(staged)))
}

/// Now the layer's collectives have ended and their state is freed.
fn counts(comm: &Comm, its: &Mutex<Option<Arc<CollTable>>>) -> Result<(), HookError> {
    assert_eq!(STAGES.load(Ordering::Relaxed), 8, "all stages of both");
    assert_eq!(ENDED.load(Ordering::Relaxed), 2, "nothing is kept");
    restores(comm, its)
}

#[test]
fn freeing_a_communicator_waits_for_what_its_layers_run() {
    passes(3, "rank_frees_with_a_layers_request");
}

#[test]
#[ignore = "a rank of freeing_a_communicator_waits_for_what_its_layers_run"]
fn rank_frees_with_a_layers_request() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let hooks = job.comm_hooks();
    hooks.register(Layer::PROGRAM, overrides, counts, Mutex::default());
    let comm = world.dup().expect("dup");
    // The program tests neither before the end, and one of them never.
    let mut first = comm.ibarrier().expect("ibarrier");
    std::mem::forget(comm.ibarrier().expect("ibarrier"));
    comm.free().expect("free");
    assert_eq!(FOUND.load(Ordering::Relaxed), 1);
    assert!(first.test().expect("its outcome was kept"));
    first.wait().expect("and is told once");
    job.finalize().expect("finalize");
    println!("passed");
}
