//! Registrations of buffers that operations use here, kept for the next operation that uses them.
//!
//! A registration covers the whole pages of one buffer and no others, so whether it can be made
//! depends on nothing beside them. Two may share pages. It is served as long as its memory stays
//! mapped ([`unmapped`]): what was unmapped, moved or discarded is never served again, also when
//! something else lies there now. The number of registrations and their bytes are bounded, the one
//! not used for longest goes first, and what is in use stays until its last user has ended. Where
//! the process cannot be told of unmapping, or a buffer's memory cannot be watched, each use
//! registers anew.

mod ranges;
mod unmapped;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mca_params::{Declaration, Kind, Level, Value};
use plugin_api::{Access, Handle};

use crate::base::params::Params;
use crate::loader::{Registration, Transport, TransportError};
use ranges::Ranges;
use unmapped::Unmapped;

/// How many registrations are kept.
pub static ENTRIES: Declaration = Declaration::new(
    "host_registration_cache_entries",
    Kind::UnsignedInt,
    Value::Unsigned(1024),
)
.help(
    "Registrations of buffers that are kept for operations to come, the one not used for longest \
     given up first; 0 registers for each operation anew",
)
.level(Level::TUNER_ALL);

/// How much memory they may cover.
pub static BYTES: Declaration = Declaration::new(
    "host_registration_cache_bytes",
    Kind::SizeT,
    Value::Unsigned(1 << 30),
)
.help("Bytes that the kept registrations of each kind may cover together")
.level(Level::TUNER_ALL);

/// What is kept of registrations of local buffers, by the parameters and the kernel.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Most registrations.
    pub entries: u64,
    /// Most bytes that they cover together.
    pub bytes: u64,
    /// Why none is kept, so that each operation registers anew.
    pub obstacle: Option<String>,
}

/// What would be kept in this process.
pub fn kept(params: &Params) -> Result<Kept, mca_params::Error> {
    let bound = |declaration| {
        let value = params.declare(declaration)?;
        Ok::<_, mca_params::Error>(value.as_unsigned().unwrap_or(0))
    };
    let (entries, bytes) = (bound(&ENTRIES)?, bound(&BYTES)?);
    let obstacle = match entries {
        0 => Some(format!("{} is 0", ENTRIES.name)),
        _ => Unmapped::start().err().map(|error| {
            format!("this process cannot be told of unmapped memory: userfaultfd: {error}")
        }),
    };
    Ok(Kept {
        entries,
        bytes,
        obstacle,
    })
}

/// Bounds of one cache.
#[derive(Clone, Copy, Debug)]
struct Limits {
    entries: usize,
    bytes: usize,
}

impl Limits {
    const NOTHING: Limits = Limits {
        entries: 0,
        bytes: 0,
    };
}

/// Registrations of one kind; `T` ends one when it is dropped.
struct Cache<T> {
    limits: Limits,
    state: Mutex<State<T>>,
}

struct State<T> {
    ranges: Ranges<T>,
    counts: Counts,
}

/// What became of the uses so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Served from what was kept.
    hits: u64,
    /// Registered, and kept.
    kept: u64,
    /// Registered for this use alone.
    alone: u64,
    /// Given up because their memory was.
    unmapped: u64,
    /// Given up for others.
    evicted: u64,
}

impl<T> Cache<T> {
    fn new(limits: Limits) -> Self {
        Cache {
            limits,
            state: Mutex::new(State {
                ranges: Ranges::default(),
                counts: Counts::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A registration that covers the pages: one that is kept, or what `register` makes of them. The
    /// pages stay mapped meanwhile. What is dropped on the way is dropped without the lock.
    fn acquire<E>(
        &self,
        watch: &Unmapped,
        pages: &Range<usize>,
        register: impl Fn(&Range<usize>) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut dropped = Vec::new();
        if let Some(found) = self.find(watch, pages, &mut dropped) {
            return Ok(found);
        }
        let made = match register(pages) {
            Ok(made) => made,
            Err(error) => {
                // Room may be all that it lacks.
                self.lock().evict(watch, Limits::NOTHING, &mut dropped);
                if dropped.is_empty() {
                    return Err(error);
                }
                dropped.clear();
                register(pages)?
            }
        };
        let made = Arc::new(made);
        self.keep(watch, pages, &made, &mut dropped);
        Ok(made)
    }

    /// One that is kept.
    fn find(
        &self,
        watch: &Unmapped,
        pages: &Range<usize>,
        dropped: &mut Vec<Arc<T>>,
    ) -> Option<Arc<T>> {
        let mut state = self.lock();
        state.settle(watch, dropped);
        let found = state.ranges.covering(pages);
        state.counts.hits += u64::from(found.is_some());
        found
    }

    /// Keeps one that was made, if there is room for it and its pages can be watched.
    fn keep(
        &self,
        watch: &Unmapped,
        pages: &Range<usize>,
        made: &Arc<T>,
        dropped: &mut Vec<Arc<T>>,
    ) {
        let mut state = self.lock();
        state.settle(watch, dropped);
        // Its user keeps the pages mapped until here, so it suffices to watch them from here on. Under
        // the lock, so that no eviction of an overlapping one stops that before this one is in.
        let keep = self.limits.entries > 0
            && pages.len() <= self.limits.bytes
            // Another thread may have been first.
            && state.ranges.covering(pages).is_none()
            && watch.watch(pages).is_ok();
        if !keep {
            state.counts.alone += 1;
            return;
        }
        state
            .ranges
            .insert(pages.clone(), Arc::clone(made), dropped);
        state.evict(watch, self.limits, dropped);
        if state.fits(self.limits) {
            state.counts.kept += 1;
        } else {
            // All the others are in use.
            state.ranges.take(pages.start);
            state.forget(watch, pages);
            state.counts.alone += 1;
        }
    }
}

impl<T> State<T> {
    fn fits(&self, limits: Limits) -> bool {
        self.ranges.len() <= limits.entries && self.ranges.bytes() <= limits.bytes
    }

    /// Gives up what is idle until the rest fits.
    fn evict(&mut self, watch: &Unmapped, limits: Limits, dropped: &mut Vec<Arc<T>>) {
        while !self.fits(limits) {
            let Some((pages, old)) = self.ranges.take_oldest_idle() else {
                return;
            };
            self.forget(watch, &pages);
            self.counts.evicted += 1;
            dropped.push(old);
        }
    }

    /// Stops watching the pages of one that was taken out, except those that others rely on.
    fn forget(&self, watch: &Unmapped, pages: &Range<usize>) {
        let alone = self.ranges.uncovered(pages);
        if !alone.is_empty() {
            watch.forget(&alone);
        }
    }

    /// Takes out what was unmapped.
    fn settle(&mut self, watch: &Unmapped, dropped: &mut Vec<Arc<T>>) {
        let before = dropped.len();
        watch.look(|gone| self.ranges.take_overlapping(&gone, dropped));
        self.counts.unmapped += (dropped.len() - before) as u64;
    }
}

/// The registrations of this process's own buffers with one transport. Any thread may call.
pub(crate) struct Registrations {
    transport: Transport,
    cache: Cache<Registration>,
    /// Started with the first use; none where the kernel does not tell.
    watch: OnceLock<Option<Unmapped>>,
}

/// A registration in use.
#[derive(Clone)]
pub(crate) struct Lease(Arc<Registration>);

impl Lease {
    /// The handle, as the local handle of this process's own operations.
    #[inline]
    pub(crate) fn handle_ptr(&self) -> *mut Handle {
        self.0.handle_ptr()
    }

    /// Whether both are of one registration.
    pub(crate) fn is_same(&self, other: &Lease) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Registrations {
    /// None yet, bounded by the parameters.
    pub(crate) fn new(
        transport: &Transport,
        params: &Params,
    ) -> Result<Registrations, mca_params::Error> {
        let bound = |declaration| {
            let value = params.declare(declaration)?;
            let value = value.as_unsigned().unwrap_or(0);
            Ok::<_, mca_params::Error>(usize::try_from(value).unwrap_or(usize::MAX))
        };
        Ok(Registrations {
            transport: transport.clone(),
            cache: Cache::new(Limits {
                entries: bound(&ENTRIES)?,
                bytes: bound(&BYTES)?,
            }),
            watch: OnceLock::new(),
        })
    }

    /// A registration for gets to a buffer here and puts from it. It lasts as long as the lease.
    ///
    /// # Safety
    /// The buffer stays mapped during the call and while the lease is held.
    pub(crate) unsafe fn acquire(
        &self,
        base: *mut u8,
        len: usize,
    ) -> Result<Lease, TransportError> {
        let register = |range: &Range<usize>| {
            let base = std::ptr::with_exposed_provenance_mut(range.start);
            // SAFETY: the caller vouches for the buffer, and the rest of its pages is mapped with it;
            // only this process's operations use it.
            unsafe {
                self.transport
                    .register(base, range.len(), Access::LOCAL_WRITE)
            }
        };
        let start = base.expose_provenance();
        let exact = start..start.saturating_add(len);
        let watch = match self.cache.limits.entries {
            0 => None,
            _ => self.watch.get_or_init(start_watching).as_ref(),
        };
        let registration = match watch {
            Some(watch) => self.cache.acquire(watch, &pages_of(&exact), register),
            None => register(&exact).map(Arc::new),
        };
        registration.map(Lease)
    }

    /// A registration for puts from a buffer alone, which may be memory that cannot be written; for this use.
    ///
    /// # Safety
    /// As for [`acquire`](Self::acquire).
    pub(crate) unsafe fn acquire_to_read(
        &self,
        base: *mut u8,
        len: usize,
    ) -> Result<Lease, TransportError> {
        // SAFETY: the caller vouches for the buffer, which only this process's operations use.
        let registration = unsafe { self.transport.register(base, len, Access::empty()) };
        registration.map(|made| Lease(Arc::new(made)))
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        let counts = self.cache.lock().counts;
        if counts != Counts::default() {
            tracing::debug!("registrations of local buffers: {counts:?}");
        }
    }
}

fn start_watching() -> Option<Unmapped> {
    match Unmapped::start() {
        Ok(watch) => Some(watch),
        Err(error) => {
            tracing::info!(
                "registrations of local buffers are not kept, since this process cannot be told of \
                 unmapped memory: userfaultfd: {error}"
            );
            None
        }
    }
}

/// The whole pages that hold a range.
fn pages_of(range: &Range<usize>) -> Range<usize> {
    let last = page_size() - 1;
    range.start & !last..range.end.saturating_add(last) & !last
}

fn page_size() -> usize {
    // SAFETY: sysconf reads a constant.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests;
