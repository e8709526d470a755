//! A window out of its parts: how this rank reaches each peer, and the table that follows from it.

use std::mem::ManuallyDrop;

use plugin_api::ThreadLevel;

use super::bounce::PackedBytes;
use super::btl;
use super::control::Control;
use super::epoch::Epochs;
use super::error::{WinError, WinResult};
use super::hints::Rules;
use super::hooks::Layers;
use super::info::Resolved;
use super::intent::Intent;
use super::kind::WindowKind;
use super::link::Link;
use super::near;
use super::parts::{Exposed, Parts, SyncState};
use super::peer::{Offer, Peer, Reach};
use super::regions::Attached;
use super::request_state::RequestPool;
use super::shm::shared::Shared;
use super::slots::Slots;
use super::table::RmaTable;
use super::types::TypeTable;
use super::window::Window;

pub(super) fn table_for(peers: &[Peer]) -> (RmaTable, &'static str) {
    if peers.iter().all(|peer| peer.reach == Reach::Transport) {
        (btl::TABLE, "btl")
    } else {
        (near::TABLE, "mixed")
    }
}

pub(super) fn peer(link: &Link, rank: usize, offer: &Offer) -> WinResult<Peer> {
    let endpoint = link.members.endpoint(rank);
    let endpoint = endpoint.map_err(|reason| WinError::Creation { rank, reason })?;
    let alone = link.context.threads < ThreadLevel::Multiple;
    Ok(Peer::new(rank, endpoint, offer, alone))
}

/// The parts of a window that differ between tables.
pub(super) struct Pieces {
    pub(super) exposed: Exposed,
    pub(super) control: Control,
    pub(super) shared: Option<Shared>,
    pub(super) peers: Vec<Peer>,
    pub(super) devices: Box<[i32]>,
}

/// The device of each rank's memory.
pub(super) fn devices(intents: &[Intent]) -> Box<[i32]> {
    intents.iter().map(|intent| intent.device).collect()
}

pub(super) fn assemble(
    link: Link,
    (kind, info): (WindowKind, &Resolved),
    (table, table_name): (RmaTable, &'static str),
    pieces: Pieces,
) -> Window {
    let Pieces {
        exposed,
        control,
        shared,
        peers,
        devices,
    } = pieces;
    Window {
        kind,
        info: *info,
        rules: Rules::new(info.rules),
        types: TypeTable::of(&link.transport),
        epochs: Epochs::new(link.size),
        table,
        table_name,
        layers: Layers::default(),
        parts: ManuallyDrop::new(Box::new(Parts {
            exposed,
            control,
            shared,
            attached: Attached::default(),
            peers: peers.into(),
            devices,
            slots: Slots::new(),
            requests: RequestPool::default(),
            packed: PackedBytes::default(),
            sync: SyncState::default(),
        })),
        whole: true,
        link,
    }
}
