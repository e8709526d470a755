//! Assembles a window from its parts: how this rank reaches each peer, and the table that follows
//! from this.

use std::mem::ManuallyDrop;

use plugin_api::ThreadLevel;

use crate::win::bounce::PackedBytes;
use crate::win::btl;
use crate::win::btl::gathers::Gathers;
use crate::win::control::Control;
use crate::win::create::intent::Intent;
use crate::win::dynamic::attempts;
use crate::win::dynamic::completing;
use crate::win::dynamic::refused::Refused;
use crate::win::dynamic::regions::Attached;
use crate::win::epoch::Epochs;
use crate::win::error::{WinError, WinResult};
use crate::win::hints::Rules;
use crate::win::hooks::Layers;
use crate::win::info::Resolved;
use crate::win::kind::WindowKind;
use crate::win::link::Link;
use crate::win::near;
use crate::win::parts::{Exposed, Parts, SyncState};
use crate::win::peer::{Offer, Peer, Reach};
use crate::win::request::request_state::RequestPool;
use crate::win::shm::shared::Shared;
use crate::win::slots::Slots;
use crate::win::table::RmaTable;
use crate::win::types::TypeTable;
use crate::win::window::Window;

pub(in crate::win) fn table_for(peers: &[Peer]) -> (RmaTable, &'static str) {
    if peers.iter().all(|peer| peer.reach == Reach::Transport) {
        (btl::TABLE, "btl")
    } else {
        (near::TABLE, "mixed")
    }
}

pub(in crate::win) fn peer(link: &Link, rank: usize, offer: &Offer) -> WinResult<Peer> {
    let endpoint = link.members.endpoint(rank);
    let endpoint = endpoint.map_err(|reason| {
        // The other ranks do not know, and make the window.
        link.context.arena.spoil();
        Box::new(WinError::Creation { rank, reason })
    })?;
    let alone = link.context.threads < ThreadLevel::Multiple;
    Ok(Peer::new(rank, endpoint, offer, alone))
}

/// The parts of a window that differ between tables.
pub(in crate::win) struct Pieces {
    pub(in crate::win) exposed: Exposed,
    pub(in crate::win) control: Control,
    pub(in crate::win) shared: Option<Shared>,
    pub(in crate::win) peers: Vec<Peer>,
    pub(in crate::win) devices: Box<[i32]>,
}

/// The device of each rank's memory.
pub(in crate::win) fn devices(intents: &[Intent]) -> Box<[i32]> {
    intents.iter().map(|intent| intent.device).collect()
}

pub(in crate::win) fn assemble(
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
    let table = match kind {
        WindowKind::Dynamic => attempts::over(completing::over(table)),
        _ => table,
    };
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
            gathers: Gathers::default(),
            refused: Refused::default(),
        })),
        whole: true,
        link,
    }
}
