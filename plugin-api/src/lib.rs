//! The C ABI between a one-sided transport plugin and the host that loads it.
//!
//! This crate holds the types and tables of the ABI, their checks and their layout assertions. No code of a host or a
//! transport.
//!
//! A plugin is a shared object that exports one function, [`ENTRY_SYMBOL`], of type [`EntryFn`]. The function returns a
//! [`ComponentVtable`]. The component makes modules; each [`Module`] has a [`ModuleVtable`] and [`Attributes`]. The
//! host passes a [`HostVtable`] to the plugin. Names, semantics and status codes follow Open MPI's BTL 3.x interface
//! (`opal/mca/btl/btl.h`).
//!
//! # Growth
//! Every table starts with a [`TableHeader`]. Two sides are compatible when `magic` and `abi_major` are equal. Within a
//! major, tables only grow at their end, so each side uses a table up to the smaller of its own and the other's `size`.
//! An entry beyond the other side's `size` does not exist; an entry inside the first release's size is never NULL.
//! [`TableHeader::check`] and the `check` of each table refuse a table that violates these rules.
//!
//! # Threads
//! If the host asked for [`ThreadLevel::Multiple`], several threads may call module functions and `progress` at the
//! same time. At lower levels, calls never overlap. The host never calls `open`, `init`, `finalize` or `close`
//! concurrently with any function of the same component.
//!
//! # Callbacks
//! Completion and error callbacks run on the thread that called `progress`, `flush` or an operation. (A plugin may
//! complete earlier operations while it starts another, to make room.) The plugin holds no lock while a callback runs.
//! A callback may call `progress`, `put`, `get` and every atomic; it must not call `flush`, `del_procs`, `finalize` or
//! `close`.
//!
//! # Ownership
//! The side that provides a table keeps it valid until `close` returns. Pointers passed to a call are borrowed for that
//! call unless the function's documentation states otherwise. Neither side frees an allocation of the other, and no
//! panic or exception crosses the boundary.

mod apply;
mod atomic;
mod attributes;
mod component;
pub mod counters;
mod header;
mod hmem;
mod host;
mod layout;
mod module;
mod objects;
mod param;
mod status;

pub use apply::{
    APPLY_BYTES, APPLY_HEAD, APPLY_OTHER, APPLY_RUN, ApplyFn, ApplyRequest, ApplyRun, MOST_APPLIED,
    MOST_ELEMENT,
};
pub use atomic::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, UnknownCode};
pub use attributes::{AtomicFlags, Attributes, ModuleFlags};
pub use component::{ComponentVtable, EntryFn, Provider, SurveyFn, ThreadLevel};
pub use header::{ABI_MAJOR, ABI_MINOR, AbiError, TableHeader, magic};
pub use hmem::{
    CopyFromAsyncFn, CopyFromFn, CopyFromStridedFn, CopyToAsyncFn, CopyToFn, CopyToStridedFn,
    EventQueryFn, HmemInfo, IoVec, OverrideOps, hmem_iface,
};
pub use host::{HostVtable, LogLevel};
pub use module::*;
pub use objects::{
    Access, CompletionFn, Component, Descriptor, Endpoint, ErrorFlags, ErrorFn, Handle, OpFlags,
    ReceiveFn, SOLE_ATOMICS, Stats, TransferFlags,
};
pub use param::{ParamDecl, ParamKind, ParamValue, ParamValueBits};
pub use status::Status;

/// The one symbol that a plugin exports, NUL-terminated for `dlsym`.
pub const ENTRY_SYMBOL: &std::ffi::CStr = c"btl_plugin_entry_v1";
