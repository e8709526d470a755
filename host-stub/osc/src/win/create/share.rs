//! The setup of one segment by the ranks of a node, or their agreement that they have none.

use crate::base::{Card, NoSegment, Segment};
use crate::door::HOST;
use crate::win::create::intent::Intent;
use crate::win::error::{WinResult, refused};
use crate::win::info::{Resolved, TableChoice};
use crate::win::kind::WindowKind;
use crate::win::link::Link;
use crate::win::shm::plan::Plan;
use crate::win::shm::shared::Shared;
use crate::win::shm::spare::serves;

/// Whether a window owns memory that a segment may hold.
pub(in crate::win) fn owns(kind: WindowKind, info: &Resolved) -> bool {
    match kind {
        WindowKind::AllocateShared => true,
        WindowKind::Allocate => matches!(
            info.table,
            TableChoice::Auto | TableChoice::Shm | TableChoice::Mixed
        ),
        WindowKind::Create | WindowKind::Dynamic => false,
    }
}

/// This rank's view of the segment of its node, or the reason why it has none.
pub(in crate::win) type Opened = Result<Shared, NoSegment>;

/// Whether segments are wanted, the same on all ranks.
pub(in crate::win) fn are_wanted(
    kind: WindowKind,
    info: &Resolved,
    intents: &[Intent],
    classes: &[usize],
) -> bool {
    // Ranks that are alone on their nodes share with no rank, but a rank that is alone in its
    // window has a window in one segment.
    let mut ranks = classes.iter().enumerate();
    let some_share = ranks.any(|(rank, class)| *class != rank);
    let some_host = intents.iter().any(|intent| intent.device == HOST);
    owns(kind, info) && some_host && (some_share || classes.len() == 1)
}

/// Bytes of a rank's part. A rank whose memory is on a device has no part, and maps the parts of the other ranks.
fn length(intent: &Intent) -> usize {
    match intent.device {
        HOST => usize::try_from(intent.len).unwrap_or(usize::MAX),
        _ => 0,
    }
}

fn is_contiguous(kind: WindowKind, info: &Resolved) -> bool {
    kind == WindowKind::AllocateShared && !info.noncontiguous
}

/// The segment of an earlier window, if all ranks offer it and it has the layout of the new window. Each rank comes to the
/// same answer.
pub(in crate::win) fn spared(
    spare: Option<Shared>,
    (kind, info): (WindowKind, &Resolved),
    intents: &[Intent],
) -> Option<Shared> {
    let shared = spare?;
    let number = shared.segment.card().number;
    let lengths: Vec<usize> = intents.iter().map(length).collect();
    let is_offered = intents.iter().all(|intent| intent.spare == number);
    (is_offered && serves(&shared, &lengths, is_contiguous(kind, info))).then_some(shared)
}

/// Makes the segment of each node, and opens it. Collective over the window: all ranks enter the same exchange.
pub(in crate::win) fn open(
    link: &Link,
    kind: WindowKind,
    info: &Resolved,
    intents: &[Intent],
    classes: &[usize],
) -> WinResult<Opened> {
    let leader = classes[link.rank];
    let members: Vec<usize> = (0..link.size)
        .filter(|rank| classes[*rank] == leader)
        .collect();
    let lengths: Vec<usize> = members.iter().map(|rank| length(&intents[*rank])).collect();
    let contiguous = is_contiguous(kind, info);

    let made = if leader == link.rank {
        make(&lengths, contiguous, info.huge_pages).map(Some)
    } else {
        Ok(None)
    };
    let mine = match &made {
        Ok(Some(segment)) => segment.card().encode(),
        Ok(None) => Vec::new(),
        Err(error) => encode_outcome(Err(error)),
    };
    let cards = link.exchange(&mine)?;
    Ok(made.and_then(|made| {
        let segment = match made {
            Some(segment) => segment,
            None => {
                let bytes = cards.get(leader).map_or(&[][..], Vec::as_slice);
                Segment::open(&decode_card(bytes)?)?
            }
        };
        let own = members.iter().position(|rank| *rank == link.rank);
        take(segment, &lengths, contiguous, own)
    }))
}

/// The result of all ranks.
pub(in crate::win) struct Agreed {
    /// The data that each rank sent with its success.
    pub(in crate::win) said: Vec<Vec<u8>>,
    /// The ranks that could not open the segment of their node, with the reasons. No rank of such a
    /// node uses the segment.
    pub(in crate::win) given_up: Vec<(usize, String)>,
}

/// Tells the other ranks the outcome here: the data of a success, or the reason of a failure. Collective. Every rank gets
/// an error if some rank's memory cannot be allocated.
pub(in crate::win) fn agree(
    link: &Link,
    classes: &[usize],
    mine: Result<&[u8], &NoSegment>,
) -> WinResult<Agreed> {
    let mut agreed = Agreed {
        said: Vec::with_capacity(link.size),
        given_up: Vec::new(),
    };
    for (rank, bytes) in link.exchange(&encode_outcome(mine))?.iter().enumerate() {
        let said = match decode_outcome(bytes) {
            Ok(said) => said,
            Err(NoSegment::Memory(reason)) => return Err(refused(rank, reason)),
            Err(NoSegment::Apart(reason)) => {
                agreed.given_up.push((rank, reason));
                &[]
            }
        };
        agreed.said.push(said.to_vec());
    }
    let leader = classes[link.rank];
    let first = agreed
        .given_up
        .iter()
        .find(|(rank, _)| classes[*rank] == leader);
    if let (Some((rank, reason)), true) = (first, leader == link.rank) {
        tracing::warn!(
            "a window's ranks on this node do not share memory, because rank {rank} cannot open it: \
             {reason}"
        );
    }
    Ok(agreed)
}

fn too_much(lengths: &[usize]) -> NoSegment {
    let total: u128 = lengths.iter().map(|len| *len as u128).sum();
    NoSegment::Memory(format!(
        "{total} B of shared memory do not fit an address space"
    ))
}

fn make(lengths: &[usize], contiguous: bool, huge: bool) -> Result<Segment, NoSegment> {
    let plan = |page| Plan::new(lengths, contiguous, page).ok_or_else(|| too_much(lengths));
    if huge && let Some(segment) = Segment::of_huge_pages(|page| Ok(plan(page)?.bytes)) {
        return Ok(segment);
    }
    Segment::make(plan(1 << 12)?.bytes)
}

/// Takes memory for this rank's part, and for the words if this rank is the first of its node.
fn take(
    segment: Segment,
    lengths: &[usize],
    contiguous: bool,
    own: Option<usize>,
) -> Result<Shared, NoSegment> {
    let plan = Plan::new(lengths, contiguous, segment.page())
        .filter(|plan| plan.bytes <= segment.bytes())
        .ok_or_else(|| too_much(lengths))?;
    let none = |error: std::io::Error, len: usize| {
        NoSegment::Memory(format!("{len} B of shared memory: {error}"))
    };
    if own == Some(0) {
        let words = plan.control_bytes();
        segment
            .reserve(0, words)
            .map_err(|error| none(error, words))?;
    }
    if let Some(part) = own.and_then(|own| plan.parts.get(own)) {
        segment
            .reserve(part.offset, part.len)
            .map_err(|error| none(error, part.len))?;
    }
    Ok(Shared::new(segment, plan))
}

/// The segment of the node's first rank, which gives the reason if it has none.
fn decode_card(bytes: &[u8]) -> Result<Card, NoSegment> {
    Card::decode(bytes).ok_or_else(|| match decode_outcome(bytes) {
        Err(reason) => reason,
        Ok(_) => NoSegment::Apart("the node's first rank told of no segment".to_owned()),
    })
}

fn encode_outcome(outcome: Result<&[u8], &NoSegment>) -> Vec<u8> {
    match outcome {
        Ok([]) => Vec::new(),
        Ok(said) => [b"S", said].concat(),
        Err(NoSegment::Memory(reason)) => [b"M", reason.as_bytes()].concat(),
        Err(NoSegment::Apart(reason)) => [b"A", reason.as_bytes()].concat(),
    }
}

fn decode_outcome(bytes: &[u8]) -> Result<&[u8], NoSegment> {
    let Some((kind, rest)) = bytes.split_first() else {
        return Ok(&[]);
    };
    let reason = || String::from_utf8_lossy(rest).into_owned();
    match kind {
        b'S' => Ok(rest),
        b'M' => Err(NoSegment::Memory(reason())),
        _ => Err(NoSegment::Apart(reason())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_outcomes_travel() {
        let card = Card {
            pid: 3,
            fd: 9,
            bytes: 4096,
            huge: 0,
            number: u64::MAX,
        };
        assert_eq!(decode_card(&card.encode()), Ok(card));
        for outcome in [
            Ok(&[][..]),
            Ok(&b"an offer"[..]),
            Err(NoSegment::Memory("none".to_owned())),
            Err(NoSegment::Apart("far".to_owned())),
        ] {
            let said = outcome.as_ref().map(|said| *said);
            assert_eq!(decode_outcome(&encode_outcome(said)), outcome);
        }
        let reason = NoSegment::Memory("all gone".to_owned());
        let told = decode_card(&encode_outcome(Err(&reason)));
        assert_eq!(told, Err(reason));
        assert!(decode_card(&[]).is_err());
        assert!(decode_card(&card.encode()[1..]).is_err());
    }
}
