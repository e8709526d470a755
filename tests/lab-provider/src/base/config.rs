//! The environment that shapes the provider. Read when libfabric asks for providers and when a fabric
//! is opened, so that one process can try many shapes one after another.
//!
//! | variable | meaning | default |
//! | --- | --- | --- |
//! | `LAB_MR_MODE` | registration modes required, names joined by `,` | none |
//! | `LAB_MODE` | `CONTEXT`, `CONTEXT2`, both, or neither | neither |
//! | `LAB_MR_KEY_SIZE` | bytes of a key | 8 |
//! | `LAB_REGIONS` | most registrations of a process at a time; one more is refused with FI_ENOMEM | 4096 |
//! | `LAB_KEYS` | keys under PROV_KEY: `low`, `high`, or `random` | random |
//! | `LAB_TX_CTX` | most transmit contexts of an endpoint | 1 |
//! | `LAB_MAX_MSG` | largest message, bytes | 1 MiB |
//! | `LAB_INJECT` | inject size, bytes | 64 |
//! | `LAB_TX_SIZE` | operations that an endpoint takes at a time | 256 |
//! | `LAB_RX_SIZE` | receives that an endpoint takes at a time | 256 |
//! | `LAB_MESSAGES` | 0: no messages (FI_MSG) | 1 |
//! | `LAB_SEND_ORDER` | 0: messages come in any order, and FI_ORDER_SAS is not offered | 1 |
//! | `LAB_CONFIRMS` | 0: FI_DELIVERY_COMPLETE is not offered; writes and updates complete when they were sent, and their bytes come late | 1 |
//! | `LAB_READ_ORDER` | 1: reads come behind the writes before them for users that ask for that (FI_ORDER_RMA_RAW) | 0 |
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
//! | `LAB_PAGES` | 1: a region stands for the pages that it was made of, not for whatever is mapped there later; needs CAP_SYS_ADMIN | 0 |
//! | `LAB_ENDPOINTS` | types of endpoints that are offered, in this order: `RDM`, `MSG`, `DGRAM` | RDM |
//! | `LAB_DOMAINS` | domains, which stand for NICs: `lab0`, `lab1`, ... | 1 |
//! | `LAB_FAULTS` | see [`Faults`]; of the domain `lab0` | none |
//! | `LAB_RAIL_FAULTS` | likewise, of the other domains | none |

use std::collections::HashMap;
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};

use libfabric_sys as ffi;

/// How often the step that is to fail was taken.
static OPENED: AtomicU64 = AtomicU64::new(0);

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

/// How keys look that the provider chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// 0, 1, 2...
    Low,
    /// Down from the largest that is a key.
    High,
    /// Any 64 bits.
    Random,
}

/// The provider's shape.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) mr_mode: u32,
    pub(crate) mode: u64,
    pub(crate) key_size: usize,
    pub(crate) regions: usize,
    pub(crate) keys: Keys,
    pub(crate) tx_contexts: usize,
    pub(crate) max_message: usize,
    pub(crate) inject: usize,
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    pub(crate) messages: bool,
    pub(crate) send_order: bool,
    pub(crate) confirms: bool,
    pub(crate) read_order: bool,
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
    /// Types of endpoints, in the order of the offers.
    pub(crate) endpoints: Vec<u32>,
    pub(crate) domains: usize,
    pub(crate) faults: Faults,
}

/// Faults by script: `LAB_FAULTS=name=number,...`. Probabilities are per thousand. Equal seeds and
/// equal calls give equal faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// `seed`.
    pub(crate) seed: u64,
    /// `again`: a post is turned away with FI_EAGAIN (a send too, a receive not) ...
    pub(crate) again: u64,
    /// `burst`: ... and up to so many after it.
    pub(crate) burst: u64,
    /// `sendagain`: every n-th post of a send of a queue is turned away.
    pub(crate) send_again: u64,
    /// `recvagain`: every n-th post of a receive of an endpoint is turned away.
    pub(crate) recv_again: u64,
    /// `error`: an operation fails (a send too, a receive not) ...
    pub(crate) error: u64,
    /// `errno`: ... with this libfabric error (default FI_EIO).
    pub(crate) errno: i32,
    /// `nth`: the n-th operation of a queue fails, whatever `error` says. Receives are not counted.
    pub(crate) nth: u64,
    /// `nameless`: an error completion carries no context.
    pub(crate) nameless: u64,
    /// `delay`: operations take up to so many reads of the queue, and a message that came goes to a
    /// receive up to so many reads later.
    pub(crate) delay: u64,
    /// `reorder`: completions come in any order when not 0, those of receives in one that the order of
    /// sends allows.
    pub(crate) reorder: bool,
    /// `againfrom`: from the n-th post of a queue on, every one is turned away.
    pub(crate) again_from: u64,
    /// `stray`: a completion is followed by one without context that belongs to nothing.
    pub(crate) stray: u64,
    /// `nullok`: a successful completion comes without its context.
    pub(crate) null_ok: u64,
    /// `silent`: from the n-th operation of a queue on, its peer does nothing more ...
    pub(crate) silent: u64,
    /// `back`: ... until the queue was read so many times; 0 for ever.
    pub(crate) back: u64,
    /// `nomem`: a registration is refused with FI_ENOMEM.
    pub(crate) nomem: u64,
    /// `keyrejected`: a registration is refused with FI_EKEYREJECTED.
    pub(crate) keyrejected: u64,
    /// `open`: this step of opening fails (name) ...
    pub(crate) open: String,
    /// `openat`: ... the n-th time that it is taken after a fabric was asked for; 0 for every time ...
    pub(crate) open_at: u64,
    /// `openerrno`: ... with this error (default FI_ENOMEM).
    pub(crate) open_errno: i32,
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> T {
    let value = env::var(name).ok();
    value.and_then(|v| v.trim().parse().ok()).unwrap_or(default)
}

fn words(name: &str) -> Vec<String> {
    let value = env::var(name).unwrap_or_default();
    let words = value.split(',').map(str::trim).filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
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
    /// Reads the environment. A word that means nothing is reported as a violation, since the test
    /// would not test what it says.
    pub(crate) fn from_environment() -> Config {
        let mut mr_mode = 0;
        for word in words("LAB_MR_MODE") {
            match MODES.iter().find(|(name, _)| *name == word) {
                Some((_, bit)) => mr_mode |= bit,
                None => crate::base::report::violation(&format!("LAB_MR_MODE has no mode {word}")),
            }
        }
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
            mode,
            key_size: number("LAB_MR_KEY_SIZE", 8),
            regions: number("LAB_REGIONS", usize::MAX),
            keys: match env::var("LAB_KEYS").as_deref() {
                Ok("low") => Keys::Low,
                Ok("high") => Keys::High,
                _ => Keys::Random,
            },
            tx_contexts: number("LAB_TX_CTX", 1),
            max_message: number("LAB_MAX_MSG", 1 << 20),
            inject: number("LAB_INJECT", 64),
            tx_size: number("LAB_TX_SIZE", 256),
            rx_size: number("LAB_RX_SIZE", 256),
            messages: number("LAB_MESSAGES", 1) != 0,
            send_order: number("LAB_SEND_ORDER", 1) != 0,
            confirms: number("LAB_CONFIRMS", 1) != 0,
            read_order: number("LAB_READ_ORDER", 0) != 0,
            atomics: number("LAB_ATOMICS", 1) != 0,
            // An atomic is no longer than a message.
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
            endpoints: endpoints(),
            domains: number("LAB_DOMAINS", 1),
            faults: Faults::from_environment("LAB_FAULTS"),
        }
    }

    fn has(&self, bits: u32) -> bool {
        self.mr_mode & bits != 0
    }

    /// Whether memory is named by virtual address.
    pub(crate) fn virtual_addresses(&self) -> bool {
        self.has(ffi::FI_MR_BASIC | ffi::FI_MR_VIRT_ADDR)
    }

    /// Whether the provider chooses keys.
    pub(crate) fn provider_keys(&self) -> bool {
        self.has(ffi::FI_MR_BASIC | ffi::FI_MR_PROV_KEY)
    }

    /// Whether regions are bound and enabled before use.
    pub(crate) fn bound_regions(&self) -> bool {
        self.has(ffi::FI_MR_ENDPOINT)
    }

    /// Whether every local buffer comes with the descriptor of its registration, unless it is injected.
    pub(crate) fn described_buffers(&self) -> bool {
        self.has(ffi::FI_MR_LOCAL)
    }

    /// Whether memory is there before it is registered.
    pub(crate) fn allocated_memory(&self) -> bool {
        self.has(ffi::FI_MR_BASIC | ffi::FI_MR_ALLOCATED)
    }

    /// Whether device memory is used locally only with the descriptor of its registration.
    pub(crate) fn described_devices(&self) -> bool {
        self.has(ffi::FI_MR_HMEM)
    }

    /// Bytes of an operation's context that the provider owns.
    pub(crate) fn context_bytes(&self) -> usize {
        if self.mode & u64::from(ffi::FI_CONTEXT2) != 0 {
            size_of::<ffi::fi_context2>()
        } else if self.mode & u64::from(ffi::FI_CONTEXT) != 0 {
            size_of::<ffi::fi_context>()
        } else {
            0
        }
    }

    /// Whether an atomic is served; `kind` is 0 to update, 1 to fetch, 2 to compare.
    pub(crate) fn serves(&self, kind: u32, datatype: u32, op: u32) -> bool {
        let asked = [kind, datatype, op];
        !self.without.iter().any(|pattern| {
            let mut pairs = pattern.iter().zip(asked);
            pairs.all(|(pattern, asked)| pattern.is_none_or(|p| p == asked))
        })
    }
}

impl Faults {
    pub(crate) fn from_environment(variable: &str) -> Faults {
        let words = words(variable);
        let pairs: HashMap<&str, &str> = words.iter().filter_map(|w| w.split_once('=')).collect();
        let get = |name: &str| {
            pairs
                .get(name)
                .and_then(|v| v.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let code = |name: &str, default: u32| match get(name) {
            0 => default as i32,
            code => i32::try_from(code).unwrap_or(default as i32),
        };
        Faults {
            seed: get("seed"),
            again: get("again"),
            burst: get("burst"),
            send_again: get("sendagain"),
            recv_again: get("recvagain"),
            error: get("error"),
            errno: code("errno", ffi::FI_EIO),
            nth: get("nth"),
            nameless: get("nameless"),
            delay: get("delay"),
            reorder: get("reorder") != 0,
            again_from: get("againfrom"),
            stray: get("stray"),
            null_ok: get("nullok"),
            silent: get("silent"),
            back: get("back"),
            nomem: get("nomem"),
            keyrejected: get("keyrejected"),
            open: pairs.get("open").map_or(String::new(), |s| (*s).to_owned()),
            open_at: get("openat"),
            open_errno: code("openerrno", ffi::FI_ENOMEM),
        }
    }

    /// 0, or the negative error with which a step of opening fails.
    pub(crate) fn at_open(&self, step: &str) -> i32 {
        if step == "fabric" {
            OPENED.store(0, Ordering::Relaxed);
        }
        if self.open != step {
            return 0;
        }
        let times = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
        if self.open_at == 0 || self.open_at == times {
            crate::base::report::count(&crate::base::report::COUNTS.faults);
            -self.open_errno
        } else {
            0
        }
    }
}
