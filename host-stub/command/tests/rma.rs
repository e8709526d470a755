//! Windows in safe Rust, in jobs of several processes over the C plugin, with each table: completion at the end of an
//! epoch, also if its body failed, ownership of buffers, and refusals. Collectives of slices: refusals.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::ranks::passes_with;
use host_stub::comm::{CommError, CommResult};
use host_stub::rma::{LockKind, Op, SliceCollectives, WinError, Window, unboxed};
use host_stub::win::Info;
use host_stub::{Comm, Job, JobOptions};

const TABLES: [&str; 3] = ["shm", "mixed", "btl"];

fn over_each_table(ranks: u32, body: &str) {
    for table in TABLES {
        passes_with(ranks, body, &[("RMA_TABLE", table)]);
    }
}

/// A job, and a window of words with the requested table.
fn begin(elements: usize) -> (Arc<Job>, Window<u64>) {
    let job = Job::init(JobOptions::default()).expect("init");
    let table = std::env::var("RMA_TABLE").expect("a table");
    let info = Info::new().with("host_win_table", &table).expect("a hint");
    let window = Window::allocate_with(&job, elements, &info).expect("a window");
    (job, window)
}

fn end(job: Arc<Job>, window: Window<u64>) {
    window.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
}

fn contents(window: &mut Window<u64>) -> Vec<u64> {
    let mut found = vec![0; window.len()];
    window.read(0, &mut found).expect("a read");
    found
}

#[test]
fn everything_is_complete_when_an_epoch_ends() {
    over_each_table(3, "rank_epochs");
}

#[test]
#[ignore = "a rank of everything_is_complete_when_an_epoch_ends"]
fn rank_epochs() {
    let (job, mut window) = begin(8);
    let (rank, size) = (window.rank(), window.size());
    let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
    assert_eq!((window.len(), window.is_empty()), (8, false));
    window.write(6, &[60 + rank as u64, 70]).expect("a write");
    job.barrier().expect("barrier");
    let (word, ones, mut got) = ([10 + rank as u64], [1; 2], [0; 2]);
    window
        .fence(|epoch| {
            epoch.put(&word, next, 0)?;
            epoch.accumulate(&ones, 0, 1, Op::Sum)?;
            epoch.get(&mut got, next, 6)
        })
        .expect("a fence");
    assert_eq!(got, [60 + next as u64, 70]);
    let found = contents(&mut window);
    assert_eq!(found[0], 10 + last as u64);
    let sum = if rank == 0 { size as u64 } else { 0 };
    assert_eq!(found[1..3], [sum; 2]);
    job.barrier().expect("barrier");

    let old = window
        .lock_all(|epoch| {
            epoch.put(&word, next, 3)?;
            epoch.flush(next)?;
            let mut now = [0];
            epoch.get_now(&mut now, next, 3)?;
            assert_eq!(now, word);
            epoch.put(&ones, next, 4)?;
            epoch.flush_all()?;
            epoch.fetch_and_op(5, 0, 1, Op::Sum)
        })
        .expect("lock_all");
    assert!(old >= size as u64 && (old - size as u64).is_multiple_of(5));
    job.barrier().expect("barrier");
    let won = window
        .lock(LockKind::Exclusive, 0, |epoch| {
            epoch.compare_and_swap(0, rank as u64 + 1, 0, 5)
        })
        .expect("lock");
    job.barrier().expect("barrier");
    let found = contents(&mut window);
    assert_eq!(found[3..5], [10 + last as u64, 1]);
    if rank == 0 {
        assert_eq!(found[1], 6 * size as u64);
        // Rank 0's neighbour put a one here, so no exchange was made.
        assert_eq!((found[5], won), (1, 1));
    }
    end(job, window);
}

#[test]
fn an_epoch_ends_however_its_body_does() {
    over_each_table(2, "rank_bodies");
}

#[test]
#[ignore = "a rank of an_epoch_ends_however_its_body_does"]
fn rank_bodies() {
    let (job, mut window) = begin(2);
    let other = 1 - window.rank();
    let words = [[7], [8]];
    let refused = window.lock_all(|epoch| {
        epoch.put(&words[0], other, 0)?;
        epoch.put(&words[0], other, 2)
    });
    assert!(
        matches!(unboxed(&refused), Err(WinError::OutOfBounds { .. })),
        "{refused:?}"
    );
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        window.lock_all(|epoch| -> Result<(), Box<WinError>> {
            epoch.put(&words[1], other, 1)?;
            panic!("a body that panics");
        })
    }));
    let _ = std::panic::take_hook();
    assert!(panicked.is_err());
    job.barrier().expect("barrier");
    assert_eq!(contents(&mut window), [7, 8]);
    end(job, window);
}

#[test]
fn transfers_own_their_buffers() {
    over_each_table(2, "rank_transfers");
}

#[test]
#[ignore = "a rank of transfers_own_their_buffers"]
fn rank_transfers() {
    let (job, mut window) = begin(8);
    let other = 1 - window.rank();
    job.barrier().expect("barrier");
    window
        .lock_all(|epoch| {
            let back = epoch.put_owned(vec![1, 2], other, 0)?.wait()?;
            assert_eq!(back, [1, 2]);
            drop(epoch.put_owned(vec![3], other, 2)?);
            std::mem::forget(epoch.put_owned(vec![4], other, 3)?);
            let mut tested = epoch.put_owned(vec![5], other, 4)?;
            while !tested.test()? {}
            assert_eq!(tested.wait()?, [5]);
            assert_eq!(epoch.put_owned(vec![6], other, 5)?.wait()?, [6]);
            assert_eq!(epoch.get_owned(vec![0; 2], other, 0)?.wait()?, [1, 2]);
            let beyond = epoch.put_owned(vec![9], other, 8);
            assert!(matches!(
                unboxed(&beyond),
                Err(WinError::OutOfBounds { .. })
            ));
            Ok(())
        })
        .expect("lock_all");
    job.barrier().expect("barrier");
    assert_eq!(contents(&mut window), [1, 2, 3, 4, 5, 6, 0, 0]);
    end(job, window);
}

#[test]
fn what_does_not_fit_is_refused() {
    over_each_table(2, "rank_refusals");
}

#[test]
#[ignore = "a rank of what_does_not_fit_is_refused"]
fn rank_refusals() {
    let (job, mut window) = begin(2);
    let size = window.size();
    let mut words = [0; 3];
    let beyond = |result: Result<(), Box<WinError>>| {
        assert!(
            matches!(unboxed(&result), Err(WinError::OutOfBounds { .. })),
            "{result:?}"
        );
    };
    beyond(window.read(0, &mut words));
    beyond(window.read(usize::MAX, &mut words[..1]));
    beyond(window.write(2, &[1]));
    window.read(2, &mut []).expect("nothing, at the end");
    beyond(window.lock_all(|epoch| epoch.put(&words, 0, 0)));
    beyond(window.lock_all(|epoch| epoch.put(&words[..1], 0, usize::MAX)));
    let nobody = window.lock_all(|epoch| epoch.put(&words, size, 0));
    assert!(matches!(unboxed(&nobody), Err(WinError::NoSuchRank { .. })));
    let unlocked = window.lock(LockKind::Shared, 0, |epoch| epoch.put(&words[..1], 1, 0));
    assert!(unlocked.is_err());
    let twice = window.lock_all(|_| window.lock_all(|_| Ok(())));
    assert!(
        matches!(unboxed(&twice), Err(WinError::EpochMisuse { .. })),
        "{twice:?}"
    );
    // The inner epoch locks rank 1 only. The end of the inner epoch does not complete a get from rank 0, which the
    // outer epoch locked.
    let mut buffer = vec![0; 1];
    let inner = window.lock(LockKind::Shared, 0, |_| {
        window.lock(LockKind::Shared, 1, |epoch| epoch.get(&mut buffer, 0, 0))
    });
    assert!(
        matches!(unboxed(&inner), Err(WinError::WrongTarget { rank: 0, .. })),
        "{inner:?}"
    );
    let beside = window.lock(LockKind::Shared, 0, |outer| {
        window.lock(LockKind::Shared, 1, |inner| inner.get_now(&mut [0], 1, 0))?;
        outer.get_now(&mut [0], 0, 0)
    });
    beside.expect("two locks");
    for rank in 0..size {
        let other = window.lock(LockKind::Shared, rank, |_| window.fence(|_| Ok(())));
        assert!(
            matches!(unboxed(&other), Err(WinError::EpochMisuse { .. })),
            "{other:?}"
        );
    }
    // Calls that cannot wait are refused before they change anything.
    job.barrier().expect("barrier");
    let waits = window.fence(|epoch| epoch.fetch_and_op(1, 0, 0, Op::Sum).map(drop));
    assert!(
        matches!(unboxed(&waits), Err(WinError::EpochMisuse { .. })),
        "{waits:?}"
    );
    assert_eq!(contents(&mut window), [0; 2]);
    let huge = Window::<u64>::allocate(&job, usize::MAX);
    assert!(matches!(unboxed(&huge), Err(WinError::Creation { .. })));
    let nothing = Window::<()>::allocate(&job, 8);
    assert!(matches!(unboxed(&nothing), Err(WinError::Creation { .. })));
    let floats = Window::<f64>::allocate(&job, 1).expect("a window");
    let swapped = floats.lock_all(|epoch| epoch.compare_and_swap(0.0, 1.0, 0, 0));
    assert!(matches!(
        unboxed(&swapped),
        Err(WinError::InvalidOperation { .. })
    ));
    floats.free().expect("free");
    end(job, window);
}

/// The example `matrix` shows their results. The example runs without the node layer, which does
/// not compare lengths.
#[test]
fn slices_of_the_wrong_length_are_refused() {
    passes_with(2, "rank_slices", &[("OMPI_MCA_host_coll_node", "0")]);
}

#[test]
#[ignore = "a rank of slices_of_the_wrong_length_are_refused"]
fn rank_slices() {
    let job = Job::init(JobOptions::default()).expect("init");
    let world = Comm::world(&job).expect("world");
    let ranks = SliceCollectives::of(&world);
    let (rank, from, mut into) = (world.rank(), [1u16; 4], [0u16; 4]);
    let refused = |result: CommResult<()>| {
        assert!(
            matches!(result, Err(CommError::BadArgument { .. })),
            "{result:?}"
        );
    };
    // The call is refused before anything is sent, so both ranks still match in later collectives.
    refused(ranks.allreduce(&from[..3], &mut into, Op::Sum));
    refused(ranks.allgather(&from[..1], &mut into));
    refused(ranks.alltoall(&from[..3], &mut into[..3]));
    refused(ranks.alltoall(&from, &mut into[..2]));
    refused(ranks.bcast(&mut into, 2));
    if rank == 0 {
        refused(ranks.reduce(&from, &mut into[..3], Op::Sum, 0));
        refused(ranks.gather(&from, &mut into, 0));
        refused(ranks.scatter(&from, &mut into, 0));
    }
    assert_eq!(into, [0; 4]);
    ranks
        .reduce(&from, &mut into[..4 * (1 - rank)], Op::Sum, 0)
        .expect("reduce");
    assert_eq!(into, [[2; 4], [0; 4]][rank]);
    ranks.bcast(&mut into[..0], 1).expect("nothing");

    // Ranks with different lengths: the receiver fails, and no element beyond its slice changes.
    let other = world.dup().expect("dup");
    let ranks = SliceCollectives::of(&other);
    let mut into = [7u16 + rank as u16; 4];
    if rank == 0 {
        ranks.bcast(&mut into, 0).expect("the root sends");
    } else {
        let short = ranks.bcast(&mut into[1..3], 0);
        assert!(matches!(short, Err(CommError::Length { .. })), "{short:?}");
        assert_eq!((into[0], into[3]), (8, 8));
    }
    job.finalize().expect("finalize");
    println!("passed");
}
