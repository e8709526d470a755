//! The component `osc`: Open MPI's windows, directly on the window engine.
//!
//! - `component`: the structure that Open MPI looks up; `params`, `log`; `published`: the processes that have the
//!   component.
//! - `select`: the agreement of a window's ranks, in a `meeting`, by `card`s; `ucx`: whether another component serves the
//!   window better; `transport`: the transports of all windows, with their `services` and the processes that they have
//!   `reached`; `group`: the ranks of a window in the engine's terms.
//! - `module`: the functions of a window; `calls` counts their calls; `convert`, `shape` and `ops`: datatypes and operations;
//!   `request`; `progress`, `progress_thread`; `info`; `error`.
//! - `devices`: memory of devices; `program`: the functions of `openmpi_ofi_rs.h` for programs.

mod calls;
mod card;
mod component;
mod convert;
mod devices;
mod error;
mod group;
mod info;
mod log;
mod meeting;
mod module;
mod ops;
mod params;
mod program;
mod progress;
mod progress_thread;
mod published;
mod reached;
mod request;
mod select;
mod services;
mod shape;
mod transport;
mod ucx;
