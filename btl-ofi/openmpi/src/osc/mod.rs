//! The component `osc`: Open MPI's windows, straight on the window engine.
//!
//! - `component`: what Open MPI looks up; `params`, `log`; `published`: which processes have the component.
//! - `select`: how the ranks of a window agree, by `card`s; `ucx`: when another component serves it better; `transport`: the one transport of all windows, with its `services`; `group`: the
//!   ranks of a window as the engine sees them.
//! - `module`: the functions of a window; `calls` counts theirs; `convert`, `shape` and `ops`: datatypes and operations; `request`; `progress`, `progress_thread`; `info`; `error`.
//! - `devices`: memory of devices; `program`: what `openmpi_ofi_rs.h` has for programs.

mod calls;
mod card;
mod component;
mod convert;
mod devices;
mod error;
mod group;
mod info;
mod log;
mod module;
mod ops;
mod params;
mod program;
mod progress;
mod progress_thread;
mod published;
mod request;
mod select;
mod services;
mod shape;
mod transport;
mod ucx;
