//! `mca_btl_ofi.so`: the transport as Open MPI's component `btl/ofi`.
//!
//! What lives here: the component and module structures that Open MPI 4.1, 5.0 and 6.0 expect, and functions that convert
//! their arguments, call the transport and convert the result. Decisions about how bytes move belong to the crate
//! `btl-ofi`, not here. Bindgen generates the layouts from Open MPI's headers and asserts the size and offset of every
//! field at compile time.
//!
//! No panic crosses into Open MPI: functions run under `guard`, but for the quick paths of operations, which do not unwind.
//!
//! The crate is empty if its build script found no headers.

#[cfg(openmpi)]
mod bindings;
#[cfg(openmpi)]
mod common_ofi;
#[cfg(openmpi)]
mod component;
#[cfg(openmpi)]
mod entries;
#[cfg(openmpi)]
mod flags;
#[cfg(openmpi)]
mod fragments;
#[cfg(openmpi)]
mod guard;
#[cfg(openmpi)]
mod identity;
#[cfg(openmpi)]
#[cfg(openmpi)]
mod live;
mod log;
#[cfg(openmpi)]
mod module;
#[cfg(openmpi)]
#[cfg(openmpi)]
mod own_words;
#[cfg(openmpi)]
mod params;
#[cfg(openmpi)]
mod peers;
#[cfg(openmpi)]
mod pvars;
#[cfg(openmpi)]
mod registrations;
#[cfg(openmpi)]
mod sender;
#[cfg(openmpi)]
mod storage;
#[cfg(openmpi)]
mod transfers;
#[cfg(openmpi)]
mod waiting;

#[cfg(series = "4.1")]
#[path = "series_41.rs"]
mod series;
#[cfg(series = "5.0")]
#[path = "series_50.rs"]
mod series;
#[cfg(series = "6.0")]
#[path = "series_60.rs"]
mod series;
