//! Creation after the first round: the ranks share memory if they can, and join their parts to a window.

use plugin_api::hmem_iface;

use crate::base::NoSegment;
use crate::door::HOST;
use crate::win::control::Control;
use crate::win::create::assemble::{Pieces, assemble, table_for};
use crate::win::create::intent::Intent;
use crate::win::create::own_part::{Part, offer, own_part};
use crate::win::create::share::{agree, are_wanted, open, spared};
use crate::win::create::wanted::Wanted;
use crate::win::device::neighbours::Neighbours;
use crate::win::error::{WinResult, refused};
use crate::win::info::{Resolved, TableChoice};
use crate::win::kind::WindowKind;
use crate::win::link::Link;
use crate::win::parts::{Exposed, Memory};
use crate::win::peer::{Offer, Reach, decode, encode};
use crate::win::peers::Card;
use crate::win::shm;
use crate::win::shm::shared::Shared;
use crate::win::window::Window;

/// Whether all ranks must share one segment.
pub(in crate::win) fn must_share(kind: WindowKind, info: &Resolved) -> bool {
    kind == WindowKind::AllocateShared || info.table == TableChoice::Shm
}

/// Whether one segment may hold the window, if all ranks can open it.
pub(in crate::win) fn may_share_all(info: &Resolved) -> bool {
    matches!(info.table, TableChoice::Auto | TableChoice::Shm)
}

/// A window of which some ranks may share memory. A rank that may has `brought` nothing to the first exchange.
pub(in crate::win) fn together(
    link: Link,
    asked: (&Wanted<'_>, &Resolved),
    ranks: (&[Intent], &[usize]),
    (brought, spare): (Option<Part>, Option<Shared>),
) -> WinResult<Window> {
    let ((wanted, info), (intents, classes)) = (asked, ranks);
    let must = must_share(wanted.kind, info);
    let other = classes.iter().position(|class| *class != 0);
    if let (true, Some(rank)) = (must, other) {
        let reason = "it shares no memory with rank 0 (another node, or another container)";
        return Err(refused(rank, reason));
    }
    if !are_wanted(wanted.kind, info, intents, classes) {
        if must {
            let kind = wanted.kind;
            let reason = format!("memory of kind {kind:?} cannot be put into one segment");
            return Err(refused(0, reason));
        }
        return offered(link, asked, ranks, brought.map(alone));
    }
    if let Some(part) = brought {
        // The round of the segments; this rank has no segment.
        link.exchange(&[])?;
        return parted(link, asked, ranks, Ok(alone(part)));
    }
    let all_host = intents.iter().all(|intent| intent.device == HOST);
    let is_whole = other.is_none() && may_share_all(info) && all_host;
    if is_whole && let Some(shared) = spared(spare, (wanted.kind, info), intents) {
        return whole(link, wanted, info, intents, shared);
    }
    let opened = open(&link, wanted.kind, info, intents, classes)?;
    if !is_whole {
        let kept = opened.and_then(|shared| keep(&link, asked, classes, shared));
        return parted(link, asked, ranks, kept);
    }
    let agreed = agree(&link, classes, opened.as_ref().map(|_| &[][..]))?;
    match agreed.given_up.into_iter().next() {
        Some((rank, reason)) if must => Err(refused(rank, reason)),
        Some(_) => offered(link, asked, ranks, None),
        None => {
            let mut shared = opened.map_err(|error| refused(link.rank, error.reason()))?;
            shared.segment.close();
            whole(link, wanted, info, intents, shared)
        }
    }
}

/// A window whose ranks share one segment, also for synchronisation.
fn whole(
    link: Link,
    wanted: &Wanted<'_>,
    info: &Resolved,
    intents: &[Intent],
    shared: Shared,
) -> WinResult<Window> {
    // A layer may pass the handle to the transport, which must refuse it. So peers get a handle of
    // zeros.
    let handle = vec![0; link.transport.attributes().handle_size];
    let cards = intents
        .iter()
        .zip(&shared.plan.parts)
        .map(|(intent, part)| {
            let offer = Offer {
                base: shared.segment.at(part.offset) as u64,
                control_base: 0,
                handle: handle.clone(),
                control_handle: handle.clone(),
                exported: Vec::new(),
            };
            Card {
                reach: Reach::Mapped(0),
                mapped: Some(offer.base),
                offer,
                limit: intent.len,
                unit: intent.unit,
                device: intent.device,
            }
        });
    let cards: Vec<Card> = cards.collect();
    let rank = link.rank;
    let exposed = Exposed {
        base: cards[rank].offer.base as *mut u8,
        len: wanted.source.len(),
        iface: hmem_iface::SYSTEM,
        exported: Vec::new(),
        registration: None,
        memory: Memory::Elsewhere,
    };
    Ok(assemble(
        link,
        (wanted.kind, info),
        (shm::TABLE, TableChoice::Shm),
        Pieces {
            exposed,
            control: Control::in_segment(&shared, rank),
            shared: Some(shared),
            cards,
            neighbours: Neighbours::default(),
        },
    ))
}

/// This rank's memory and control block, and the addresses at which the parts of its node's segment
/// are mapped here.
type Kept = (Part, Vec<u64>);

/// The part of a rank that shares memory with no other.
fn alone(part: Part) -> Kept {
    let base = part.0.base as u64;
    (part, vec![base])
}

/// The ranks that share memory with this rank, in order.
fn own_class(link: &Link, classes: &[usize]) -> Vec<usize> {
    (0..link.size)
        .filter(|rank| classes[*rank] == classes[link.rank])
        .collect()
}

/// This rank's part of its node's segment.
fn keep(
    link: &Link,
    (wanted, info): (&Wanted<'_>, &Resolved),
    classes: &[usize],
    shared: Shared,
) -> Result<Kept, NoSegment> {
    let parts = shared.plan.parts.iter();
    let mapped = parts.map(|part| shared.segment.at(part.offset) as u64);
    let mapped = mapped.collect();
    let own_class = own_class(link, classes);
    let part = own_part(link, wanted, info, (Some(shared), &own_class));
    Ok((part.map_err(NoSegment::Memory)?, mapped))
}

/// A window with segments in which the transport serves at least a part. The ranks send their offers
/// together with their outcomes.
fn parted(
    link: Link,
    asked: (&Wanted<'_>, &Resolved),
    ranks: (&[Intent], &[usize]),
    kept: Result<Kept, NoSegment>,
) -> WinResult<Window> {
    let ((wanted, info), (_, classes)) = (asked, ranks);
    let mine = kept.as_ref().map(|(part, _)| encode(&Ok(offer(part))));
    let agreed = agree(&link, classes, mine.as_deref().map_err(|error| *error))?;
    let Some((rank, reason)) = agreed.given_up.first() else {
        let (part, mapped) = kept.map_err(|error| refused(link.rank, error.reason()))?;
        let offers: Vec<&[u8]> = agreed.said.iter().map(Vec::as_slice).collect();
        return joined(link, asked, ranks, Some(&mapped), part, &offers);
    };
    if must_share(wanted.kind, info) {
        return Err(refused(*rank, reason.clone()));
    }
    let own = classes[link.rank];
    let gone = |(rank, _): &(usize, String)| classes[*rank] == own;
    let kept = match agreed.given_up.iter().any(gone) {
        true => None,
        false => kept.ok(),
    };
    offered(link, asked, ranks, kept)
}

/// A window without segments, or with the kept segments.
fn offered(
    link: Link,
    asked: (&Wanted<'_>, &Resolved),
    ranks: (&[Intent], &[usize]),
    kept: Option<Kept>,
) -> WinResult<Window> {
    let (wanted, info) = asked;
    let (local, mapped) = match kept {
        Some((part, mapped)) => (Ok(part), Some(mapped)),
        None => (own_part(&link, wanted, info, (None, &[])), None),
    };
    let mine = match &local {
        Ok(part) => Ok(offer(part)),
        Err(reason) => Err(reason.clone()),
    };
    let all = link.exchange(&encode(&mine))?;
    let offers: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    match local {
        Ok(part) => joined(link, asked, ranks, mapped.as_deref(), part, &offers),
        Err(reason) => {
            // An earlier rank's refusal comes first, as on the other ranks.
            let handle_size = link.transport.attributes().handle_size;
            for (rank, bytes) in offers.into_iter().enumerate() {
                decode(rank, handle_size, bytes)?;
            }
            Err(refused(link.rank, reason))
        }
    }
}

/// A window of the offers of all ranks. `mapped` has the addresses at which the parts of this node's
/// segment are mapped here.
pub(in crate::win) fn joined(
    link: Link,
    (wanted, info): (&Wanted<'_>, &Resolved),
    (intents, classes): (&[Intent], &[usize]),
    mapped: Option<&[u64]>,
    (mut exposed, control): Part,
    offers: &[&[u8]],
) -> WinResult<Window> {
    let own_class = own_class(&link, classes);
    let handle_size = link.transport.attributes().handle_size;
    let mut cards = Vec::with_capacity(link.size);
    let mut neighbours = Neighbours::default();
    for (rank, blob) in offers.iter().enumerate() {
        let mut card = Card {
            offer: decode(rank, handle_size, blob)?,
            reach: Reach::Transport,
            mapped: None,
            limit: intents[rank].len,
            unit: intents[rank].unit,
            device: intents[rank].device,
        };
        let base = card.offer.base;
        let beside = intents[rank].device == HOST && classes[rank] == classes[link.rank];
        if beside {
            let here = mapped.and_then(|mapped| {
                let at = own_class.binary_search(&rank).ok()?;
                mapped.get(at)
            });
            card.mapped = here.copied();
            card.reach = match (info.table, here) {
                // The transport maps the segment, too.
                (TableChoice::Btl, _) | (_, None) => Reach::Transport,
                (_, Some(_)) if rank == link.rank => Reach::Mapped(0),
                (_, Some(here)) => Reach::Mapped(here.wrapping_sub(base)),
            };
        }
        if rank != link.rank && classes[rank] == classes[link.rank] {
            neighbours.add(rank, std::mem::take(&mut card.offer.exported));
        }
        cards.push(card);
    }
    exposed.close_segment();
    let table = table_for(&cards, &neighbours);
    Ok(assemble(
        link,
        (wanted.kind, info),
        table,
        Pieces {
            exposed,
            control,
            shared: None,
            cards,
            neighbours,
        },
    ))
}
