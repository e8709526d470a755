//! One interface of a provider, and the options of a transport that another one has open on it.

use std::net::IpAddr;

use super::{Mode, Options};

/// One interface of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) provider: String,
    pub(crate) domain: String,
    /// The interface's address, if it is an IP address.
    pub(crate) address: Option<IpAddr>,
}

impl Options {
    /// The options of a rail: only transfers by the provider, on one interface.
    pub(crate) fn for_rail(&self, place: &Place) -> Options {
        let mut options = self.clone();
        options.mode = Mode::OneSided;
        options.provider.is_rail = true;
        options.applies = false;
        options.provider.rails = Some(1);
        options.provider.include = vec![place.provider.clone()];
        options.provider.place = Some(place.clone());
        options.contexts.number = 1;
        options.peers.same_node = false;
        options.messages.limit = 0;
        options.devices.by_provider = Some(false);
        options
    }

    /// Whether peers find this rail by its number instead of its IP address (`peer::networks::pair`). If such a rail
    /// cannot be opened, its number must not go to the next rail, which may be on another network.
    pub(crate) fn is_found_by_number(&self) -> bool {
        let place = self.provider.place.as_ref();
        place.is_some_and(|place| place.address.is_none())
    }
}
