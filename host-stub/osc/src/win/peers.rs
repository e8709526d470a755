//! The ranks of a window, seen from this rank. For each rank only the numbers that differ between ranks are kept; its
//! [`Peer`], with counts of operations and copies of handles, is made at its first use. So a window among many ranks takes few
//! bytes for ranks that this rank never accesses.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use plugin_api::ThreadLevel;

use super::error::{WinError, WinResult};
use super::link::Link;
use super::peer::{Offer, Peer, Reach};
use crate::door::{HOST, Members};

/// The data of a rank for a window, and the address of its memory here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) offer: Offer,
    pub(super) reach: Reach,
    /// Address of its memory here, if a mapped segment contains it.
    pub(super) mapped: Option<u64>,
    /// Bytes of its memory.
    pub(super) limit: u64,
    /// Bytes of a displacement unit.
    pub(super) unit: u32,
    /// The device of its memory, or -1.
    pub(super) device: i32,
}

/// Numbers of a card before the words of its handles.
const NUMBERS: usize = 9;
const LIMIT: usize = 1;
const UNIT: usize = 2;
const REACH: usize = 4;
const DEVICE: usize = 6;
/// Stands for no address: the memory is not mapped here. An odd number, so never the difference of
/// two mappings' addresses.
const NOWHERE: u64 = u64::MAX;

/// The numbers of a card; all cards of a window have the same count of numbers. A missing handle has the length 0 and words of
/// 0.
fn words(card: &Card, handle_size: usize) -> Vec<u64> {
    let Card { offer, .. } = card;
    let handle_words = handle_size.div_ceil(8);
    let mut words = vec![
        offer.base,
        card.limit,
        u64::from(card.unit),
        offer.control_base,
        match card.reach {
            Reach::Transport => NOWHERE,
            Reach::Mapped(shift) => shift,
        },
        card.mapped.unwrap_or(NOWHERE),
        i64::from(card.device) as u64,
        offer.handle.len() as u64,
        offer.control_handle.len() as u64,
    ];
    for handle in [&offer.handle, &offer.control_handle] {
        let from = words.len();
        words.extend(handle.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        }));
        words.resize(from + handle_words, 0);
    }
    words
}

/// The array in which a number of the cards is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The same number for all ranks.
    Same(u64),
    /// The number in each rank's row at this place, plus the second number.
    Row(usize, u64),
}

/// The cards of all ranks: numbers that are equal for all ranks once, the others in an array with one
/// element for each rank.
struct Cards {
    handle_size: usize,
    columns: Box<[Column]>,
    row: usize,
    rows: Box<[u64]>,
}

impl Cards {
    fn new(cards: &[Card], handle_size: usize) -> Cards {
        let all: Vec<Vec<u64>> = cards.iter().map(|card| words(card, handle_size)).collect();
        let mut columns: Vec<Column> = Vec::new();
        // The numbers that begin a column of the rows.
        let mut kept: Vec<usize> = Vec::new();
        for number in 0..NUMBERS + 2 * handle_size.div_ceil(8) {
            let first = |number: usize| all.first().map_or(0, |words| words[number]);
            let is_same = all.iter().all(|words| words[number] == first(number));
            // Handles repeat lengths, and addresses of the memory or of its surrounding memory.
            let repeats = kept.iter().enumerate().find_map(|(place, kept)| {
                let plus = first(number).wrapping_sub(first(*kept));
                let mut ranks = all.iter();
                let all = ranks.all(|words| words[number] == words[*kept].wrapping_add(plus));
                all.then_some(Column::Row(place, plus))
            });
            columns.push(match repeats {
                _ if is_same => Column::Same(first(number)),
                Some(column) => column,
                None => {
                    kept.push(number);
                    Column::Row(kept.len() - 1, 0)
                }
            });
        }
        let rows = all
            .iter()
            .flat_map(|words| kept.iter().map(|kept| words[*kept]));
        Cards {
            handle_size,
            columns: columns.into(),
            row: kept.len(),
            rows: rows.collect(),
        }
    }

    fn word(&self, rank: usize, number: usize) -> u64 {
        match self.columns[number] {
            Column::Same(word) => word,
            Column::Row(place, plus) => self.rows[rank * self.row + place].wrapping_add(plus),
        }
    }

    fn card(&self, rank: usize) -> Card {
        let word = |number| self.word(rank, number);
        let handle_words = self.handle_size.div_ceil(8);
        let handle = |which: usize| -> Vec<u8> {
            let from = NUMBERS + which * handle_words;
            let words = (from..from + handle_words).map(word);
            let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
            bytes.truncate(word(NUMBERS - 2 + which) as usize);
            bytes
        };
        Card {
            offer: Offer {
                base: word(0),
                control_base: word(3),
                handle: handle(0),
                control_handle: handle(1),
                // The bytes are not kept here: `neighbours` has these bytes for the few ranks whose
                // memory can be opened.
                exported: Vec::new(),
            },
            reach: match word(REACH) {
                NOWHERE => Reach::Transport,
                shift => Reach::Mapped(shift),
            },
            mapped: Some(word(5)).filter(|address| *address != NOWHERE),
            limit: word(LIMIT),
            unit: word(UNIT) as u32,
            device: word(DEVICE) as i32,
        }
    }
}

/// The ranks of a window.
pub(super) struct Peers {
    cards: Cards,
    /// As in [`Pending::new`](super::pending::Pending::new).
    alone: bool,
    /// The peers of used ranks; null for other ranks.
    made: Box<[AtomicPtr<Peer>]>,
}

impl Peers {
    pub(super) fn new(link: &Link, cards: &[Card]) -> Peers {
        Peers {
            cards: Cards::new(cards, link.transport.attributes().handle_size),
            alone: link.context.threads < ThreadLevel::Multiple,
            made: cards.iter().map(|_| AtomicPtr::new(null_mut())).collect(),
        }
    }

    /// The peer of a rank, if the rank was used before.
    #[inline(always)]
    pub(super) fn made(&self, rank: usize) -> Option<&Peer> {
        // Acquire: pairs with the release in `make`.
        let peer = self.made.get(rank)?.load(Ordering::Acquire);
        // SAFETY: null, or made from a box by `make`; it stays until `self` is dropped.
        unsafe { peer.as_ref() }
    }

    /// All ranks that were used.
    pub(super) fn all_made(&self) -> impl Iterator<Item = &Peer> {
        (0..self.made.len()).filter_map(|rank| self.made(rank))
    }

    /// Makes the peer of a rank that was not used before. `members` are the window's; its parts keep no reference to them,
    /// because the parts of a window dropped without `free` stay, and would keep the transport open.
    #[cold]
    #[inline(never)]
    pub(super) fn make(
        &self,
        members: &Members,
        call: &'static str,
        rank: usize,
    ) -> WinResult<&Peer> {
        let Some(place) = self.made.get(rank) else {
            let size = self.made.len();
            return Err(Box::new(WinError::NoSuchRank { call, rank, size }));
        };
        let endpoint = members.endpoint(rank);
        let endpoint = endpoint.map_err(|reason| Box::new(WinError::Job { call, reason }))?;
        let mut card = self.cards.card(rank);
        // A rank reaches its own memory directly, in a segment or not.
        if rank == members.rank() && card.device == HOST {
            card.mapped = Some(card.offer.base);
        }
        let new = Box::into_raw(Box::new(Peer::new(rank, endpoint, &card, self.alone)));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let peer = match place.compare_exchange(null_mut(), new, success, failure) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: made above, and not shared yet.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: the pointer is not null, and was made from a box here or by another thread; the box stays
        // until `self` is dropped.
        Ok(unsafe { &*peer })
    }

    /// Bytes of each rank's memory and of its displacement unit, in the order of the ranks.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (u64, u32)> {
        let word = |rank, number| self.cards.word(rank, number);
        (0..self.made.len()).map(move |rank| (word(rank, LIMIT), word(rank, UNIT) as u32))
    }

    /// The device of a rank's memory, from the rank's info.
    pub(super) fn device(&self, rank: usize) -> Option<i32> {
        (rank < self.made.len()).then(|| self.cards.word(rank, DEVICE) as i32)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for place in &mut self.made {
            let peer = *place.get_mut();
            if !peer.is_null() {
                // SAFETY: made from a box, and no reference is left.
                drop(unsafe { Box::from_raw(peer) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(rank: u64) -> Card {
        let word = |word: u64| word.to_ne_bytes();
        Card {
            offer: Offer {
                base: 0x1000 * rank,
                control_base: 0x70040 * rank,
                // The handle repeats the base.
                handle: [word(0x1000 * rank), word(64), word(5)].concat(),
                control_handle: [word(0x70040 * rank - 64), word(128), word(rank % 2)].concat(),
                exported: Vec::new(),
            },
            reach: Reach::Transport,
            mapped: None,
            limit: 64,
            unit: 8,
            device: -1,
        }
    }

    #[test]
    fn cards_come_back_whole() {
        let mut cards: Vec<Card> = (1..20).map(card).collect();
        let alike = Cards::new(&cards, 24);
        // Its base, the base of its control block, and the last word of the control block's handle.
        assert_eq!(alike.row, 3);
        assert_eq!(alike.rows.len(), 3 * cards.len());
        for (rank, card) in cards.iter().enumerate() {
            assert_eq!(alike.card(rank), *card);
        }
        cards[3].offer.handle = Vec::new();
        cards[4].unit = u32::MAX;
        cards[5].reach = Reach::Mapped(0);
        cards[6].mapped = Some(0x9000);
        cards[7].device = 2;
        cards[8].limit = u64::MAX;
        let unlike = Cards::new(&cards, 24);
        for (rank, card) in cards.iter().enumerate() {
            assert_eq!(unlike.card(rank), *card, "rank {rank}");
        }
        for size in [0, 1] {
            let few = Cards::new(&cards[..size], 24);
            assert_eq!((few.row, few.rows.len()), (0, 0));
        }
        assert_eq!(Cards::new(&cards[..1], 24).card(0), cards[0]);
    }
}
