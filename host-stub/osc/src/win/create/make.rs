//! The creation of a window by the ranks of a group.
//!
//! Ranks use rounds of an out-of-band exchange. Every rank enters each round, even after its own failure, so that all
//! ranks reach the same result:
//!
//! 1. *Intents*: each rank's wishes and place, or the reason why it cannot take part. A rank that cannot share memory
//!    in this window, independently of the other intents, adds its offer. If all ranks add offers, this is the only
//!    round.
//! 2. *Segments*, for memory that windows own: the first rank of each node makes a segment and tells the node's other
//!    ranks its location.
//! 3. *Outcomes*: each rank has mapped the segment and allocated memory for its part, and reports the result. The offer
//!    is part of the outcome unless all ranks share one segment. If some rank could not open a segment, all its ranks give
//!    it up together. If there is no memory for a segment, the creation ends on every rank.
//! 4. *Offers*, if no offer was sent before or a segment was given up: registrations for the transport.
//! 5. *Hooks*, if layers have any: a failure on one rank undoes the window on all.

use std::sync::Arc;

use crate::base::process::Process;
use crate::door::HOST;
use crate::door::Members;
use crate::win::create::intent::{Intent, classes};
use crate::win::create::join::{joined, may_share_all, must_share, together};
use crate::win::create::own_part::{Part, offer, own_part};
use crate::win::create::share::owns;
use crate::win::create::wanted::{Source, Wanted};
use crate::win::direct::direct;
use crate::win::error::{WinResult, refused};
use crate::win::hooks::hooked;
use crate::win::info::{Resolved, TableChoice};
use crate::win::kind::WindowKind;
use crate::win::link::Link;
use crate::win::lock_words::MOST_RANKS;
use crate::win::peer::encode;
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
    let (node, is_alone) = place(&link, &info);
    let brought = bring(&link, (wanted, &info), is_alone);
    let spare = match &brought {
        Ok(None) if may_share_all(&info) && !info.huge_pages => context.spare.take(),
        _ => None,
    };
    let intent = brought.as_ref().map(|_| Intent {
        kind: wanted.kind,
        len: wanted.source.len() as u64,
        unit: wanted.unit,
        info: info.code(),
        rules: info.rules.code(),
        hooks: context.hooks.count() as u32,
        device: info.device,
        node,
        spare: spare
            .as_ref()
            .map_or(0, |spare| spare.segment.card().number),
        process: Process::own(),
    });
    let intent = intent.map_err(String::clone);
    let mut mine = Intent::encode(&intent);
    if let Ok(Some(part)) = &brought {
        mine.extend(encode(&Ok(offer(part))));
    }
    let all = link.meet(&mine)?;
    let mut intents = Vec::with_capacity(link.size);
    let mut offers = Vec::with_capacity(link.size);
    for (rank, bytes) in all.iter().enumerate() {
        let (bytes, offer) = Intent::split(bytes);
        intents.push(Intent::decode(rank, intent.as_ref().ok(), bytes)?);
        if brings(wanted.kind, &info).is_some_and(|brings| brings == offer.is_empty()) {
            return Err(refused(rank, "its intent comes with the wrong offer"));
        }
        offers.push(offer);
    }
    // A rank with its own reason found the reason among the answers.
    let brought = brought.map_err(|reason| refused(link.rank, reason))?;
    let sizes = intents.iter().map(|intent| (intent.len, intent.unit));
    if let Some((rank, reason)) = info.rules.refusal(sizes) {
        return Err(refused(rank, reason));
    }
    // Only the transport reaches memory of a device, from every rank. Other ranks of the window keep their ways.
    let on_device = intents.iter().position(|intent| intent.device != HOST);
    if let Some(rank) = on_device
        && (wanted.kind == WindowKind::AllocateShared || info.table == TableChoice::Shm)
    {
        let reason = "memory of a device cannot be shared between processes";
        return Err(refused(rank, reason));
    }
    // The ranks that share no memory with other ranks in this window.
    let all_offer = offers.iter().all(|offer| !offer.is_empty());
    let is_apart = |rank: usize| !all_offer && !offers[rank].is_empty();
    let classes = classes(&intents, is_apart);
    link.watch(&intents);

    let (asked, ranks) = ((wanted, &info), (&intents[..], &classes[..]));
    let mut window = match brought {
        Some(part) if all_offer => joined(link, asked, ranks, None, part, &offers)?,
        brought => together(link, asked, ranks, (brought, spare))?,
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

/// Whether the ranks bring offers: all ranks, no rank, or (`None`) the ranks that are alone on
/// their nodes.
fn brings(kind: WindowKind, info: &Resolved) -> Option<bool> {
    match (must_share(kind, info), owns(kind, info)) {
        // Ranks refuse a window that must be in one segment only after they have met.
        (true, _) => Some(false),
        (false, false) => Some(true),
        (false, true) => None,
    }
}

/// Makes this rank's part, if it brings one to the first exchange. The error is the reason why the rank cannot
/// take part.
fn bring(
    link: &Link,
    asked: (&Wanted<'_>, &Resolved),
    is_alone: bool,
) -> Result<Option<Part>, String> {
    let (wanted, info) = asked;
    check(wanted, link.size)?;
    match brings(wanted.kind, info).unwrap_or(is_alone) {
        true => own_part(link, wanted, info, (None, &[])).map(Some),
        false => Ok(None),
    }
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

/// The first rank with which this rank may share memory, perhaps this rank itself; and whether this rank is one of
/// several and shares memory with none.
fn place(link: &Link, info: &Resolved) -> (u32, bool) {
    let members = &link.members;
    let may_share = |rank: &usize| {
        *rank == link.rank
            || match info.ranks_per_node {
                None => members.may_share(*rank),
                Some(0) => members.is_beside(*rank),
                Some(ranks) => *rank as u32 / ranks == link.rank as u32 / ranks,
            }
    };
    let mut ranks = (0..link.size).filter(may_share);
    let first = ranks.next().unwrap_or(link.rank);
    (first as u32, link.size > 1 && ranks.next().is_none())
}
