//! A one-sided transport over libfabric: puts, gets and atomics between processes, and nothing else.
//!
//! The crate is independent of the host. A door (the plugin, the Open MPI component) resolves [`Options`], opens a
//! [`Transport`], publishes its [`address`](Transport::address), connects peers from their addresses, registers
//! memory, then issues operations.
//!
//! # Example
//!
//! A process puts a word into a window of its own; a peer's window is used in the same way, once its address and its
//! handle came by the host's own means.
//!
//! ```no_run
//! use btl_ofi::{Op, Options, Transport};
//! use plugin_api::Access;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Every parameter has its default, except that the provider is named.
//! let options = Options::resolve(|declaration| {
//!     Ok::<_, std::convert::Infallible>(match declaration.name.as_ref() {
//!         "btl_ofi_provider_include" => mca_params::Value::str("tcp;ofi_rxm"),
//!         _ => declaration.default.clone(),
//!     })
//! })?;
//! let transport = Transport::open(&options)?;
//! let peer = transport.connect(transport.address(), 0)?;
//! let mut window = [0u64; 8];
//! let word = 7u64;
//! // SAFETY: the window outlives its region, and the word the flush.
//! unsafe {
//!     let base = window.as_mut_ptr().cast();
//!     let region = transport.register(base, size_of_val(&window), Access::all())?;
//!     let handle = region.handle();
//!     let local = ((&raw const word).cast_mut().cast(), std::ptr::null_mut());
//!     let status = transport.submit(peer, &Op::put(&handle, handle.base(), local, 8));
//!     assert!(status.is_ok());
//!     assert!(transport.flush(None).is_ok());
//!     region.close()?;
//! }
//! transport.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # The public names
//!
//! | name | meaning | example |
//! | --- | --- | --- |
//! | [`Transport`] | opened by a door; makes the operations | above |
//! | [`Options`] | the values of all parameters | above |
//! | [`Op`], [`Completion`] | one request, and the callback at its end | above; `tests/common/calls.rs` |
//! | [`Notice`] | the counter that a put with notification raises | `tests/notify.rs` |
//! | [`Apply`], [`Change`], [`Arithmetic`] | any operation on elements of any size in runs; its effect; the user's function for it | `tests/apply.rs` |
//! | [`Region`], [`Handle`] | registered memory, and the bytes by which peers name it | above; `tests/rights.rs` |
//! | [`Endpoint`] | a connected peer | above |
//! | [`Capabilities`] | capabilities of the opened provider | `tests/lab_atomics.rs` |
//! | [`Candidate`] | a provider in [`Transport::survey`] | `tests/room.rs` |
//! | [`Receive`], [`Leaves`], [`Sent`] | the host's function for messages that arrive; when one leaves, and whether it has | `tests/sends.rs` |
//! | [`ErrorReport`] | the host's function for failures that no callback reports | `tests/gone.rs` |
//! | [`Error`], [`CallError`] | why a call failed | `btl-ofi/plugin/src/module.rs` |
//! | [`log`] | the way of log lines to the host | `btl-ofi/plugin/src/component.rs` |
//! | [`hints`] | for the fast paths of doors | `btl-ofi/plugin/src/module/rma.rs` |
//!
//! # Layers
//!
//! The folders are layers: each uses only those above it in this table. `fabric` and `sm` do not use each other.
//!
//! | folder | holds |
//! | --- | --- |
//! | `base` | errors, log, parameters, locks, the gate of system calls (`sys`), copies between processes (`cma`), accesses to windows (`access`) |
//! | `mem` | handles and rights, regions, copy functions of device memory |
//! | `peer` | endpoints and their table, addresses, outstanding counts, liveness, access to a peer's memory (`reach`), routes |
//! | `op` | requests (`Op`) and their records, arithmetic of atomics |
//! | `fabric` | provider selection, quirks of providers, completion policy, libfabric's objects, registration |
//! | `sm` | transport within one node: segment, rings, payload pool, requester and responder |
//! | `hmem` | staged device memory: mailbox, its server at the target, and bounce buffers |
//! | `detector` | the failure detector: a state machine without I/O |
//! | `core` | contexts, counts, reports, failures that were found; `Core`, which carriers are given |
//! | `carrier` | provider, messages, rings, mapped memory, CMA: posts, polls, and the end of each carrier's state for a peer |
//! | `engine` | routes, progress, flush, the ends of peers, operations made of others (`compound`), staged device memory, and [`Transport`] |
//!

//! # Three verbs for an end
//!
//! | verb | of | meaning |
//! | --- | --- | --- |
//! | `fail` | an operation, a peer, the provider | it is reported with an error, once; nothing waits for it any more, and later operations are refused |
//! | `abandon` | a carrier's or the detector's state for a peer | it is dropped, and later messages are ignored; its operations fail |
//! | `close` | an object: transport, endpoints, regions, channels | it is released in order, the child before the parent; nothing uses it any more |
//!
//! An operation *ends* when it completes or fails. An entry of a table is *removed*.

#![allow(
    clippy::useless_conversion,
    reason = "the integer types of libfabric's flags differ between releases of its headers"
)]

mod base;
mod carrier;
mod core;
mod detector;
mod engine;
mod fabric;
mod hmem;
mod mem;
mod op;
mod peer;
mod sm;

pub use base::capabilities::{Capabilities, ErrorReport};
pub use base::error::{CallError, Error};
pub use base::hints;
pub use base::log;
pub use base::params::Options;
pub use core::receive::Receive;
pub use engine::transport::Transport;
pub use fabric::msg::{Leaves, Sent};
pub use fabric::region::Region;
pub use fabric::select::Candidate;
pub use mem::handle::Handle;
pub use mem::regions::Arithmetic;
pub use mem::shared::SharedMemory;
pub use op::apply::{Apply, Change};
pub use op::completion::Completion;
pub use op::request::{Notice, Op};
pub use peer::endpoint::Endpoint;
