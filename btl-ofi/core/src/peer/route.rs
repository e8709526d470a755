//! The route of requests to a peer: the carrier of its puts and gets, and the executor of its atomics. One table decides it
//! from facts when the peer is connected; no other module does.
//!
//! | peer | puts and gets | atomics |
//! | --- | --- | --- |
//! | this transport itself | a copy in this thread | this thread, by the responder's functions |
//! | same node, its memory is reached | ring while the peer is fast, else cross-memory attach | its ring; both: instructions of this process, if it [maps](crate::sm::mapped) the memory |
//! | any other, messages at both sides | small ones by message, large ones by the provider | message |
//! | any other | the provider | the provider |
//!
//! Two facts change a row. Atomics that the provider executes in hardware stay with the fabric, because the processor's
//! atomics would not exclude them (`Facts::processor_atomics`). And with `btl_ofi_same_node` off, at either side, the
//! second row does not apply, nor does the first unless messages or the provider require it.
//!
//! **A peer counts as local only after proof**: a word of the peer's memory was read and held the random value that the peer
//! announced (`peer::reach`). Equal names, boot ids and process ids prove nothing.
//!
//! **Atomicity.** Origins of one window may take different routes. The ring's responder, the own thread, origins that map the
//! memory, and the software of the providers concerned all change an element by one atomic instruction. So these executors
//! exclude each other without a common lock.

/// The carrier of puts and gets to a peer. After the connect, only `engine::cma_refused` and `engine::failure` change it:
/// if CMA no longer reaches the peer's memory, or if the peer seems to be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Transfers {
    /// The provider.
    Fabric = 0,
    /// CMA (`base::cma`), or the peer through its ring while it answers fast, or instructions on memory that this process
    /// maps.
    Kernel = 1,
    /// A copy in this thread, because the peer is this transport.
    Copy = 2,
    /// The peer through its claimed ring, because CMA no longer reaches its memory.
    Ring = 3,
    /// The route is undecided until the peer is examined, because its process was found dead while no operation was
    /// outstanding.
    Doubted = 4,
    /// For small transfers, the peer, which a message reaches (`fabric::msg`); for other transfers, the provider.
    Message = 5,
}

/// The executor of the atomics to a peer. The executor is fixed before the first atomic is posted, and stays while the
/// peer is connected, so that atomics keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Atomics {
    /// The provider.
    Fabric = 0,
    /// This thread, because the peer is this transport.
    Own = 1,
    /// As for `Ring`, but the ring in the peer's segment is not claimed yet.
    Unclaimed = 2,
    /// The peer, through its claimed ring. If the ring is empty, this thread, on memory that it maps.
    Ring = 3,
    /// The peer, which a message reaches (`fabric::msg`).
    Message = 4,
}

impl Atomics {
    /// The executor of atomics to a peer without a ring.
    pub(crate) fn remote(messages: bool) -> Atomics {
        if messages {
            Atomics::Message
        } else {
            Atomics::Fabric
        }
    }
}

impl Transfers {
    /// The carrier of puts and gets to a peer whose memory CMA does not reach.
    pub(crate) fn remote(messages: bool) -> Transfers {
        if messages {
            Transfers::Message
        } else {
            Transfers::Fabric
        }
    }
}

/// The facts about a peer at the time of its connect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// The peer is this transport itself.
    pub(crate) own: bool,
    /// This process and the peer both allow the paths within one node (`btl_ofi_same_node`).
    pub(crate) same_node: bool,
    /// This process read the peer's memory, and the probe proved that the memory belongs to the
    /// peer.
    pub(crate) reached: bool,
    /// The peer offers a ring.
    pub(crate) ring: bool,
    /// Processors execute the provider's atomics, by atomic instructions (`fabric::policy`).
    pub(crate) processor_atomics: bool,
    /// This process and the peer exchange messages. Then the provider executes no atomics between this
    /// process and the peer.
    pub(crate) messages: bool,
}

/// The route of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) transfers: Transfers,
    pub(crate) atomics: Atomics,
}

impl Route {
    pub(crate) fn decide(facts: Facts) -> Route {
        let local = facts.same_node && (facts.own || facts.reached);
        let transfers = match (facts.own, local) {
            (true, true) => Transfers::Copy,
            (true, false) if facts.messages => Transfers::Copy,
            (false, true) => Transfers::Kernel,
            (_, false) => Transfers::remote(facts.messages),
        };
        let by_processors = facts.processor_atomics || facts.messages;
        let atomics = match (facts.own, local) {
            (true, _) if facts.messages => Atomics::Own,
            (true, true) if by_processors => Atomics::Own,
            (false, true) if by_processors && facts.ring => Atomics::Unclaimed,
            _ => Atomics::remote(facts.messages),
        };
        Route { transfers, atomics }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests every row of the module's table, and the two facts that change rows.
    #[test]
    fn the_table() {
        let local = Facts {
            same_node: true,
            reached: true,
            ring: true,
            processor_atomics: true,
            ..Facts::default()
        };
        let own = Facts { own: true, ..local };
        let of = |facts| {
            let Route { transfers, atomics } = Route::decide(facts);
            (transfers, atomics)
        };
        assert_eq!(of(own), (Transfers::Copy, Atomics::Own));
        assert_eq!(of(local), (Transfers::Kernel, Atomics::Unclaimed));
        let fabric = (Transfers::Fabric, Atomics::Fabric);
        assert_eq!(of(Facts::default()), fabric);
        let unreached = Facts {
            reached: false,
            ..local
        };
        assert_eq!(of(unreached), fabric, "a peer that only claims to be local");
        let without_ring = Facts {
            ring: false,
            ..local
        };
        assert_eq!(of(without_ring), (Transfers::Kernel, Atomics::Fabric));
        for (facts, transfers) in [(own, Transfers::Copy), (local, Transfers::Kernel)] {
            let hardware = Facts {
                processor_atomics: false,
                ..facts
            };
            assert_eq!(of(hardware), (transfers, Atomics::Fabric));
            let off = Facts {
                same_node: false,
                ..facts
            };
            assert_eq!(of(off), fabric);
        }
        let off = Facts {
            same_node: false,
            ..own
        };
        let told = |facts| {
            of(Facts {
                messages: true,
                processor_atomics: false,
                ..facts
            })
        };
        assert_eq!(told(own), (Transfers::Copy, Atomics::Own));
        assert_eq!(told(off), (Transfers::Copy, Atomics::Own));
        assert_eq!(told(local), (Transfers::Kernel, Atomics::Unclaimed));
        assert_eq!(told(without_ring), (Transfers::Kernel, Atomics::Message));
        let message = (Transfers::Message, Atomics::Message);
        assert_eq!(told(unreached), message);
        assert_eq!(told(Facts::default()), message);
    }
}
