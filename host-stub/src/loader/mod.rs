//! Opening a plugin and talking to it: everything that knows the vtable from the host's side.
//!
//! [`Plugin`] is a checked shared object, [`Component`] its open component, [`Transport`] one
//! module ready for use, [`Registration`] memory that peers may reach. Each keeps what it needs
//! alive, so they may be dropped in any order. Nothing above this module handles a raw table.

mod atomics;
mod attributes;
mod component;
mod declaration;
mod error;
mod failure;
mod handle;
mod hmem;
mod modules;
mod path;
mod plugin;
mod registration;
#[cfg(test)]
pub(crate) mod scripted;
mod services;
mod traced;
mod transport;

pub use attributes::Attributes;
pub use component::{Component, ProviderReport};
pub use error::{LoadError, Subject, TransportError};
pub use failure::Failure;
pub(crate) use handle::HandleCopy;
pub use hmem::Blocks;
pub use path::{DEFAULT_PLUGIN, PLUGIN_ENV, default_path};
pub use plugin::Plugin;
pub use registration::Registration;
pub use services::HostServices;
pub(crate) use traced::Recorder;
pub use transport::{EndpointRef, Transport};
