//! Communicators among the processes of a job, over the C plugin: their creation, the calls of
//! their layers, and their end.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use common::ranks::passes;
use host_stub::comm::{Comm, CommError, HookError, Layer};
use host_stub::win::{Assertion, Datatype, Layout, Window};
use host_stub::{Job, JobOptions};

fn join() -> Arc<Job> {
    Job::init(JobOptions::default()).expect("init")
}

/// The value that every rank of a communicator gives: its own job rank.
fn said(comm: &Comm) -> Vec<u32> {
    let all = comm
        .exchange(&comm.job().rank().to_le_bytes())
        .expect("exchange");
    all.iter()
        .map(|bytes| u32::from_le_bytes(bytes.as_slice().try_into().expect("a word")))
        .collect()
}

#[test]
fn communicators_are_made_of_each_other() {
    passes(4, "rank_makes_communicators");
}

#[test]
#[ignore = "a rank of communicators_are_made_of_each_other"]
fn rank_makes_communicators() {
    let job = join();
    let me = job.rank();
    let world = Comm::world(&job).expect("world");
    assert!(world.is_same(&Comm::world(&job).expect("the same world")));
    assert_eq!(said(&world), [0, 1, 2, 3]);

    let dup = world.dup().expect("dup");
    assert_ne!(dup.context(), world.context());
    assert_eq!(said(&dup), [0, 1, 2, 3]);

    // Each half agrees without the other half: only some ranks exchange, while the others do other work.
    let halves = world
        .split(Some(me % 2), -i64::from(me))
        .expect("split")
        .expect("a half");
    let wanted: [u32; 2] = if me.is_multiple_of(2) { [2, 0] } else { [3, 1] };
    assert_eq!(said(&halves), wanted);
    if me.is_multiple_of(2) {
        for _ in 0..20 {
            assert_eq!(said(&halves), [2, 0]);
        }
    }
    let alone = halves
        .split((halves.rank() == 0).then_some(7), 0)
        .expect("split");
    assert_eq!(
        alone.as_ref().map(Comm::size),
        (halves.rank() == 0).then_some(1)
    );

    let three = world.create(&[3, 0, 1]).expect("create");
    assert_eq!(three.is_some(), me != 2);
    if let Some(three) = &three {
        assert_eq!(said(three), [3, 0, 1]);
    }
    let node = world.split_by_node(0).expect("split_by_node");
    assert_eq!(said(&node), [0, 1, 2, 3]);

    let strangers = halves.create(&[0, 2]);
    assert!(
        matches!(strangers, Err(CommError::BadArgument { .. })),
        "{strangers:?}"
    );

    // A window over three ranks in another order.
    if let Some(three) = three {
        let window = Window::allocate(&three, 64, 8).expect("window");
        window.lock_all(Assertion::empty()).expect("lock_all");
        let value = u64::from(me) + 100;
        let one = Layout::contiguous(Datatype::Uint64, 1);
        let next = (three.rank() + 1) % 3;
        let target = one.at(next, me.into());
        // SAFETY: the value lives until the flush.
        unsafe { window.put((&raw const value).cast(), &one, target) }.expect("put");
        window.flush_all().expect("flush");
        window.unlock_all().expect("unlock");
        three.exchange(&[]).expect("barrier");
        let before = three.job_rank((three.rank() + 2) % 3).expect("rank");
        let mut found = [0; 8];
        window
            .read_local(before as usize * 8, &mut found)
            .expect("read");
        assert_eq!(u64::from_ne_bytes(found), u64::from(before) + 100);
        window.free().expect("free the window");
        three.free().expect("free");
    }
    for comm in [dup, halves, node].into_iter().chain(alone) {
        let other = comm.clone();
        comm.free().expect("free");
        assert!(matches!(other.dup(), Err(CommError::Freed { .. })));
        assert!(Window::allocate(&other, 8, 8).is_err());
        assert!(matches!(other.free(), Err(CommError::Freed { .. })));
    }
    // Contexts are reused: the test makes more communicators than there are numbers.
    let mut highest = 0;
    for _ in 0..20 {
        let comm = world.dup().expect("dup");
        highest = highest.max(comm.context());
        comm.free().expect("free");
    }
    assert!(highest < 5, "{highest}");
    assert!(matches!(world.free(), Err(CommError::BadArgument { .. })));
    job.finalize().expect("finalize");
    println!("passed");
}

type Journal = Arc<Mutex<Vec<String>>>;

/// The parameter of the hooks: a name, and the journal.
struct Param(&'static str, Journal);

fn write(param: &Param, what: &str, comm: &Comm) {
    let line = format!("{what} {} {}", param.0, comm.size());
    param.1.lock().expect("journal").push(line);
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a hook")]
fn created(comm: &Comm, param: &Param) -> Result<(), HookError> {
    // Hooks may communicate over the new communicator.
    comm.exchange(param.0.as_bytes())?;
    write(param, "create", comm);
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a hook")]
fn destroyed(comm: &Comm, param: &Param) -> Result<(), HookError> {
    write(param, "destroy", comm);
    Ok(())
}

/// Fails at job rank 2, in communicators of three.
fn fails(comm: &Comm, param: &Param) -> Result<(), HookError> {
    write(param, "create", comm);
    if comm.job().rank() == 2 && comm.size() == 3 {
        return Err("no chairs left".into());
    }
    Ok(())
}

#[test]
fn create_hooks_run_from_upper_to_lower_and_destroy_hooks_in_reverse() {
    passes(4, "rank_sees_hooks");
}

#[test]
#[ignore = "a rank of create_hooks_run_from_upper_to_lower_and_destroy_hooks_in_reverse"]
fn rank_sees_hooks() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let journal = Journal::default();
    let taken = || std::mem::take(&mut *journal.lock().expect("journal"));
    let param = |name| Param(name, Arc::clone(&journal));
    let hooks = job.comm_hooks();
    // Registered in no particular order; the middle layer has a creation hook only.
    hooks.register_create(Layer(1002), fails, param("middle"));
    hooks.register_create(Layer(1001), created, param("lower"));
    hooks.register_destroy(Layer(1003), destroyed, param("upper"));
    hooks.register_create(Layer(1003), created, param("upper"));
    hooks.register_destroy(Layer(1001), destroyed, param("lower"));

    let comm = world.dup().expect("dup");
    assert_eq!(
        taken(),
        ["create upper 4", "create middle 4", "create lower 4"]
    );
    comm.free().expect("free");
    assert_eq!(taken(), ["destroy lower 4", "destroy upper 4"]);

    // A hook fails at one rank: the creation fails at all ranks, and the completed hooks are
    // undone.
    let failed = world.create(&[1, 2, 3]);
    if job.rank() > 0 {
        match failed {
            Err(CommError::Creation { rank: 1, reason }) => {
                assert!(
                    reason.contains("no chairs left") && reason.contains("1002"),
                    "{reason}"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            taken(),
            ["create upper 3", "create middle 3", "destroy upper 3"]
        );
    }
    // The communicator's context is free again, and the other communicators work.
    let again = world.dup().expect("dup");
    assert_eq!(said(&again), [0, 1, 2, 3]);
    assert_eq!(again.context(), 1);
    again.free().expect("free");
    hooks.unregister(Layer(1002));

    // Ranks with different registered hooks.
    if job.rank() == 3 {
        hooks.unregister(Layer(1001));
    }
    match world.dup() {
        Err(CommError::Creation { rank: 3, reason }) => {
            assert!(reason.contains("1001"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    job.finalize().expect("finalize");
    println!("passed");
}

#[test]
fn hooks_may_call_back() {
    passes(2, "rank_hooks_call_back");
}

/// Makes a communicator inside of a create hook, asks for the world, and registers another layer.
fn calls_back(comm: &Comm, busy: &AtomicBool) -> Result<(), HookError> {
    if busy.swap(true, Ordering::SeqCst) {
        // The call for the communicator made below.
        return Ok(());
    }
    let hooks = comm.job().comm_hooks();
    hooks.register_create(Layer(7), |_, _| Ok(()), ());
    hooks.unregister(Layer(7));
    match Comm::world(comm.job()) {
        Ok(world) => assert_ne!(
            comm.context(),
            world.context(),
            "the world was not made yet"
        ),
        Err(CommError::BadArgument { .. }) => assert_eq!(comm.context(), 0),
        Err(other) => return Err(other.into()),
    }
    let helper = comm.dup()?;
    helper.exchange(&[])?;
    helper.free()?;
    busy.store(false, Ordering::SeqCst);
    Ok(())
}

#[test]
#[ignore = "a rank of hooks_may_call_back"]
fn rank_hooks_call_back() {
    let job = join();
    job.comm_hooks()
        .register_create(Layer::PROGRAM, calls_back, AtomicBool::new(false));
    // Two threads ask for the world at once; one of them makes it.
    let world = std::thread::scope(|scope| {
        let other = scope.spawn(|| Comm::world(&job).expect("world"));
        let world = Comm::world(&job).expect("world");
        assert!(world.is_same(&other.join().expect("no panic")));
        world
    });
    let dup = world.dup().expect("dup");
    dup.free().expect("free");
    drop(world);
    job.finalize().expect("finalize");
    println!("passed");
}
