//! Silent peers: while operations to a peer are outstanding and none completes, or while it answers no heartbeat, a warning
//! says so after 10 s, then ever more rarely, and another one says when the peer answers again. Whether a silent peer is given up is
//! decided by `btl_ofi_peer_timeout` (`engine::liveness`). One cause of silence is certain, and ends the module: a connection of a
//! peer waits for 10 s because this process has no descriptor for it.
//! Only time in which this process polls counts, and in which no operation to
//! the peer waits for a copy of this process.

use std::collections::HashMap;

use crate::base::descriptors;
use crate::engine::liveness::Watches;
use crate::engine::transport::Transport;
use crate::peer::endpoint::{COPY_FOR_WARNINGS, Endpoint, PART_FOR_WARNINGS};
use crate::peer::outstanding::{Backlog, Mark};

/// Milliseconds between two looks at all peers, of which there may be a million.
const LOOK: u64 = 1000;
/// Milliseconds of silence after which it is told for the first time.
const FIRST: u64 = 10_000;
/// Each time that it is told comes after so many times the silence before.
const FACTOR: u64 = 3;
/// Most peers that one look tells of, so that a network that is gone fills no log.
const MOST: usize = 3;

/// Peers with something to answer for which there is room from the start, so that a look, which any call of progress may
/// begin, allocates nothing in most jobs.
const ROOM: usize = 28;

/// The peers that have something to answer, by process number.
#[derive(Debug)]
pub(crate) struct Silences {
    peers: HashMap<u64, (Silence, Option<Counted>)>,
    /// Milliseconds since the last look.
    passed: u64,
    /// For so many milliseconds a connection of a peer has waited for a descriptor of this process.
    unaccepted: u64,
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
enum News {
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
    fn look(&mut self, peer: &Endpoint, asked: bool, passed: u64) -> Option<News> {
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

    pub(crate) fn forget(&mut self, proc: u64) {
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

impl Transport {
    /// Tells of silent peers, `elapsed` milliseconds after the last call. What is longer than a look is time spent elsewhere.
    /// Checks are further apart than their interval where polls are slow (sockets, few processors), and nothing is given up
    /// here: so more of it counts than in `engine::liveness`.
    #[cold]
    pub(crate) fn tell_of_silence(&self, elapsed: u64) {
        let mut news: Vec<(u64, u32, News)> = Vec::new();
        let unaccepted;
        {
            let mut peers = self.lock_peers();
            let peers = &mut *peers;
            let Watches {
                silences,
                heartbeats,
                ..
            } = &mut peers.watches;
            silences.passed += elapsed.min(LOOK);
            if silences.passed < LOOK {
                return;
            }
            let passed = std::mem::take(&mut silences.passed);
            let waits = self
                .device
                .name()
                .is_ok_and(descriptors::keep_a_peer_waiting);
            silences.unaccepted = if waits {
                silences.unaccepted + passed
            } else {
                0
            };
            unaccepted = silences.unaccepted;
            for peer in peers.known.iter() {
                if peer.failure().is_some() {
                    silences.forget(peer.proc);
                } else if let Some(found) = silences.look(peer, heartbeats.awaits(peer), passed) {
                    news.push((peer.proc, peer.total().outstanding(), found));
                }
            }
        }
        let of = &self.failures.of;
        let silent = news
            .iter()
            .any(|(.., news)| matches!(news, News::Silent(_)));
        let short = silent.then(descriptors::shortage).flatten();
        let short = short.map_or_else(String::new, |short| format!("; {short}"));
        for (proc, outstanding, news) in news.iter().take(MOST) {
            match news {
                News::Silent(lasted) => {
                    let waits = match outstanding {
                        0 => String::from("this process waits"),
                        n => format!("{n} operations to it are outstanding"),
                    };
                    tracing::warn!(
                        "{of}process {proc} has not answered for {} s, {waits}: it computes without communicating, is \
                         stopped, or its host or the network is down (btl_ofi_peer_timeout would give it up){short}",
                        lasted / 1000
                    );
                }
                News::Answers(lasted) => {
                    tracing::warn!(
                        "{of}process {proc} answers again, after {} s",
                        lasted / 1000
                    );
                }
            }
        }
        if unaccepted >= FIRST {
            self.lose_provider(&format!(
                "a peer has waited {} s for this process to accept its connection, for which no descriptor is left: raise the hard \
                 limit (ulimit -Hn) where the job starts",
                unaccepted / 1000
            ));
        }
        if news.len() > MOST {
            tracing::warn!("the same holds for {} other processes", news.len() - MOST);
        }
    }
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
