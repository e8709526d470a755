//! Layers that override the collectives of communicators: mistakes of older designs, and the
//! promises of the tables. The tests use the C plugin.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::ranks::{passes, passes_with};
use host_stub::coll::{CollArgs, CollRequest, CollTable, Collective, Pending};
use host_stub::comm::{Comm, CommError, CommResult, HookError, Layer};
use host_stub::win::{Datatype, Op};
use host_stub::{Job, JobOptions};

fn join() -> Arc<Job> {
    Job::init(JobOptions::default()).expect("init")
}

fn allreduce(comm: &Comm, value: u64) -> CommResult<u64> {
    let mut sum = 0;
    let (send, recv) = (&raw const value, &raw mut sum);
    // SAFETY: one element each, which live until the call returns.
    unsafe { comm.allreduce(send.cast(), recv.cast(), 1, Datatype::Uint64, Op::Sum) }?;
    Ok(sum)
}

/// Calls of the overriding entries below.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Counts the call, and calls the overridden function.
unsafe fn counting(table: &CollTable, comm: &Comm, args: &CollArgs<'_>) -> CommResult<()> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let below = table.previous().expect("a table below");
    // SAFETY: the arguments are passed unchanged.
    unsafe { below.call(Collective::Allreduce, comm, args) }
}

/// The memory of a layer: the tables that it has set, and the findings of its destroy hooks.
#[derive(Default)]
struct Memory {
    set: Mutex<Vec<(u16, Arc<CollTable>)>>,
    found: AtomicUsize,
}

type Shared = Arc<Memory>;

/// Overrides the allreduce of communicators of four ranks only.
fn override_fours(comm: &Comm, memory: &Shared) -> Result<(), HookError> {
    if comm.size() != 4 {
        return Ok(());
    }
    let mut functions = comm.collectives().functions();
    functions.set_blocking(Collective::Allreduce, Some(counting));
    let table = comm.override_collectives(functions, None)?;
    let mut set = memory.set.lock().expect("memory");
    set.push((comm.context(), table));
    Ok(())
}

fn restore_fours(comm: &Comm, memory: &Shared) -> Result<(), HookError> {
    let mut set = memory.set.lock().expect("memory");
    let Some(index) = set
        .iter()
        .position(|(context, _)| *context == comm.context())
    else {
        return Ok(());
    };
    let (_, table) = set.swap_remove(index);
    if Arc::ptr_eq(&table, &comm.collectives()) {
        memory.found.fetch_add(1, Ordering::Relaxed);
    }
    drop(table);
    comm.restore_collectives()?;
    Ok(())
}

/// Without the node's layer, so that only these tests' tables count.
const ALONE: &[(&str, &str)] = &[("OMPI_MCA_host_coll_node", "0")];

#[test]
fn one_static_table_does_not_serve_communicators_that_differ() {
    passes_with(4, "rank_of_two_kinds_of_communicators", ALONE);
}

#[test]
#[ignore = "a rank of one_static_table_does_not_serve_communicators_that_differ"]
fn rank_of_two_kinds_of_communicators() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let memory = Shared::default();
    let layer = Layer::PROGRAM;
    job.comm_hooks()
        .register_create(layer, override_fours, Arc::clone(&memory));
    job.comm_hooks()
        .register_destroy(layer, restore_fours, Arc::clone(&memory));
    let four = world.dup().expect("dup");
    let two = world
        .split(Some(job.rank() / 2), 0)
        .expect("split")
        .expect("a half");
    assert_eq!(allreduce(&four, 1).expect("allreduce"), 4);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    // The later communicator, and the communicator without the layer, are unchanged.
    assert_eq!(allreduce(&two, 1).expect("allreduce"), 2);
    assert_eq!(allreduce(&world, 1).expect("allreduce"), 4);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    assert_eq!(allreduce(&four, 2).expect("allreduce"), 8);
    assert_eq!(CALLS.load(Ordering::Relaxed), 2);
    // Tables change in hooks only.
    let functions = four.collectives().functions();
    assert!(matches!(
        four.override_collectives(functions, None),
        Err(CommError::BadArgument { .. })
    ));
    assert!(matches!(
        four.restore_collectives(),
        Err(CommError::BadArgument { .. })
    ));
    two.free().expect("free");
    four.free().expect("free");
    assert_eq!(memory.found.load(Ordering::Relaxed), 1);
    job.finalize().expect("finalize");
    println!("passed");
}

#[test]
fn equal_overrides_share_one_table_that_goes_with_the_last_communicator() {
    passes_with(4, "rank_shares_tables", ALONE);
}

#[test]
#[ignore = "a rank of equal_overrides_share_one_table_that_goes_with_the_last_communicator"]
fn rank_shares_tables() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let memory = Shared::default();
    let hooks = job.comm_hooks();
    hooks.register_create(Layer(2000), override_fours, Arc::clone(&memory));
    hooks.register_destroy(Layer(2000), restore_fours, Arc::clone(&memory));
    assert_eq!(job.live_collective_tables(), 0);
    let first = world.dup().expect("dup");
    assert_eq!(job.live_collective_tables(), 1);
    let second = world.dup().expect("dup");
    assert!(Arc::ptr_eq(&first.collectives(), &second.collectives()));
    assert_eq!(
        job.live_collective_tables(),
        1,
        "equal over the same: shared"
    );

    // The same override by a lower layer covers another table, so it is a different one.
    let other = Shared::default();
    hooks.register_create(Layer(1500), override_fours, Arc::clone(&other));
    hooks.register_destroy(Layer(1500), restore_fours, Arc::clone(&other));
    let third = world.dup().expect("dup");
    assert_eq!(job.live_collective_tables(), 2);
    let below = third.collectives();
    assert!(!Arc::ptr_eq(&below, &first.collectives()));
    let previous = below.previous().expect("the upper layer's");
    assert!(
        Arc::ptr_eq(previous, &first.collectives()),
        "the lower overrides the upper"
    );
    drop(below);
    // The lower layer's entry calls the upper layer's entry.
    let before = CALLS.load(Ordering::Relaxed);
    assert_eq!(allreduce(&third, 5).expect("allreduce"), 20);
    assert_eq!(CALLS.load(Ordering::Relaxed) - before, 2);

    first.free().expect("free");
    assert_eq!(job.live_collective_tables(), 2, "others still have it");
    third.free().expect("free");
    assert_eq!(job.live_collective_tables(), 1);
    second.free().expect("free");
    assert_eq!(job.live_collective_tables(), 0);
    // Each destroy hook found the table that its create hook had set.
    assert_eq!(memory.found.load(Ordering::Relaxed), 3);
    assert_eq!(other.found.load(Ordering::Relaxed), 1);
    job.finalize().expect("finalize");
    println!("passed");
}

/// Removes every blocking entry.
fn take_away(comm: &Comm, _: &()) -> Result<(), HookError> {
    let mut functions = comm.collectives().functions();
    for collective in Collective::ALL {
        functions.set_blocking(collective, None);
    }
    comm.override_collectives(functions, None)?;
    Ok(())
}

/// A layer's own nonblocking barrier: it ends with the barrier below, and reports this.
struct Slow(CollRequest);

impl Pending for Slow {
    fn test(&mut self) -> CommResult<bool> {
        let done = self.0.test()?;
        if done {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done)
    }
}

unsafe fn slow_barrier(
    table: &CollTable,
    comm: &Comm,
    args: &CollArgs<'_>,
) -> CommResult<CollRequest> {
    let below = table.previous().expect("a table below");
    // SAFETY: the arguments are passed unchanged.
    let request = unsafe { below.start(Collective::Barrier, comm, args) }?;
    Ok(CollRequest::of_layer(comm, Box::new(Slow(request))))
}

fn slow_down(comm: &Comm, _: &()) -> Result<(), HookError> {
    let mut functions = comm.collectives().functions();
    functions.set_nonblocking(Collective::Barrier, slow_barrier);
    comm.override_collectives(functions, None)?;
    Ok(())
}

fn restore(comm: &Comm, _: &()) -> Result<(), HookError> {
    comm.restore_collectives()?;
    Ok(())
}

#[test]
fn absent_blocking_entries_are_the_default_and_nonblocking_ones_a_layers_own() {
    passes(3, "rank_without_blocking_entries");
}

#[test]
#[ignore = "a rank of absent_blocking_entries_are_the_default_and_nonblocking_ones_a_layers_own"]
fn rank_without_blocking_entries() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let hooks = job.comm_hooks();
    // Registered below the node's layer, so that it removes the entries of that layer.
    hooks.register_create(Layer(1), take_away, ());
    hooks.register_destroy(Layer(1), restore, ());
    hooks.register_create(Layer::PROGRAM, slow_down, ());
    hooks.register_destroy(Layer::PROGRAM, restore, ());
    let comm = world.dup().expect("dup");
    assert!(comm.collectives().blocking(Collective::Allreduce).is_none());
    comm.barrier().expect("barrier");
    assert_eq!(allreduce(&comm, 7).expect("allreduce"), 21);
    let before = CALLS.load(Ordering::Relaxed);
    comm.ibarrier().expect("ibarrier").wait().expect("wait");
    // Dropping a request waits for it.
    drop(comm.ibarrier().expect("ibarrier"));
    assert_eq!(CALLS.load(Ordering::Relaxed) - before, 2);
    comm.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
}
