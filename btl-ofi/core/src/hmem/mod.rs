//! Staged device windows, for device memory that the provider does not take: the layout that requester and target
//! share (`mailbox`), the target's side (`server`), and host buffers (`bounce`). The requester's side,
//! which posts to the provider, is `engine::staging`.

pub(crate) mod bounce;
pub(crate) mod mailbox;
mod pages;
pub(crate) mod server;
