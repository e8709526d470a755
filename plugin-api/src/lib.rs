//! The C ABI between a one-sided transport plugin and the host that loads it.
//!
//! A plugin is a shared object that exports one function, [`ENTRY_SYMBOL`], of type [`EntryFn`].
//! It hands out a [`ComponentVtable`]; the component makes modules, and each [`Module`] carries a
//! [`ModuleVtable`] and its [`Attributes`]. The host hands in a [`HostVtable`]. Names, semantics
//! and status codes follow Open MPI's BTL 3.x interface (`opal/mca/btl/btl.h`).
//!
//! # Growth
//! Every table starts with a [`TableHeader`]. Two sides work together when `magic` and `abi_major`
//! are equal. Within a major, tables only grow at their end, so each side uses a table up to the
//! smaller of its own and the other's `size`. An entry beyond the other side's `size` does not
//! exist; an entry inside the first release's size is never NULL ([`TableHeader::check`] and the
//! `check` of each table refuse what breaks this).
//!
//! # Threads
//! A host that asked for [`ThreadLevel::Multiple`] may call module functions and `progress` from
//! any threads at once; below that, calls never overlap. `open`, `init`, `finalize` and `close`
//! are never called concurrently with anything on the same component.
//!
//! # Callbacks
//! Completion and error callbacks run on the thread that called `progress`, `flush` or an
//! operation (a plugin may complete earlier operations while it starts another, to make room), with
//! no lock of the plugin held. They may call `progress`, `put`, `get` and every atomic; they may not
//! call `flush`, `del_procs`, `finalize` or `close`.
//!
//! # Ownership
//! Whoever hands out a table keeps it valid until `close` returns. Pointers passed to a call are
//! borrowed for that call unless the function says otherwise. No allocation made by one side is
//! freed by the other, and no panic or exception crosses.

mod atomic;
mod attributes;
mod component;
mod header;
mod hmem;
mod host;
mod layout;
mod module;
mod param;
mod status;

pub use atomic::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, UnknownCode};
pub use attributes::{AtomicFlags, Attributes, ModuleFlags};
pub use component::{ComponentVtable, EntryFn, Provider, SurveyFn, ThreadLevel};
pub use header::{ABI_MAJOR, ABI_MINOR, AbiError, TableHeader, magic};
pub use hmem::{CopyFromFn, CopyToFn, HmemInfo, IoVec, OverrideOps, hmem_iface};
pub use host::{HostVtable, LogLevel};
pub use module::{
    Access, CompletionFn, Component, Endpoint, ErrorFlags, ErrorFn, Handle, Module, ModuleVtable,
    OpFlags, Stats,
};
pub use param::{ParamDecl, ParamKind, ParamValue, ParamValueBits};
pub use status::Status;

/// The one symbol a plugin exports, NUL-terminated for `dlsym`.
pub const ENTRY_SYMBOL: &std::ffi::CStr = c"btl_plugin_entry_v1";
