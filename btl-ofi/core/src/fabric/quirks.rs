//! Quirks of providers, as data: the only place that names providers. `policy` asks for traits and decides how they affect
//! operations.
//!
//! A provider may match several rows of [`QUIRKS`] and has the traits of all of them, because libfabric joins the names of
//! layers: `tcp;ofi_rxm` is rxm over tcp. To describe a provider, add a row, or add a trait to its row, with the reason
//! and its source. To describe a new behaviour, add a [`Trait`]. Versions are those of libfabric.

use libfabric_sys as ffi;

use crate::base::environment::Setting;
use crate::base::params::Options;
use crate::fabric::memory;

/// A peculiarity that changes the transport's behaviour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trait {
    /// The provider is refused, for this reason: it breaks a promise, and its other attributes do not show this.
    NotServed(&'static str),
    /// Delivery-complete works correctly from this version of the provider on.
    SoundFrom(u32),
    /// The provider reports delivery when it has only sent the data. On one connection, reads come behind the puts before
    /// them and so confirm them. This fails if this variable of libfabric requests several connections to a peer.
    ConfirmsSending { unless_several: &'static str },
    /// If the provider is opened with atomics, it refuses a registration inside a live one and forgets the live one. Peers'
    /// atomics to that region then fail. So the transport opens this provider without atomics, and targets execute atomics.
    LosesRegions,
    /// CMA replaces the provider's puts and gets, unless this variable of libfabric forbids CMA.
    CopiedByCma { unless: &'static str },
    /// Processors execute the provider's atomics, each element by one atomic instruction. NICs do not execute atomics in
    /// this way; it is unknown for other providers.
    ProcessorAtomics,
    /// All peers of the provider are on this node.
    OneNode,
    /// The provider carries no data: a peer that memory does not reach is refused.
    MemoryOnly,
    /// The provider keeps its endpoints as files in `/dev/shm` (`shm_files`).
    KeepsFiles,
    /// A poll that finds no completion makes system calls.
    PollsKernel,
    /// The provider connects by TCP at its first send, to the address that a peer published. Until the connection
    /// exists, the provider returns `FI_EAGAIN`, even if the peer refuses the connection, and tries again at each
    /// call.
    HidesRefusals,
    /// The provider makes RMA and atomics in software, and acknowledges each operation. Messages are faster for small
    /// operations.
    PrefersMessages,
    /// The provider sends a message of more than 16 KiB, with its own header, in parts. This takes longer than two
    /// messages.
    SendsInParts,
    /// The provider answers an update with delivery-complete twice, and a fetching atomic once.
    FreesUpdatesTwice,
    /// The provider executes atomics from one origin to one target in order, without a request for order.
    OrdersAtomics,
    /// A request for any order makes the provider's puts slower.
    OrderCosts,
    /// A missing answer blocks all later answers.
    BlocksOnMissingAnswer,
    /// An error without context may belong to an operation of a peer.
    ReportsForOthers,
    /// The provider needs this environment variable.
    Needs(Setting),
}

/// Patterns for the names of providers, compared with libfabric's name.
enum Names {
    Exact(&'static str),
    Prefix(&'static str),
    Suffix(&'static str),
    /// All of these strings occur in the name.
    Containing(&'static [&'static str]),
}

struct Row {
    names: Names,
    traits: &'static [Trait],
}

const QUIRKS: &[Row] = &[
    Row {
        names: Names::Exact("shm"),
        traits: &[
            Trait::OneNode,
            Trait::KeepsFiles,
            // libfabric's common functions (prov/util, util_atomic.c, compare-and-swap loops).
            Trait::ProcessorAtomics,
            // shm also copies by `process_vm_writev`, but then notifies the target through a command queue, for
            // counters and completions that this transport does not use. The queue costs more than the copy, and once
            // it is full, a target without progress blocks all operations.
            Trait::CopiedByCma {
                unless: "FI_SHM_DISABLE_CMA",
            },
            // shm returns the buffer of an update with delivery-complete to the target's pool twice: first at the
            // target, and again when the origin reads the answer (prov/shm of 1.17, smr_progress_inject_atomic and
            // smr_progress_resp_entry). Two operations then share a buffer, and the process crashes. A fetching
            // atomic returns its buffer once.
            Trait::FreesUpdatesTwice,
            // shm executes all atomics to one target through that target's one command queue, first in, first out
            // (prov/shm).
            Trait::OrdersAtomics,
            // shm gives up its direct path as soon as any order is requested.
            Trait::OrderCosts,
            // shm reads the answers to its operations from one queue and stops at the first one that is missing
            // (prov/shm, smr_progress_resp).
            Trait::BlocksOnMissingAnswer,
        ],
    },
    // The provider of this crate (`memory`). The peers of `memory` execute atomics by the processor, and in a ring's order.
    Row {
        names: Names::Exact(memory::NAME),
        traits: &[
            Trait::MemoryOnly,
            Trait::OneNode,
            Trait::ProcessorAtomics,
            Trait::OrdersAtomics,
        ],
    },
    Row {
        names: Names::Exact("sockets"),
        traits: &[
            // libfabric's common functions (prov/util, util_atomic.c, compare-and-swap loops).
            Trait::ProcessorAtomics,
            // sockets reports an error without context if a peer began an operation towards this process and died
            // before its end (observed with 1.17). Errors of this process's operations always carry their context
            // (prov/sockets, sock_pe_report_tx_error). If this process took such an error for its own, it would fail
            // an operation to a living peer that is about to complete.
            Trait::ReportsForOthers,
            // Otherwise its progress thread sleeps 10 ms at a time, and an operation takes as long.
            Trait::Needs(Setting {
                variable: "FI_SOCKETS_PE_WAITTIME",
                value: "0",
            }),
        ],
    },
    // These providers poll sockets, each time with a system call, and also below other layers.
    Row {
        names: Names::Prefix("sockets"),
        traits: &[Trait::PollsKernel],
    },
    Row {
        names: Names::Prefix("tcp"),
        // Observed with 1.17 after a peer on another host was killed.
        traits: &[
            Trait::PollsKernel,
            Trait::HidesRefusals,
            Trait::PrefersMessages,
        ],
    },
    Row {
        names: Names::Prefix("udp"),
        traits: &[Trait::PollsKernel],
    },
    Row {
        names: Names::Prefix("net"),
        // Observed with 1.17 after a peer on another host was killed.
        traits: &[
            Trait::PollsKernel,
            Trait::HidesRefusals,
            Trait::PrefersMessages,
        ],
    },
    Row {
        names: Names::Prefix("efa"),
        traits: &[
            // This is libfabric's numbering of provider versions. Open MPI's btl/ofi also refuses older
            // versions.
            Trait::SoundFrom(ffi::version(112, 0)),
            // libfabric's common functions (prov/util, util_atomic.c, compare-and-swap loops).
            Trait::ProcessorAtomics,
        ],
    },
    Row {
        names: Names::Suffix("ofi_rxm"),
        traits: &[
            // libfabric's common functions (prov/util, util_atomic.c, compare-and-swap loops).
            Trait::ProcessorAtomics,
            // An answer of 16 KiB takes 46 to 83 us, an answer of 12 KiB takes 22 to 35 us (observed with 1.17 over
            // tcp).
            Trait::SendsInParts,
            // Over tcp, rxm would post 4,096 receives of 16 KiB and use them in turn: 51 MiB more memory, and each message comes
            // into memory that is in no cache (13.6 us for a put instead of 12.5). A message that no receive of this transport
            // awaits does not use up a receive, because rxm posts another (prov/rxm, rxm_replace_rx_buf). Over verbs 128 is the
            // default.
            Trait::Needs(Setting {
                variable: "FI_OFI_RXM_MSG_RX_SIZE",
                value: "128",
            }),
        ],
    },
    Row {
        names: Names::Containing(&["verbs", "ofi_rxm"]),
        traits: &[
            // rxm passes puts and reads to one reliable connection of verbs (prov/rxm, rxm_rma.c). On this connection, a
            // read is executed behind the puts before it (InfiniBand). libfabric 2 can use several connections.
            Trait::ConfirmsSending {
                unless_several: "FI_OFI_RXM_NUM_MSG_EPS",
            },
            // The cache of verbs gives memory inside a live registration the key of that registration (prov/verbs,
            // verbs_mr.c). With atomics, rxm lists regions by key. rxm refuses a key that is already listed, and its error
            // path removes the key from the list (prov/rxm, rxm_mr_regattr; libfabric's issue 9133). The target's
            // processor executes rxm's atomics, too.
            Trait::LosesRegions,
        ],
    },
    Row {
        names: Names::Prefix("opx"),
        // opx's fi_getinfo returns the flags of the hints (prov/opx, fi_opx_fillinfo). A write completes when its packets
        // are acknowledged, whatever completion was requested. A target that does not know a packet's key drops the packet
        // and acknowledges it (fi_opx_hfi1.c, FI_OPX_HFI_DPUT_OPCODE_PUT).
        traits: &[Trait::NotServed(
            "it returns FI_DELIVERY_COMPLETE as it was asked and promises nothing by it: a put that its target drops \
             completes as if it had arrived",
        )],
    },
    Row {
        names: Names::Suffix("ofi_rxd"),
        // Observed with 1.17, over udp. Results of two fetching atomics that are outstanding are exchanged. Transfers of several
        // packets in both directions between two processes crash, and so do messages. If the target's socket drops datagrams,
        // puts that never arrived complete.
        traits: &[Trait::NotServed(
            "it gives results of fetching atomics to the wrong operations, and completes puts that never arrived; take \
             tcp;ofi_rxm or net",
        )],
    },
];

impl Names {
    fn match_name(&self, provider: &str) -> bool {
        match self {
            Names::Exact(name) => provider == *name,
            Names::Prefix(start) => provider.starts_with(start),
            Names::Suffix(end) => provider.ends_with(end),
            Names::Containing(parts) => parts.iter().all(|part| provider.contains(part)),
        }
    }

    /// Whether the user's lists may admit a provider with this name. True for a pattern that the lists cannot
    /// decide, because they contain beginnings of names.
    fn are_admitted(&self, options: &Options) -> bool {
        match self {
            Names::Exact(start) | Names::Prefix(start) => options.admits(start).is_ok(),
            Names::Suffix(_) | Names::Containing(_) => true,
        }
    }
}

/// The quirks of one provider. These quirks do not depend on the provider's version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quirks {
    /// Bit `i` is set if row `i` of the table describes the provider.
    rows: u32,
}

const _: () = assert!(QUIRKS.len() <= u32::BITS as usize);

impl Quirks {
    /// Looks the provider up by the name that libfabric gives.
    pub(crate) fn of(provider: &str) -> Quirks {
        let matching = QUIRKS.iter().enumerate();
        let matching = matching.filter(|(_, row)| row.names.match_name(provider));
        Quirks {
            rows: matching.fold(0, |rows, (i, _)| rows | 1 << i),
        }
    }

    /// Whether the provider has a trait, with the same value if the trait has one.
    pub(crate) fn has(self, wanted: Trait) -> bool {
        self.traits().any(|found| *found == wanted)
    }

    /// The first version whose delivery-complete works correctly, if earlier versions do not.
    pub(crate) fn sound_from(self) -> Option<u32> {
        self.traits().find_map(|t| match t {
            Trait::SoundFrom(version) => Some(*version),
            _ => None,
        })
    }

    /// The reason why the provider is refused, if there is one.
    pub(crate) fn not_served(self) -> Option<&'static str> {
        self.traits().find_map(|t| match t {
            Trait::NotServed(why) => Some(*why),
            _ => None,
        })
    }

    /// The environment variable that requests several connections, for a provider that reports delivery when it has only
    /// sent the data.
    pub(crate) fn loses_order_by(self) -> Option<&'static str> {
        self.traits().find_map(|t| match t {
            Trait::ConfirmsSending { unless_several } => Some(*unless_several),
            _ => None,
        })
    }

    /// The environment variable with which the user forbids CMA, for a provider whose puts and gets CMA replaces.
    pub(crate) fn copied_by_cma(self) -> Option<&'static str> {
        self.traits().find_map(|t| match t {
            Trait::CopiedByCma { unless } => Some(*unless),
            _ => None,
        })
    }

    fn traits(self) -> impl Iterator<Item = &'static Trait> {
        let rows = QUIRKS.iter().enumerate();
        rows.filter(move |(i, _)| self.rows >> i & 1 != 0)
            .flat_map(|(_, row)| row.traits)
    }
}

impl Trait {
    fn setting(&self) -> Option<&Setting> {
        match self {
            Trait::Needs(setting) => Some(setting),
            _ => None,
        }
    }
}

/// Environment variables for the providers that the user's lists admit.
pub(crate) fn needs(options: &Options) -> impl Iterator<Item = &'static Setting> {
    let rows = QUIRKS.iter();
    rows.filter(|row| row.names.are_admitted(options))
        .flat_map(|row| row.traits)
        .filter_map(Trait::setting)
}

#[cfg(test)]
mod tests;
