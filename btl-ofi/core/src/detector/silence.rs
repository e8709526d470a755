//! Silent peers: while operations to a peer are outstanding and none completes, or while it answers no heartbeat, a warning
//! says so after 10 s, then ever more rarely, and another one says when the peer answers again. Whether a silent peer fails is
//! decided by `btl_ofi_peer_timeout` (`engine::liveness`). One cause of silence is certain, and ends the module: a connection of a
//! peer waits for 10 s because this process has no descriptor for it (`detector::silence`).
//! Only time in which this process polls counts, and in which no operation to
//! the peer waits for a copy of this process.

use std::collections::HashMap;

use crate::peer::endpoint::{COPY_FOR_WARNINGS, Endpoint, PART_FOR_WARNINGS};
use crate::peer::outstanding::{Backlog, Mark};

/// Milliseconds between two looks at all peers, of which there may be a million.
pub(crate) const LOOK: u64 = 1000;
/// Milliseconds of silence after which it is told for the first time.
pub(crate) const FIRST: u64 = 10_000;
/// Each time that it is told comes after so many times the silence before.
const FACTOR: u64 = 3;
/// Peers with something to answer for which there is room from the start, so that a look, which any call of progress may
/// begin, allocates nothing in most jobs.
const ROOM: usize = 28;

/// The peers that have something to answer, by process number.
#[derive(Debug)]
pub(crate) struct Silences {
    peers: HashMap<u64, (Silence, Option<Counted>)>,
    /// Milliseconds since the last look.
    pub(crate) passed: u64,
    /// For so many milliseconds a connection of a peer has waited for a descriptor of this process.
    pub(crate) unaccepted: u64,
}

/// What a peer's counts were at the last look, if operations were outstanding.
type Counted = (Mark, Backlog);

/// The silence of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Silence {
    /// Milliseconds without a completion.
    lasted: u64,
    /// When it is told next.
    next: u64,
}

/// What is to be told of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It has not answered for so many milliseconds.
    Silent(u64),
    /// It answers again after so many.
    Answers(u64),
}

impl Silence {
    const NONE: Silence = Silence {
        lasted: 0,
        next: FIRST,
    };

    /// Notes that `passed` milliseconds went by, in which operations completed or not.
    fn note(&mut self, passed: u64, completed: bool) -> Option<News> {
        if completed {
            let told = self.next > FIRST;
            let lasted = std::mem::replace(self, Silence::NONE).lasted;
            return told.then_some(News::Answers(lasted));
        }
        self.lasted += passed;
        if self.lasted < self.next {
            return None;
        }
        self.next = self.lasted * FACTOR;
        Some(News::Silent(self.lasted))
    }
}

impl Default for Silences {
    fn default() -> Silences {
        Silences {
            peers: HashMap::with_capacity(ROOM),
            passed: 0,
            unaccepted: 0,
        }
    }
}

impl Silences {
    /// Looks at one peer. `asked`: a heartbeat to it is not answered.
    pub(crate) fn look(&mut self, peer: &Endpoint, asked: bool, passed: u64) -> Option<News> {
        let operations = !peer.is_idle();
        let begun = || operations.then(|| begin(peer));
        let Some((silence, counted)) = self.peers.get_mut(&peer.proc) else {
            if operations || asked {
                self.peers.insert(peer.proc, (Silence::NONE, begun()));
            }
            return None;
        };
        if !operations && !asked {
            let news = silence.note(passed, true);
            self.peers.remove(&peer.proc);
            return news;
        }
        let Some((mark, backlog)) = counted.as_mut().filter(|_| operations) else {
            // Nothing was counted that could tell of an answer.
            *counted = begun();
            return silence.note(passed, false);
        };
        let settled = peer.total().settle(*mark);
        let now = peer.total().backlog();
        let part = peer.take_mark(PART_FOR_WARNINGS);
        let copies = peer.take_mark(COPY_FOR_WARNINGS);
        let completed = settled || part || now.is_less_than(*backlog);
        *backlog = now;
        if settled {
            *counted = begun();
        }
        silence.note(if copies { 0 } else { passed }, completed)
    }

    pub(crate) fn remove(&mut self, proc: u64) {
        self.peers.remove(&proc);
    }
}

/// What later looks at a peer's counts are compared with. The phase of the counts may advance without a completion; it does
/// so here, so that it does not look like one later.
fn begin(peer: &Endpoint) -> (Mark, Backlog) {
    let mark = peer.total().mark();
    peer.total().settle(mark);
    (mark, peer.total().backlog())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::share::Share;

    #[test]
    fn silence_is_told_ever_more_rarely() {
        let mut silence = Silence::NONE;
        let told: Vec<_> = (0..100).filter_map(|_| silence.note(LOOK, false)).collect();
        let wanted = [10_000, 30_000, 90_000].map(News::Silent);
        assert_eq!(told, wanted);
        assert_eq!(silence.note(LOOK, true), Some(News::Answers(100_000)));
        assert_eq!(silence, Silence::NONE);
    }

    #[test]
    fn short_silences_are_not_told() {
        let mut silence = Silence::NONE;
        for _ in 0..10 {
            for _ in 0..9 {
                assert_eq!(silence.note(LOOK, false), None);
            }
            assert_eq!(silence.note(LOOK, true), None);
        }
    }

    /// Completions of a peer are seen by its counts, whether it has others outstanding or not.
    #[test]
    fn peers_are_judged_by_their_counts() {
        use crate::peer::route::{Facts, Route};
        let peer = Endpoint::new(0, 7, Route::decide(Facts::default()));
        let mut silences = Silences::default();
        assert_eq!(silences.look(&peer, false, FIRST), None);
        assert!(silences.peers.is_empty(), "nothing is outstanding");
        let (first, second) = (
            peer.raise(Share::ONLY, false),
            peer.raise(Share::ONLY, false),
        );
        assert_eq!(silences.look(&peer, false, FIRST), None, "the first look");
        assert_eq!(
            silences.look(&peer, false, FIRST),
            Some(News::Silent(FIRST))
        );
        peer.pair(Share::ONLY, false).lower(first, 1, false);
        assert_eq!(
            silences.look(&peer, false, LOOK),
            Some(News::Answers(FIRST))
        );
        assert_eq!(
            silences.look(&peer, false, FIRST),
            Some(News::Silent(FIRST))
        );
        peer.pair(Share::ONLY, false).lower(second, 1, false);
        assert_eq!(
            silences.look(&peer, false, LOOK),
            Some(News::Answers(FIRST))
        );
        assert!(silences.peers.is_empty());
    }

    /// Time in which an operation waits for a copy of this process is not told, and says nothing of an answer.
    #[test]
    fn copies_of_this_process_are_no_silence() {
        use crate::peer::route::{Facts, Route};
        let peer = Endpoint::new(0, 7, Route::decide(Facts::default()));
        let mut silences = Silences::default();
        let posted = peer.raise(Share::ONLY, false);
        assert_eq!(silences.look(&peer, false, FIRST), None, "the first look");
        for _ in 0..3 {
            peer.waits_for_copy();
            assert_eq!(silences.look(&peer, false, FIRST), None);
        }
        let silent = Some(News::Silent(FIRST));
        assert_eq!(silences.look(&peer, false, FIRST), silent);
        peer.waits_for_copy();
        assert_eq!(silences.look(&peer, false, FIRST), None);
        peer.pair(Share::ONLY, false).lower(posted, 1, false);
        let answers = Some(News::Answers(FIRST));
        assert_eq!(silences.look(&peer, false, LOOK), answers);
    }

    /// A heartbeat that is not answered is silence, which operations posted meanwhile do not end.
    #[test]
    fn peers_are_judged_by_heartbeats() {
        use crate::peer::route::{Facts, Route};
        let peer = Endpoint::new(0, 7, Route::decide(Facts::default()));
        let mut silences = Silences::default();
        assert_eq!(silences.look(&peer, true, FIRST), None, "the first look");
        let silent = Some(News::Silent(FIRST));
        assert_eq!(silences.look(&peer, true, FIRST), silent);
        let posted = peer.raise(Share::ONLY, false);
        for _ in 0..3 {
            assert_eq!(silences.look(&peer, true, LOOK), None);
        }
        peer.pair(Share::ONLY, false).lower(posted, 1, false);
        let lasted = FIRST + 3 * LOOK;
        let answers = Some(News::Answers(lasted));
        assert_eq!(silences.look(&peer, false, LOOK), answers);
        assert!(silences.peers.is_empty());
    }
}
