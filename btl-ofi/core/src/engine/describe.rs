//! The capabilities that a transport reports to its host.

use std::ffi::CString;

use plugin_api::{AtomicKind, AtomicOp, Datatype, ModuleFlags};

use crate::base::capabilities::Capabilities;
use crate::base::params::{Mode, Options};
use crate::core::state::Node;
use crate::engine::rails::Rails;
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::fids::InfoRef;
use crate::fabric::msg;
use crate::fabric::policy::{self, Policy};
use crate::fabric::query;

/// The capabilities of a transport without further rails.
pub(super) fn describe(
    info: InfoRef<'_>,
    options: &Options,
    (policy, atomics): (&Policy, &AtomicTable),
    (attaches, completion): (bool, &str),
    contexts: usize,
    passed_over: Vec<(String, String)>,
) -> Capabilities {
    let (put_limit, get_limit) = policy::limits(info, options);
    let needed_pages = libfabric_sys::FI_MR_BASIC | libfabric_sys::FI_MR_ALLOCATED;
    Capabilities {
        flags: flags(policy, attaches, atomics, options.mode)
            & ModuleFlags::from_bits_retain(options.offer.flags),
        atomic_flags: atomics.flags(),
        put_limit,
        get_limit,
        send_limit: if options.two_sided() {
            msg::LARGEST_SEND
        } else {
            0
        },
        exclusivity: options.offer.exclusivity,
        latency: options.offer.latency,
        bandwidth: match options.offer.bandwidth {
            0 => query::link_speed(info),
            n => n,
        },
        contexts,
        registers_pages: info.domain_attr().mr_mode as u32 & needed_pages != 0,
        provider: c_string(&info.provider()),
        domain: c_string(&info.domain()),
        completion: c_string(completion),
        passed_over,
    }
}

impl Capabilities {
    /// The capabilities of a transport with further rails.
    pub(super) fn over(mut self, rails: &Rails, options: &Options) -> Capabilities {
        for rail in rails.iter() {
            let more = &rail.capabilities;
            let domains = [self.domain.as_bytes(), b", ", more.domain.as_bytes()].concat();
            self.domain = CString::new(domains).unwrap_or_default();
            if options.offer.bandwidth == 0 {
                self.bandwidth = self.bandwidth.saturating_add(more.bandwidth);
            }
        }
        self
    }
}

fn flags(policy: &Policy, attaches: bool, atomics: &AtomicTable, mode: Mode) -> ModuleFlags {
    let mut flags = ModuleFlags::empty();
    if mode != Mode::OneSided {
        flags |= ModuleFlags::SEND;
    }
    if mode == Mode::TwoSided {
        return flags;
    }
    flags |= ModuleFlags::PUT
        | ModuleFlags::GET
        | ModuleFlags::RDMA_FLUSH
        | ModuleFlags::RDMA_REMOTE_COMPLETION
        | ModuleFlags::ATOMIC_FOPS;
    if atomics.count(AtomicKind::Update, Datatype::Uint64, AtomicOp::Sum) > 0 {
        flags |= ModuleFlags::ATOMIC_OPS;
    }
    if policy.atomics_ordered {
        flags |= ModuleFlags::ATOMICS_ORDERED;
    }
    // Applies reach every peer: either by messages, or because every peer has a ring.
    if policy.has_messages() || policy.memory_only {
        flags |= ModuleFlags::APPLIES;
    }
    if policy.messages {
        flags |= ModuleFlags::SCATTERS | ModuleFlags::CHECKS_KEYS;
    }
    if policy.is_by_commands() {
        flags |= ModuleFlags::SOLE_ATOMICS;
    }
    // A flag is set only if it holds for all peers.
    if policy.one_node && attaches {
        flags |= ModuleFlags::RDMA_PASSIVE_TARGET;
    }
    flags
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// The label of counters and traces: the provider, its domain and its network.
pub(super) fn title(info: InfoRef<'_>, node: &Node) -> String {
    let place = node.networks.place();
    format!("{}, {}{place}", info.provider(), info.domain())
}
