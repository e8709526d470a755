//! Dynamic windows: each rank attaches and detaches memory, and publishes the attached regions
//! ([`crate::win::regions`]).
//!
//! The table of a rank has a version, which is odd while the table changes. An origin keeps a copy of each target's table
//! ([`crate::win::dynamic::region_cache`]). Before an operation the origin reads the target's version (one small get) and the
//! changes since its copy, unless an earlier operation on the same region is not complete
//! ([`crate::win::dynamic::completing`]). So an operation uses the key of memory that was detached before the call only if the
//! target then refuses that key ([`crate::win::dynamic::attempts`]). One read in each epoch would not be enough
//! (docs/windows.md). This is the simple protocol of Gerstenberger, Besta, Hoefler, "Enabling Highly-Scalable Remote Memory
//! Access Programming with MPI-3 One Sided" (SC 2013): detaching stays local, because no origin must be told.

use std::sync::atomic::Ordering;

use crate::door::{Location, decode_location};
use crate::win::control::REGIONS_VERSION;
use crate::win::create::own_part::register;
use crate::win::dynamic::keeping::keeping;
use crate::win::dynamic::region_cache::{KeyUse, Known, RegionCache};
use crate::win::dynamic::regions::KeyWords;
use crate::win::error::{WinError, WinResult};
use crate::win::kind::WindowKind;
use crate::win::peer::Peer;
use crate::win::window::Window;

impl Window {
    /// Attaches memory to a dynamic window. Local; takes time logarithmic in the number of attached regions. `base` may be an
    /// encoded location; peers then name the memory by its address on the device. [`WinError::BadArgument`]: not a dynamic
    /// window, no bytes, or overlap with attached memory. [`WinError::Registration`]: the transport refused the memory, or the
    /// table of regions is full.
    ///
    /// # Safety
    /// The memory is readable and writable, and stays so until it is detached or the window is freed; until then the program
    /// accesses the memory only as MPI's rules for the epoch allow.
    pub unsafe fn attach(&self, base: *mut u8, len: usize) -> WinResult<()> {
        let _entered = self.link.enter("attach")?;
        // SAFETY: the caller vouches for the memory.
        unsafe { (self.table.attach)(self, base, len) }
    }

    /// Detaches memory that was attached at this address. The call is local; afterwards no rank's
    /// operation reaches the memory. [`WinError::BadArgument`]: nothing was attached there.
    pub fn detach(&self, base: *const u8) -> WinResult<()> {
        let _entered = self.link.enter("detach")?;
        (self.table.detach)(self, base)
    }

    /// Returns the number of bytes from an address of a rank to the end of the attached region that holds the address. A
    /// transfer must lie in one region; a caller with longer transfers divides them at this length. [`WinError::NotAttached`]:
    /// no region holds the address.
    pub fn attached(&self, rank: usize, address: u64) -> WinResult<u64> {
        let call = "attached";
        let _entered = self.link.enter(call)?;
        let peer = self.peer(call, rank)?;
        let missing = || {
            Box::new(WinError::NotAttached {
                call,
                rank,
                address,
                size: 1,
            })
        };
        if self.kind != WindowKind::Dynamic {
            return Err(missing());
        }
        self.with_regions(call, peer, (address, KeyUse::Once), |cache| {
            cache.rest(address)
        })?
        .ok_or_else(missing)
    }

    /// The key of the region at `peer` that holds a range, by the present table.
    pub(in crate::win) fn region_key(
        &self,
        call: &'static str,
        peer: &Peer,
        (address, extent): (u64, usize),
        key_use: KeyUse,
    ) -> WinResult<KeyWords> {
        let look = |cache: &RegionCache| cache.find(address, extent);
        self.with_regions(call, peer, (address, key_use), look)?
            .ok_or_else(|| {
                Box::new(WinError::NotAttached {
                    call,
                    rank: peer.rank,
                    address,
                    size: extent,
                })
            })
    }

    /// The key of the region at `peer` that holds an address, by the present table, and the number of bytes from the address to
    /// the region's end.
    pub(in crate::win) fn region_at(
        &self,
        call: &'static str,
        peer: &Peer,
        address: u64,
    ) -> WinResult<(KeyWords, u64)> {
        let look = |cache: &RegionCache| cache.find(address, 1).zip(cache.rest(address));
        self.with_regions(call, peer, (address, KeyUse::UntilComplete), look)?
            .ok_or_else(|| {
                Box::new(WinError::NotAttached {
                    call,
                    rank: peer.rank,
                    address,
                    size: 1,
                })
            })
    }

    /// The key of the region at `peer` that holds a range, by the origin's copy of the table. The key is for a put (a get if
    /// not `puts`) of `size` bytes. `None`: the caller must look the key up, also if another thread uses the copy.
    pub(in crate::win) fn known_key(
        &self,
        peer: &Peer,
        (address, extent): (u64, usize),
        (puts, size): (bool, usize),
    ) -> Option<Known> {
        // First, as in `with_regions`.
        let completions = self.parts.sync.completions();
        let cache = peer.regions().try_take()?;
        let key = cache.find(address, extent)?;
        if cache.keeps(address, completions) {
            return Some(Known::Attached(key));
        }
        let may_try = self.link.checks_keys && peer.rank != self.link.rank;
        (may_try && cache.may_try(puts, size)).then_some(Known::Perhaps(key))
    }

    /// Looks up the region of `peer` that holds an address, in the present table, and returns the
    /// result of `look`.
    fn with_regions<R>(
        &self,
        call: &'static str,
        peer: &Peer,
        (address, key_use): (u64, KeyUse),
        look: impl Fn(&RegionCache) -> Option<R>,
    ) -> WinResult<Option<R>> {
        // Read before the table: a call that completes operations later ends the use of the key found here.
        let completions = self.parts.sync.completions();
        if let Some(cache) = peer.regions().try_take()
            && cache.keeps(address, completions)
            && let Some(found) = look(&cache)
        {
            return Ok(Some(found));
        }
        let version = self.regions_version(call, peer)?;
        let mut waiter = self.link.tries(call);
        let mut cache = loop {
            match peer.regions().try_take() {
                Some(cache) => break cache,
                None => waiter.step()?,
            }
        };
        if !cache.is_of(version) {
            // A refresh waits, and this call keeps the turn while it waits.
            keeping(self.link.waiter(), || {
                self.refresh_regions(call, peer, &mut cache, version)
            })?;
        }
        let found = look(&cache);
        if found.is_some() && key_use == KeyUse::UntilComplete {
            cache.keep(address, completions);
        }
        Ok(found)
    }

    /// The version of a rank's table of attached regions.
    fn regions_version(&self, call: &'static str, peer: &Peer) -> WinResult<u64> {
        if peer.rank == self.link.rank {
            // Only this process changes its own version, and does so without the transport.
            let version = self.parts.control.word(REGIONS_VERSION);
            return Ok(version.load(Ordering::Acquire));
        }
        self.read_word(call, peer, REGIONS_VERSION)
    }
}

/// [`Window::attach`], for windows of every table.
///
/// # Safety
/// As for [`Window::attach`].
pub(in crate::win) unsafe fn attach(window: &Window, base: *mut u8, len: usize) -> WinResult<()> {
    let call = "attach";
    let refuse = |reason: String| Err(Box::new(WinError::BadArgument { call, reason }));
    if window.kind() != WindowKind::Dynamic {
        return refuse(format!("the window is of kind {:?}", window.kind()));
    }
    // A host pointer that is mapped on a device is still host memory.
    let located = window.link.locate_itself(base as u64, len);
    let Location { device, address } = match located {
        Ok(location) => location,
        Err(reason) => return refuse(reason),
    };
    let start = address as usize;
    let Some(end) = start.checked_add(len).filter(|_| len > 0 && start > 0) else {
        return refuse(format!("{len} B at {start:#x} are no memory"));
    };
    let base = std::ptr::with_exposed_provenance_mut(start);
    let mut regions = window.parts.attached.lock();
    if let Some((other, bytes)) = regions.overlapping(start, end) {
        return refuse(format!(
            "{len} B at {start:#x} overlap {bytes} B attached at {other:#x}"
        ));
    }
    // SAFETY: the caller vouches for the memory; the registration ends at detach or free.
    let registration = match unsafe { register(&window.link, base, len, device) } {
        Ok((registration, _)) => registration,
        Err(reason) => return Err(Box::new(WinError::Registration { call, reason })),
    };
    let (control, transport) = (&window.parts.control, &window.link.transport);
    let added = regions.add(control, transport, (start, len), registration);
    added.map_err(|reason| Box::new(WinError::Registration { call, reason }))
}

/// [`Window::detach`], for windows of every table.
pub(in crate::win) fn detach(window: &Window, base: *const u8) -> WinResult<()> {
    let start = decode_location(base as u64).map_or(base as u64, |l| l.address) as usize;
    let (control, transport) = (&window.parts.control, &window.link.transport);
    // First removes the region from the table: a rank that reads the table from now on learns no key that is about to end.
    let removed = window
        .parts
        .attached
        .lock()
        .remove(control, transport, start);
    let Some(registration) = removed else {
        return Err(Box::new(WinError::BadArgument {
            call: "detach",
            reason: format!("nothing is attached at {base:p}"),
        }));
    };
    registration.deregister().map_err(|error| {
        Box::new(WinError::Transport {
            call: "detach",
            rank: window.link.rank,
            status: error.status,
        })
    })
}
