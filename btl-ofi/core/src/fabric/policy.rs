//! Completion policy: decides for each provider how a completion comes to mean "visible at the target", and how the
//! provider's quirks (`quirks`) affect operations. No other module makes these decisions.
//!
//! | path | asked of the provider | used for |
//! | --- | --- | --- |
//! | direct | nothing: CMA (`base::cma`) | puts and gets to peers of the same node |
//! | ring | nothing: the target executes and answers | atomics to these peers; ring put, ring get |
//! | message | nothing: the target executes and answers (`fabric::msg`) | small transfers and all atomics to other nodes, if the provider makes them in software; atomics that it cannot be trusted with |
//! | delivered | `FI_DELIVERY_COMPLETE`, per operation | all other puts and updates |
//! | by order | a plain completion, and a read behind it (`confirmation`) | puts, if delivery-complete is missing or means sent, and reads come behind puts |
//! | returned | a plain completion | gets, fetching atomics: data returned; updates by shm itself, and where puts go by order |
//!
//! `peer::route` selects the path of each peer. `sm::channel` holds the rings. `carrier::ring::transfers` chooses ring put
//! and ring get while the target answers fast.
//!
//! Each operation yields a completion-queue entry. The entry of an operation with a callback carries the address of its
//! operation record. The entry of an untracked operation carries its endpoint and the phases that count it
//! (`peer::outstanding`). An untracked operation needs no record, unless the provider uses the context itself
//! (`FI_CONTEXT`, `FI_CONTEXT2`), or puts go by order: a completed put then keeps its record until it is confirmed.

use libfabric_sys as ffi;

use crate::base::params::Options;
use crate::fabric::fids::InfoRef;
use crate::fabric::msg::wire::{GETS_OVER_PUTS, LONG_BATCH, MOST_ANSWER, MOST_WORDS};
use crate::fabric::query::{confirms, orders_atomics, orders_reads, takes_messages};
use crate::fabric::quirks::{Quirks, Trait};

/// Flags of a put or update that the provider must confirm.
pub(crate) const DELIVERED: u64 = (ffi::FI_DELIVERY_COMPLETE | ffi::FI_COMPLETION) as u64;

/// The policy for one module's provider.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Whether puts go by order: a read that is posted behind completed puts confirms them (`confirmation`).
    pub(crate) by_order: bool,
    /// Whether processors execute the provider's atomics, each element by one atomic instruction. Then this crate's
    /// atomics may change the same elements.
    pub(crate) processor_atomics: bool,
    /// Whether small transfers and atomics to peers of other nodes travel as messages (`fabric::msg`).
    pub(crate) messages: bool,
    /// Whether the host sends and receives two-sided messages (`btl_ofi_mode`).
    pub(crate) two_sided: bool,
    /// Whether messages are open for applies, although the provider executes atomics itself.
    pub(crate) applies: bool,
    /// Whether all peers of this provider are on this node.
    pub(crate) one_node: bool,
    /// Whether the provider carries no data, so that memory must reach every peer.
    pub(crate) memory_only: bool,
    /// Whether the provider executes operations of peers without calls of this process (FI_PROGRESS_AUTO).
    pub(crate) serves_itself: bool,
    /// Whether a poll that finds no completion makes system calls.
    pub(crate) polls_kernel: bool,
    /// Whether the provider reports no error if a peer refuses its connection.
    pub(crate) hides_refusals: bool,
    /// Whether an operation without callback and without an operand to keep gets no operation record (untracked).
    pub(crate) untracked: bool,
    /// Whether updates are posted as fetching atomics whose results are discarded.
    pub(crate) updates_fetch: bool,
    /// Whether operations outstanding at a dead peer block the completion of operations to other peers.
    pub(crate) dead_peer_blocks: bool,
    /// Whether an error without context may belong to an operation of a peer.
    pub(crate) reports_for_others: bool,
    /// Whether atomics from one origin to one target take effect in order.
    pub(crate) atomics_ordered: bool,
}

/// Refuses a provider that is known to break its guarantees.
pub(crate) fn serves(provider: &str) -> Result<(), String> {
    let why = Quirks::of(provider).not_served();
    why.map_or(Ok(()), |why| Err(String::from(why)))
}

/// Refuses a provider whose completions cannot be made to mean "visible at the target".
pub(crate) fn refusal(info: InfoRef<'_>) -> Result<(), String> {
    let name = info.provider();
    let version = info.fabric_attr().prov_version;
    let quirks = Quirks::of(&name);
    if let Some(sound) = quirks.sound_from()
        && version < sound
    {
        // Providers number their versions by hundreds of libfabric's major version.
        let (major, minor) = ((sound >> 16) / 100, (sound >> 16) % 100);
        return Err(format!(
            "its delivery-complete is unsound before libfabric {major}.{minor} (this is {}.{})",
            version >> 16,
            version & 0xffff
        ));
    }
    if goes_by_order(info) {
        if let Some(variable) = quirks.loses_order_by()
            && number(variable) > 1
        {
            return Err(format!(
                "{variable} is greater than 1: over several connections, reads do not come behind puts and confirm them"
            ));
        }
        if info.claims_contexts() {
            return Err(String::from(
                "it lacks FI_DELIVERY_COMPLETE, or reports it when it has only sent the data, and it claims the contexts of \
                 operations, so that reads cannot confirm puts",
            ));
        }
    } else if needs_read_order(info) {
        return Err(String::from(
            "it lacks FI_DELIVERY_COMPLETE, or reports it when it has only sent the data, and it lacks FI_ORDER_RMA_RAW, by \
             which reads confirm puts",
        ));
    }
    Ok(())
}

/// Whether puts go by order.
fn goes_by_order(info: InfoRef<'_>) -> bool {
    needs_read_order(info) && orders_reads(info)
}

/// Whether only a read behind puts can confirm them.
pub(crate) fn needs_read_order(info: InfoRef<'_>) -> bool {
    let quirks = Quirks::of(&info.provider());
    let confirmed = confirms(info) && quirks.loses_order_by().is_none();
    !confirmed && !uses_cma(quirks)
}

/// Whether a provider is used without its atomics, although it may have some. The targets execute atomics, which arrive in
/// messages.
pub(crate) fn forgoes_atomics(provider: &str) -> bool {
    Quirks::of(provider).has(Trait::LosesRegions)
}

/// Decides the policy for an accepted provider, by the entry that was accepted.
pub(crate) fn decide(info: InfoRef<'_>) -> Policy {
    let quirks = Quirks::of(&info.provider());
    let by_order = goes_by_order(info);
    Policy {
        by_order,
        processor_atomics: quirks.has(Trait::ProcessorAtomics),
        messages: false,
        two_sided: false,
        applies: false,
        one_node: quirks.has(Trait::OneNode),
        memory_only: quirks.has(Trait::MemoryOnly),
        serves_itself: info.domain_attr().data_progress == ffi::FI_PROGRESS_AUTO,
        polls_kernel: quirks.has(Trait::PollsKernel),
        hides_refusals: quirks.has(Trait::HidesRefusals),
        untracked: !info.claims_contexts() && !by_order,
        dead_peer_blocks: quirks.has(Trait::BlocksOnMissingAnswer),
        // An error without context may belong to a read that confirms puts.
        reports_for_others: quirks.has(Trait::ReportsForOthers) || by_order,
        updates_fetch: quirks.has(Trait::FreesUpdatesTwice) || by_order,
        atomics_ordered: orders_atomics(info) || quirks.has(Trait::OrdersAtomics),
    }
}

impl Policy {
    /// Whether the provider executes atomics of peers without calls of this process. False if atomics go as messages: such
    /// a provider may refuse atomics, even if it advertises FI_ATOMIC.
    pub(crate) fn serves_atomics_itself(&self) -> bool {
        self.serves_itself && !self.messages
    }

    /// Whether all atomics of peers arrive as commands, in their ring or as messages, so that the provider executes none.
    /// If this process exchanges messages, it refuses a peer that does not.
    pub(crate) fn is_by_commands(&self) -> bool {
        self.messages || self.memory_only
    }

    /// Whether transfers, atomics or sends of the host travel as messages (`fabric::msg`).
    pub(crate) fn posts_messages(&self) -> bool {
        self.messages || self.two_sided
    }

    /// Whether the transport posts receives and sends messages, for any purpose.
    pub(crate) fn has_messages(&self) -> bool {
        self.posts_messages() || self.applies
    }

    /// Describes in one line how completions are made. With `local` `Ok`, includes the paths within a node; otherwise
    /// includes the reason why there are none. Messages carry puts of up to `limit` bytes.
    pub(crate) fn describe(&self, local: Result<(), &str>, limit: usize) -> String {
        let mut parts: Vec<&str> = Vec::new();
        if local.is_ok() {
            parts.push(
                "on this node, puts and gets are copied by the kernel (cross-memory attach), or by a target that is faster",
            );
            if self.processor_atomics || self.messages {
                parts.push("atomics are executed and answered by the target through shared memory");
            }
        }
        if self.memory_only && local.is_ok() {
            parts.push("processes that memory does not reach are refused");
            return parts.join("; ");
        }
        let small = self.messages && limit > 0;
        if small {
            parts.push(
                "other small puts and gets, and other atomics, are executed and answered by the target, many in one message",
            );
        } else if self.messages {
            parts
                .push("other atomics are executed and answered by the target, many in one message");
        }
        let which = match local {
            _ if small => "large puts",
            Ok(()) => "other puts",
            Err(_) => "puts",
        };
        let how = match self.by_order {
            true => "a read behind them (read-after-write order)",
            false => "the target (FI_DELIVERY_COMPLETE)",
        };
        let puts = format!("{which} are confirmed by {how}");
        parts.push(&puts);
        match (self.updates_fetch, local) {
            _ if self.messages => {}
            (true, Ok(())) => parts.push(
                "other updates are posted as fetching atomics and complete with the old value",
            ),
            (true, Err(_)) => {
                parts.push("updates are posted as fetching atomics and complete with the old value")
            }
            (false, Ok(())) => parts.push("other updates are confirmed by the target"),
            (false, Err(_)) => parts.push("updates are confirmed by the target"),
        }
        parts.push("gets and fetches complete with their data");
        let why;
        if let Err(reason) = local {
            why = format!("local peers are not reached by memory: {reason}");
            parts.push(&why);
        }
        parts.join("; ")
    }
}

/// The reason why memory must not reach peers of this node with this provider, if the user gave one.
pub(crate) fn keeps_apart(info: InfoRef<'_>, options: &Options) -> Option<String> {
    if !options.peers.same_node {
        return Some(String::from("btl_ofi_same_node is off"));
    }
    let forbids = Quirks::of(&info.provider()).copied_by_cma()?;
    is_set(forbids).then(|| format!("{forbids} is set"))
}

/// Whether messages serve small transfers and atomics better than the provider itself.
pub(crate) fn prefers_messages(info: InfoRef<'_>) -> bool {
    Quirks::of(&info.provider()).has(Trait::PrefersMessages)
}

/// Whether small transfers and atomics go by message: if messages are better, or if the provider executes no atomics.
pub(crate) fn goes_by_message(info: InfoRef<'_>, options: &Options, has_atomics: bool) -> bool {
    let better = prefers_messages(info) && options.messages.limit > 0;
    takes_messages(info, options) && (better || !has_atomics)
}

/// Words of the longest answer, and of most batches of commands. Long messages are used if the provider sends one as
/// cheaply as several short ones.
pub(crate) fn longest_answer(info: InfoRef<'_>) -> usize {
    let quirks = Quirks::of(&info.provider());
    let long = quirks.has(Trait::PrefersMessages) && !quirks.has(Trait::SendsInParts);
    match long && info.ep_attr().max_msg_size >= 8 * MOST_ANSWER {
        true => MOST_ANSWER,
        false => MOST_WORDS,
    }
}

/// Words of the longest batch of large commands, which collects commands while another batch is outstanding. Over TCP, a
/// message and its answer take longer than 16 KB of their bytes.
pub(crate) fn longest_batch(info: InfoRef<'_>) -> usize {
    match prefers_messages(info) && info.ep_attr().max_msg_size >= 8 * LONG_BATCH {
        true => LONG_BATCH,
        false => longest_answer(info),
    }
}

/// Sizes in bytes of the largest put and the largest get that travel as a message. Gets may be longer if answers may be
/// long. The target copies the bytes of a put once more than the provider would, but the bytes of a get as often as the
/// provider. Both sizes are 0 if only the provider's atomics are forgone, because the provider's transfers need no
/// progress of the target.
pub(crate) fn message_limits(info: InfoRef<'_>, options: &Options) -> (usize, usize) {
    if forgoes_atomics(&info.provider()) {
        return (0, 0);
    }
    let puts = options.messages.limit;
    match longest_answer(info) {
        MOST_ANSWER => (puts, GETS_OVER_PUTS * puts),
        _ => (puts, puts),
    }
}

/// Largest put and get in bytes: the provider's limit, or the user's lower limit.
pub(crate) fn limits(info: InfoRef<'_>, options: &Options) -> (usize, usize) {
    let limit = info.ep_attr().max_msg_size;
    let narrow = |asked: u64| match asked {
        0 => limit,
        n => limit.min(usize::try_from(n).unwrap_or(usize::MAX)),
    };
    let (put, get) = (
        narrow(options.offer.put_limit),
        narrow(options.offer.get_limit),
    );
    // The provider guarantees the order only for puts up to this size.
    match needs_read_order(info) {
        true => (put.min(info.ep_attr().max_order_raw_size), get),
        false => (put, get),
    }
}

/// Whether to request access to device memory from the provider. False if CMA replaces its transfers, because CMA does not
/// work on device memory. Also false if puts go by order: a read of host memory does not
/// prove that earlier bytes have reached a device.
pub(crate) fn takes_devices(info: InfoRef<'_>) -> bool {
    let quirks = Quirks::of(&info.provider());
    quirks.copied_by_cma().is_none() && !goes_by_order(info)
}

/// Whether the provider's puts stay as fast when ordered atomics are requested.
pub(crate) fn wants_atomic_order(info: InfoRef<'_>) -> bool {
    !Quirks::of(&info.provider()).has(Trait::OrderCosts)
}

/// Whether a provider may be used without its confirmations, because CMA makes the puts and gets.
fn uses_cma(quirks: Quirks) -> bool {
    quirks
        .copied_by_cma()
        .is_some_and(|forbids| !is_set(forbids))
}

/// Whether the provider keeps its endpoints as files in `/dev/shm` (`shm_files`).
pub(crate) fn keeps_files(provider: &str) -> bool {
    Quirks::of(provider).has(Trait::KeepsFiles)
}

/// Whether a variable of libfabric is set to a value that libfabric reads as true.
fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| is_true(&value))
}

/// The value of a variable of libfabric that is a number; 0 if it is not set.
fn number(variable: &str) -> u64 {
    let value = std::env::var(variable).ok();
    value.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
}

fn is_true(value: &str) -> bool {
    let value = value.trim().to_ascii_lowercase();
    !matches!(value.as_str(), "" | "0" | "false" | "no" | "off")
}

#[cfg(test)]
mod tests;
