//! Faults by script.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use libfabric_sys as ffi;

use crate::base::report;
use crate::base::variables::words;

/// The number of times that the step with the fault was taken.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Faults by script: `LAB_FAULTS=name=number,...`. Probabilities are per thousand. Equal seeds and
/// equal calls give equal faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// `seed`.
    pub(crate) seed: u64,
    /// `again`: a post is refused with FI_EAGAIN (a send too, a receive not) ...
    pub(crate) again: u64,
    /// `burst`: ... and up to this many later posts, one fewer with each read of the queue.
    pub(crate) burst: u64,
    /// `sendagain`: every n-th post of a send of a queue is refused.
    pub(crate) send_again: u64,
    /// `recvagain`: every n-th post of a receive of an endpoint is refused.
    pub(crate) recv_again: u64,
    /// `error`: an operation fails (a send too, a receive not) ...
    pub(crate) error: u64,
    /// `errno`: ... with this libfabric error (default FI_EIO).
    pub(crate) errno: i32,
    /// `nth`: the n-th operation of a queue fails, independently of `error`. Receives are not
    /// counted.
    pub(crate) nth: u64,
    /// `lose`: the n-th accepted send of a queue completes, and its message never arrives.
    pub(crate) lose: u64,
    /// `nameless`: an error completion carries no context.
    pub(crate) nameless: u64,
    /// `delay`: operations take up to this many reads of the queue, and an arrived message goes to
    /// a receive up to this many reads later.
    pub(crate) delay: u64,
    /// `reorder`: if not 0, completions come in any order; completions of receives keep the order of
    /// sends.
    pub(crate) reorder: bool,
    /// `againfrom`: from the n-th post of a queue on, every post is refused.
    pub(crate) again_from: u64,
    /// `unreadable`: from the n-th operation of a queue on, every read of it fails with FI_EIO.
    pub(crate) unreadable: u64,
    /// `stray`: a completion is followed by a completion without context that belongs to no operation.
    pub(crate) stray: u64,
    /// `nullok`: a successful completion comes without its context.
    pub(crate) null_ok: u64,
    /// `silent`: from the n-th operation of a queue on, its peer stops answering ...
    pub(crate) silent: u64,
    /// `back`: ... until the queue was read this many times; 0 means forever.
    pub(crate) back: u64,
    /// `nomem`: a registration is refused with FI_ENOMEM.
    pub(crate) nomem: u64,
    /// `keyrejected`: a registration is refused with FI_EKEYREJECTED.
    pub(crate) keyrejected: u64,
    /// `open`: this step of opening fails (name) ...
    pub(crate) open: String,
    /// `openat`: ... the n-th time that the step is taken after a fabric was requested; 0 means every
    /// time ...
    pub(crate) open_at: u64,
    /// `openerrno`: ... with this error (default FI_ENOMEM).
    pub(crate) open_errno: i32,
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
            lose: get("lose"),
            nameless: get("nameless"),
            delay: get("delay"),
            reorder: get("reorder") != 0,
            again_from: get("againfrom"),
            unreadable: get("unreadable"),
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
            report::count(&report::COUNTS.faults);
            -self.open_errno
        } else {
            0
        }
    }
}
