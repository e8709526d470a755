//! Opening a plugin: the search for its shared object, its checks, its component, and the host's services for
//! it.
//!
//! [`Plugin`] is a checked shared object, [`Component`] its open component, which makes transports
//! ([`Transport`]). Each object keeps the objects that it needs, so they may be dropped in any order.

mod component;
mod declaration;
mod error;
mod path;
mod plugin;
mod published;
#[cfg(test)]
pub(crate) mod scripted;
mod services;
mod traced;

pub use component::{Component, ProviderReport};
pub use error::LoadError;
pub(crate) use osc_engine::transport::HandleCopy;
pub use osc_engine::transport::{
    Attributes, Blocks, EndpointRef, Failure, Registration, Subject, Transport, TransportError,
    UNREPORTED,
};
pub use path::{DEFAULT_PLUGIN, PLUGIN_ENV, default_path};
pub use plugin::Plugin;
pub use published::Published;
pub use services::HostServices;
pub(crate) use traced::{Recorder, recorded};
