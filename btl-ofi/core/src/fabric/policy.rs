//! How a completion comes to mean "visible at the target", provider by provider: the one place.
//!
//! | path | asked of the provider | used for |
//! | --- | --- | --- |
//! | direct | nothing: the kernel copies (`cma`) | puts and gets over shm, to peers it reaches |
//! | ring | nothing: the target executes and answers (`channel`) | atomics over shm, to the same peers; small puts and gets, while the target is quick (`ring_transfers`) |
//! | delivered | `FI_DELIVERY_COMPLETE`, per operation | puts and updates everywhere else |
//! | returned | a plain completion | gets and fetching atomics: they have their data; updates over shm, to peers without ring |
//!
//! Each operation leaves a completion-queue entry. One with a callback carries the address of its
//! record; one without carries its peer and the slots it counts in, and needs no record (unless the
//! provider claims the context for itself, `FI_CONTEXT` or `FI_CONTEXT2`).

use libfabric_sys as ffi;

use crate::base::params::Options;
use crate::fabric::fids::InfoRef;

/// First version of efa whose delivery-complete is sound: 1.12, in libfabric's numbering of
/// provider versions (Open MPI's btl/ofi refuses older ones too).
const EFA_SOUND: u32 = ffi::version(112, 0);

/// rxd stops for ever when some thousand operations are outstanding between two processes ("could not
/// get tx entry"); half its window of 128 unacknowledged packets is as fast.
const DEPTH_RXD: u32 = 64;

/// What is asked of the provider for one module.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Flags of a put or update that the provider must confirm.
    pub(crate) delivered: u64,
    /// Whether peers whose memory can be reached by cross-memory attach are written directly.
    pub(crate) direct: bool,
    /// Whether an operation without callback may go without a record.
    pub(crate) bare: bool,
    /// Whether updates go as fetching atomics whose result is thrown away.
    pub(crate) updates_fetch: bool,
    /// Most operations outstanding on one context.
    pub(crate) depth: u32,
    /// Whether a fetching atomic is only posted to a context that has nothing outstanding, and to a
    /// peer that has been read from before.
    pub(crate) fetch_alone: bool,
    /// Whether puts and gets to this process itself are copies made here.
    pub(crate) self_by_copy: bool,
    /// Whether operations left outstanding at a dead peer keep those to others from completing.
    pub(crate) dead_peer_blocks: bool,
    /// Whether an error that names no operation may be of a peer's, not of ours.
    pub(crate) reports_for_others: bool,
    /// Whether atomics from one origin to one target take effect in order.
    pub(crate) atomics_ordered: bool,
    /// One line for people.
    pub(crate) text: String,
}

/// Refuses a provider whose completions cannot be made visible at the target.
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
            "it reports delivery when data has merely been sent; name it in \
             btl_ofi_provider_include to use it all the same",
        ));
    }
    if !confirms(info) && !writes_directly(info) {
        return Err(String::from("it lacks FI_DELIVERY_COMPLETE"));
    }
    Ok(())
}

/// The policy for an accepted provider.
pub(crate) fn decide(info: InfoRef<'_>) -> Policy {
    let direct = writes_directly(info);
    let claims_context = info.raw().mode & (ffi::FI_CONTEXT | ffi::FI_CONTEXT2) != 0;
    let ordered =
        crate::fabric::select::orders_atomics(info) || keeps_order_anyway(&info.provider());
    let updates_fetch = frees_twice(&info.provider());
    Policy {
        delivered: u64::from(ffi::FI_DELIVERY_COMPLETE) | u64::from(ffi::FI_COMPLETION),
        direct,
        bare: !claims_context,
        depth: if overruns(&info.provider()) {
            DEPTH_RXD
        } else {
            u32::MAX
        },
        fetch_alone: mixes_fetches_up(&info.provider()),
        self_by_copy: loses_itself(&info.provider()),
        dead_peer_blocks: answers_in_order(&info.provider()) || mixes_fetches_up(&info.provider()),
        reports_for_others: reports_for_others(&info.provider()),
        updates_fetch,
        atomics_ordered: ordered,
        text: text(direct, updates_fetch),
    }
}

/// What a policy comes to, for people.
fn text(direct: bool, updates_fetch: bool) -> String {
    let puts = if direct {
        "puts and gets are copied by the kernel where it may (cross-memory attach), or by a target that is \
         quicker, else puts are confirmed by the target (FI_DELIVERY_COMPLETE)"
    } else {
        "puts are confirmed by the target (FI_DELIVERY_COMPLETE)"
    };
    let updates = if direct {
        "atomics are executed and answered by the target through shared memory, else updates go as \
         fetches and complete with the old value"
    } else if updates_fetch {
        "updates go as fetches and complete with the old value"
    } else {
        "updates are confirmed by the target"
    };
    format!("{puts}; {updates}; gets and fetches complete with their data")
}

impl Policy {
    /// Has the provider make everything, since the kernel lets this process reach into no other.
    pub(crate) fn do_without_kernel(&mut self, why: &str) {
        self.direct = false;
        let text = text(false, self.updates_fetch);
        self.text =
            format!("{text}; the kernel copies nothing (cross-memory attach is off): {why}");
    }
}

/// Largest put and get: what the provider moves at once, less what the user took away.
pub(crate) fn limits(info: InfoRef<'_>, options: &Options) -> (usize, usize) {
    let mut limit = info.ep_attr().max_msg_size;
    if overruns(&info.provider()) {
        limit = limit.min(info.tx_attr().inject_size);
    }
    let narrow = |asked: u64| match asked {
        0 => limit,
        n => limit.min(usize::try_from(n).unwrap_or(usize::MAX)),
    };
    (narrow(options.put_limit), narrow(options.get_limit))
}

/// Whether a provider is asked to reach device memory. Not where we copy around it, which a device's
/// memory does not allow: shm is left for the kernel's copies, and rxd for our own.
pub(crate) fn takes_devices(info: InfoRef<'_>) -> bool {
    !is_shm(&info.provider()) && !loses_itself(&info.provider())
}

/// Whether asking the provider for order among atomics leaves its puts as fast as they are. shm
/// gives up its direct path as soon as any order is asked for.
pub(crate) fn wants_atomic_order(info: InfoRef<'_>) -> bool {
    !is_shm(&info.provider())
}

/// shm runs all atomics to one target through that target's one command queue, first in, first out
/// (prov/shm), so their order holds without being asked for.
fn keeps_order_anyway(provider: &str) -> bool {
    is_shm(provider)
}

/// Whether puts and gets to peers on this node are made directly. shm makes them the same way
/// itself, by `process_vm_writev`, and then tells the target in a command queue, for counters and
/// completions there that nobody here uses; the queue costs more than the copy, and once it is full a
/// target that makes no progress stops everything. Virtual addresses are what the copy needs. Whether
/// it works towards a particular peer is found out when that peer is connected.
fn writes_directly(info: InfoRef<'_>) -> bool {
    is_shm(&info.provider())
        && info.domain_attr().mr_mode as u32 & ffi::FI_MR_VIRT_ADDR != 0
        && !shm_forgoes_cma()
}

/// Whether shm confirms a completion asked for with `FI_DELIVERY_COMPLETE`.
fn confirms(info: InfoRef<'_>) -> bool {
    info.tx_attr().op_flags & u64::from(ffi::FI_DELIVERY_COMPLETE) != 0
}

/// shm answers an update with delivery confirmed by putting its buffer back into the target's pool
/// twice, once at the target and once when the answer is read (prov/shm of 1.17, smr_progress_inject_atomic
/// and smr_progress_resp_entry), after which two operations share a buffer and the process crashes. A
/// fetching atomic puts it back once.
fn frees_twice(provider: &str) -> bool {
    is_shm(provider)
}

/// shm reads the answers to its operations from one queue, and stops at the first that is not there
/// yet (prov/shm, smr_progress_resp), so one that never comes holds up all after it.
fn answers_in_order(provider: &str) -> bool {
    is_shm(provider)
}

/// sockets reports an error without context for what a peer began here and left when it died (seen with
/// 1.17; its own operations always carry theirs: prov/sockets, sock_pe_report_tx_error). To count it as one
/// of ours would fail an operation to a living peer that is about to complete.
fn reports_for_others(provider: &str) -> bool {
    provider == "sockets"
}

/// rxd crashes when a process sends more than a packet to itself (1.17). Its progress is manual, so
/// what peers do to this process's memory happens under the context's lock, and so do these copies.
fn loses_itself(provider: &str) -> bool {
    provider.ends_with("ofi_rxd")
}

/// rxd crashes when transfers of more than one packet go both ways between two processes (1.17), so
/// they are kept to what it sends in one: its inject size.
fn overruns(provider: &str) -> bool {
    provider.ends_with("ofi_rxd")
}

/// rxd gives results of fetching atomics to the wrong operations as soon as two are outstanding
/// (seen with 1.17: of 256 fetching adds of 1, some return a neighbour's value), and crashes when one
/// is the first thing sent to a peer.
fn mixes_fetches_up(provider: &str) -> bool {
    provider.ends_with("ofi_rxd")
}

/// Whether a provider's endpoints are files in `/dev/shm` (`shm_room`).
pub(crate) fn keeps_files(provider: &str) -> bool {
    is_shm(provider)
}

fn is_shm(provider: &str) -> bool {
    provider == "shm"
}

/// The user may have told shm not to use cross-memory attach (`FI_SHM_DISABLE_CMA`, any of
/// libfabric's words for true).
fn shm_forgoes_cma() -> bool {
    std::env::var("FI_SHM_DISABLE_CMA").is_ok_and(|v| {
        let v = v.trim().to_ascii_lowercase();
        !matches!(v.as_str(), "" | "0" | "false" | "no" | "off")
    })
}
