//! The list of regions that this process exposes. The list's address is known to peers, which look up keys
//! without any action of this process.

use std::sync::atomic::{AtomicU64, Ordering};

use libfabric_sys as ffi;

use crate::reach::memory;
use crate::reach::name::Name;
use crate::reach::pages::{self, Frames};

/// The maximum number of regions of a process.
const SLOTS: usize = 4096;
/// Rights of peers.
const REMOTE: u64 = (ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE) as u64;

/// One region of the list. `domain` is written last when a region appears, and first when the
/// region ends.
#[repr(C)]
struct Slot {
    /// 0 if the slot is free.
    domain: AtomicU64,
    key: AtomicU64,
    base: AtomicU64,
    length: AtomicU64,
    access: AtomicU64,
    /// Whether the region may be used: it is bound and enabled, if this is required.
    enabled: AtomicU64,
    /// Whether this is device memory, which only its owner can access.
    device: AtomicU64,
    /// The frames of the region, or 0 if they are not checked.
    frames: [AtomicU64; 2],
}

const WORDS: usize = size_of::<Slot>() / 8;

/// Slots in use lie below `high`.
#[repr(C)]
struct List {
    high: AtomicU64,
    slots: [Slot; SLOTS],
}

static LIST: List = List {
    high: AtomicU64::new(0),
    slots: [const {
        Slot {
            domain: AtomicU64::new(0),
            key: AtomicU64::new(0),
            base: AtomicU64::new(0),
            length: AtomicU64::new(0),
            access: AtomicU64::new(0),
            enabled: AtomicU64::new(0),
            device: AtomicU64::new(0),
            frames: [const { AtomicU64::new(0) }; 2],
        }
    }; SLOTS],
};

static CHANGE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The list's address in this process.
pub(crate) fn place() -> u64 {
    (&raw const LIST) as u64
}

/// A region to expose.
#[derive(Clone, Copy)]
pub(crate) struct Exposed {
    pub(crate) domain: u64,
    pub(crate) key: u64,
    pub(crate) base: u64,
    pub(crate) length: u64,
    pub(crate) access: u64,
    pub(crate) enabled: bool,
    pub(crate) device: bool,
    pub(crate) frames: Frames,
}

/// The reason why a region cannot be exposed.
pub(crate) enum Refused {
    KeyTaken,
    Full,
}

/// Lists a region, with at most `most` regions in total, and returns its slot. No other region of its domain has the same
/// key, unless the key is `shared`.
pub(crate) fn expose(region: &Exposed, shared: bool, most: usize) -> Result<usize, Refused> {
    let _change = CHANGE.lock();
    let high = LIST.high.load(Ordering::Relaxed) as usize;
    let used = &LIST.slots[..high];
    let taken = |s: &Slot| {
        s.domain.load(Ordering::Relaxed) == region.domain
            && s.key.load(Ordering::Relaxed) == region.key
    };
    if !shared && used.iter().any(taken) {
        return Err(Refused::KeyTaken);
    }
    let is_free = |s: &Slot| s.domain.load(Ordering::Relaxed) == 0;
    if used.iter().filter(|s| !is_free(s)).count() >= most {
        return Err(Refused::Full);
    }
    let free = used.iter().position(is_free);
    let index = free.unwrap_or(high);
    let slot = LIST.slots.get(index).ok_or(Refused::Full)?;
    slot.key.store(region.key, Ordering::Relaxed);
    slot.base.store(region.base, Ordering::Relaxed);
    slot.length.store(region.length, Ordering::Relaxed);
    slot.access.store(region.access, Ordering::Relaxed);
    slot.enabled
        .store(u64::from(region.enabled), Ordering::Relaxed);
    slot.device
        .store(u64::from(region.device), Ordering::Relaxed);
    for (kept, frame) in slot.frames.iter().zip(region.frames) {
        kept.store(frame, Ordering::Relaxed);
    }
    // Release pairs with the acquiring load in `find`; other processes see the order of x86 and of
    // the kernel.
    slot.domain.store(region.domain, Ordering::Release);
    if index == high {
        LIST.high.store(high as u64 + 1, Ordering::Release);
    }
    Ok(index)
}

/// The slot and the description of a host-memory region of a domain that contains all these bytes.
pub(crate) fn around(domain: u64, base: u64, length: u64) -> Option<(usize, Exposed)> {
    let high = LIST.high.load(Ordering::Acquire) as usize;
    let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let has_all = |s: &Slot| {
        let offset = base.wrapping_sub(read(&s.base));
        let size = read(&s.length);
        s.domain.load(Ordering::Acquire) == domain
            && read(&s.device) == 0
            && offset <= size
            && length <= size - offset
    };
    let index = LIST.slots[..high].iter().position(has_all)?;
    let s = &LIST.slots[index];
    let exposed = Exposed {
        domain,
        key: read(&s.key),
        base: read(&s.base),
        length: read(&s.length),
        access: read(&s.access),
        enabled: read(&s.enabled) != 0,
        device: false,
        frames: [read(&s.frames[0]), read(&s.frames[1])],
    };
    Some((index, exposed))
}

/// The base of a usable host-memory region of this process.
pub(crate) fn base(domain: u64, key: u64) -> Option<u64> {
    let high = LIST.high.load(Ordering::Acquire) as usize;
    let slot = LIST.slots[..high].iter().find(|s| {
        s.domain.load(Ordering::Acquire) == domain
            && s.key.load(Ordering::Relaxed) == key
            && s.enabled.load(Ordering::Acquire) != 0
            && s.device.load(Ordering::Relaxed) == 0
    })?;
    Some(slot.base.load(Ordering::Relaxed))
}

/// Makes a region usable.
pub(crate) fn enable(index: usize) {
    LIST.slots[index].enabled.store(1, Ordering::Release);
}

/// Makes sure that no key names the region in a slot.
pub(crate) fn forget(index: usize) {
    LIST.slots[index]
        .key
        .store(ffi::FI_KEY_NOTAVAIL, Ordering::Relaxed);
}

/// Removes a region from the list.
pub(crate) fn withdraw(index: usize) {
    let _change = CHANGE.lock();
    LIST.slots[index].domain.store(0, Ordering::Release);
}

/// Whether a region is live and covers the bytes; the check for its descriptor.
pub(crate) fn covers(index: usize, address: u64, length: u64) -> bool {
    LIST.slots.get(index).is_some_and(|s| {
        let offset = address.wrapping_sub(s.base.load(Ordering::Relaxed));
        let size = s.length.load(Ordering::Relaxed);
        s.domain.load(Ordering::Acquire) != 0 && offset <= size && length <= size - offset
    })
}

/// Whether a region that peers may use covers any of these bytes of this process.
pub(crate) fn overlaps(base: u64, length: u64) -> bool {
    let high = LIST.high.load(Ordering::Acquire) as usize;
    LIST.slots[..high].iter().any(|s| {
        let (b, l) = (
            s.base.load(Ordering::Relaxed),
            s.length.load(Ordering::Relaxed),
        );
        s.domain.load(Ordering::Acquire) != 0
            && s.access.load(Ordering::Relaxed) & REMOTE != 0
            && base < b + l
            && b < base + length
    })
}

/// An access to check.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) key: u64,
    /// `FI_REMOTE_READ`, `FI_REMOTE_WRITE` or both.
    pub(crate) rights: u64,
    pub(crate) virtual_addresses: bool,
}

/// The location of an access.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The address in the owner's memory.
    pub(crate) address: u64,
    pub(crate) device: bool,
}

/// The location of the bytes of an access, or an error with the reason.
pub(crate) fn find(name: &Name, access: &Access) -> Result<Place, (i32, String)> {
    let lost = |code| (code, String::new());
    let mut high = [0u64; 1];
    memory::read(name.pid, name.regions, &mut high).map_err(lost)?;
    let count = (high[0] as usize).min(SLOTS);
    let mut words = vec![0u64; count * WORDS];
    memory::read(name.pid, name.regions + 8, &mut words).map_err(lost)?;
    let mut slots = words.chunks_exact(WORDS);
    let found = slots.find(|s| s[0] == name.domain && s[1] == access.key);
    let rejected = |why: String| (ffi::FI_EKEYREJECTED as i32, why);
    let Some(&[_, key, base, length, rights, enabled, device, first, last]) = found else {
        return Err(rejected(format!("key {:#x} names no region", access.key)));
    };
    if enabled == 0 {
        return Err(rejected(format!(
            "the region of key {key:#x} is not enabled"
        )));
    }
    let offset = if access.virtual_addresses {
        access.address.wrapping_sub(base)
    } else {
        access.address
    };
    if offset > length || access.length > length - offset {
        return Err(rejected(format!(
            "{} bytes at {:#x} lie outside the region of key {key:#x} ({length} bytes at {base:#x})",
            access.length, access.address
        )));
    }
    if rights & access.rights != access.rights {
        return Err((
            ffi::FI_EACCES as i32,
            format!("the region of key {key:#x} does not allow this access"),
        ));
    }
    if [first, last] != [0; 2] && [first, last] != pages::seen(name.pid, base, length) {
        return Err(rejected(format!(
            "the memory of the region of key {key:#x} was given back since it was registered ({length} bytes at {base:#x})"
        )));
    }
    Ok(Place {
        address: base + offset,
        device: device != 0,
    })
}
