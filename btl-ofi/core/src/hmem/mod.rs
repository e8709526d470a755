//! Device memory that the provider does not take: what owner and initiator of a staged window share (`mailbox`), the
//! owner's side (`agent`, `arithmetic`), and buffers on the host (`bounce`). Who posts for it is above, in
//! `engine::staging`.

pub(crate) mod agent;
pub(crate) mod arithmetic;
pub(crate) mod bounce;
pub(crate) mod mailbox;
