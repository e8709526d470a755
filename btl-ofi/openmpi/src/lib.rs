//! `mca_btl_ofi_rs.so`: the transport as Open MPI's component `btl/ofi_rs`, and windows on it as the component `osc/ofi_rs`.
//!
//! `btl` and `osc` have the component and module structures that Open MPI 4.1, 5.0 and 6.0 expect, and functions that convert their
//! arguments, call the transport or the window engine, and convert the result. Both share the bindings, names, the host's check,
//! parameters and log; `series` has the differences between the series of Open MPI. Decisions about how bytes move belong to the
//! crate `btl-ofi`, not here. Bindgen generates the layouts from Open MPI's headers and asserts the size and offset of every
//! field at compile time.
//!
//! No panic crosses into Open MPI: functions run under `guard`, except the fast paths of operations, which do not unwind.
//!
//! The crate is empty if its build script found no headers.

#[cfg(openmpi)]
mod bindings;
#[cfg(openmpi)]
mod btl;
#[cfg(openmpi)]
mod common_ofi;
#[cfg(openmpi)]
mod guard;
#[cfg(openmpi)]
mod host;
#[cfg(openmpi)]
mod identity;
#[cfg(openmpi)]
mod log;
#[cfg(openmpi)]
mod osc;
#[cfg(openmpi)]
mod params;
#[cfg(openmpi)]
mod pvars;
#[cfg(openmpi)]
mod storage;

#[cfg(series = "4.1")]
#[path = "series/v41.rs"]
mod series;
#[cfg(series = "5.0")]
#[path = "series/v50.rs"]
mod series;
#[cfg(series = "6.0")]
#[path = "series/v60.rs"]
mod series;
