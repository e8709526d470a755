//! Completion policy and quirks: how a completion comes to mean "visible at the target" with each provider. No
//! other module decides it.
//!
//! | path | asked of the provider | used for |
//! | --- | --- | --- |
//! | direct | nothing: CMA (`base::cma`) | puts and gets to peers of the same node |
//! | ring | nothing: the target executes and answers | atomics to these peers; ring put, ring get |
//! | delivered | `FI_DELIVERY_COMPLETE`, per operation | all other puts and updates |
//! | returned | a plain completion | gets, fetching atomics: data returned; updates by shm itself |
//!
//! `peer::route` says which peers go which way. `sm::channel` holds the rings; `engine::ring_transfers` chooses ring
//! put and ring get while the target is fast.
//!
//! Each operation yields a completion-queue entry. The entry of an operation with a callback carries the address of
//! its operation record. The entry of an untracked operation carries its endpoint and the phases that count it
//! (`peer::outstanding`). It needs no record, unless the provider uses the context itself (`FI_CONTEXT`,
//! `FI_CONTEXT2`).

use libfabric_sys as ffi;

use crate::base::params::Options;
use crate::fabric::fids::InfoRef;

/// First version of efa whose delivery-complete is sound: 1.12, in libfabric's numbering of provider versions. Open
/// MPI's btl/ofi refuses older ones too.
const EFA_SOUND: u32 = ffi::version(112, 0);

/// rxd hangs when about a thousand operations are outstanding between two processes ("could not get tx entry"). Half
/// its window of 128 unacknowledged packets is as fast.
const DEPTH_RXD: u32 = 64;

/// The policy for one module's provider.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Flags of a put or update that the provider must confirm.
    pub(crate) delivered: u64,
    /// Whether the provider's atomics are executed by processors, each element by one atomic instruction. Then those
    /// of this crate may be mixed with them.
    pub(crate) processor_atomics: bool,
    /// Whether all peers of this provider are on this node.
    pub(crate) one_node: bool,
    /// Whether the provider executes operations of peers without calls of this process (FI_PROGRESS_AUTO).
    pub(crate) serves_itself: bool,
    /// Whether a poll that finds nothing makes system calls.
    pub(crate) polls_kernel: bool,
    /// Whether an operation without callback needs no record (untracked).
    pub(crate) bare: bool,
    /// Whether updates are posted as fetching atomics whose results are discarded.
    pub(crate) updates_fetch: bool,
    /// Most outstanding operations of one context.
    pub(crate) depth: u32,
    /// Whether a fetching atomic may be posted only to a context with no outstanding operation, and only to a peer
    /// from which this process has read before.
    pub(crate) fetch_alone: bool,
    /// Whether puts and gets to this process itself are local copies.
    pub(crate) self_by_copy: bool,
    /// Whether operations outstanding at a dead peer block the completion of operations to other peers.
    pub(crate) dead_peer_blocks: bool,
    /// Whether an error without context may belong to an operation of a peer.
    pub(crate) reports_for_others: bool,
    /// Whether atomics from one origin to one target take effect in order.
    pub(crate) atomics_ordered: bool,
    /// One line of description.
    pub(crate) text: String,
}

/// Refuses a provider whose completions cannot be made to mean "visible at the target".
pub(crate) fn refusal(info: InfoRef<'_>, options: &Options) -> Result<(), String> {
    let name = info.provider();
    let version = info.fabric_attr().prov_version;
    if name.starts_with("efa") && version < EFA_SOUND {
        return Err(format!(
            "its delivery-complete is unsound before libfabric 1.12 (this is {}.{})",
            version >> 16,
            version & 0xffff
        ));
    }
    if name.contains("verbs") && name.contains("ofi_rxm") && !options.named(&name) {
        return Err(String::from(
            "it reports delivery when it has only sent the data; name it in \
             btl_ofi_provider_include to use it nevertheless",
        ));
    }
    if !confirms(info) && !uses_cma(info) {
        return Err(String::from("it lacks FI_DELIVERY_COMPLETE"));
    }
    Ok(())
}

/// Decides the policy for an accepted provider.
pub(crate) fn decide(info: InfoRef<'_>) -> Policy {
    let claims_context = info.raw().mode & (ffi::FI_CONTEXT | ffi::FI_CONTEXT2) != 0;
    let ordered =
        crate::fabric::select::orders_atomics(info) || orders_atomics_unasked(&info.provider());
    let updates_fetch = frees_updates_twice(&info.provider());
    Policy {
        delivered: u64::from(ffi::FI_DELIVERY_COMPLETE) | u64::from(ffi::FI_COMPLETION),
        processor_atomics: has_processor_atomics(&info.provider()),
        one_node: is_shm(&info.provider()),
        serves_itself: info.domain_attr().data_progress == ffi::FI_PROGRESS_AUTO,
        polls_kernel: polls_kernel(&info.provider()),
        bare: !claims_context,
        depth: if needs_single_packets(&info.provider()) {
            DEPTH_RXD
        } else {
            u32::MAX
        },
        fetch_alone: mixes_up_fetches(&info.provider()),
        self_by_copy: crashes_on_transfers_to_itself(&info.provider()),
        dead_peer_blocks: blocks_on_missing_answer(&info.provider())
            || mixes_up_fetches(&info.provider()),
        reports_for_others: reports_for_others(&info.provider()),
        updates_fetch,
        atomics_ordered: ordered,
        text: String::new(),
    }
}

impl Policy {
    /// Describes in one line how completions come to be, with the ways of one node if `near`, or the reason why there are
    /// none.
    pub(crate) fn describe(&mut self, near: Result<(), &str>) {
        let mut parts: Vec<&str> = Vec::new();
        if near.is_ok() {
            parts.push(
                "on this node, puts and gets are copied by the kernel (cross-memory attach), or by a target that is faster",
            );
            if self.processor_atomics {
                parts.push("atomics are executed and answered by the target through shared memory");
            }
        }
        parts.push(match near {
            Ok(()) => "other puts are confirmed by the target (FI_DELIVERY_COMPLETE)",
            Err(_) => "puts are confirmed by the target (FI_DELIVERY_COMPLETE)",
        });
        parts.push(match (self.updates_fetch, near) {
            (true, Ok(())) => {
                "other updates are posted as fetching atomics and complete with the old value"
            }
            (true, Err(_)) => {
                "updates are posted as fetching atomics and complete with the old value"
            }
            (false, Ok(())) => "other updates are confirmed by the target",
            (false, Err(_)) => "updates are confirmed by the target",
        });
        parts.push("gets and fetches complete with their data");
        let why;
        if let Err(reason) = near {
            why = format!("neighbours are not reached by memory: {reason}");
            parts.push(&why);
        }
        self.text = parts.join("; ");
    }
}

/// The reason why peers of this node must not be reached by memory with this provider, if the user gave one.
pub(crate) fn keeps_apart(info: InfoRef<'_>, options: &Options) -> Option<&'static str> {
    if !options.same_node {
        Some("btl_ofi_same_node is off")
    } else if is_shm(&info.provider()) && shm_cma_disabled() {
        Some("FI_SHM_DISABLE_CMA is set")
    } else {
        None
    }
}

/// Whether the provider executes atomics by processor instructions that are atomic for each element: shm, rxm, rxd,
/// sockets and efa do, through libfabric's common functions (prov/util, util_atomic.c, compare-and-swap loops). NICs do
/// not, and of other providers it is not known.
fn has_processor_atomics(provider: &str) -> bool {
    is_shm(provider)
        || provider == "sockets"
        || provider.ends_with("ofi_rxm")
        || provider.ends_with("ofi_rxd")
        || provider.starts_with("efa")
}

/// Whether the provider polls sockets, each time by a system call.
fn polls_kernel(provider: &str) -> bool {
    ["tcp", "udp", "net", "sockets"]
        .iter()
        .any(|core| provider.starts_with(core))
}

/// Largest put and get in bytes: the provider's limit, reduced by the user's.
pub(crate) fn limits(info: InfoRef<'_>, options: &Options) -> (usize, usize) {
    let mut limit = info.ep_attr().max_msg_size;
    if needs_single_packets(&info.provider()) {
        limit = limit.min(info.tx_attr().inject_size);
    }
    let narrow = |asked: u64| match asked {
        0 => limit,
        n => limit.min(usize::try_from(n).unwrap_or(usize::MAX)),
    };
    (narrow(options.put_limit), narrow(options.get_limit))
}

/// Whether to request access to device memory from the provider. Not for shm and rxd: CMA and our local copies
/// replace their transfers, and neither works on device memory.
pub(crate) fn takes_devices(info: InfoRef<'_>) -> bool {
    !is_shm(&info.provider()) && !crashes_on_transfers_to_itself(&info.provider())
}

/// Whether a request for ordered atomics leaves the provider's puts as fast. shm gives up its direct path as soon as
/// any order is requested.
pub(crate) fn wants_atomic_order(info: InfoRef<'_>) -> bool {
    !is_shm(&info.provider())
}

/// shm executes all atomics to one target through that target's one command queue, first in, first out (prov/shm), so
/// they are ordered without a request.
fn orders_atomics_unasked(provider: &str) -> bool {
    is_shm(provider)
}

/// Whether shm may be used without its confirmations, because CMA makes the puts and gets. shm copies in the same way,
/// by `process_vm_writev`, but then notifies the target through a command queue, for counters and completions that this
/// transport does not use. The queue costs more than the copy, and once it is full, a target without progress blocks
/// all operations.
fn uses_cma(info: InfoRef<'_>) -> bool {
    is_shm(&info.provider()) && !shm_cma_disabled()
}

/// Whether the provider confirms operations with `FI_DELIVERY_COMPLETE`.
fn confirms(info: InfoRef<'_>) -> bool {
    info.tx_attr().op_flags & u64::from(ffi::FI_DELIVERY_COMPLETE) != 0
}

/// shm returns the buffer of an update with delivery-complete to the target's pool twice: at the target, and when the
/// answer is read (prov/shm of 1.17, smr_progress_inject_atomic and smr_progress_resp_entry). Two operations then
/// share a buffer, and the process crashes. A fetching atomic returns its buffer once.
fn frees_updates_twice(provider: &str) -> bool {
    is_shm(provider)
}

/// shm reads the answers to its operations from one queue and stops at the first one that is missing (prov/shm,
/// smr_progress_resp). A missing answer therefore blocks all later ones.
fn blocks_on_missing_answer(provider: &str) -> bool {
    is_shm(provider)
}

/// sockets reports an error without context for an operation that a peer began towards this process and did not
/// finish because it died (observed with 1.17). Errors of this process's operations always carry their context
/// (prov/sockets, sock_pe_report_tx_error). To attribute such an error to this process would fail an operation to a
/// living peer that is about to complete.
fn reports_for_others(provider: &str) -> bool {
    provider == "sockets"
}

/// rxd crashes when a process sends more than one packet to itself (1.17). Its progress is manual, so accesses of
/// peers to this process's memory happen in its own calls; transfers to itself are copies.
fn crashes_on_transfers_to_itself(provider: &str) -> bool {
    provider.ends_with("ofi_rxd")
}

/// rxd crashes when transfers of more than one packet run in both directions between two processes (1.17). Transfers
/// are limited to the size it sends in one packet: its inject size.
fn needs_single_packets(provider: &str) -> bool {
    provider.ends_with("ofi_rxd")
}

/// rxd assigns results of fetching atomics to the wrong operations when two are outstanding (observed with 1.17: of
/// 256 fetching adds of 1, some return a neighbour's value). It crashes when a fetching atomic is the first message
/// to a peer.
fn mixes_up_fetches(provider: &str) -> bool {
    provider.ends_with("ofi_rxd")
}

/// Whether the provider keeps its endpoints as files in `/dev/shm` (`shm_room`).
pub(crate) fn keeps_files(provider: &str) -> bool {
    is_shm(provider)
}

fn is_shm(provider: &str) -> bool {
    provider == "shm"
}

/// Whether the user disabled cross-memory attach for shm (`FI_SHM_DISABLE_CMA`, with any value that libfabric takes
/// as true).
fn shm_cma_disabled() -> bool {
    std::env::var("FI_SHM_DISABLE_CMA").is_ok_and(|v| {
        let v = v.trim().to_ascii_lowercase();
        !matches!(v.as_str(), "" | "0" | "false" | "no" | "off")
    })
}
