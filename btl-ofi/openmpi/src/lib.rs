//! `mca_btl_ofi.so`: the transport as Open MPI's component `btl/ofi`.
//!
//! What lives here: the component and module structures that Open MPI 4.1 and 5.0 expect, and functions that
//! convert their arguments, call the transport, and convert back. What may not: anything that decides how bytes
//! move; that is `btl-ofi`'s. The layouts come from bindgen over the headers of the Open MPI that is built against,
//! so that the size and offset of every field is asserted at compile time.
//!
//! No panic crosses into Open MPI: every function that it can call runs under [`guard`].
//!
//! The crate is empty where its build script found no headers.

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
mod guard;
#[cfg(openmpi)]
mod identity;
#[cfg(openmpi)]
mod log;
#[cfg(openmpi)]
mod module;
#[cfg(openmpi)]
mod params;
#[cfg(openmpi)]
mod peers;
#[cfg(openmpi)]
mod registrations;
#[cfg(openmpi)]
mod storage;

#[cfg(series = "4.1")]
#[path = "series_41.rs"]
mod series;
#[cfg(series = "5.0")]
#[path = "series_50.rs"]
mod series;
