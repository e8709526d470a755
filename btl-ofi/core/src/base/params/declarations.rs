//! The declarations of all parameters.

use std::borrow::Cow;

use mca_params::{Allowed, Declaration, Kind, Level, Named, Value};
use plugin_api::{ModuleFlags, counters};

use super::{DEFAULT_EXCLUDE, EXCLUSIVITY, MAX_CQ_READ, MESSAGE_LIMIT};

const fn declare(
    name: &'static str,
    kind: Kind,
    default: Value,
    allowed: Allowed,
    level: Level,
    help: &'static str,
) -> Declaration {
    Declaration::new(name, kind, default)
        .allowed(allowed)
        .level(level)
        .help(help)
}

const fn removed(name: &'static str, instead: &'static str) -> Declaration {
    let nothing = Value::str("");
    declare(
        name,
        Kind::String,
        nothing,
        Allowed::Any,
        Level::DEV_ALL,
        instead,
    )
}

/// Parameters that the transport no longer has. The help names the replacement.
pub(super) static REMOVED: [Declaration; 6] = [
    removed(
        "btl_ofi_mr_local",
        "Removed: providers that require registered local buffers (FI_MR_LOCAL) are refused; use another one, or the same under ofi_rxm.",
    ),
    removed(
        "btl_ofi_modules",
        "Removed: Open MPI gets one module; use btl_ofi_rails for large transfers over several interfaces.",
    ),
    removed(
        "btl_ofi_stream_window",
        "Removed: large transfers over TCP go to the kernel whole; where BBR paces connections within a machine, set net.ipv4.tcp_congestion_control to cubic.",
    ),
    removed(
        "btl_ofi_trace",
        "Removed: the host records (host_trace of host-stub); under Open MPI, host-stub stats and btl_ofi_stats_file count.",
    ),
    removed(
        "btl_ofi_fault_guard",
        "Removed: no signal handler is installed; memory that peers cannot use is refused when it is registered, and must stay mapped until it is deregistered.",
    ),
    removed(
        "btl_ofi_xpmem",
        "Removed: private memory of local peers goes by rings and cross-memory attach; have the host allocate windows that peers should map.",
    ),
];

static FLAG_NAMES: [Named; 13] = [
    Named::new(ModuleFlags::SEND.bits() as i64, "send"),
    Named::new(ModuleFlags::PUT.bits() as i64, "put"),
    Named::new(ModuleFlags::GET.bits() as i64, "get"),
    Named::new(ModuleFlags::ATOMIC_OPS.bits() as i64, "atomics"),
    Named::new(ModuleFlags::ATOMIC_FOPS.bits() as i64, "fetching-atomics"),
    Named::new(ModuleFlags::RDMA_FLUSH.bits() as i64, "rdma-flush"),
    Named::new(
        ModuleFlags::RDMA_REMOTE_COMPLETION.bits() as i64,
        "rdma-remote-completion",
    ),
    Named::new(ModuleFlags::SOLE_ATOMICS.bits() as i64, "sole-atomics"),
    Named::new(ModuleFlags::SCATTERS.bits() as i64, "scatters"),
    Named::new(ModuleFlags::CHECKS_KEYS.bits() as i64, "checks-keys"),
    Named::new(ModuleFlags::APPLIES.bits() as i64, "applies"),
    Named::new(
        ModuleFlags::ATOMICS_ORDERED.bits() as i64,
        "atomics-ordered",
    ),
    Named::new(
        ModuleFlags::RDMA_PASSIVE_TARGET.bits() as i64,
        "rdma-passive-target",
    ),
];

static PROGRESS_MODES: [Cow<'static, str>; 3] = [
    Cow::Borrowed("unspec"),
    Cow::Borrowed("auto"),
    Cow::Borrowed("manual"),
];

static SAME_NODE: [Cow<'static, str>; 2] = [Cow::Borrowed("auto"), Cow::Borrowed("off")];

static HMEM: [Cow<'static, str>; 3] = [
    Cow::Borrowed("auto"),
    Cow::Borrowed("on"),
    Cow::Borrowed("off"),
];

static RAILS: [Cow<'static, str>; 5] = [
    Cow::Borrowed("auto"),
    Cow::Borrowed("1"),
    Cow::Borrowed("2"),
    Cow::Borrowed("3"),
    Cow::Borrowed("4"),
];

pub(super) static DECLARATIONS: [Declaration; 26] = [
    declare(
        "btl_ofi_hmem",
        Kind::String,
        Value::str("auto"),
        Allowed::OneOf(Cow::Borrowed(&HMEM)),
        Level::TUNER_ALL,
        "Whether the transport asks the provider to reach device memory itself (FI_HMEM): on, off, or \
         auto, which asks if this machine has a device that the transport knows. Copies reach device \
         memory that the provider does not take.",
    ),
    declare(
        "btl_ofi_hmem_thread",
        Kind::Bool,
        Value::Bool(false),
        Allowed::Any,
        Level::TUNER_ALL,
        "Whether a dedicated thread, instead of progress, executes the requests of peers for device \
         memory that copies reach.",
    ),
    declare(
        "btl_ofi_mode",
        Kind::Int,
        Value::Int(0),
        Allowed::Range { min: 0, max: 2 },
        Level::TUNER_DETAIL,
        "What the transport offers: 0 one-sided operations, 1 two-sided messages, by which a whole MPI \
         job can run, 2 both.",
    ),
    declare(
        "btl_ofi_num_cq_read",
        Kind::Int,
        Value::Int(64),
        Allowed::Range {
            min: 1,
            max: MAX_CQ_READ as i64,
        },
        Level::TUNER_DETAIL,
        "Number of completions to read from a completion queue at once.",
    ),
    declare(
        "btl_ofi_progress_mode",
        Kind::String,
        Value::str("unspec"),
        Allowed::OneOf(Cow::Borrowed(&PROGRESS_MODES)),
        Level::TUNER_DETAIL,
        "Progress mode asked of the provider: unspec, auto or manual.",
    ),
    declare(
        "btl_ofi_num_contexts_per_module",
        Kind::Int,
        Value::Int(1),
        Allowed::Range {
            min: 1,
            max: counters::SHARES as i64,
        },
        Level::TUNER_DETAIL,
        "Number of transmit contexts. More let threads send without waiting for each other; it \
         should not exceed the number of cores. Needs a provider with scalable endpoints.",
    ),
    declare(
        "btl_ofi_disable_sep",
        Kind::Bool,
        Value::Bool(false),
        Allowed::Any,
        Level::TUNER_DETAIL,
        "Never use a scalable endpoint.",
    ),
    declare(
        "btl_ofi_progress_threshold",
        Kind::Int,
        Value::Int(64),
        Allowed::Range {
            min: 1,
            max: i32::MAX as i64,
        },
        Level::TUNER_DETAIL,
        "Number of outstanding operations of a context at which each new operation also reads \
         completions.",
    ),
    declare(
        "btl_ofi_rd_num",
        Kind::Int,
        Value::Int(10),
        Allowed::Range {
            min: 1,
            max: i32::MAX as i64,
        },
        Level::TUNER_DETAIL,
        "Number of receive buffers that are posted for messages of peers, of 16 KiB each, 128 KiB over tcp, net and \
         tcp;ofi_rxm, or 132 KiB where the host sends messages of its own; at most 4096. The provider keeps messages that find none.",
    ),
    declare(
        "btl_ofi_message_limit",
        Kind::SizeT,
        Value::Unsigned(MESSAGE_LIMIT),
        Allowed::Range {
            min: 0,
            max: 12 * 1024,
        },
        Level::TUNER_DETAIL,
        "Largest put in bytes that travels as a message, which the target executes, where the provider's own \
         transfers are made in software; gets may be four times as large over tcp and net. Messages also carry \
         the atomics there. 0 for no messages, unless the provider has no atomics. All processes must agree \
         whether messages are used.",
    ),
    declare(
        "btl_ofi_provider_include",
        Kind::String,
        Value::str(""),
        Allowed::Any,
        Level::USER_BASIC,
        "Comma-separated providers to consider, by the beginning of their names as fi_info \
             prints them; empty for all. When set, provider_exclude has no effect.",
    )
    .synonyms(&[Cow::Borrowed("opal_common_ofi_provider_include")]),
    declare(
        "btl_ofi_provider_exclude",
        Kind::String,
        Value::str(DEFAULT_EXCLUDE),
        Allowed::Any,
        Level::USER_BASIC,
        "Comma-separated providers not to consider, by the beginning of their names.",
    )
    .synonyms(&[Cow::Borrowed("opal_common_ofi_provider_exclude")]),
    declare(
        "btl_ofi_if_include",
        Kind::String,
        Value::str(""),
        Allowed::Any,
        Level::USER_BASIC,
        "Comma-separated interfaces (eth0) and networks (10.1.0.0/16) to use, for providers whose addresses \
             are IP addresses; empty for all. The best of them by rank is used. Peers on other networks that \
             are named here are taken to be reachable through routers. Excludes if_exclude.",
    ),
    declare(
        "btl_ofi_if_exclude",
        Kind::String,
        Value::str(""),
        Allowed::Any,
        Level::USER_BASIC,
        "Comma-separated interfaces and networks never to use, for providers whose addresses are IP \
             addresses. Excludes if_include.",
    ),
    declare(
        "btl_ofi_rails",
        Kind::String,
        Value::str("1"),
        Allowed::OneOf(Cow::Borrowed(&RAILS)),
        Level::USER_DETAIL,
        "Number of interfaces over which large transfers to one peer go, the best first: 1 to 4, or auto for all \
             that are at least half as fast as the first. Everything else goes over the first.",
    ),
    declare(
        "btl_ofi_verbose",
        Kind::Int,
        Value::Int(0),
        Allowed::Range { min: 0, max: 100 },
        Level::USER_ALL,
        "How much the transport logs: 0 errors and warnings, 1 what was chosen and why, \
             10 and above everything.",
    )
    .synonyms(&[Cow::Borrowed("opal_common_ofi_verbose")]),
    declare(
        "btl_ofi_exclusivity",
        Kind::UnsignedInt,
        Value::Unsigned(EXCLUSIVITY),
        Allowed::Any,
        Level::DEV_BASIC,
        "Preference among transports to one peer; the highest wins.",
    ),
    declare(
        "btl_ofi_flags",
        Kind::UnsignedInt,
        Value::Unsigned(ModuleFlags::all().bits() as u64),
        Allowed::Flags(Cow::Borrowed(&FLAG_NAMES)),
        Level::TUNER_DETAIL,
        "Abilities that may be advertised, as a mask over what the provider offers.",
    ),
    declare(
        "btl_ofi_put_limit",
        Kind::SizeT,
        Value::Unsigned(0),
        Allowed::Any,
        Level::TUNER_BASIC,
        "Largest put in bytes; 0 for the provider's own limit.",
    ),
    declare(
        "btl_ofi_get_limit",
        Kind::SizeT,
        Value::Unsigned(0),
        Allowed::Any,
        Level::TUNER_BASIC,
        "Largest get in bytes; 0 for the provider's own limit.",
    ),
    declare(
        "btl_ofi_latency",
        Kind::UnsignedInt,
        Value::Unsigned(1),
        Allowed::Any,
        Level::TUNER_DETAIL,
        "Approximate latency in microseconds, for hosts that choose among transports.",
    ),
    declare(
        "btl_ofi_bandwidth",
        Kind::UnsignedInt,
        Value::Unsigned(0),
        Allowed::Any,
        Level::TUNER_DETAIL,
        "Approximate bandwidth in Mbit/s; 0 for the bandwidth of the link that the provider reports.",
    ),
    declare(
        "btl_ofi_peer_check_interval",
        Kind::UnsignedInt,
        Value::Unsigned(250),
        Allowed::Range {
            min: 1,
            max: 3_600_000,
        },
        Level::TUNER_ALL,
        "Milliseconds without any completion after which the transport checks whether the local peers \
         that have operations outstanding still run.",
    ),
    declare(
        "btl_ofi_peer_timeout",
        Kind::UnsignedInt,
        Value::Unsigned(0),
        Allowed::Range {
            min: 0,
            max: 86_400_000,
        },
        Level::TUNER_ALL,
        "Milliseconds of silence after which a peer fails: operations to it are outstanding \
         and none completes, it answers no heartbeat while this process waits, or its process on this \
         node is stopped. Heartbeats need messages. 1 ms more for each 4 KiB of large transfers outstanding \
         to it. 0 to wait for ever. Choose a longer time than any peer computes without communicating.",
    ),
    declare(
        "btl_ofi_same_node",
        Kind::String,
        Value::str("auto"),
        Allowed::OneOf(Cow::Borrowed(&SAME_NODE)),
        Level::USER_DETAIL,
        "How processes of one node reach each other: auto, by memory where the kernel allows that (shared \
         memory and cross-memory attach), whatever the provider is; or off, by the provider. Both \
         processes must have auto.",
    ),
    declare(
        "btl_ofi_stats_file",
        Kind::String,
        Value::str(""),
        Allowed::Any,
        Level::USER_DETAIL,
        "File to which each process appends a line of JSON when it closes the transport: operations and \
         bytes by peer and carrier, waits, progress. Empty for none. All processes may name the same file. \
         host-stub stats shows the same of a running process.",
    ),
];
