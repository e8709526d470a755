//! Engines of one process over a scripted transport.

use std::sync::Arc;

use plugin_api::Status;

use super::{CommError, CommResult, Engine, Plan, Plane, Scope, Ticket};
use crate::crt::{Busy, Source};
use crate::loader::{Transport, scripted};
use crate::mailbox::line_tests::mailboxes;

/// A length that is too long for a message and short enough for one get.
const LONG: usize = scripted::GET_LIMIT;

/// A rank.
struct Rank {
    engine: Engine,
    busy: Busy,
    scope: Arc<Scope>,
}

impl Rank {
    /// Starts a collective, whose buffers the test keeps.
    fn start(&self, build: impl FnOnce(&mut Plan)) -> Ticket {
        self.try_start(&self.scope, build).unwrap()
    }

    fn try_start(&self, scope: &Arc<Scope>, build: impl FnOnce(&mut Plan)) -> CommResult<Ticket> {
        let number = (Plane::User, scope.next(Plane::User));
        // SAFETY: every test below keeps the buffers until its end.
        unsafe { self.engine.start("test", scope, number, None, build) }
    }
}

/// Ranks in context 0.
fn ranks<const N: usize>(transport: &Transport) -> [Rank; N] {
    let mut me = 0..;
    mailboxes::<N>(transport).map(|mailbox| {
        let busy = Busy::default();
        Rank {
            engine: Engine::new(transport, mailbox, N, &busy),
            busy,
            scope: scope(N, me.next().unwrap(), 0),
        }
    })
}

fn scope(ranks: usize, me: usize, context: u16) -> Arc<Scope> {
    Arc::new(Scope::new((0..ranks as u32).collect(), me, context))
}

/// Lets a waiting rank look at the others often enough to find every failure.
fn look<const N: usize>(transport: &Transport, ranks: &[Rank; N], looks: usize) {
    for _ in 0..2 {
        ranks[looks].engine.look_for(&|_| None, None).unwrap();
        progress(transport, ranks);
    }
}

/// Makes progress as the process does: progress of the transport, and of the busy engines.
fn progress<const N: usize>(transport: &Transport, ranks: &[Rank; N]) {
    for _ in 0..8 {
        transport.progress();
        for rank in ranks.iter().filter(|rank| rank.busy.any()) {
            rank.engine.progress();
        }
    }
}

#[test]
fn a_sender_hears_of_a_fetch_whose_receiver_found_no_room_to_say_so() {
    let transport = scripted::transport();
    let ranks = ranks::<2>(&transport);
    let [sender, receiver] = &ranks;
    let from = vec![7_u8; LONG];
    let mut into = vec![0_u8; LONG];
    let at = into.as_mut_ptr();
    scripted::script(&transport).hold_gets = true;
    let sends = sender.start(|plan| plan.send(1, from.as_ptr(), LONG));
    let receives = receiver.start(|plan| plan.receive(0, at, LONG));
    progress(&transport, &ranks);
    assert_eq!(scripted::script(&transport).gets(), 1);

    scripted::script(&transport).hold_gets = false;
    scripted::script(&transport).put = Status::TEMP_OUT_OF_RESOURCE;
    progress(&transport, &ranks);
    assert!(matches!(receiver.engine.test(receives), Some(Ok(()))));
    assert!(into == from);
    assert!(sender.engine.test(sends).is_none());

    scripted::script(&transport).put = Status::SUCCESS;
    progress(&transport, &ranks);
    assert!(matches!(sender.engine.test(sends), Some(Ok(()))));
    assert!(!sender.busy.any() && !receiver.busy.any());
}

#[test]
fn a_get_of_a_failed_collective_writes_no_memory_of_the_next() {
    let transport = scripted::transport();
    let mut ranks = ranks::<2>(&transport);
    let from = vec![7_u8; LONG];
    scripted::script(&transport).hold_gets = true;
    let sends = ranks[0].start(|plan| plan.send(1, from.as_ptr(), LONG));
    scripted::script(&transport).put = Status::TEMP_OUT_OF_RESOURCE;
    let fails = ranks[1].start(|plan| {
        let scratch = plan.scratch(LONG);
        plan.receive(0, scratch, LONG);
        plan.signal(0);
    });
    progress(&transport, &ranks);
    assert_eq!(scripted::script(&transport).gets(), 1);
    scripted::script(&transport).put = Status::UNREACH;
    progress(&transport, &ranks);
    let outcome = ranks[1].engine.test(fails);
    assert!(matches!(outcome, Some(Err(CommError::Peer { .. }))));

    scripted::script(&transport).put = Status::SUCCESS;
    for (me, rank) in ranks.iter_mut().enumerate() {
        rank.scope = scope(2, me, 1);
    }
    let own = vec![9_u8; LONG];
    let mut found = vec![0_u8; LONG];
    let into = found.as_mut_ptr();
    let copies = ranks[1].start(|plan| {
        let scratch = plan.scratch(LONG);
        plan.copy(own.as_ptr(), scratch, LONG);
        plan.await_signal(0);
        plan.round();
        plan.copy(scratch, into, LONG);
    });
    scripted::script(&transport).hold_gets = false;
    progress(&transport, &ranks);
    assert_eq!(scripted::script(&transport).gets(), 0);
    let signals = ranks[0].start(|plan| plan.signal(1));
    progress(&transport, &ranks);
    assert!(matches!(ranks[0].engine.test(signals), Some(Ok(()))));
    assert!(matches!(ranks[1].engine.test(copies), Some(Ok(()))));
    assert!(found == own);
    let _ = ranks[0].engine.test(sends);
}

#[test]
fn a_rank_that_fails_alone_ends_the_others_and_keeps_nothing_of_theirs() {
    let transport = scripted::transport();
    let mut ranks = ranks::<3>(&transport);
    let (from, mut into) = ([7_u8; 8], [0_u8; 8]);
    let at = into.as_mut_ptr();
    let fails = ranks[0].start(|plan| {
        plan.receive(1, at, 4);
        plan.round();
        plan.signal(2);
    });
    let sends = ranks[1].start(|plan| plan.send(0, from.as_ptr(), 8));
    let waits = ranks[2].start(|plan| plan.await_signal(0));
    progress(&transport, &ranks);
    let outcome = ranks[0].engine.test(fails);
    assert!(matches!(
        outcome,
        Some(Err(CommError::Length { rank: 1, .. }))
    ));
    assert!(matches!(ranks[1].engine.test(sends), Some(Ok(()))));
    assert!(ranks[2].engine.test(waits).is_none());
    look(&transport, &ranks, 2);
    let outcome = ranks[2].engine.test(waits);
    assert!(
        matches!(outcome, Some(Err(CommError::Broken { .. }))),
        "{outcome:?}"
    );
    for rank in [&ranks[0], &ranks[2]] {
        let next = rank.try_start(&rank.scope, |_| {});
        assert!(matches!(next, Err(CommError::Broken { .. })), "{next:?}");
    }

    // The message that an unaware rank sends to the failed rank meanwhile.
    let more = ranks[1].start(|plan| plan.send(0, from.as_ptr(), 8));
    for (me, rank) in ranks.iter_mut().enumerate() {
        rank.scope = scope(3, me, 1);
    }
    let other = ranks[1].start(|plan| plan.signal(0));
    let receives = ranks[0].start(|plan| plan.await_signal(1));
    progress(&transport, &ranks);
    for (rank, ticket) in [(1, more), (1, other), (0, receives)] {
        assert!(matches!(ranks[rank].engine.test(ticket), Some(Ok(()))));
    }
    assert_eq!(ranks[0].engine.kept(), 0);

    // The failed rank also fails the ranks that wait for it in other collectives.
    let waits = ranks[2].start(|plan| plan.await_signal(0));
    look(&transport, &ranks, 2);
    let outcome = ranks[2].engine.test(waits);
    assert!(
        matches!(outcome, Some(Err(CommError::Broken { .. }))),
        "{outcome:?}"
    );
}

/// Every rank that learns of the lost rank from another rank names it, and no collective without the lost
/// rank ends.
#[test]
fn a_rank_that_one_other_has_lost_is_named_by_all() {
    let transport = scripted::transport();
    let ranks = ranks::<3>(&transport);
    scripted::script(&transport).put = Status::UNREACH;
    let fails = ranks[1].start(|plan| plan.signal(2));
    scripted::script(&transport).put = Status::SUCCESS;
    let outcome = ranks[1].engine.test(fails);
    let named = matches!(outcome, Some(Err(CommError::Peer { rank: 2, .. })));
    assert!(named, "{outcome:?}");

    let waits = ranks[0].start(|plan| plan.await_signal(1));
    let without = Arc::new(Scope::new(vec![0, 1], 0, 1));
    let goes_on = ranks[0].try_start(&without, |plan| plan.await_signal(1));
    look(&transport, &ranks, 0);
    let outcome = ranks[0].engine.test(waits);
    let Some(Err(CommError::Broken { reason, .. })) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, "rank 2 cannot be reached, says rank 1");
    let pair = Arc::new(Scope::new(vec![0, 1], 1, 1));
    let signals = ranks[1].try_start(&pair, |plan| plan.signal(0));
    progress(&transport, &ranks);
    for (rank, ticket) in [(0, goes_on.unwrap()), (1, signals.unwrap())] {
        assert!(matches!(ranks[rank].engine.test(ticket), Some(Ok(()))));
    }
}

#[test]
fn who_waits_outside_of_schedules_hears_of_a_rank_that_cannot_go_on() {
    let transport = scripted::transport();
    let ranks = ranks::<3>(&transport);
    ranks[2].engine.break_off(&ranks[2].scope, "a reason");
    let mut found = Ok(());
    for _ in 0..2 {
        let waiter = Some(("a call", &ranks[1].scope));
        found = found.and(ranks[1].engine.look_for(&|_| None, waiter));
        transport.progress();
    }
    assert!(matches!(found, Err(CommError::Broken { .. })), "{found:?}");
}

#[test]
fn what_comes_late_for_one_offer_ends_no_other() {
    let transport = scripted::transport();
    let mut ranks = ranks::<2>(&transport);
    let (old, new) = (vec![7_u8; LONG], vec![9_u8; LONG]);
    let (mut lost, mut found, mut short) = (vec![0_u8; LONG], vec![0_u8; LONG], [0_u8; 4]);
    let (lost, into, few) = (lost.as_mut_ptr(), found.as_mut_ptr(), short.as_mut_ptr());
    scripted::script(&transport).hold_gets = true;
    let fails = ranks[0].start(|plan| {
        plan.send(1, old.as_ptr(), LONG);
        plan.receive(1, few, 4);
    });
    let fetches = ranks[1].start(|plan| {
        plan.receive(0, lost, LONG);
        plan.send(0, new.as_ptr(), 8);
    });
    progress(&transport, &ranks);
    let outcome = ranks[0].engine.test(fails);
    assert!(matches!(outcome, Some(Err(CommError::Length { .. }))));
    assert_eq!(scripted::script(&transport).gets(), 1);

    for (me, rank) in ranks.iter_mut().enumerate() {
        rank.scope = scope(2, me, 1);
    }
    // This collective reuses the place of the failed one. The next is at another place, and its offer is at
    // the old offer's place.
    let before = ranks[0].start(|plan| plan.await_signal(1));
    let sends = ranks[0].start(|plan| plan.send(1, new.as_ptr(), LONG));
    scripted::script(&transport).hold_gets = false;
    progress(&transport, &ranks);
    assert!(matches!(ranks[1].engine.test(fetches), Some(Ok(()))));
    assert!(ranks[0].engine.test(sends).is_none());
    let answers = ranks[1].start(|plan| plan.signal(0));
    let receives = ranks[1].start(|plan| plan.receive(0, into, LONG));
    progress(&transport, &ranks);
    for (rank, ticket) in [(0, before), (0, sends), (1, answers), (1, receives)] {
        assert!(matches!(ranks[rank].engine.test(ticket), Some(Ok(()))));
    }
    assert!(found == new);
}

#[test]
fn a_fetch_that_is_refused_half_way_ends_while_a_get_runs() {
    let transport = scripted::transport();
    let ranks = ranks::<2>(&transport);
    let from = vec![7_u8; 2 * LONG];
    let mut into = vec![0_u8; 2 * LONG];
    let at = into.as_mut_ptr();
    let registrations = || scripted::script(&transport).registrations;
    let before = registrations();
    scripted::script(&transport).hold_gets = true;
    scripted::script(&transport).gets_left = 1;
    let sends = ranks[0].start(|plan| plan.send(1, from.as_ptr(), 2 * LONG));
    let receives = ranks[1].start(|plan| plan.receive(0, at, 2 * LONG));
    progress(&transport, &ranks);
    let outcome = ranks[1].engine.test(receives);
    assert!(matches!(outcome, Some(Err(CommError::Peer { .. }))));
    assert_eq!(scripted::script(&transport).gets(), 1);

    scripted::script(&transport).hold_gets = false;
    transport.progress();
    let waits = ranks[1].try_start(&scope(2, 1, 1), |_| {}).unwrap();
    assert!(matches!(ranks[1].engine.test(waits), Some(Ok(()))));
    assert_eq!(registrations() - before, 1, "of the offer");
    let _ = ranks[0].engine.test(sends);
}

#[test]
fn memory_that_cannot_be_registered_ends_the_collective_at_all() {
    let transport = scripted::transport();
    let ranks = ranks::<2>(&transport);
    let from = vec![7_u8; LONG];
    let mut into = vec![0_u8; LONG];
    let at = into.as_mut_ptr();
    let refuse = |status| scripted::script(&transport).register = status;
    let receives = ranks[1].start(|plan| plan.receive(0, at, LONG));
    refuse(Status::OUT_OF_RESOURCE);
    let sends = ranks[0].start(|plan| plan.send(1, from.as_ptr(), LONG));
    refuse(Status::SUCCESS);
    let outcome = ranks[0].engine.test(sends);
    assert!(
        matches!(
            outcome,
            Some(Err(CommError::Registration { size: LONG, .. }))
        ),
        "{outcome:?}"
    );
    look(&transport, &ranks, 1);
    let outcome = ranks[1].engine.test(receives);
    assert!(
        matches!(outcome, Some(Err(CommError::Broken { .. }))),
        "{outcome:?}"
    );
}
