//! Assembles a window from its parts: the way to each peer, and the table of functions that follows
//! from these ways.

use std::mem::ManuallyDrop;

use crate::win::bounce::PackedBytes;
use crate::win::btl;
use crate::win::btl::gathers::Gathers;
use crate::win::control::Control;
use crate::win::device::neighbours::Neighbours;
use crate::win::device::opened;
use crate::win::dynamic::attempts;
use crate::win::dynamic::completing;
use crate::win::dynamic::refused::Refused;
use crate::win::dynamic::regions::Attached;
use crate::win::epoch::Epochs;
use crate::win::hints::Rules;
use crate::win::hooks::Layers;
use crate::win::info::{Resolved, TableChoice};
use crate::win::kind::WindowKind;
use crate::win::link::Link;
use crate::win::near;
use crate::win::parts::{Exposed, Parts, SyncState};
use crate::win::peer::Reach;
use crate::win::peers::{Card, Peers};
use crate::win::request::request_state::RequestPool;
use crate::win::shm::shared::Shared;
use crate::win::slots::Slots;
use crate::win::table::{Direct, RmaTable};
use crate::win::window::Window;

pub(in crate::win) fn table_for(
    cards: &[Card],
    neighbours: &Neighbours,
) -> (RmaTable, TableChoice) {
    let (table, choice) = match cards.iter().all(|card| card.reach == Reach::Transport) {
        true => (btl::TABLE, TableChoice::Btl),
        false => (near::TABLE, TableChoice::Mixed),
    };
    match neighbours.is_empty() {
        true => (table, choice),
        false => (opened::over(table), choice),
    }
}

/// The parts of a window that differ between tables.
pub(in crate::win) struct Pieces {
    pub(in crate::win) exposed: Exposed,
    pub(in crate::win) control: Control,
    pub(in crate::win) shared: Option<Shared>,
    pub(in crate::win) cards: Vec<Card>,
    pub(in crate::win) neighbours: Neighbours,
}

pub(in crate::win) fn assemble(
    link: Link,
    (kind, info): (WindowKind, &Resolved),
    (table, choice): (RmaTable, TableChoice),
    pieces: Pieces,
) -> Window {
    let Pieces {
        exposed,
        control,
        shared,
        cards,
        neighbours,
    } = pieces;
    let table = match kind {
        WindowKind::Dynamic => attempts::over(completing::over(table)),
        _ => table,
    };
    let barriers = shared.as_ref().map_or(0, |shared| shared.barriers);
    Window {
        kind,
        info: Resolved {
            table: choice,
            ..*info
        },
        rules: Rules::new(info.rules),
        epochs: Epochs::new(link.size),
        direct: Direct::default(),
        table,
        layers: Layers::default(),
        parts: ManuallyDrop::new(Box::new(Parts {
            exposed,
            control,
            shared,
            types: link.context.types,
            attached: Attached::default(),
            peers: Peers::new(&link, &cards),
            neighbours,
            slots: Slots::new(),
            requests: RequestPool::default(),
            packed: PackedBytes::default(),
            sync: SyncState::after(barriers),
            gathers: Gathers::default(),
            refused: Refused::default(),
        })),
        whole: true,
        link,
    }
}
