//! Synchronisation: fences and their assertions, locks, flushes, post-start-complete-wait.

use plugin_api::Datatype;

use super::case::{Case, Context, Outcome, ensure, same, verify_at};
use super::session::{Buffer, Mode, Session};
use super::shape::Placed;
use host_stub::win::{Assertion, LockKind, Window};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("fence/rounds", fence_rounds),
        Case::new("fence/assertions", fence_assertions),
        Case::new("lock/shared", |context| lock(context, LockKind::Shared)),
        Case::new("lock/exclusive", |context| {
            lock(context, LockKind::Exclusive)
        }),
        Case::new("lock/nocheck", lock_nocheck),
        Case::new("lock_all/nocheck", lock_all_nocheck),
        Case::new("flush/remote", |context| flush(context, false)),
        Case::new("flush/all", |context| flush(context, true)),
        Case::new("flush/local", flush_local),
        Case::new("pscw/ring", pscw_ring),
        Case::new("pscw/pairs", pscw_pairs),
        Case::new("pscw/nocheck", pscw_nocheck),
        Case::new("pscw/test", pscw_test),
        Case::new("pscw/empty_group", pscw_empty),
        Case::new("sync/changing_epochs", changing),
    ]
}

/// Buffers that outlive every epoch of a test: a session whose epochs the test opens and closes
/// itself.
struct Hand<'a> {
    session: Session<'a>,
    row: Placed,
}

impl<'a> Hand<'a> {
    /// Makes buffers for rows of `count` bytes. Does not open an epoch of the common window.
    fn new(context: &'a Context<'a>, window: &'a Window, count: usize) -> Hand<'a> {
        Hand {
            session: Session::by_hand(context, window),
            row: Placed::row(Datatype::Uint8, count),
        }
    }

    fn put(&mut self, rank: usize, displacement: usize, data: &[u8]) -> Outcome {
        let from = self.session.buffer(data);
        let target = self.row.at(rank, displacement as u64);
        self.session.put(from, &self.row, target)
    }

    fn get(&mut self, rank: usize, displacement: usize) -> Result<Buffer, super::case::Failure> {
        let into = self.session.buffer(&vec![0; self.row.places.len()]);
        let target = self.row.at(rank, displacement as u64);
        self.session.get(into, &self.row, target)?;
        Ok(into)
    }
}

/// Bytes put in one fence epoch are read locally and remotely in the next.
fn fence_rounds(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 16);
    window.fence(Assertion::NOPRECEDE)?;
    for round in 0..5u8 {
        let at = context.region(context.rank);
        hand.put(context.next(), at, &[round + 1; 16])?;
        window.fence(Assertion::empty())?;
        let mut bytes = [0; 16];
        window.read_local(context.region(context.previous()), &mut bytes)?;
        same("put before the fence", &bytes, &[round + 1; 16])?;
        let into = hand.get(context.next(), at)?;
        window.fence(Assertion::empty())?;
        same(
            "got before the fence",
            &hand.session.bytes(into)?,
            &[round + 1; 16],
        )?;
    }
    window.fence(Assertion::NOSUCCEED)?;
    hand.session.release();
    Ok(())
}

fn fence_assertions(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let at = context.region(context.rank);
    let mut hand = Hand::new(context, window, 8);
    window.fence(Assertion::NOPRECEDE | Assertion::NOSTORE)?;
    hand.put(context.next(), at, &[7; 8])?;
    // No rank puts before the next fence, so gets may read the present bytes.
    window.fence(Assertion::NOPUT)?;
    let into = hand.get(context.next(), at)?;
    window.fence(Assertion::NOSTORE)?;
    same("got", &hand.session.bytes(into)?, &[7; 8])?;
    window.fence(Assertion::NOPRECEDE | Assertion::NOSUCCEED)?;
    let refused = hand.put(context.next(), at, &[8; 8]);
    ensure(refused.is_err(), || {
        "a put after a fence with NOSUCCEED was taken".into()
    })?;
    hand.session.release();
    Ok(())
}

fn lock(context: &Context<'_>, kind: LockKind) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 32);
    for target in 0..context.size {
        window.lock(kind, target, Assertion::empty())?;
        let at = context.region(context.rank);
        hand.put(target, at, &[context.rank as u8 + 1; 32])?;
        window.flush(target)?;
        let into = hand.get(target, at)?;
        window.unlock(target)?;
        same(
            "read back",
            &hand.session.bytes(into)?,
            &[context.rank as u8 + 1; 32],
        )?;
    }
    context.meet()?;
    for origin in 0..context.size {
        verify_at(
            window,
            context.region(origin),
            "put",
            &[origin as u8 + 1; 32],
        )?;
    }
    hand.session.release();
    Ok(())
}

fn lock_nocheck(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 8);
    context.meet()?;
    window.lock(LockKind::Exclusive, context.next(), Assertion::NOCHECK)?;
    hand.put(context.next(), context.region(context.rank), &[5; 8])?;
    window.unlock(context.next())?;
    context.meet()?;
    verify_at(window, context.region(context.previous()), "put", &[5; 8])?;
    // The lock word is unchanged, so the lock can be taken.
    window.lock(LockKind::Exclusive, context.next(), Assertion::empty())?;
    window.unlock(context.next())?;
    hand.session.release();
    Ok(())
}

fn lock_all_nocheck(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 8);
    context.meet()?;
    window.lock_all(Assertion::NOCHECK)?;
    hand.put(context.next(), context.region(context.rank), &[9; 8])?;
    window.unlock_all()?;
    context.meet()?;
    let mut bytes = [0; 8];
    window.read_local(context.region(context.previous()), &mut bytes)?;
    hand.session.release();
    same("put", &bytes, &[9; 8])
}

/// After a flush the target sees the data while the epoch is still open.
fn flush(context: &Context<'_>, all: bool) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 64);
    window.lock_all(Assertion::empty())?;
    for round in 0..3u8 {
        hand.put(
            context.next(),
            context.region(context.rank),
            &[round + 1; 64],
        )?;
        if all {
            window.flush_all()?;
        } else {
            window.flush(context.next())?;
        }
        context.meet()?;
        window.sync()?;
        let mut bytes = [0; 64];
        window.read_local(context.region(context.previous()), &mut bytes)?;
        same("flushed", &bytes, &[round + 1; 64])?;
        context.meet()?;
    }
    window.unlock_all()?;
    hand.session.release();
    context.meet()
}

/// After a local flush the caller may reuse the origin's buffers.
fn flush_local(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let wanted = context.fill(window)?;
    context.meet()?;
    let mut hand = Hand::new(context, window, 64);
    window.lock_all(Assertion::empty())?;
    let into = hand.get(context.next(), 5)?;
    window.flush_local(context.next())?;
    let other = hand.get(context.rank, 7)?;
    window.flush_local_all()?;
    let remote = context.initial(context.next(), window.len());
    same("got", &hand.session.bytes(into)?, &remote[5..69])?;
    same("got", &hand.session.bytes(other)?, &wanted[7..71])?;
    window.unlock_all()?;
    hand.session.release();
    context.meet()
}

fn pscw_ring(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 24);
    for round in 0..4u8 {
        window.post(&[context.previous()], Assertion::empty())?;
        window.start(&[context.next()], Assertion::empty())?;
        hand.put(
            context.next(),
            context.region(context.rank),
            &[round + 1; 24],
        )?;
        window.complete()?;
        window.wait()?;
        let mut bytes = [0; 24];
        window.read_local(context.region(context.previous()), &mut bytes)?;
        same("put", &bytes, &[round + 1; 24])?;
    }
    hand.session.release();
    context.meet()
}

/// Even ranks are targets of odd ranks, which start at different times.
fn pscw_pairs(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 24);
    let (targets, origins): (Vec<usize>, Vec<usize>) =
        (0..context.size).partition(|rank| rank.is_multiple_of(2));
    for round in 0..3u8 {
        if context.rank.is_multiple_of(2) {
            window.post(&origins, Assertion::empty())?;
            window.wait()?;
            for origin in &origins {
                let mut bytes = [0; 24];
                window.read_local(context.region(*origin), &mut bytes)?;
                same("put", &bytes, &[round + 1; 24])?;
            }
        } else {
            window.start(&targets, Assertion::empty())?;
            for target in &targets {
                hand.put(*target, context.region(context.rank), &[round + 1; 24])?;
            }
            window.complete()?;
        }
    }
    hand.session.release();
    context.meet()
}

fn pscw_nocheck(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 8);
    window.post(&[context.previous()], Assertion::NOCHECK)?;
    // The promise of the assertion: every post was called before any start.
    context.meet()?;
    window.start(&[context.next()], Assertion::NOCHECK)?;
    hand.put(context.next(), context.region(context.rank), &[3; 8])?;
    window.complete()?;
    window.wait()?;
    let mut bytes = [0; 8];
    window.read_local(context.region(context.previous()), &mut bytes)?;
    hand.session.release();
    same("put", &bytes, &[3; 8])?;
    context.meet()
}

fn pscw_test(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let mut hand = Hand::new(context, window, 8);
    window.post(&[context.previous()], Assertion::empty())?;
    let early = window.test()?;
    // No rank starts to this rank before every rank has tested.
    context.meet()?;
    ensure(!early, || "test said true before anybody started".into())?;
    window.start(&[context.next()], Assertion::empty())?;
    hand.put(context.next(), context.region(context.rank), &[4; 8])?;
    window.complete()?;
    while !window.test()? {
        std::thread::yield_now();
    }
    let mut bytes = [0; 8];
    window.read_local(context.region(context.previous()), &mut bytes)?;
    same("put", &bytes, &[4; 8])?;
    ensure(window.wait().is_err(), || {
        "wait after a successful test was taken".into()
    })?;
    hand.session.release();
    context.meet()
}

fn pscw_empty(context: &Context<'_>) -> Outcome {
    let window = context.window;
    window.post(&[], Assertion::empty())?;
    window.start(&[], Assertion::empty())?;
    window.complete()?;
    window.wait()?;
    context.meet()
}

/// Epochs of every kind follow each other on one window.
fn changing(context: &Context<'_>) -> Outcome {
    let window = context.window;
    let row = Placed::row(Datatype::Uint8, 16);
    for (round, mode) in Mode::ALL.iter().chain(&Mode::ALL).enumerate() {
        let mut session = Session::open(context, window, *mode)?;
        let from = session.buffer(&[round as u8 + 1; 16]);
        let target = row.at(context.next(), context.region(context.rank) as u64);
        session.put(from, &row, target)?;
        session.close()?;
        verify_at(
            window,
            context.region(context.previous()),
            "put",
            &[round as u8 + 1; 16],
        )?;
        context.meet()?;
    }
    Ok(())
}
