//! The meeting of the ranks of a window: each rank gives its card, with its offer behind it, in the first exchange. One
//! exchange is enough among processes that know each other. A rank that meets others for the first time gives its address in
//! the place of the offer. Then all ranks tell in a second exchange whether they reach all others, and such a rank gives its
//! offer there.
//!
//! All ranks see the same cards, so the meeting ends in the same way on all ranks. A rank with a reason to refuse gives
//! the reason in the place of an address, and no offer.

use std::ffi::c_int;

use osc_engine::door::NotMet;

use crate::osc::card::{Card, State};
use crate::osc::transport::Scope;

/// Bytes that one exchange carries of each rank: the card, and an address or an offer. A rank with more bytes makes another
/// exchange necessary. Up to 256 bytes Open MPI sends at once within a node (`btl_vader_max_inline_send`): two ranks exchange
/// them in 0.5 us instead of 1.0.
const ONE_EXCHANGE: usize = 256 - LENGTH;
/// Bytes of the number of bytes before them.
const LENGTH: usize = 4;
/// Longest reason that a rank sends.
const REASON: usize = 400;
/// First byte of the second exchange from a rank that reaches all others; the bytes of another rank are its reason.
const CONNECTED: u8 = 0;

/// Gives every rank the bytes of all ranks, one after the other. All ranks give the same number of bytes. The
/// error is Open MPI's code.
pub(crate) type Exchange<'a> = &'a dyn Fn(&[u8]) -> Result<Vec<u8>, c_int>;

/// A rank's contribution to the first exchange.
pub(crate) struct Contribution<'a> {
    pub(crate) card: Card,
    /// The address of a rank that meets others, or the reason of a refusal.
    pub(crate) text: &'a [u8],
    /// The offer of the engine.
    pub(crate) offer: &'a [u8],
}

/// The reason why there is no window of this component. All ranks get the same reason, except after
/// a failed exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// An exchange failed, with this code of Open MPI: nothing can be agreed on.
    Code(c_int),
    /// A rank cannot take part.
    Refused { rank: usize, reason: String },
    /// A rank cannot take part in a window with device memory on some rank. Other components would mistake this
    /// memory for host memory.
    OnDevice { rank: usize, reason: String },
    /// All ranks prefer a window of osc/ucx.
    ServedBetter,
    /// Some ranks proposed the transport of a node, and other ranks did not, or were not reached. All ranks meet again by
    /// the transport that reaches all. Contains the rank that was not reached, and the reason.
    BeyondNode(Option<(usize, String)>),
    /// Hints differ between ranks, so they have no effect. All ranks meet again without hints.
    HintsDiffer,
}

impl Ended {
    /// The refusal of a rank with this answer.
    pub(crate) fn refused(cards: &[Card], rank: usize, reason: String) -> Ended {
        match cards.iter().any(|card| card.on_device) {
            true => Ended::OnDevice { rank, reason },
            false => Ended::Refused { rank, reason },
        }
    }

    /// The end in the engine's terms. [`select`](crate::osc::select) reads the end itself.
    pub(crate) fn not_met(&self) -> NotMet {
        let (rank, reason) = match self {
            Ended::Code(code) => {
                return NotMet::Failed(format!("Open MPI's allgather failed with {code}"));
            }
            Ended::Refused { rank, reason } | Ended::OnDevice { rank, reason } => {
                (*rank, reason.clone())
            }
            Ended::ServedBetter => (0, "osc/ucx serves the window better".to_owned()),
            Ended::BeyondNode(_) | Ended::HintsDiffer => (0, "the ranks meet again".to_owned()),
        };
        NotMet::Refused { rank, reason }
    }
}

impl From<c_int> for Ended {
    fn from(code: c_int) -> Ended {
        Ended::Code(code)
    }
}

/// Meets the other ranks. Returns their cards and the offers of their engines. `connect` connects the ranks that this rank
/// does not know, by their addresses. `with_hints` says that hints must not differ. Collective.
pub(crate) fn meet(
    ranks: usize,
    mine: &Contribution<'_>,
    with_hints: bool,
    exchange: Exchange<'_>,
    connect: impl FnOnce(&[&[u8]]) -> Result<(), String>,
) -> Result<(Vec<Card>, Vec<Vec<u8>>), Ended> {
    let Contribution { card, text, offer } = mine;
    let (now, later) = match card.state {
        State::Meets => (&[][..], *offer),
        State::Knows | State::Refuses => (*offer, &[][..]),
    };
    let all = to_all(ranks, &[&card.encode(), *text, now].concat(), exchange)?;
    let mut cards = Vec::with_capacity(ranks);
    let mut texts = Vec::with_capacity(ranks);
    let mut offers = Vec::with_capacity(ranks);
    for (rank, bytes) in all.iter().enumerate() {
        let found = bytes.split_first_chunk().and_then(|(card, rest)| {
            let card = Card::decode(card);
            let (text, offer) = rest.split_at_checked(card.length as usize)?;
            Some((card, text, offer.to_vec()))
        });
        let Some((card, text, offer)) = found else {
            let reason = format!("its card of {} B is cut short", bytes.len());
            return Err(Ended::Refused { rank, reason });
        };
        cards.push(card);
        texts.push(text);
        offers.push(offer);
    }
    let scope = card.scope;
    if cards.iter().any(|card| card.scope != scope) {
        return Err(Ended::BeyondNode(None));
    }
    if cards.iter().all(|card| card.prefers_ucx) {
        return Err(Ended::ServedBetter);
    }
    if let Some(rank) = cards.iter().position(|card| card.state == State::Refuses) {
        let reason = String::from_utf8_lossy(texts[rank]).into_owned();
        return Err(Ended::refused(&cards, rank, reason));
    }
    if with_hints && cards.iter().any(|other| other.hints != card.hints) {
        return Err(Ended::HintsDiffer);
    }
    if cards.iter().all(|card| card.state == State::Knows) {
        return Ok((cards, offers));
    }
    let mine = match connect(&texts) {
        Ok(()) => [&[CONNECTED], later].concat(),
        Err(reason) => shortened(&reason).to_vec(),
    };
    for (rank, mut bytes) in to_all(ranks, &mine, exchange)?.into_iter().enumerate() {
        if bytes.first() != Some(&CONNECTED) {
            let reason = String::from_utf8_lossy(&bytes).into_owned();
            return Err(match scope {
                Scope::Node => Ended::BeyondNode(Some((rank, reason))),
                Scope::All => Ended::refused(&cards, rank, reason),
            });
        }
        if cards[rank].state == State::Meets {
            offers[rank] = bytes.split_off(1);
        }
    }
    Ok((cards, offers))
}

/// The beginning of a reason, as far as a rank sends it.
pub(crate) fn shortened(reason: &str) -> &[u8] {
    &reason.as_bytes()[..reason.len().min(REASON)]
}

/// Gives every rank the bytes of all ranks, of any length. Collective: the ranks make another exchange if a rank has more bytes
/// than the first exchange carries.
pub(crate) fn to_all(
    ranks: usize,
    mine: &[u8],
    exchange: Exchange<'_>,
) -> Result<Vec<Vec<u8>>, c_int> {
    let mut first = [0u8; LENGTH + ONE_EXCHANGE];
    first[..LENGTH].copy_from_slice(&(mine.len() as u32).to_ne_bytes());
    let (here, more) = mine.split_at(mine.len().min(ONE_EXCHANGE));
    first[LENGTH..LENGTH + here.len()].copy_from_slice(here);
    let all = exchange(&first)?;
    let mut given: Vec<(usize, Vec<u8>)> = all
        .chunks_exact(first.len())
        .take(ranks)
        .map(|one| {
            let mut length = [0; LENGTH];
            length.copy_from_slice(&one[..LENGTH]);
            let length = u32::from_ne_bytes(length) as usize;
            let here = length.min(ONE_EXCHANGE);
            (length, one[LENGTH..LENGTH + here].to_vec())
        })
        .collect();
    let most = given.iter().map(|(length, _)| *length).max().unwrap_or(0);
    if most > ONE_EXCHANGE {
        let mut rest = vec![0u8; most - ONE_EXCHANGE];
        rest[..more.len()].copy_from_slice(more);
        let all = exchange(&rest)?;
        for ((length, bytes), more) in given.iter_mut().zip(all.chunks(rest.len())) {
            let missing = length.saturating_sub(bytes.len());
            bytes.extend_from_slice(&more[..missing]);
        }
    }
    Ok(given.into_iter().map(|(_, bytes)| bytes).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex};

    use super::*;

    type Outcome = Result<(Vec<Card>, Vec<Vec<u8>>), Ended>;

    /// A rank of a test.
    struct Rank {
        card: Card,
        text: Vec<u8>,
        offer: Vec<u8>,
        with_hints: bool,
        /// The result of connecting.
        connects: Result<(), String>,
    }

    fn rank(state: State, text: &str) -> Rank {
        Rank {
            card: Card {
                state,
                length: text.len() as u32,
                has_memory: true,
                on_device: false,
                prefers_ucx: false,
                scope: Scope::All,
                unit: 8,
                hints: 3,
            },
            text: text.as_bytes().to_vec(),
            offer: Vec::new(),
            with_hints: true,
            connects: Ok(()),
        }
    }

    fn knows() -> Rank {
        rank(State::Knows, "")
    }

    /// Has these ranks meet. Returns the end of the meeting for each rank, the addresses with which each rank connects,
    /// and the number of exchanges.
    fn met(ranks: &[Rank]) -> (Vec<Outcome>, Vec<Vec<String>>, usize) {
        let given = Mutex::new(vec![Vec::new(); ranks.len()]);
        let (barrier, exchanges) = (Barrier::new(ranks.len()), AtomicUsize::new(0));
        let exchange = |own: usize, mine: &[u8]| {
            given.lock().unwrap()[own] = mine.to_vec();
            if barrier.wait().is_leader() {
                exchanges.fetch_add(1, Ordering::Relaxed);
            }
            let all = given.lock().unwrap().concat();
            assert_eq!(all.len(), mine.len() * ranks.len());
            barrier.wait();
            Ok(all)
        };
        let one = |own: usize| {
            let rank = &ranks[own];
            let told = Contribution {
                card: rank.card,
                text: &rank.text,
                offer: &rank.offer,
            };
            let mut addresses = Vec::new();
            let connect = |texts: &[&[u8]]| {
                let texts = texts.iter().map(|text| String::from_utf8_lossy(text));
                addresses.extend(texts.map(std::borrow::Cow::into_owned));
                rank.connects.clone()
            };
            let exchange = |mine: &[u8]| exchange(own, mine);
            let outcome = meet(ranks.len(), &told, rank.with_hints, &exchange, connect);
            (outcome, addresses)
        };
        let (outcomes, addresses) = std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = (0..ranks.len())
                .map(|own| scope.spawn(move || one(own)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .unzip()
        });
        (outcomes, addresses, exchanges.into_inner())
    }

    /// The end of a meeting, the same for all ranks, and the number of exchanges.
    fn ended(ranks: &[Rank]) -> (Ended, usize) {
        let (outcomes, _, exchanges) = met(ranks);
        let mut ends = outcomes.into_iter().map(Result::unwrap_err);
        let first = ends.next().unwrap();
        assert!(ends.all(|end| end == first), "{first:?}");
        (first, exchanges)
    }

    #[test]
    fn ranks_that_know_each_other_need_one_exchange() {
        // The longest offer fills the exchange.
        let offers = [0, 1, ONE_EXCHANGE - Card::SIZE].map(|length| vec![length as u8; length]);
        let ranks = offers.clone().map(|offer| Rank { offer, ..knows() });
        let (outcomes, addresses, exchanges) = met(&ranks);
        assert_eq!(exchanges, 1);
        assert!(addresses.iter().all(Vec::is_empty));
        for outcome in outcomes {
            let (cards, given) = outcome.unwrap();
            assert_eq!(given, offers);
            assert_eq!(cards, ranks.each_ref().map(|rank| rank.card));
        }
        let long = vec![1; ONE_EXCHANGE];
        let ranks = [
            knows(),
            Rank {
                offer: long.clone(),
                ..knows()
            },
        ];
        let (outcomes, _, exchanges) = met(&ranks);
        assert_eq!(exchanges, 2);
        for outcome in outcomes {
            assert_eq!(outcome.unwrap().1, [Vec::new(), long.clone()]);
        }
    }

    #[test]
    fn first_contact_needs_two_exchanges() {
        // The first rank knows the two others, which do not know each other.
        let mut ranks = [
            knows(),
            rank(State::Meets, "second"),
            rank(State::Meets, "third"),
        ];
        let offers = [1, 0, 2].map(|part| vec![7; part * ONE_EXCHANGE / 3]);
        for (rank, offer) in ranks.iter_mut().zip(&offers) {
            rank.offer.clone_from(offer);
        }
        let (outcomes, addresses, exchanges) = met(&ranks);
        assert_eq!(exchanges, 2);
        for (outcome, addresses) in outcomes.into_iter().zip(addresses) {
            assert_eq!(outcome.unwrap().1, offers);
            assert_eq!(addresses, ["", "second", "third"]);
        }
    }

    #[test]
    fn a_connection_that_fails_is_known_to_all() {
        let mut ranks = [
            knows(),
            rank(State::Meets, "second"),
            rank(State::Meets, "third"),
        ];
        let long = "rank 1 is not reached: ".repeat(90);
        ranks[2].connects = Err(long.clone());
        let (end, exchanges) = ended(&ranks);
        let reason = long[..REASON].to_owned();
        assert_eq!(
            (end, exchanges),
            (
                Ended::Refused {
                    rank: 2,
                    reason: reason.clone()
                },
                // A long reason takes one exchange more.
                3
            )
        );
        ranks[0].card.on_device = true;
        assert_eq!(
            ended(&ranks).0,
            Ended::OnDevice {
                rank: 2,
                reason: reason.clone()
            }
        );
        for rank in &mut ranks {
            rank.card.scope = Scope::Node;
        }
        assert_eq!(ended(&ranks).0, Ended::BeyondNode(Some((2, reason))));
    }

    #[test]
    fn a_refusal_reaches_all_in_one_exchange() {
        let mut ranks = [
            knows(),
            rank(State::Meets, "second"),
            rank(State::Refuses, "no provider"),
        ];
        ranks[0].offer = vec![7; 200];
        let refusal = |rank, reason: &str| Ended::Refused {
            rank,
            reason: reason.to_owned(),
        };
        assert_eq!(ended(&ranks), (refusal(2, "no provider"), 1));
        // The card announces more bytes than come with it.
        ranks[1].card.length = 9;
        let cut = "its card of 26 B is cut short";
        assert_eq!(ended(&ranks), (refusal(1, cut), 1));
    }

    #[test]
    fn ranks_that_differ_try_again() {
        let mut ranks = [knows(), knows(), rank(State::Meets, "third")];
        ranks[1].card.hints = 4;
        assert_eq!(ended(&ranks), (Ended::HintsDiffer, 1));
        for rank in &mut ranks {
            rank.with_hints = false;
        }
        let (outcomes, _, exchanges) = met(&ranks);
        assert!(outcomes.iter().all(Result::is_ok));
        assert_eq!(exchanges, 2);
        ranks[1].card.scope = Scope::Node;
        assert_eq!(ended(&ranks), (Ended::BeyondNode(None), 1));
    }

    #[test]
    fn another_component_needs_all_to_prefer_it() {
        let mut ranks = [knows(), knows()];
        ranks[0].card.prefers_ucx = true;
        assert!(met(&ranks).0.iter().all(Result::is_ok));
        ranks[1].card.prefers_ucx = true;
        assert_eq!(ended(&ranks), (Ended::ServedBetter, 1));
    }
}
