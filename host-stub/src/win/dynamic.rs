//! Dynamic windows: each rank attaches and detaches memory, and publishes what is attached.
//!
//! A rank's list lies in its control block under a version that is odd while the list changes.
//! An origin keeps a copy of each target's list. Before every operation it reads the target's
//! version (one small get) and reads the list again when its copy is of another version, so it
//! never uses the key of memory that was detached before the call. This is the simple protocol of
//! Gerstenberger, Besta, Hoefler, "Enabling Highly-Scalable Remote Memory Access Programming with
//! MPI-3 One Sided" (SC 2013): detaching stays local, because no origin has to be told.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::blocking::Remote;
use super::bounce::Bounce;
use super::control::{REGIONS_VERSION, Word};
use super::create::register;
use super::error::{WinError, WinResult};
use super::peer::{Peer, WindowKind};
use super::window::Window;
use crate::device::HOST;
use crate::loader::Registration;

/// Regions that one rank may have attached at once.
pub const MAX_REGIONS: usize = 128;
/// Words of the largest handle.
const KEY_WORDS: usize = 32;

/// The words of a handle, the unused ones zero.
pub(super) type KeyWords = [u64; KEY_WORDS];

/// Words of a list entry: address, length, handle.
const fn entry_words(handle_size: usize) -> usize {
    2 + handle_size / 8
}

/// Words of a whole list.
pub(super) const fn region_words(handle_size: usize) -> usize {
    MAX_REGIONS * entry_words(handle_size)
}

struct Region {
    base: usize,
    len: usize,
    registration: Registration,
}

/// What this rank has attached.
#[derive(Default)]
pub(super) struct Attached(Mutex<Vec<Region>>);

/// What a target has attached, as last read.
pub(super) struct RegionCache {
    version: u64,
    regions: Vec<(u64, u64, KeyWords)>,
}

impl Default for RegionCache {
    fn default() -> Self {
        RegionCache {
            // Odd, which no settled list has.
            version: u64::MAX,
            regions: Vec::new(),
        }
    }
}

impl RegionCache {
    fn find(&self, address: u64, extent: usize) -> Option<&KeyWords> {
        let end = address.checked_add(extent as u64)?;
        self.regions
            .iter()
            .find(|(base, len, _)| *base <= address && end <= base.saturating_add(*len))
            .map(|(_, _, key)| key)
    }
}

impl Window {
    fn attached_regions(&self) -> MutexGuard<'_, Vec<Region>> {
        self.parts
            .attached
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches memory to a dynamic window. Local. [`WinError::BadArgument`]: not a dynamic window,
    /// no bytes, overlap with attached memory, or [`MAX_REGIONS`] are attached.
    /// [`WinError::Registration`]: the transport did not take it.
    ///
    /// # Safety
    /// The memory is readable and writable, and stays so until it was detached or the window
    /// freed; meanwhile it is touched only as MPI's rules for the epoch allow.
    pub unsafe fn attach(&self, base: *mut u8, len: usize) -> WinResult<()> {
        let refuse = |reason: String| {
            Err(WinError::BadArgument {
                call: "attach",
                reason,
            })
        };
        if self.kind() != WindowKind::Dynamic {
            return refuse(format!("the window is of kind {:?}", self.kind()));
        }
        let start = base as usize;
        let Some(end) = start.checked_add(len).filter(|_| len > 0 && start > 0) else {
            return refuse(format!("{len} B at {start:#x} are no memory"));
        };
        let mut regions = self.attached_regions();
        if let Some(other) = regions
            .iter()
            .find(|region| start < region.base + region.len && region.base < end)
        {
            return refuse(format!(
                "{len} B at {start:#x} overlap {} B attached at {:#x}",
                other.len, other.base
            ));
        }
        if regions.len() == MAX_REGIONS {
            return refuse(format!("{MAX_REGIONS} regions are attached already"));
        }
        let located = self.link.job.devices().locate(start as u64, len);
        let device = match located {
            // A host pointer that is mapped on a device is host memory all the same.
            Ok(location) if location.address == start as u64 => location.device,
            Ok(_) => HOST,
            Err(error) => return refuse(error.to_string()),
        };
        // SAFETY: the caller vouches for the memory; the registration ends at detach or free.
        let registration = match unsafe { register(&self.link, base, len, device) } {
            Ok((registration, _)) => registration,
            Err(reason) => {
                let call = "attach";
                return Err(WinError::Registration { call, reason });
            }
        };
        regions.push(Region {
            base: start,
            len,
            registration,
        });
        self.publish(&regions);
        Ok(())
    }

    /// Detaches memory that was attached at this address. Local; afterwards no rank's operation
    /// reaches it. [`WinError::BadArgument`]: nothing was attached there.
    pub fn detach(&self, base: *const u8) -> WinResult<()> {
        let mut regions = self.attached_regions();
        let Some(index) = regions
            .iter()
            .position(|region| region.base == base as usize)
        else {
            return Err(WinError::BadArgument {
                call: "detach",
                reason: format!("nothing is attached at {base:p}"),
            });
        };
        let region = regions.swap_remove(index);
        // The list goes first: whoever reads it from here on learns no key that is about to end.
        self.publish(&regions);
        drop(regions);
        region
            .registration
            .deregister()
            .map_err(|error| WinError::Transport {
                call: "detach",
                rank: self.link.rank,
                status: error.status,
            })
    }

    /// Writes the list to the control block. The caller holds the list's mutex.
    fn publish(&self, regions: &[Region]) {
        let plan = self.parts.control.plan();
        let set = |word: Word, value: u64| {
            self.parts
                .control
                .word(word)
                .store(value, Ordering::Relaxed);
        };
        let version = self
            .parts
            .control
            .word(REGIONS_VERSION)
            .load(Ordering::Relaxed);
        set(REGIONS_VERSION, version + 1);
        // Peers see these stores in order: the odd version before any change of the list, the even
        // one after all. Pairs with the order of the gets in `refresh`.
        fence(Ordering::SeqCst);
        set(Word(REGIONS_VERSION.0 + 1), regions.len() as u64);
        let mut at = 0;
        for region in regions {
            set(plan.region(at), region.base as u64);
            set(plan.region(at + 1), region.len as u64);
            at += 2;
            for chunk in region.registration.handle_bytes().chunks_exact(8) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(chunk);
                set(plan.region(at), u64::from_ne_bytes(bytes));
                at += 1;
            }
        }
        fence(Ordering::SeqCst);
        set(REGIONS_VERSION, version + 2);
    }

    /// The key of the region at `peer` that holds a range, of the list as it is now.
    pub(super) fn region_key(
        &self,
        call: &'static str,
        peer: &Peer,
        address: u64,
        extent: usize,
    ) -> WinResult<KeyWords> {
        let version = self.read_word(call, peer, REGIONS_VERSION)?;
        let mut waiter = self.link.waiter(call);
        // The lock is kept during a refresh, which waits; a task that waited for the lock itself would
        // keep the thread of the one that refreshes.
        let mut cache = loop {
            match peer.regions.try_lock() {
                Ok(cache) => break cache,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => waiter.step()?,
            }
        };
        if cache.version != version {
            self.refresh(call, peer, &mut cache, version)?;
        }
        cache
            .find(address, extent)
            .copied()
            .ok_or(WinError::NotAttached {
                call,
                rank: peer.rank,
                address,
                size: extent,
            })
    }

    #[cold]
    fn refresh(
        &self,
        call: &'static str,
        peer: &Peer,
        cache: &mut RegionCache,
        mut version: u64,
    ) -> WinResult<()> {
        let handle_size = self.link.transport.attributes().handle_size;
        let entry = entry_words(handle_size);
        let mut bounce = Bounce::new(self, call, region_words(handle_size) * 8)?;
        let mut waiter = self.link.waiter(call);
        loop {
            let count = self.read_word(call, peer, Word(REGIONS_VERSION.0 + 1))?;
            let count = usize::try_from(count)
                .unwrap_or(usize::MAX)
                .min(MAX_REGIONS);
            let remote = Remote {
                address: peer.control_address(self.parts.control.plan().region(0)),
                handle: peer.control_handle.as_ptr(),
            };
            self.fetch_bytes(call, peer, &mut bounce, remote, count * entry * 8)?;
            let again = self.read_word(call, peer, REGIONS_VERSION)?;
            if again == version && version.is_multiple_of(2) {
                let words: Vec<u64> = bounce
                    .bytes_mut()
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|bytes| u64::from_ne_bytes(*bytes))
                    .collect();
                cache.regions = words
                    .chunks_exact(entry)
                    .take(count)
                    .map(|entry| {
                        let mut key = [0; KEY_WORDS];
                        for (to, from) in key.iter_mut().zip(&entry[2..]) {
                            *to = *from;
                        }
                        (entry[0], entry[1], key)
                    })
                    .collect();
                cache.version = version;
                return Ok(());
            }
            version = again;
            waiter.step()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_must_lie_in_one_region() {
        let cache = RegionCache {
            version: 2,
            regions: vec![(100, 50, [1; KEY_WORDS]), (150, 10, [2; KEY_WORDS])],
        };
        assert_eq!(cache.find(100, 50), Some(&[1; KEY_WORDS]));
        assert_eq!(cache.find(150, 10), Some(&[2; KEY_WORDS]));
        assert_eq!(cache.find(149, 2), None);
        assert_eq!(cache.find(99, 2), None);
        assert_eq!(cache.find(155, 6), None);
        assert_eq!(cache.find(u64::MAX, 2), None);
        assert_eq!(RegionCache::default().find(0, 1), None);
    }
}
