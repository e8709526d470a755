//! The detector with a scripted clock: each transition of a peer's state.

use super::*;
use crate::detector::LONG;
use crate::peer::outstanding::Phase;
use crate::peer::route::{Facts, Route};
use crate::peer::share::Share;
use crate::peer::table::Placed;

const LIMIT: u64 = 1000;

/// A detector, and peers with the numbers from 0 on.
struct Scene {
    watches: Watches,
    known: Endpoints,
    time: u64,
}

impl Scene {
    fn new(limit: u64, peers: u64) -> Scene {
        let mut known = Endpoints::new(1);
        for proc in 0..peers {
            let peer = Endpoint::new(0, proc, Route::decide(Facts::default()));
            known.insert(Placed::Remote(peer)).unwrap();
        }
        // The interval is so long that all time counts.
        let watches = Watches::new(limit, u64::MAX);
        let mut scene = Scene {
            watches,
            known,
            time: 0,
        };
        scene.pass(LOOK);
        scene
    }

    fn peer(&self, proc: u64) -> &Endpoint {
        // SAFETY: the table is live.
        unsafe { self.known.find(proc).unwrap().as_ref() }
    }

    /// Posts an operation to a peer.
    fn post(&self, proc: u64) -> Phase {
        self.peer(proc).raise(Share::ONLY, false)
    }

    fn complete(&self, proc: u64, posted: Phase) {
        let pair = self.peer(proc).pair(Share::ONLY, false);
        pair.lower(posted, 1, false);
    }

    /// Lets `milliseconds` milliseconds pass, in looks of at most a second. Returns the actions of the last look.
    fn pass(&mut self, milliseconds: u64) -> Vec<(u64, Action)> {
        let mut left = milliseconds;
        loop {
            let passed = left.min(LOOK);
            left -= passed;
            self.time += passed;
            let second = self.watches.tick(self.time);
            let actions = match second || self.watches.limit > 0 {
                true => self.watches.look(&self.known, true),
                false => Vec::new(),
            };
            if left == 0 {
                // SAFETY: the table is live.
                let proc = |peer: NonNull<Endpoint>| unsafe { peer.as_ref() }.proc;
                return actions.into_iter().map(|(p, a)| (proc(p), a)).collect();
            }
            assert_eq!(actions, [], "with {left} ms to pass");
        }
    }

    fn process(&mut self, state: State, gone: Option<&str>, missed: bool) -> Option<Action> {
        let gone = (gone.map(str::to_owned), missed);
        // SAFETY: the table is live.
        let peer = unsafe { self.known.find(0).unwrap().as_ref() };
        self.watches.process(peer, state, gone)
    }

    fn refuse(&mut self) {
        // SAFETY: the table is live.
        let peer = unsafe { self.known.find(0).unwrap().as_ref() };
        self.watches.suspect(peer);
    }

    fn heartbeats(&mut self, asked: &[u64]) {
        self.watches.heartbeats.asked = asked.iter().copied().collect();
    }

    fn is_watched(&self, proc: u64) -> bool {
        self.watches.peers.contains_key(&proc)
    }
}

fn fails(actions: &[(u64, Action)]) -> bool {
    matches!(actions, [(0, Action::Fail(Cause::Silent, _))])
}

/// A peer goes from alive over stalled to suspect, and back.
#[test]
fn silence_is_told_ever_more_rarely() {
    let mut scene = Scene::new(0, 1);
    let posted = scene.post(0);
    assert_eq!(scene.pass(LOOK), [], "the first look");
    for (passed, lasted) in [(10_000, 10_000), (20_000, 30_000), (60_000, 90_000)] {
        assert_eq!(scene.pass(passed), [(0, Action::Warn(lasted))]);
    }
    scene.complete(0, posted);
    assert_eq!(scene.pass(LOOK), [(0, Action::Welcome(90_000))]);
    assert!(!scene.is_watched(0));
}

/// A peer goes from stalled to alive.
#[test]
fn short_silences_are_not_told() {
    let mut scene = Scene::new(0, 1);
    let mut posted = scene.post(0);
    scene.pass(LOOK);
    for _ in 0..10 {
        assert_eq!(scene.pass(9 * LOOK), []);
        let next = scene.post(0);
        scene.complete(0, posted);
        posted = next;
        assert_eq!(scene.pass(LOOK), []);
    }
}

/// The counts of a peer show its completions, even if other operations to it are outstanding.
#[test]
fn peers_are_judged_by_their_counts() {
    let mut scene = Scene::new(0, 1);
    scene.pass(FIRST);
    assert!(!scene.is_watched(0), "nothing is outstanding");
    let (first, second) = (scene.post(0), scene.post(0));
    scene.pass(LOOK);
    for posted in [first, second] {
        assert_eq!(scene.pass(FIRST), [(0, Action::Warn(FIRST))]);
        scene.complete(0, posted);
        assert_eq!(scene.pass(LOOK), [(0, Action::Welcome(FIRST))]);
    }
    assert!(!scene.is_watched(0));
}

/// A peer goes from stalled to failed. Only peers that owe an answer are kept.
#[test]
fn idle_peers_of_other_nodes_are_not_kept() {
    let mut scene = Scene::new(LIMIT, 100);
    let busy = scene.post(0);
    assert_eq!(scene.pass(0), [], "the first look");
    assert_eq!(scene.watches.peers.len(), 1);
    assert_eq!(scene.pass(LIMIT - 1), []);
    assert!(fails(&scene.pass(1)));
    scene.complete(0, busy);
    assert_eq!(scene.pass(LIMIT), []);
    assert_eq!(scene.watches.peers.len(), 0);
    let _later = scene.post(0);
    assert_eq!(scene.pass(LIMIT), [], "its silence begins anew");
}

/// With more peers than one pass checks, each peer gets its turn, and every pass checks the peers that owe an answer.
#[test]
fn other_peers_have_their_turn() {
    let peers = 2 * REMOTE as u64 + 7;
    let mut scene = Scene::new(LIMIT, peers);
    // The look in `new` began with the first part of the peers.
    let last = scene.post(peers - 1);
    scene.pass(0);
    assert!(!scene.is_watched(peers - 1), "the second part");
    scene.pass(0);
    assert!(scene.is_watched(peers - 1));
    let early = scene.post(0);
    scene.pass(LIMIT - 1);
    assert!(scene.is_watched(0));
    let failed = scene.pass(1);
    assert!(matches!(failed[..], [(proc, Action::Fail(..))] if proc == peers - 1));
    scene.complete(peers - 1, last);
    assert!(fails(&scene.pass(LIMIT - 1)));
    scene.complete(0, early);
}

/// Completed parts of an operation prove that the peer lives, although the operation itself is outstanding and its later
/// parts count in another phase.
#[test]
fn parts_prove_life() {
    let mut scene = Scene::new(LIMIT, 1);
    let whole = scene.post(0);
    scene.pass(0);
    for _ in 0..10 {
        let part = scene.post(0);
        scene.complete(0, part);
        scene.peer(0).part_completed();
        assert_eq!(scene.pass(LIMIT), []);
    }
    assert!(fails(&scene.pass(LIMIT)));
    scene.complete(0, whole);
}

/// While an operation waits for a copy that this process makes, the time is not its peer's silence. The wait does not end
/// an earlier silence either.
#[test]
fn copies_of_this_process_are_no_silence() {
    let mut scene = Scene::new(LIMIT, 1);
    let whole = scene.post(0);
    scene.pass(0);
    assert_eq!(scene.pass(LIMIT - 1), []);
    for _ in 0..10 {
        scene.peer(0).waits_for_copy();
        assert_eq!(scene.pass(LIMIT), []);
    }
    assert!(fails(&scene.pass(1)));
    scene.complete(0, whole);

    let mut scene = Scene::new(0, 1);
    let posted = scene.post(0);
    scene.pass(LOOK);
    scene.peer(0).waits_for_copy();
    assert_eq!(scene.pass(LOOK), []);
    assert_eq!(scene.pass(FIRST), [(0, Action::Warn(FIRST))]);
    scene.peer(0).waits_for_copy();
    scene.pass(LOOK);
    scene.complete(0, posted);
    assert_eq!(scene.pass(LOOK), [(0, Action::Welcome(FIRST))]);
}

/// Events of a peer between the tick of a check and the check's look count from the tick on.
#[test]
fn peers_are_watched_from_the_tick_of_a_check_on() {
    for copies in [false, true] {
        let mut scene = Scene::new(LIMIT, 1);
        scene.time += LIMIT;
        scene.watches.tick(scene.time);
        let posted = copies.then(|| scene.post(0));
        scene.refuse();
        if copies {
            scene.peer(0).waits_for_copy();
        } else {
            scene.watches.activity(1, 0);
        }
        assert_eq!(scene.pass(0), []);
        assert_eq!(scene.is_watched(0), copies);
        if let Some(posted) = posted {
            assert_eq!(scene.pass(LIMIT - 1), []);
            assert!(fails(&scene.pass(1)));
            scene.complete(0, posted);
        }
    }
}

/// A peer has more time while a long transfer to it is outstanding, and no extra time after the
/// transfer is complete.
#[test]
fn long_transfers_have_more_time() {
    let mut scene = Scene::new(LIMIT, 1);
    let transfer = scene.post(0);
    // SAFETY: the table is live.
    let peer = unsafe { scene.known.find(0).unwrap().as_ref() };
    scene.watches.long.add(peer, 16 * LONG);
    let more = scene.watches.long.time_of(peer);
    assert!(more > 0);
    let silence_of = |scene: &mut Scene| (0..10 * LIMIT).find(|_| fails(&scene.pass(1)));
    let lasted = silence_of(&mut scene);
    assert!(lasted.is_some_and(|lasted| lasted >= LIMIT + more));
    scene.complete(0, transfer);
    scene.pass(1);
    let _small = scene.post(0);
    let lasted = silence_of(&mut scene);
    assert!(lasted.is_some_and(|lasted| lasted < LIMIT + 10));
}

/// A remote peer is silent while it answers no heartbeat, even if nothing is outstanding to it.
#[test]
fn peers_that_answer_no_heartbeat_are_silent() {
    let mut scene = Scene::new(LIMIT, 1);
    scene.heartbeats(&[0]);
    scene.pass(0);
    assert_eq!(scene.pass(LIMIT - 1), []);
    let failed = scene.pass(1);
    assert!(matches!(&failed[..], [(0, Action::Fail(_, why))] if why.contains("heartbeat")));
    scene.pass(0);
    scene.heartbeats(&[]);
    assert_eq!(scene.pass(LIMIT), []);
    assert!(!scene.is_watched(0));
}

/// The silence after a heartbeat lasts while operations are posted, until one of them completes.
#[test]
fn operations_do_not_end_the_silence_of_a_heartbeat() {
    let mut scene = Scene::new(0, 1);
    scene.heartbeats(&[0]);
    scene.pass(LOOK);
    assert_eq!(scene.pass(FIRST), [(0, Action::Warn(FIRST))]);
    let posted = scene.post(0);
    assert_eq!(scene.pass(3 * LOOK), []);
    scene.heartbeats(&[]);
    scene.complete(0, posted);
    let lasted = FIRST + 3 * LOOK;
    assert_eq!(scene.pass(LOOK), [(0, Action::Welcome(lasted))]);
    assert!(!scene.is_watched(0));
}

/// A stopped process fails even if nothing is outstanding; a process that continues in time does not
/// fail.
#[test]
fn stopped_processes_fail_in_time() {
    let mut scene = Scene::new(LIMIT, 1);
    for _ in 0..3 {
        assert_eq!(scene.process(State::Stopped, None, false), None);
        assert_eq!(scene.pass(LIMIT - 1), []);
        assert_eq!(scene.process(State::Runs, None, false), None);
        assert_eq!(scene.pass(LIMIT), []);
        assert!(!scene.is_watched(0));
    }
    scene.process(State::Stopped, None, false);
    scene.pass(LIMIT - 1);
    scene.process(State::Stopped, None, false);
    assert!(fails(&scene.pass(1)));
    let mut scene = Scene::new(0, 1);
    assert_eq!(scene.process(State::Stopped, None, false), None);
    assert!(!scene.is_watched(0), "there is no peer timeout");
}

/// A peer whose process is dead is first `Doubted`, and fails if it is missed or owes an answer.
#[test]
fn processes_that_are_gone_fail_if_missed() {
    let mut scene = Scene::new(0, 1);
    let gone = |scene: &mut Scene, missed| scene.process(State::Gone, Some("it ended"), missed);
    let failure = Some(Action::Fail(Cause::Gone, "it ended".to_owned()));
    assert_eq!(gone(&mut scene, false), Some(Action::Doubt));
    assert_eq!(gone(&mut scene, true), failure);
    let posted = scene.post(0);
    assert_eq!(gone(&mut scene, false), failure);
    scene.complete(0, posted);
}

/// A peer that failed or was released is no longer watched.
#[test]
fn peers_that_end_are_forgotten() {
    let mut scene = Scene::new(LIMIT, 3);
    let _posted: Vec<_> = (0..3).map(|proc| scene.post(proc)).collect();
    scene.pass(0);
    scene.peer(0).fail(plugin_api::Status::UNREACH);
    scene.watches.abandon(1);
    scene.known.remove(1, true);
    scene.pass(0);
    assert_eq!(scene.watches.peers.keys().collect::<Vec<_>>(), [&2]);
}

/// The time that this process spends outside of progress counts as no peer's silence.
#[test]
fn time_spent_elsewhere_does_not_count() {
    let mut watches = Watches::new(LIMIT, 10);
    for (at, clock) in [(5, (5, 5)), (5000, (15, 1005)), (5010, (25, 1015))] {
        watches.tick(at);
        let Clock { silent, told } = watches.now;
        assert_eq!((silent, told), clock);
    }
}

/// A peer goes from refused to failed. Time without posts does not count, and every operation that the provider takes or
/// ends is a sign of life.
#[test]
fn a_provider_that_takes_nothing_is_found() {
    let mut scene = Scene::new(LIMIT, 1);
    scene.refuse();
    assert_eq!(scene.pass(LIMIT - 1), []);
    assert_eq!(scene.pass(LIMIT), [], "nobody posts");
    scene.refuse();
    let failed = scene.pass(1);
    assert!(
        matches!(&failed[..], [(0, Action::Fail(Cause::Silent, why))] if why.contains("accepted"))
    );
    scene.refuse();
    assert_eq!(scene.pass(LIMIT - 1), []);
    scene.watches.activity(1, 0);
    scene.refuse();
    assert_eq!(scene.pass(1), [], "it took one");
    assert!(!scene.is_watched(0));
    scene.refuse();
    let posted = scene.post(0);
    scene.watches.activity(2, 0);
    assert_eq!(scene.pass(LIMIT - 1), [], "its counts tell");
    assert!(fails(&scene.pass(1)));
    scene.complete(0, posted);

    let mut scene = Scene::new(0, 1);
    for _ in 0..9 {
        scene.refuse();
        assert_eq!(scene.pass(LOOK), []);
    }
    scene.refuse();
    assert_eq!(scene.pass(LOOK), [(0, Action::Warn(FIRST))]);
}

/// A peer that is suspect because of a refused post has extra time for the long transfers of all
/// peers.
#[test]
fn long_transfers_keep_a_provider_busy() {
    let mut scene = Scene::new(LIMIT, 2);
    let transfer = scene.post(1);
    // SAFETY: the table is live.
    let peer = unsafe { scene.known.find(1).unwrap().as_ref() };
    scene.watches.long.add(peer, 16 * LONG);
    scene.refuse();
    scene.pass(0);
    scene.peer(1).part_completed();
    scene.refuse();
    assert_eq!(scene.pass(LIMIT), []);
    scene.refuse();
    assert!(fails(&scene.pass((16 * LONG) as u64 / 4096)));
    scene.complete(1, transfer);
}

/// Heartbeats are due while contexts do nothing.
#[test]
fn heartbeats_are_due_while_contexts_do_nothing() {
    let mut watches = Watches::new(0, u64::MAX);
    let (mut time, mut done) = (0, 0);
    let mut step = |more| {
        time += 1000;
        watches.tick(time);
        done += more;
        watches.activity(done, 0);
        watches.beats()
    };
    let due = [1, 0, 0, 0, 0, 1, 0, 0].map(&mut step);
    assert_eq!(due, [false, false, true, false, true, false, false, true]);
}

/// A peer's connection that waits for 10 s ends the module, unless it is accepted.
#[test]
fn connections_that_wait_are_found() {
    let mut watches = Watches::new(0, u64::MAX);
    let mut time = 0;
    let mut step = |waits| {
        time += LOOK;
        assert!(watches.tick(time));
        watches.connection(waits)
    };
    step(false);
    for _ in 0..2 {
        assert!((1..10).all(|_| step(true).is_none()));
        assert_eq!(step(false), None);
    }
    assert!((1..10).all(|_| step(true).is_none()));
    assert_eq!(step(true), Some(FIRST));
}

#[test]
fn turns_reach_all_places() {
    let mut turn = Turn::default();
    let all: Vec<_> = (0..5).map(|_| turn.next(10, 4)).collect();
    assert_eq!(all, [0..4, 4..8, 8..12, 0..4, 4..8]);
    assert_eq!(turn.next(3, 4), 0..4, "fewer");
}
