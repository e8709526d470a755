//! How the ranks of a group make a window together.
//!
//! In rounds of an exchange out of band, each of which every rank enters whatever became of it, so
//! that all come to the same end:
//!
//! 1. *Intents*: what each rank wants, where it runs, or why it cannot take part.
//! 2. *Segments*, for memory that windows own: of the ranks of each node the first makes one and
//!    tells the others where it is; they map it, take memory for their parts, and say how it went.
//!    A segment that some rank could not open is given up by all its ranks together; one for which
//!    there is no memory ends the creation everywhere.
//! 3. *Offers*, unless all ranks share one segment: registrations for the transport.
//! 4. *Hooks*, if layers have any: a failure on one rank undoes the window on all.

use std::sync::Arc;

use plugin_api::hmem_iface;

use super::assemble::{Pieces, assemble, devices, peer, table_for};
use super::control::{Control, ControlPlan};
use super::error::{WinResult, refused};
use super::hooks::hooked;
use super::info::{Resolved, TableChoice};
use super::intent::{Intent, classes};
use super::kind::WindowKind;
use super::link::Link;
use super::lock_words::MOST_RANKS;
use super::own_part::{device_memory, expose, memory, usable};
use super::parts::{Exposed, Memory};
use super::peer::{Offer, Reach, decode, encode};
use super::regions::Shape;
use super::share::{Joint, share};
use super::shm;
use super::shm::shared::Shared;
use super::slots::SLOTS;
use super::wanted::{Source, Wanted};
use super::window::Window;
use crate::base::process::Process;
use crate::door::HOST;
use crate::door::Members;

/// Makes a window; collective over the members.
pub(super) fn create(members: Members, wanted: &Wanted<'_>) -> WinResult<Window> {
    let mut link = Link::new(members);
    let context = Arc::clone(&link.context);
    let _entered = match &context.watch {
        Some(watch) => watch.enter("window creation")?,
        None => None,
    };
    // For a window in one segment. Here, because nobody would hear of a failure after the last round.
    let mut unreached = None;
    let info = wanted.info.resolve(&context.defaults);
    let plan = ControlPlan::new(link.size, 0, SLOTS);
    let usable = check(wanted, link.size).and_then(|()| {
        unreached = Some(Control::unused(plan).map_err(|error| error.to_string())?);
        Ok(())
    });
    let intent = usable.map(|()| Intent {
        kind: wanted.kind,
        len: wanted.source.len() as u64,
        unit: wanted.unit,
        info: info.code(),
        rules: info.rules.code(),
        hooks: context.hooks.count() as u64,
        device: info.device,
        process: Process::own(),
    });
    let mine = intent.as_ref().ok().cloned();
    let intents = link
        .exchange(&Intent::encode(&intent))?
        .iter()
        .enumerate()
        .map(|(rank, bytes)| Intent::decode(rank, mine.as_ref(), bytes))
        .collect::<WinResult<Vec<Intent>>>()?;
    // A rank with a reason of its own found it among the answers.
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
    let nodes: Vec<u32> = (0..link.size)
        .map(|rank| node(&link, &info, rank))
        .collect();
    let classes = classes(&nodes, &intents);
    link.watch(&intents);

    let joint = share(&link, wanted.kind, &info, &intents, &classes)?;
    let one = classes.iter().all(|class| *class == 0);
    if wanted.kind == WindowKind::AllocateShared || info.table == TableChoice::Shm {
        all_shared(wanted.kind, &classes, &joint)?;
    }
    let in_segment = matches!(info.table, TableChoice::Auto | TableChoice::Shm);
    let mut window = match joint {
        Joint::Segment(mut shared) if one && in_segment && on_device.is_none() => {
            shared.segment.close();
            let control = unreached.ok_or_else(|| refused(link.rank, "it has no control block"))?;
            whole(link, wanted, &info, &intents, (shared, control))?
        }
        joint => partly(link, wanted, &info, &intents, &classes, joint)?,
    };
    if intents.iter().any(|intent| intent.hooks > 0)
        && let Err(error) = hooked(&mut window, &intents)
    {
        window.discard();
        return Err(error);
    }
    Ok(window)
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

/// Refuses, on every rank alike, a window that must be in one segment and is not.
fn all_shared(kind: WindowKind, classes: &[usize], joint: &Joint) -> WinResult<()> {
    if let Some(rank) = classes.iter().position(|class| *class != 0) {
        let reason = "it shares no memory with rank 0 (another node, or another container)";
        return Err(refused(rank, reason));
    }
    match joint {
        Joint::Segment(_) => Ok(()),
        Joint::Nothing => {
            let reason = format!("memory of kind {kind:?} cannot be put into one segment");
            Err(refused(0, reason))
        }
        Joint::GivenUp { rank, reason } => Err(refused(*rank, reason.clone())),
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
    let mut peers = Vec::with_capacity(link.size);
    for (rank, (intent, part)) in intents.iter().zip(&shared.plan.parts).enumerate() {
        let offer = Offer {
            base: shared.segment.at(part.offset) as u64,
            limit: intent.len,
            unit: intent.unit,
            control_base: 0,
            handle: handle.clone(),
            control_handle: handle.clone(),
        };
        let mut peer = peer(&link, rank, &offer)?;
        peer.reach = Reach::Mapped(0);
        peer.mapped = Some(peer.base);
        peers.push(peer);
    }
    let exposed = Exposed {
        base: peers[link.rank].base as *mut u8,
        len: wanted.source.len(),
        iface: hmem_iface::SYSTEM,
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
            peers,
            devices: devices(intents),
        },
    ))
}

/// A window of which the transport does at least a part.
fn partly(
    link: Link,
    wanted: &Wanted<'_>,
    info: &Resolved,
    intents: &[Intent],
    classes: &[usize],
    joint: Joint,
) -> WinResult<Window> {
    let handle_size = link.transport.attributes().handle_size;
    let regions = match wanted.kind {
        WindowKind::Dynamic => Shape::of(handle_size).control_words(),
        _ => 0,
    };
    let plan = ControlPlan::new(link.size, regions, SLOTS);
    let shared = match joint {
        Joint::Segment(shared) => Some(shared),
        Joint::Nothing | Joint::GivenUp { .. } => None,
    };
    // Where each rank of this node has its part of the segment, mapped here.
    let own_class: Vec<usize> = (0..link.size)
        .filter(|rank| classes[*rank] == classes[link.rank])
        .collect();
    let mapped: Option<Vec<u64>> = shared.as_ref().map(|shared| {
        let parts = shared.plan.parts.iter();
        parts
            .map(|part| shared.segment.at(part.offset) as u64)
            .collect()
    });
    let local = own_part(&link, wanted, info, (shared, &own_class), plan);
    let offer = match &local {
        Ok((exposed, control)) => {
            let (control_base, control_handle) = control.card();
            Ok(Offer {
                base: exposed.base as u64,
                limit: exposed.len as u64,
                unit: wanted.unit,
                control_base,
                handle: exposed.handle_bytes(),
                control_handle,
            })
        }
        Err(reason) => Err(reason.clone()),
    };
    let mut peers = Vec::with_capacity(link.size);
    for (rank, blob) in link
        .exchange(&encode(wanted.kind, &offer))?
        .iter()
        .enumerate()
    {
        let offer = decode(rank, wanted.kind, handle_size, blob)?;
        let mut peer = peer(&link, rank, &offer)?;
        let beside = intents[rank].device == HOST && classes[rank] == classes[link.rank];
        if beside {
            let at = own_class.iter().position(|member| *member == rank);
            let here = mapped.as_ref().zip(at).and_then(|(here, at)| here.get(at));
            peer.mapped = match rank == link.rank {
                true => Some(offer.base),
                false => here.copied(),
            };
            peer.reach = match (info.table, here) {
                // The transport maps the segment, too.
                (TableChoice::Btl, _) | (_, None) => Reach::Transport,
                (_, Some(_)) if rank == link.rank => Reach::Mapped(0),
                (_, Some(here)) => Reach::Mapped(here.wrapping_sub(offer.base)),
            };
        }
        peers.push(peer);
    }
    let (exposed, control) = local.map_err(|reason| refused(link.rank, reason))?;
    let table = table_for(&peers);
    Ok(assemble(
        link,
        (wanted.kind, info),
        table,
        Pieces {
            exposed,
            control,
            shared: None,
            peers,
            devices: devices(intents),
        },
    ))
}

/// This rank's memory and control block, registered; or why it has none.
fn own_part(
    link: &Link,
    wanted: &Wanted<'_>,
    info: &Resolved,
    (shared, own_class): (Option<Shared>, &[usize]),
    plan: ControlPlan,
) -> Result<(Exposed, Control), String> {
    usable(link)?;
    let (base, len, memory) = match info.device {
        HOST => memory(link, wanted, shared, own_class)?,
        device => device_memory(link, wanted, shared, device)?,
    };
    let exposed = expose(link, (base, len, info.device), memory)?;
    let control = Control::new(&link.transport, plan).map_err(|error| error.to_string())?;
    Ok((exposed, control))
}
