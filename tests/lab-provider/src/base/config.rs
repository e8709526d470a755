//! The environment that shapes the provider. Read when libfabric asks for providers and when a fabric
//! is opened, so that one process can try many shapes one after another.
//!
//! | variable | meaning | default |
//! | --- | --- | --- |
//! | `LAB_NAME` | the provider's name, by which its user may know it; read when the library is loaded | `lab` |
//! | `LAB_MR_MODE` | registration modes required, names joined by `,` | none |
//! | `LAB_OLD_MODE` | `BASIC` or `SCALABLE`: also offered under this old mode, whose name then takes the place of `LAB_MR_MODE` | none |
//! | `LAB_MODE` | `CONTEXT`, `CONTEXT2`, both, or neither | neither |
//! | `LAB_MR_KEY_SIZE` | bytes of a key | 8 |
//! | `LAB_REGIONS` | most registrations of a process at a time; one more is refused with FI_ENOMEM | 4096 |
//! | `LAB_KEYS` | keys under PROV_KEY: `low`, `high`, or `random` | random |
//! | `LAB_CACHE` | under PROV_KEY, 1: memory inside a registered region gets that region's key, and all memory every right; 2: a domain with atomics (FI_ATOMIC) refuses it with FI_ENOKEY instead, and forgets that region | 0 |
//! | `LAB_TX_CTX` | most transmit contexts of an endpoint | 1 |
//! | `LAB_MAX_MSG` | largest message, bytes | 1 MiB |
//! | `LAB_INJECT` | inject size, bytes; injecting is a violation | 64 |
//! | `LAB_TX_SIZE` | operations that an endpoint takes at a time | 256 |
//! | `LAB_RX_SIZE` | receives that an endpoint takes at a time | 256 |
//! | `LAB_MESSAGES` | 0: no messages (FI_MSG) | 1 |
//! | `LAB_SEND_ORDER` | 0: messages come in any order, and FI_ORDER_SAS is not offered | 1 |
//! | `LAB_CONFIRMS` | 0: FI_DELIVERY_COMPLETE is not offered; writes and updates complete when they were sent, and their bytes come late; 2: so, but it is offered | 1 |
//! | `LAB_READ_ORDER` | 1: reads come behind the writes before them for users that ask for that (FI_ORDER_RMA_RAW) | 0 |
//! | `LAB_RELAXED` | 1: users that ask for no order are offered domains `lab0-ro`, ..., in which reads come behind nothing | 0 |
//! | `LAB_ATOMICS` | 0: no atomics (FI_ATOMIC) | 1 |
//! | `LAB_ATOMIC_BYTES` | most bytes of one atomic, which is also a message | 512 |
//! | `LAB_WITHOUT` | atomics not served: `kind:datatype:op` by libfabric's numbers, `*` for any | none |
//! | `LAB_ORDER` | 1: atomics are ordered for users that ask for that | 0 |
//! | `LAB_PROGRESS` | `auto`: also offered under automatic progress | manual |
//! | `LAB_HMEM` | 1: device memory can be registered (FI_HMEM) | 0 |
//! | `LAB_HMEM_IFACES` | kinds of devices: `CUDA`, `ROCR`, `ZE`, `NEURON`, `SYNAPSEAI` | CUDA |
//! | `LAB_HMEM_DEVICE_ONLY` | 0: the flag FI_HMEM_DEVICE_ONLY is refused with FI_EINVAL | 1 |
//! | `LAB_HMEM_OVERRIDE` | 1: the user's copy functions are taken (FI_SET_OPS_HMEM_OVERRIDE) | 0 |
//! | `LAB_HMEM_SHIFT` | bytes from a device address to where its memory can be reached without an override, in place of a driver | no driver |
//! | `LAB_PAGES` | 1: a region is tied to the pages that it was made of, not to pages that are mapped there later; needs CAP_SYS_ADMIN | 0 |
//! | `LAB_PINS` | 1: a writable region (FI_READ, FI_RECV, FI_REMOTE_WRITE) is refused with EFAULT if its memory is read-only, as by the kernel when it pins pages | 0 |
//! | `LAB_ENDPOINTS` | types of endpoints that are offered, in this order: `RDM`, `MSG`, `DGRAM` | RDM |
//! | `LAB_DOMAINS` | domains, which stand for NICs: `lab0`, `lab1`, ... | 1 |
//! | `LAB_BARE` | 1: writes to this process are made at the post, and nothing is checked, delayed or counted, so that a measurement is of the user | 0 |
//! | `LAB_FAULTS` | see [`Faults`]; of the domain `lab0` | none |
//! | `LAB_RAIL_FAULTS` | likewise, of the other domains | none |

use std::env;

use libfabric_sys as ffi;

use crate::base::faults::Faults;
use crate::base::variables::{number, words};

/// Names of registration modes.
const MODES: [(&str, u32); 12] = [
    ("BASIC", ffi::FI_MR_BASIC),
    ("SCALABLE", ffi::FI_MR_SCALABLE),
    ("LOCAL", ffi::FI_MR_LOCAL),
    ("RAW", ffi::FI_MR_RAW),
    ("VIRT_ADDR", ffi::FI_MR_VIRT_ADDR),
    ("ALLOCATED", ffi::FI_MR_ALLOCATED),
    ("PROV_KEY", ffi::FI_MR_PROV_KEY),
    ("MMU_NOTIFY", ffi::FI_MR_MMU_NOTIFY),
    ("RMA_EVENT", ffi::FI_MR_RMA_EVENT),
    ("ENDPOINT", ffi::FI_MR_ENDPOINT),
    ("HMEM", ffi::FI_MR_HMEM),
    ("COLLECTIVE", ffi::FI_MR_COLLECTIVE),
];

/// The kind of keys that the provider chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Keys 0, 1, 2...
    Low,
    /// Keys downwards from the largest key.
    High,
    /// Keys of any 64 bits.
    Random,
}

/// The treatment of memory inside a registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// The memory gets its own region.
    Absent,
    /// The memory gets a region with the same key.
    Shares,
    /// The same, but a domain with atomics refuses the memory, and forgets the region around it.
    Forgets,
}

/// The provider's shape.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) mr_mode: u32,
    /// An old mode under which the provider is offered too, or 0.
    pub(crate) old_mode: u32,
    pub(crate) mode: u64,
    pub(crate) key_size: usize,
    pub(crate) regions: usize,
    pub(crate) keys: Keys,
    pub(crate) cache: Cache,
    pub(crate) tx_contexts: usize,
    pub(crate) max_message: usize,
    pub(crate) inject: usize,
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    pub(crate) messages: bool,
    pub(crate) send_order: bool,
    pub(crate) confirms: bool,
    /// Whether the provider claims to confirm, and does not.
    pub(crate) confirms_sending: bool,
    pub(crate) read_order: bool,
    pub(crate) relaxed: bool,
    pub(crate) atomics: bool,
    pub(crate) atomic_bytes: usize,
    pub(crate) without: Vec<[Option<u32>; 3]>,
    pub(crate) ordered: bool,
    pub(crate) auto_progress: bool,
    pub(crate) hmem: bool,
    pub(crate) hmem_ifaces: Vec<u32>,
    pub(crate) hmem_device_only: bool,
    pub(crate) hmem_override: bool,
    pub(crate) hmem_shift: Option<i64>,
    pub(crate) pages: bool,
    pub(crate) pins: bool,
    /// The types of endpoints, in the order of the offers.
    pub(crate) endpoints: Vec<u32>,
    pub(crate) domains: usize,
    pub(crate) bare: bool,
    pub(crate) faults: Faults,
}

fn ifaces() -> Vec<u32> {
    let kinds = [
        ("CUDA", ffi::FI_HMEM_CUDA),
        ("ROCR", ffi::FI_HMEM_ROCR),
        ("ZE", ffi::FI_HMEM_ZE),
        ("NEURON", ffi::FI_HMEM_NEURON),
        ("SYNAPSEAI", ffi::FI_HMEM_SYNAPSEAI),
    ];
    if env::var_os("LAB_HMEM_IFACES").is_none() {
        return vec![ffi::FI_HMEM_CUDA];
    }
    let known = |word: String| {
        let found = kinds.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            crate::base::report::violation(&format!("LAB_HMEM_IFACES has no kind {word}"));
        }
        found.map(|(_, iface)| *iface)
    };
    words("LAB_HMEM_IFACES")
        .into_iter()
        .filter_map(known)
        .collect()
}

fn endpoints() -> Vec<u32> {
    let types = [
        ("RDM", ffi::FI_EP_RDM),
        ("MSG", ffi::FI_EP_MSG),
        ("DGRAM", ffi::FI_EP_DGRAM),
    ];
    if env::var_os("LAB_ENDPOINTS").is_none() {
        return vec![ffi::FI_EP_RDM];
    }
    let known = |word: String| {
        let found = types.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            crate::base::report::violation(&format!("LAB_ENDPOINTS has no type {word}"));
        }
        found.map(|(_, kind)| *kind)
    };
    words("LAB_ENDPOINTS")
        .into_iter()
        .filter_map(known)
        .collect()
}

impl Config {
    /// Reads the environment. An unknown word is reported as a violation, because the test would
    /// not test its intended shape.
    pub(crate) fn from_environment() -> Config {
        let modes = |variable: &str| {
            let bits = words(variable).into_iter().map(|word| {
                let known = MODES.iter().find(|(name, _)| *name == word);
                if known.is_none() {
                    crate::base::report::violation(&format!("{variable} has no mode {word}"));
                }
                known.map_or(0, |(_, bit)| *bit)
            });
            bits.fold(0, |all, bit| all | bit)
        };
        let mr_mode = modes("LAB_MR_MODE");
        let mut mode = 0;
        for word in words("LAB_MODE") {
            match word.as_str() {
                "CONTEXT" => mode |= u64::from(ffi::FI_CONTEXT),
                "CONTEXT2" => mode |= u64::from(ffi::FI_CONTEXT2),
                _ => crate::base::report::violation(&format!("LAB_MODE has no mode {word}")),
            }
        }
        let without = words("LAB_WITHOUT").into_iter().map(|word| {
            let mut parts = word.split(':').map(|part| part.parse().ok());
            std::array::from_fn(|_| parts.next().flatten())
        });
        Config {
            mr_mode,
            old_mode: modes("LAB_OLD_MODE"),
            mode,
            key_size: number("LAB_MR_KEY_SIZE", 8),
            regions: number("LAB_REGIONS", usize::MAX),
            keys: match env::var("LAB_KEYS").as_deref() {
                Ok("low") => Keys::Low,
                Ok("high") => Keys::High,
                _ => Keys::Random,
            },
            cache: match number("LAB_CACHE", 0) {
                0 => Cache::Absent,
                1 => Cache::Shares,
                _ => Cache::Forgets,
            },
            tx_contexts: number("LAB_TX_CTX", 1),
            max_message: number("LAB_MAX_MSG", 1 << 20),
            inject: number("LAB_INJECT", 64),
            tx_size: number("LAB_TX_SIZE", 256),
            rx_size: number("LAB_RX_SIZE", 256),
            messages: number("LAB_MESSAGES", 1) != 0,
            send_order: number("LAB_SEND_ORDER", 1) != 0,
            confirms: number("LAB_CONFIRMS", 1) != 0,
            confirms_sending: number("LAB_CONFIRMS", 1) == 2,
            read_order: number("LAB_READ_ORDER", 0) != 0,
            relaxed: number("LAB_RELAXED", 0) != 0,
            atomics: number("LAB_ATOMICS", 1) != 0,
            // An atomic is never longer than a message.
            atomic_bytes: number("LAB_ATOMIC_BYTES", 512).min(number("LAB_MAX_MSG", 1 << 20)),
            without: without.collect(),
            ordered: number("LAB_ORDER", 0) != 0,
            auto_progress: env::var("LAB_PROGRESS").is_ok_and(|v| v == "auto"),
            hmem: number("LAB_HMEM", 0) != 0,
            hmem_ifaces: ifaces(),
            hmem_device_only: number("LAB_HMEM_DEVICE_ONLY", 1) != 0,
            hmem_override: number("LAB_HMEM_OVERRIDE", 0) != 0,
            hmem_shift: env::var("LAB_HMEM_SHIFT").ok().and_then(|v| v.parse().ok()),
            pages: number("LAB_PAGES", 0) != 0,
            pins: number("LAB_PINS", 0) != 0,
            endpoints: endpoints(),
            domains: number("LAB_DOMAINS", 1),
            bare: number("LAB_BARE", 0) != 0,
            faults: Faults::from_environment("LAB_FAULTS"),
        }
    }

    fn has(&self, bits: u32) -> bool {
        self.mr_mode & bits != 0
    }

    /// Whether operations name memory by virtual address.
    pub(crate) fn virtual_addresses(&self) -> bool {
        self.has(ffi::FI_MR_BASIC | ffi::FI_MR_VIRT_ADDR)
    }

    /// Whether the provider chooses keys.
    pub(crate) fn provider_keys(&self) -> bool {
        self.has(ffi::FI_MR_BASIC | ffi::FI_MR_PROV_KEY)
    }

    /// Whether regions must be bound and enabled before use.
    pub(crate) fn bound_regions(&self) -> bool {
        self.has(ffi::FI_MR_ENDPOINT)
    }

    /// Whether memory must exist before its registration.
    pub(crate) fn allocated_memory(&self) -> bool {
        self.has(ffi::FI_MR_BASIC | ffi::FI_MR_ALLOCATED)
    }

    /// Whether local use of device memory requires the descriptor of its registration.
    pub(crate) fn described_devices(&self) -> bool {
        self.has(ffi::FI_MR_HMEM)
    }

    /// The bytes of an operation's context that belong to the provider.
    pub(crate) fn context_bytes(&self) -> usize {
        if self.mode & u64::from(ffi::FI_CONTEXT2) != 0 {
            size_of::<ffi::fi_context2>()
        } else if self.mode & u64::from(ffi::FI_CONTEXT) != 0 {
            size_of::<ffi::fi_context>()
        } else {
            0
        }
    }

    /// Whether an atomic is supported; `kind` is 0 to update, 1 to fetch, 2 to compare.
    pub(crate) fn serves(&self, kind: u32, datatype: u32, op: u32) -> bool {
        let asked = [kind, datatype, op];
        !self.without.iter().any(|pattern| {
            let mut pairs = pattern.iter().zip(asked);
            pairs.all(|(pattern, asked)| pattern.is_none_or(|p| p == asked))
        })
    }
}
