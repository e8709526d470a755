//! Two engines of one process over a scripted transport.

use std::sync::Arc;

use plugin_api::Status;

use super::{CommError, Engine, Plan, Plane, Scope, Ticket};
use crate::crt::{Busy, Source};
use crate::loader::{Transport, scripted};
use crate::mailbox::line_tests::pair;

/// Bytes that no message holds.
const LONG: usize = 4096;

/// A rank of the two.
struct Rank {
    engine: Engine,
    busy: Busy,
    scope: Arc<Scope>,
}

impl Rank {
    /// Starts a collective, whose buffers the test keeps.
    fn start(&self, build: impl FnOnce(&mut Plan)) -> Ticket {
        let number = (Plane::User, self.scope.next(Plane::User));
        // SAFETY: every test below keeps the buffers until its end.
        unsafe { self.engine.start("test", &self.scope, number, build) }.unwrap()
    }
}

fn ranks(transport: &Transport) -> [Rank; 2] {
    let mut me = 0..;
    pair(transport).map(|mailbox| {
        let busy = Busy::default();
        Rank {
            engine: Engine::new(transport, mailbox, 2, &busy),
            busy,
            scope: Arc::new(Scope::new(vec![0, 1], me.next().unwrap(), 0)),
        }
    })
}

/// Makes progress as the process does: of the transport, and of the engines that are busy.
fn progress(transport: &Transport, ranks: &[Rank; 2]) {
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
    let ranks = ranks(&transport);
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
    let mut ranks = ranks(&transport);
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
        rank.scope = Arc::new(Scope::new(vec![0, 1], me, 1));
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
    ranks[0]
        .engine
        .detach(ranks[0].start(|plan| plan.signal(1)));
    progress(&transport, &ranks);
    assert!(matches!(ranks[1].engine.test(copies), Some(Ok(()))));
    assert!(found == own);
    ranks[0].engine.detach(sends);
}
