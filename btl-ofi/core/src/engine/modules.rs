//! Several modules of one process, each a transport over an interface of its own, for hosts that divide their work among
//! modules themselves (`btl_ofi_modules`). The process publishes the addresses of all; each module leads to one of the peer's.

use crate::base::params::Options;
use crate::engine::transport::Transport;
use crate::peer::address::Blob;
use crate::peer::{networks, several};

impl Transport {
    /// The options with which further modules are to be opened, the preferred first. None unless several are asked for.
    pub fn further_modules(&self) -> &[Options] {
        &self.further
    }

    /// The order in which a process gives these modules to its host and [publishes](Self::addresses) them, as places in
    /// `modules`. It is the same on all nodes, whichever of their interfaces are faster or nearer to the process. So hosts whose
    /// processes each take the first module that reaches some peers take modules that lead to each other.
    pub fn shared_order(modules: &[&Transport]) -> Vec<usize> {
        let each: Vec<_> = modules.iter().map(|m| &m.node.networks).collect();
        networks::shared_order(&each)
    }

    /// What a process with these modules publishes.
    pub fn addresses(modules: &[&Transport]) -> Vec<u8> {
        let each: Vec<&[u8]> = modules.iter().map(|module| module.address()).collect();
        several::join(&each)
    }

    /// The address to which module `number` of this process is to [`connect`](Self::connect), out of what another process
    /// published: one on its network, to which no module before leads. The first module gets the first address if there is
    /// no such one, because `connect` then has the reason why they cannot meet.
    ///
    /// # Errors
    /// The bytes are not what a process publishes.
    pub fn address_for<'a>(
        modules: &[&Transport],
        number: usize,
        published: &'a [u8],
    ) -> Result<Option<&'a [u8]>, String> {
        let published = several::split(published)?;
        let (Some(first), Some(&address)) = (modules.first(), published.first()) else {
            return Ok(None);
        };
        if modules.len() == 1 && published.len() == 1 {
            return Ok(Some(address));
        }
        let networks_of = |bytes: &&[u8]| Blob::decode(bytes).map(|blob| blob.networks);
        let own: Vec<_> = modules.iter().map(|m| m.node.networks.endpoint).collect();
        let theirs = published.iter().map(networks_of);
        let theirs: Vec<_> = theirs.map(Result::unwrap_or_default).collect();
        let pairs = networks::pair(&first.node.networks, &own, &theirs);
        let found = pairs.get(number).copied().flatten();
        let alone = number == 0 && !pairs.contains(&Some(0));
        Ok(found.or(alone.then_some(0)).map(|at| published[at]))
    }
}
