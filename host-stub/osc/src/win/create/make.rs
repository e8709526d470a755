//! How the ranks of a group make a window together.
//!
//! Ranks use rounds of an out-of-band exchange. Every rank enters each round, even after a failure of its own, so that
//! all ranks reach the same result:
//!
//! 1. *Intents*: each rank's wishes and place, or why it cannot take part. If no rank can share memory with another in
//!    this window, whatever the other intents are, the offer is part of the intent, and this is the only round.
//! 2. *Segments*, for memory that windows own: the first rank of each node makes a segment and tells the node's other
//!    ranks its location.
//! 3. *Outcomes*: each rank has mapped the segment and allocated memory for its part, and reports the result. The offer
//!    is part of the outcome unless all ranks share one segment. If some rank could not open a segment, all its ranks give
//!    it up together. If there is no memory for a segment, the creation ends on every rank.
//! 4. *Offers*, if no offer was sent before or a segment was given up: registrations for the transport.
//! 5. *Hooks*, if layers have any: a failure on one rank undoes the window on all.

use std::sync::Arc;

use plugin_api::hmem_iface;

use crate::base::NoSegment;
use crate::base::process::Process;
use crate::door::HOST;
use crate::door::Members;
use crate::win::control::{Control, ControlPlan};
use crate::win::create::assemble::{Pieces, assemble, table_for};
use crate::win::create::intent::{Intent, classes};
use crate::win::create::own_part::{device_memory, expose, memory, usable};
use crate::win::create::share::{Opened, agree, open, owns};
use crate::win::create::wanted::{Source, Wanted};
use crate::win::device::opened::Neighbours;
use crate::win::direct::direct;
use crate::win::dynamic::regions::Shape;
use crate::win::error::{WinResult, refused};
use crate::win::hooks::hooked;
use crate::win::info::{Resolved, TableChoice};
use crate::win::kind::WindowKind;
use crate::win::link::Link;
use crate::win::lock_words::MOST_RANKS;
use crate::win::parts::{Exposed, Memory};
use crate::win::peer::{Offer, Reach, decode, encode};
use crate::win::peers::Card;
use crate::win::shm;
use crate::win::shm::shared::Shared;
use crate::win::slots::SLOTS;
use crate::win::window::Window;

/// Makes a window; collective over the members.
pub(in crate::win) fn create(members: Members, wanted: &Wanted<'_>) -> WinResult<Window> {
    let mut link = Link::new(members);
    let context = Arc::clone(&link.context);
    let _entered = match &context.watch {
        Some(watch) => watch.enter("window creation")?,
        None => None,
    };
    let info = wanted.info.resolve(&context.defaults);
    let nodes: Vec<u32> = (0..link.size)
        .map(|rank| node(&link, &info, rank))
        .collect();
    let apart = is_apart(wanted.kind, &info, &nodes);
    let brought = check(wanted, link.size).and_then(|()| match apart {
        true => own_part(&link, wanted, &info, (None, &[])).map(Brought::Offer),
        // For a window in one segment. Here, because nobody would hear of a failure after the last round.
        false => Control::unused(ControlPlan::new(link.size, 0, SLOTS))
            .map(Brought::Unreached)
            .map_err(|error| error.to_string()),
    });
    let intent = brought.as_ref().map(|_| Intent {
        kind: wanted.kind,
        len: wanted.source.len() as u64,
        unit: wanted.unit,
        info: info.code(),
        rules: info.rules.code(),
        applies: link.applies,
        hooks: context.hooks.count() as u64,
        device: info.device,
        process: Process::own(),
    });
    let intent = intent.map_err(String::clone);
    let mut mine = Intent::encode(&intent);
    if let Ok(Brought::Offer(part)) = &brought {
        mine.extend(encode(wanted.kind, &Ok(offer(wanted.unit, part))));
    }
    let all = link.exchange(&mine)?;
    let mut intents = Vec::with_capacity(link.size);
    let mut offers = Vec::with_capacity(link.size);
    for (rank, bytes) in all.iter().enumerate() {
        let (bytes, offer) = Intent::split(bytes);
        intents.push(Intent::decode(rank, intent.as_ref().ok(), bytes)?);
        if offer.is_empty() == apart {
            return Err(refused(rank, "its intent comes with the wrong offer"));
        }
        offers.push(offer);
    }
    // A rank with a reason of its own found it among the answers.
    let brought = brought.map_err(|reason| refused(link.rank, reason))?;
    let sizes = intents.iter().map(|intent| (intent.len, intent.unit));
    if let Some((rank, reason)) = info.rules.refusal(sizes) {
        return Err(refused(rank, reason));
    }
    // Memory of a device is reached by the transport alone, from every rank; other ranks of the window keep their ways.
    let on_device = intents.iter().position(|intent| intent.device != HOST);
    if let Some(rank) = on_device
        && (wanted.kind == WindowKind::AllocateShared || info.table == TableChoice::Shm)
    {
        let reason = "memory of a device cannot be shared between processes";
        return Err(refused(rank, reason));
    }
    let classes = classes(&nodes, &intents);
    link.watch(&intents);
    link.applies = intents.iter().all(|intent| intent.applies);

    let (asked, ranks) = ((wanted, &info), (&intents[..], &classes[..]));
    let mut window = match brought {
        Brought::Offer(part) => joined(link, asked, ranks, None, part, &offers)?,
        Brought::Unreached(control) => together(link, asked, ranks, control)?,
    };
    if intents.iter().any(|intent| intent.hooks > 0)
        && let Err(error) = hooked(&mut window, &intents)
    {
        window.discard();
        return Err(error);
    }
    window.direct = direct(window.kind, &window.table, &window.link);
    Ok(window)
}

/// This rank's memory and control block.
type Part = (Exposed, Control);

/// What a rank has before it speaks.
enum Brought {
    /// All that others need to reach it.
    Offer(Part),
    /// A control block for a window in one segment.
    Unreached(Control),
}

fn offer(unit: u32, (exposed, control): &Part) -> Offer {
    let (control_base, control_handle) = control.card();
    Offer {
        base: exposed.base as u64,
        limit: exposed.len as u64,
        unit,
        control_base,
        handle: exposed.handle_bytes(),
        control_handle,
        exported: exposed.exported.clone(),
    }
}

/// Whether ranks on these nodes share no memory in a window, wherever else they run. The same on all ranks that agree on
/// kind and info.
fn is_apart(kind: WindowKind, info: &Resolved, nodes: &[u32]) -> bool {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    let alone = sorted.windows(2).all(|pair| pair[0] != pair[1]);
    // All ranks refuse what must be in one segment after they have met.
    !must_share(kind, info) && (!owns(kind, info) || nodes.len() > 1 && alone)
}

fn check(wanted: &Wanted<'_>, ranks: usize) -> Result<(), String> {
    if ranks > MOST_RANKS {
        return Err(format!(
            "{ranks} ranks; the words of locks count up to {MOST_RANKS}"
        ));
    }
    if wanted.unit == 0 {
        return Err("its displacement unit is 0".to_owned());
    }
    match wanted.source {
        Source::Caller(base, len) if base.is_null() && len > 0 => {
            Err(format!("its memory of {len} B is at the null address"))
        }
        _ => Ok(()),
    }
}

fn node(link: &Link, info: &Resolved, rank: usize) -> u32 {
    match info.ranks_per_node {
        None => link.members.memory_node(rank),
        Some(0) => link.members.node(rank),
        Some(ranks) => rank as u32 / ranks,
    }
}

/// Whether all ranks must share one segment.
fn must_share(kind: WindowKind, info: &Resolved) -> bool {
    kind == WindowKind::AllocateShared || info.table == TableChoice::Shm
}

/// A window of which some ranks may share memory. `control` is for one in one segment.
fn together(
    link: Link,
    asked: (&Wanted<'_>, &Resolved),
    ranks: (&[Intent], &[usize]),
    control: Control,
) -> WinResult<Window> {
    let ((wanted, info), (intents, classes)) = (asked, ranks);
    let must = must_share(wanted.kind, info);
    let other = classes.iter().position(|class| *class != 0);
    if let (true, Some(rank)) = (must, other) {
        let reason = "it shares no memory with rank 0 (another node, or another container)";
        return Err(refused(rank, reason));
    }
    let Some(opened) = open(&link, wanted.kind, info, intents, classes)? else {
        if must {
            let kind = wanted.kind;
            let reason = format!("memory of kind {kind:?} cannot be put into one segment");
            return Err(refused(0, reason));
        }
        return offered(link, asked, ranks, None);
    };
    let in_segment = matches!(info.table, TableChoice::Auto | TableChoice::Shm);
    let all_host = intents.iter().all(|intent| intent.device == HOST);
    if other.is_some() || !in_segment || !all_host {
        return parted(link, asked, ranks, opened);
    }
    let agreed = agree(&link, classes, opened.as_ref().map(|_| &[][..]))?;
    match agreed.given_up.into_iter().next() {
        Some((rank, reason)) if must => Err(refused(rank, reason)),
        Some(_) => offered(link, asked, ranks, None),
        None => {
            let mut shared = opened.map_err(|error| refused(link.rank, error.reason()))?;
            shared.segment.close();
            whole(link, wanted, info, intents, (shared, control))
        }
    }
}

/// A window whose ranks share one segment, synchronisation and all.
fn whole(
    link: Link,
    wanted: &Wanted<'_>,
    info: &Resolved,
    intents: &[Intent],
    (shared, control): (Shared, Control),
) -> WinResult<Window> {
    // Peers need the look of a handle, should a layer pass one to the transport: it is refused.
    let handle = vec![0; link.transport.attributes().handle_size];
    let cards = intents
        .iter()
        .zip(&shared.plan.parts)
        .map(|(intent, part)| {
            let offer = Offer {
                base: shared.segment.at(part.offset) as u64,
                limit: intent.len,
                unit: intent.unit,
                control_base: 0,
                handle: handle.clone(),
                control_handle: handle.clone(),
                exported: Vec::new(),
            };
            Card {
                reach: Reach::Mapped(0),
                mapped: Some(offer.base),
                offer,
                device: intent.device,
            }
        });
    let cards: Vec<Card> = cards.collect();
    let exposed = Exposed {
        base: cards[link.rank].offer.base as *mut u8,
        len: wanted.source.len(),
        iface: hmem_iface::SYSTEM,
        exported: Vec::new(),
        registration: None,
        memory: Memory::Elsewhere,
    };
    Ok(assemble(
        link,
        (wanted.kind, info),
        (shm::TABLE, "shm"),
        Pieces {
            exposed,
            control,
            shared: Some(shared),
            cards,
            neighbours: Neighbours::default(),
        },
    ))
}

/// This rank's memory and control block, and where the parts of its node's segment are mapped here.
type Kept = (Part, Vec<u64>);

/// The ranks that share memory with this one, in order.
fn own_class(link: &Link, classes: &[usize]) -> Vec<usize> {
    (0..link.size)
        .filter(|rank| classes[*rank] == classes[link.rank])
        .collect()
}

/// A window with segments of which the transport does at least a part. The offers go with how it went.
fn parted(
    link: Link,
    asked: (&Wanted<'_>, &Resolved),
    ranks: (&[Intent], &[usize]),
    opened: Opened,
) -> WinResult<Window> {
    let ((wanted, info), (_, classes)) = (asked, ranks);
    let own_class = own_class(&link, classes);
    let kept: Result<Kept, NoSegment> = opened.and_then(|shared| {
        let parts = shared.plan.parts.iter();
        let mapped = parts.map(|part| shared.segment.at(part.offset) as u64);
        let mapped = mapped.collect();
        let part = own_part(&link, wanted, info, (Some(shared), &own_class));
        Ok((part.map_err(NoSegment::Memory)?, mapped))
    });
    let mine = kept
        .as_ref()
        .map(|(part, _)| encode(wanted.kind, &Ok(offer(wanted.unit, part))));
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

/// A window without segments, or with those that were kept.
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
        Ok(part) => Ok(offer(wanted.unit, part)),
        Err(reason) => Err(reason.clone()),
    };
    let all = link.exchange(&encode(wanted.kind, &mine))?;
    let offers: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    match local {
        Ok(part) => joined(link, asked, ranks, mapped.as_deref(), part, &offers),
        Err(reason) => {
            // An earlier rank's refusal comes first, as it does for the others.
            let handle_size = link.transport.attributes().handle_size;
            for (rank, bytes) in offers.into_iter().enumerate() {
                decode(rank, wanted.kind, handle_size, bytes)?;
            }
            Err(refused(link.rank, reason))
        }
    }
}

/// A window of what all ranks offer. `mapped` says where the parts of this node's segment are mapped here.
fn joined(
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
            offer: decode(rank, wanted.kind, handle_size, blob)?,
            reach: Reach::Transport,
            mapped: None,
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

/// This rank's memory and control block, registered; or why it has none.
fn own_part(
    link: &Link,
    wanted: &Wanted<'_>,
    info: &Resolved,
    (shared, own_class): (Option<Shared>, &[usize]),
) -> Result<Part, String> {
    usable(link)?;
    let (base, len, memory) = match info.device {
        HOST => memory(link, wanted, shared, own_class)?,
        device => device_memory(link, wanted, shared, device)?,
    };
    let exposed = expose(link, (base, len, info.device), memory)?;
    let regions = match wanted.kind {
        WindowKind::Dynamic => Shape::of(link.transport.attributes().handle_size).control_words(),
        _ => 0,
    };
    let plan = ControlPlan::new(link.size, regions, SLOTS);
    let control = Control::new(&link.context.arena, &link.transport, plan)
        .map_err(|error| error.to_string())?;
    Ok((exposed, control))
}
