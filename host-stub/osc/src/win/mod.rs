//! Windows: memory of all ranks of a group, open to one-sided access, with MPI's semantics.
//!
//! A [`Window`] uses the caller's memory, its own, or memory attached later. Public calls (`calls`,
//! `sync_calls`) check their arguments and the epoch (`checked`, `epoch`), then go through the
//! window's own functions ([`RmaTable`]); the functions over the transport are in `btl`.
//! Synchronisation consists of one-sided operations on a control block per rank.
//!
//! No code here knows a provider; the transport reports the differences between providers.

mod agreement;
mod arena;
mod blocking;
mod bounce;
mod btl;
mod busy;
#[cfg(test)]
mod busy_tests;
mod calls;
mod checked;
mod control;
mod copy;
mod create;
mod custom;
mod device;
mod direct;
mod dynamic;
mod epoch;
mod error;
mod hints;
mod hooks;
mod info;
mod kind;
mod layout;
mod link;
mod local;
mod lock_words;
#[cfg(test)]
mod lock_words_tests;
mod memory;
mod near;
mod notify;
mod op;
mod parts;
mod peer;
#[cfg(test)]
mod peer_hostile;
mod peers;
mod pending;
#[cfg(test)]
mod pending_tests;
mod pieces;
mod queries;
mod remains;
mod request;
mod shm;
mod slots;
#[cfg(test)]
mod slots_tests;
mod sync;
mod sync_calls;
mod table;
mod transfer;
mod types;
mod window;

pub use plugin_api::Datatype;

pub use crate::base::{Op, combine, type_name};
pub(crate) use arena::Arena;
pub use control::COUNTERS;
pub use custom::{Custom, CustomOp};
pub use dynamic::keeping::is_kept;
pub use epoch::{Assertion, FencePlan, LockKind};
pub use error::{WinError, WinResult, unboxed};
pub use hooks::{HookId, NewWindow, WindowHook, WindowHooks};
pub use info::{Info, TableChoice};
pub use kind::WindowKind;
pub use layout::{Block, Layout, Run};
pub use memory::{alloc_mem, free_mem};
pub use op::Target;
pub use pieces::{Piece, Pieces};
pub(crate) use remains::Dropped;
pub use request::handle::Request;
pub use request::notice::Completed;
pub(crate) use shm::spare::Spare;
pub use table::{RmaTable, SharedPart};
pub use transfer::Transfer;
pub(crate) use types::TypeTable;
pub use window::{FreeError, Window};
