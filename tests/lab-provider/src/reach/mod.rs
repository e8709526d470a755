//! The memory and objects that a process exposes to its peers, and the peers' accesses: memory through the kernel
//! (`memory`), the list of regions (`regions`, `pages`), device memory that the owner copies for them (`device`,
//! `inbox`), and messages (`mailbox`).

pub(crate) mod destinations;
pub(crate) mod device;
pub(crate) mod inbox;
pub(crate) mod mailbox;
pub(crate) mod memory;
pub(crate) mod name;
pub(crate) mod pages;
pub(crate) mod regions;

use mailbox::Mailbox;
use name::Name;

/// The address of an endpoint of this process.
pub(crate) fn own_name(domain: u64, mailbox: Option<&Mailbox>) -> Name {
    let mailbox = mailbox.map_or((0, 0), |m| (m.place(), m.owner()));
    Name::of_process(domain, regions::place(), inbox::place(), mailbox)
}
