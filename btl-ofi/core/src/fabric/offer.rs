//! Passes the user's copy functions to the provider (`FI_SET_OPS_HMEM_OVERRIDE`, man fi_domain).
//!
//! libfabric's functions receive one kind of memory and one device for all runs; the user's functions receive a kind
//! per run. libfabric passes no context pointer, so the translation uses a fixed number of static function pairs,
//! one pair for each domain with overrides.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libfabric_sys as ffi;
use plugin_api::IoVec;

use crate::mem::copy::Copier;

/// The kinds of this many runs fit in a buffer on the stack.
const STACK_RUNS: usize = 16;
/// Domains of one process that can have overrides at the same time.
const PAIRS: usize = 4;

static TAKEN: [Mutex<Option<Copier>>; PAIRS] = [const { Mutex::new(None) }; PAIRS];

fn lock(pair: usize) -> MutexGuard<'static, Option<Copier>> {
    TAKEN[pair].lock().unwrap_or_else(PoisonError::into_inner)
}

fn copier(pair: usize) -> Copier {
    lock(pair).unwrap_or_default()
}

/// Takes a free pair. The test and the store are under one lock, so no two domains get the same pair.
fn take(copier: Copier) -> Option<usize> {
    (0..PAIRS).find(|pair| {
        let mut slot = lock(*pair);
        let free = slot.is_none();
        if free {
            *slot = Some(copier);
        }
        free
    })
}

/// `struct fi_hmem_override_ops`; it is the same in every release that has it.
#[repr(C)]
struct ProviderOps {
    size: usize,
    copy_from_hmem_iov:
        unsafe extern "C" fn(*mut c_void, usize, c_int, u64, *const IoVec, usize, u64) -> isize,
    copy_to_hmem_iov:
        unsafe extern "C" fn(c_int, u64, *const IoVec, usize, u64, *const c_void, usize) -> isize,
}

/// Runs `call` with an array of `count` equal kinds.
fn with_kinds<R>(iface: c_int, count: usize, call: impl FnOnce(*const u32) -> R) -> R {
    let iface = u32::try_from(iface).unwrap_or(u32::MAX);
    if count <= STACK_RUNS {
        call([iface; STACK_RUNS].as_ptr())
    } else {
        call(vec![iface; count].as_ptr())
    }
}

unsafe extern "C" fn from<const PAIR: usize>(
    dest: *mut c_void,
    size: usize,
    iface: c_int,
    _device: u64,
    iov: *const IoVec,
    count: usize,
    offset: u64,
) -> isize {
    // SAFETY: the provider calls with the arguments that man fi_domain documents; the array has `count` kinds.
    with_kinds(iface, count, |kinds| unsafe {
        copier(PAIR).copy_from(dest, size, iov, kinds, count, offset)
    })
}

unsafe extern "C" fn to<const PAIR: usize>(
    iface: c_int,
    _device: u64,
    iov: *const IoVec,
    count: usize,
    offset: u64,
    src: *const c_void,
    size: usize,
) -> isize {
    // SAFETY: the provider calls with the arguments that man fi_domain documents; the array has `count` kinds.
    with_kinds(iface, count, |kinds| unsafe {
        copier(PAIR).copy_to(iov, kinds, count, offset, src, size)
    })
}

const fn ops<const PAIR: usize>() -> ProviderOps {
    ProviderOps {
        size: size_of::<ProviderOps>(),
        copy_from_hmem_iov: from::<PAIR>,
        copy_to_hmem_iov: to::<PAIR>,
    }
}

static OPS: [ProviderOps; PAIRS] = [ops::<0>(), ops::<1>(), ops::<2>(), ops::<3>()];

/// A pair of functions; the provider may call it until its domain is closed.
#[derive(Default)]
pub(crate) struct Offer {
    pair: Option<usize>,
    taken: bool,
    /// The last return code of fi_set_ops; 0 before the first call.
    answer: c_int,
}

impl Offer {
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Returns 0 if the provider uses the functions that are set; otherwise the error with which it refused them,
    /// or -FI_ENOSYS if they were not offered.
    pub(crate) fn answer(&self) -> c_int {
        match (self.taken, self.answer) {
            (true, _) => 0,
            (false, 0) => -(ffi::FI_ENOSYS as c_int),
            (false, refused) => refused,
        }
    }

    /// Lets the provider use `copier` from now on. Returns the result of fi_set_ops.
    ///
    /// # Safety
    /// `domain` is live.
    pub(crate) unsafe fn make(&mut self, domain: *mut ffi::fid_domain, copier: Copier) -> c_int {
        let Some(pair) = self.pair.or_else(|| take(copier)) else {
            return -(ffi::FI_ENOSYS as c_int);
        };
        self.pair = Some(pair);
        *lock(pair) = Some(copier);
        if self.taken {
            // The provider already has this pair; the pair now calls the new functions.
            return 0;
        }
        let ops: *const ProviderOps = &OPS[pair];
        // SAFETY: the caller guarantees that `domain` is live. The operations are static and have the layout that
        // libfabric defines for this name.
        let rc = unsafe {
            ffi::fi_set_ops(
                (&raw mut (*domain).fid).cast(),
                c"hmem_override_ops".as_ptr(),
                0,
                ops.cast_mut().cast(),
                std::ptr::null_mut(),
            )
        };
        (self.taken, self.answer) = (rc == 0, rc);
        if !self.taken {
            self.release();
        }
        rc
    }
}

impl Offer {
    fn release(&mut self) {
        if let Some(pair) = self.pair.take() {
            *lock(pair) = None;
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_exclusive_and_reused() {
        let taken: Vec<Offer> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..PAIRS)
                .map(|_| scope.spawn(|| take(Copier::default())))
                .collect();
            let pairs = all.into_iter().map(|thread| thread.join().unwrap());
            let offer = |pair| Offer {
                pair,
                ..Offer::default()
            };
            pairs.map(offer).collect()
        });
        let mut pairs: Vec<usize> = taken.iter().map(|offer| offer.pair.unwrap()).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [0, 1, 2, 3]);
        assert_eq!(take(Copier::default()), None);
        drop(taken);
        let again = take(Copier::default());
        assert!(again.is_some());
        drop(Offer {
            pair: again,
            ..Offer::default()
        });
    }
}
