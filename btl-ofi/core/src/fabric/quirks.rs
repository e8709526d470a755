//! Quirks of providers, as data: the only place that names providers. `policy` asks for traits and decides how they affect
//! operations.
//!
//! A provider may match several rows of [`QUIRKS`] and has the traits of all: libfabric joins the names of layers, so
//! that `tcp;ofi_rxm` is rxm over tcp. To describe a provider, add a row or a trait to its row, with the reason and
//! where it was read or observed; to act on something new, add a [`Trait`]. Versions are those of libfabric.

use libfabric_sys as ffi;

use crate::base::environment::Setting;
use crate::base::params::Options;
use crate::fabric::memory;

/// A peculiarity that changes the transport's behaviour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trait {
    /// It is refused, for this reason: it does not do what it says, and nothing else in its answers tells that.
    NotServed(&'static str),
    /// Delivery-complete is sound from this version of the provider on.
    SoundFrom(u32),
    /// It reports delivery when it has only sent the data. Reads come behind the puts before them on a connection, and so
    /// confirm them, unless this variable of libfabric asks for several connections to a peer.
    ConfirmsSending { unless_several: &'static str },
    /// Opened with atomics, it refuses a registration inside a live one, and forgets the live one: atomics of peers to that
    /// fail from then on. So it is opened without, and targets execute atomics.
    LosesRegions,
    /// Its puts and gets are replaced by CMA, unless this variable of libfabric forbids CMA.
    CopiedByCma { unless: &'static str },
    /// Processors execute its atomics, each element by one atomic instruction. NICs do not execute atomics in this
    /// way; for other providers this is unknown.
    ProcessorAtomics,
    /// All its peers are on this node.
    OneNode,
    /// It carries nothing: peers that memory does not reach are refused.
    MemoryOnly,
    /// It keeps its endpoints as files in `/dev/shm` (`shm_room`, `shm_orphans`).
    KeepsFiles,
    /// A poll that finds nothing makes system calls.
    PollsKernel,
    /// It connects by TCP when it first sends, at the address that a peer published. While it is not connected, it says
    /// `FI_EAGAIN`, also if the peer refuses the connection, and tries again at each call.
    HidesRefusals,
    /// It makes RMA and atomics in software, and acknowledges each operation: messages serve small ones better.
    PrefersMessages,
    /// Its data goes through a stream of the kernel. The data of a put, and of the answer to a get, follows headers of the
    /// given sizes.
    Streams(Headers),
    /// It sends a message of more than 16 KiB, its own header included, in parts, which takes it longer than two messages.
    SendsInParts,
    /// An update with delivery-complete is answered twice, and a fetching atomic is not.
    FreesUpdatesTwice,
    /// Atomics from one origin to one target take effect in order without a request for it.
    OrdersAtomics,
    /// A request for any order makes its puts slower.
    OrderCosts,
    /// A missing answer blocks the later ones.
    BlocksOnMissingAnswer,
    /// An error without context may belong to an operation of a peer.
    ReportsForOthers,
    /// Transfers to this process itself crash it.
    CrashesOnItself,
    /// Transfers must fit in one packet, of the provider's inject size.
    SinglePackets,
    /// Most outstanding operations of one context.
    Depth(u32),
    /// Only one fetching atomic at a time has the right result, only to a peer from which was read before, and only while
    /// no other processor changes the element.
    MixesUpFetches,
    /// It needs this variable in the environment.
    Needs(Setting),
}

/// Bytes of the headers before the data of a put, and of the answer to a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) put: u64,
    pub(crate) get: u64,
}

/// Those of tcp and net (1.17, seen by `strace`; a header of 16 bytes, and for a put the 24 of its target).
const OF_TCP: Headers = Headers { put: 40, get: 16 };

/// Names of providers, compared with the name that libfabric gives.
enum Names {
    Exact(&'static str),
    Prefix(&'static str),
    Suffix(&'static str),
    /// All of these occur in the name.
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
            // shm copies by `process_vm_writev` too, but then notifies the target through a command queue, for
            // counters and completions that this transport does not use. The queue costs more than the copy, and once
            // it is full, a target without progress blocks all operations.
            Trait::CopiedByCma {
                unless: "FI_SHM_DISABLE_CMA",
            },
            // shm returns the buffer of an update with delivery-complete to the target's pool twice: at the target,
            // and when the answer is read (prov/shm of 1.17, smr_progress_inject_atomic and smr_progress_resp_entry).
            // Two operations then share a buffer, and the process crashes. A fetching atomic returns its buffer once.
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
    // The provider of this crate (`memory`). Its peers execute atomics by the processor, and in a ring's order.
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
            // sockets reports an error without context for an operation that a peer began towards this process and
            // did not finish because it died (observed with 1.17). Errors of this process's operations always carry
            // their context (prov/sockets, sock_pe_report_tx_error). To attribute such an error to this process would
            // fail an operation to a living peer that is about to complete.
            Trait::ReportsForOthers,
            Trait::Needs(Setting {
                variable: "FI_SOCKETS_PE_WAITTIME",
                value: "0",
                without: "its progress thread sleeps 10 ms at a time, and an operation takes as long",
            }),
        ],
    },
    // These poll sockets, each time by a system call, below other layers too.
    Row {
        names: Names::Prefix("sockets"),
        traits: &[Trait::PollsKernel],
    },
    Row {
        names: Names::Prefix("tcp"),
        // A killed peer on another host, observed with 1.17.
        traits: &[
            Trait::PollsKernel,
            Trait::HidesRefusals,
            Trait::PrefersMessages,
            Trait::Streams(OF_TCP),
        ],
    },
    Row {
        names: Names::Prefix("udp"),
        traits: &[Trait::PollsKernel],
    },
    Row {
        names: Names::Prefix("net"),
        // A killed peer on another host, observed with 1.17.
        traits: &[
            Trait::PollsKernel,
            Trait::HidesRefusals,
            Trait::PrefersMessages,
            Trait::Streams(OF_TCP),
        ],
    },
    Row {
        names: Names::Prefix("efa"),
        traits: &[
            // In libfabric's numbering of provider versions. Open MPI's btl/ofi refuses older ones too.
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
            // An answer of 16 KiB takes 46 to 83 us, one of 12 KiB 22 to 35 us (observed with 1.17 over tcp).
            Trait::SendsInParts,
        ],
    },
    Row {
        names: Names::Containing(&["verbs", "ofi_rxm"]),
        traits: &[
            // rxm passes puts and reads on to one reliable connection of verbs (prov/rxm, rxm_rma.c), in which a read is
            // executed behind the puts before it (InfiniBand). Several connections: libfabric 2.
            Trait::ConfirmsSending {
                unless_several: "FI_OFI_RXM_NUM_MSG_EPS",
            },
            // The cache of verbs gives memory inside a live registration the key of that (prov/verbs, verbs_mr.c). With
            // atomics, rxm lists regions by key: it refuses a key that is listed, and on the way out takes it off the list
            // (prov/rxm, rxm_mr_regattr; libfabric's issue 9133). Its atomics are executed by the target's processor too.
            Trait::LosesRegions,
        ],
    },
    Row {
        names: Names::Prefix("opx"),
        // Its fi_getinfo returns the flags of the hints (prov/opx, fi_opx_fillinfo). A write completes when its packets are
        // acknowledged, whatever was asked, and a target acknowledges a packet whose key it does not know after dropping
        // it (fi_opx_hfi1.c, FI_OPX_HFI_DPUT_OPCODE_PUT).
        traits: &[Trait::NotServed(
            "it returns FI_DELIVERY_COMPLETE as it was asked and promises nothing by it: a put that its target drops \
             completes as if it had arrived",
        )],
    },
    Row {
        names: Names::Suffix("ofi_rxd"),
        traits: &[
            // libfabric's common functions (prov/util, util_atomic.c, compare-and-swap loops).
            Trait::ProcessorAtomics,
            // rxd crashes when a process sends more than one packet to itself (1.17). Its progress is manual, so
            // accesses of peers to this process's memory happen in its own calls; transfers to itself are copies.
            Trait::CrashesOnItself,
            // rxd crashes when transfers of more than one packet run in both directions between two processes (1.17).
            Trait::SinglePackets,
            // rxd hangs when about a thousand operations are outstanding between two processes ("could not get tx
            // entry"). When the target's socket has no room and drops datagrams, puts complete that never arrived, or hang
            // (1.17). A socket of 208 KiB (net.core.rmem_default) holds 277 of them: 64 operations of three origins are too
            // many, and 16 are faster.
            Trait::Depth(16),
            // rxd assigns results of fetching atomics to the wrong operations when two are outstanding (observed with
            // 1.17: of 256 fetching adds of 1, some return a neighbour's value). It crashes when a fetching atomic is
            // the first message to a peer. It returns an old value that it reads apart from the atomic: values are fetched
            // twice when others change the element meanwhile (observed with 1.17, `tests/mixed_routes.rs`).
            Trait::MixesUpFetches,
        ],
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

    /// Whether the user's lists admit such a provider. True where the lists cannot tell: they name how names begin.
    fn are_admitted(&self, options: &Options) -> bool {
        match self {
            Names::Exact(start) | Names::Prefix(start) => options.admits(start).is_ok(),
            Names::Suffix(_) | Names::Containing(_) => true,
        }
    }
}

/// The quirks of one provider. They do not depend on its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quirks {
    /// Bit `i`: row `i` of the table describes the provider.
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

    /// First version whose delivery-complete is sound, if there are others.
    pub(crate) fn sound_from(self) -> Option<u32> {
        self.traits().find_map(|t| match t {
            Trait::SoundFrom(version) => Some(*version),
            _ => None,
        })
    }

    /// The reason why the provider is refused, if it is.
    pub(crate) fn not_served(self) -> Option<&'static str> {
        self.traits().find_map(|t| match t {
            Trait::NotServed(why) => Some(*why),
            _ => None,
        })
    }

    /// The variable that asks for several connections, of a provider that reports delivery when it has only sent the data.
    pub(crate) fn loses_order_by(self) -> Option<&'static str> {
        self.traits().find_map(|t| match t {
            Trait::ConfirmsSending { unless_several } => Some(*unless_several),
            _ => None,
        })
    }

    /// For a provider whose puts and gets CMA replaces: the environment variable by which the user forbids CMA.
    pub(crate) fn copied_by_cma(self) -> Option<&'static str> {
        self.traits().find_map(|t| match t {
            Trait::CopiedByCma { unless } => Some(*unless),
            _ => None,
        })
    }

    /// The headers before the data, of a provider whose data goes by a stream of the kernel.
    pub(crate) fn headers(self) -> Option<Headers> {
        self.traits().find_map(|t| match t {
            Trait::Streams(headers) => Some(*headers),
            _ => None,
        })
    }

    /// Most outstanding operations of one context.
    pub(crate) fn depth(self) -> u32 {
        let limits = self.traits().filter_map(|t| match t {
            Trait::Depth(limit) => Some(*limit),
            _ => None,
        });
        limits.min().unwrap_or(u32::MAX)
    }

    /// Variables that the provider needs in the environment.
    pub(crate) fn needs(self) -> impl Iterator<Item = &'static Setting> {
        self.traits().filter_map(Trait::setting)
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

/// The traits of all providers that the user's lists admit.
fn admitted(options: &Options) -> impl Iterator<Item = &'static Trait> {
    let rows = QUIRKS.iter();
    rows.filter(|row| row.names.are_admitted(options))
        .flat_map(|row| row.traits)
}

/// Whether the user's lists admit a provider with a trait.
pub(crate) fn admits(options: &Options, wanted: Trait) -> bool {
    admitted(options).any(|found| *found == wanted)
}

/// Variables that the providers which the user's lists admit need in the environment.
pub(crate) fn needs(options: &Options) -> impl Iterator<Item = &'static Setting> {
    admitted(options).filter_map(Trait::setting)
}

#[cfg(test)]
mod tests;
