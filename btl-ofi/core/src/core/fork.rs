//! Fork and open transports. A child has a copy of each transport. With its copy the child could post to its parent's
//! endpoints, write to the rings of peers and take completions that the parent waits for. So a handler ends the copies before
//! fork returns in the child:
//!
//! | value that a call reads | value in a child |
//! | --- | --- |
//! | its peer's state | failed, so quick and slow paths refuse the operation |
//! | the counts of outstanding operations | one operation that never ends, so a flush of nothing does not return at once |
//! | a context's rings, messages and queue | none |
//! | the counters | memory of the child |
//! | a context's lock | free, even if a thread of the parent held it |
//!
//! The data path has no instruction for a fork. Calls that are not on the data path compare the mark of the
//! transport (`base::fork`).

use std::cell::RefCell;
use std::ffi::c_void;
use std::hint;
use std::mem;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use plugin_api::Status;

use crate::base::{fork, sys};
use crate::core::context::never_read;
use crate::core::context::{Carriers, Context, State};
use crate::core::peers::Peers;

/// Maximum time that a fork waits for a thread that connects or releases a peer. After this time, the child's copies of
/// this transport's peers stay unmarked, and its fast paths may still access the memory of local peers.
const PATIENCE: Duration = Duration::from_secs(1);

/// The parts of a transport that the handlers reach.
struct Open {
    contexts: *const [Context],
    threaded: bool,
    peers: Arc<Mutex<Peers>>,
    counters: Option<(NonNull<c_void>, usize)>,
}

// SAFETY: the pointers name memory that is tied to no thread, and that lives until the entry is removed.
unsafe impl Send for Open {}

/// The open transports.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// The locks that a fork holds, so that no other thread changes the lists of transports and peers during the
/// fork.
struct Held {
    open: MutexGuard<'static, Vec<Open>>,
    /// The locks of the peers, one per transport of `open`; `None` if a thread did not finish in time.
    peers: Vec<Option<PeersGuard>>,
}

/// A lock of the peers, together with a reference that keeps the mutex alive. Fields drop in order.
struct PeersGuard {
    guard: MutexGuard<'static, Peers>,
    _mutex: Arc<Mutex<Peers>>,
}

thread_local! {
    /// The locks of this thread's fork. The thread that called fork runs all handlers.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// An entry among the open transports. Dropping the value removes the entry.
pub(crate) struct Entry(Arc<Mutex<Peers>>);

impl Entry {
    /// Adds a transport.
    ///
    /// # Safety
    /// The contexts and the counters' mapping live until the entry is dropped. `threaded` is the contexts' threading.
    pub(crate) unsafe fn add(
        contexts: &[Context],
        threaded: bool,
        peers: &Arc<Mutex<Peers>>,
        counters: Option<(NonNull<c_void>, usize)>,
    ) -> Entry {
        static REGISTERED: OnceLock<()> = OnceLock::new();
        REGISTERED.get_or_init(|| {
            if let Err(e) = sys::at_fork(before, in_parent, in_child) {
                tracing::warn!("children of fork are not kept from this process's transports: {e}");
            }
        });
        lock_open().push(Open {
            contexts: std::ptr::from_ref(contexts),
            threaded,
            peers: Arc::clone(peers),
            counters,
        });
        Entry(Arc::clone(peers))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = lock_open();
        open.retain(|open| !Arc::ptr_eq(&open.peers, &self.0));
        open.shrink_to_fit();
    }
}

fn lock_open() -> MutexGuard<'static, Vec<Open>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the peers of a transport, unless this takes too long.
fn lock_soon(peers: &Arc<Mutex<Peers>>, deadline: Instant) -> Option<PeersGuard> {
    for tries in 1u32.. {
        let guard = match peers.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                // A thread that connects one peer after the other leaves only short gaps.
                match tries.is_multiple_of(64) {
                    true => thread::yield_now(),
                    false => hint::spin_loop(),
                }
                continue;
            }
            Err(TryLockError::WouldBlock) => return None,
        };
        // SAFETY: the guard is dropped before the mutex, which `_mutex` keeps.
        let guard =
            unsafe { mem::transmute::<MutexGuard<'_, Peers>, MutexGuard<'static, Peers>>(guard) };
        return Some(PeersGuard {
            guard,
            _mutex: Arc::clone(peers),
        });
    }
    None
}

unsafe extern "C" fn before() {
    let open = lock_open();
    let deadline = Instant::now() + PATIENCE;
    let peers = open.iter().map(|o| lock_soon(&o.peers, deadline)).collect();
    // A thread that is ending no longer has this variable. Then no lock is held, and the child's copies stay as they
    // are.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(Held { open, peers }));
}

unsafe extern "C" fn in_parent() {
    let _ = HELD.try_with(|held| drop(held.borrow_mut().take()));
}

unsafe extern "C" fn in_child() {
    fork::count();
    let held = HELD.try_with(|held| held.borrow_mut().take());
    let Ok(Some(mut held)) = held else { return };
    for (open, peers) in held.open.iter().zip(&held.peers) {
        // SAFETY: this is the child's only thread. The calling thread holds no context, because the transport never forks
        // under a context's lock. An entry is removed before its contexts end.
        unsafe { end_copy(open, peers.as_ref().map(|p| &*p.guard)) };
    }
    // The entries belong to the parent.
    held.open.clear();
}

/// Ends a child's copy of a transport.
///
/// # Safety
/// This process has no other thread, and this thread holds no context of the transport.
unsafe fn end_copy(open: &Open, peers: Option<&Peers>) {
    // SAFETY: the entry's contexts live.
    let contexts = unsafe { &*open.contexts };
    for context in contexts {
        // SAFETY: the caller's guarantees. State that another thread of the parent may have been changing is
        // replaced, not read.
        unsafe {
            let state: *mut State = context.state.free_in_child();
            let state = &mut *state;
            state.read = never_read;
            state.carriers = Carriers::None;
            state.unattributed = 0;
            mem::forget(mem::take(&mut state.ready));
            mem::forget(state.channel.take());
            mem::forget(state.messages.take());
            mem::forget(state.confirmations.take());
        }
        context.count.raise(context.count.pair(), false);
    }
    for peer in peers.iter().flat_map(|peers| peers.known.iter()) {
        peer.fail(Status::FATAL);
        peer.raise(contexts[0].share, open.threaded);
    }
    if let Some((at, size)) = open.counters {
        // SAFETY: the entry's mapping lives, and any bytes are counters. On an error, the child counts in its
        // parent's counters.
        let _ = unsafe { sys::replace_by_zeros(at, size) };
    }
}
