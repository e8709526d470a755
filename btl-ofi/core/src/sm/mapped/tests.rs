use std::fs::File;

use super::*;
use crate::base::sys;
use crate::mem::shared::Announced;
use crate::peer::reach::Probe;
use crate::peer::route::{Facts, Route};
use crate::sm::segment::{Place, Segment};
use plugin_api::Access;

/// A segment of this process, and a word that identifies the process.
struct Owner {
    segment: Segment,
    announced: Announced,
    probe: Box<AtomicU64>,
}

impl Owner {
    fn new() -> Owner {
        let segment = Segment::make(42).unwrap();
        let announced = segment.shared_regions().unwrap();
        let probe = Box::new(AtomicU64::new(42));
        Owner {
            segment,
            announced,
            probe,
        }
    }

    /// A region of a new file in memory.
    fn region(&self, generation: u32) -> Handle {
        let file = File::from(sys::memory_file(c"test-region").unwrap());
        sys::allocate(&file, 0, 8192).unwrap();
        // The memory stays mapped, and the file open.
        let at = sys::map_shared(&file, 0, 8192).unwrap();
        let base = at.as_ptr().expose_provenance() as u64 + 8;
        let handle = Handle::new(base, 8000, 7, Access::all(), generation);
        let announce = || self.announced.announce(handle, &file, 8);
        assert_eq!(announce(), None, "it may shrink");
        sys::add_seals(&file, libc::F_SEAL_SHRINK).unwrap();
        let shared = announce().unwrap();
        assert!(shared.is_shared());
        std::mem::forget(file);
        shared
    }

    fn place(&self) -> Place {
        Place {
            pid: std::process::id(),
            descriptor: self.segment.descriptor(),
            nonce: 42,
        }
    }

    fn map(&self, handle: &Handle) -> Result<Option<Mapping>, Option<String>> {
        let probe = Probe {
            address: self.probe.as_ptr() as u64,
            value: 42,
        };
        Mapping::new(self.place(), probe, handle).map(Some)
    }
}

fn peer(proc: u64) -> NonNull<Endpoint> {
    let endpoint = Endpoint::new(0, proc, Route::decide(Facts::default()));
    NonNull::from(Box::leak(Box::new(endpoint)))
}

fn mapped<'a>(all: &'a MappedRegions, peer: NonNull<Endpoint>, h: &Handle) -> Option<Use<'a>> {
    match all.find(peer, h, true) {
        Found::Mapped(used) => Some(used),
        Found::Unknown | Found::Unmappable => None,
    }
}

#[test]
fn a_region_is_found_by_peer_and_handle() {
    let (owner, all) = (Owner::new(), MappedRegions::default());
    let (h, first, second) = (owner.region(1), peer(1), peer(2));
    assert!(mapped(&all, first, &h).is_none());
    all.insert(first, &h, || owner.map(&h)).unwrap();
    let used = mapped(&all, first, &h).unwrap();
    assert!(mapped(&all, second, &h).is_none());
    let other = Handle::new(h.base(), 8000, 7, Access::all(), 2).shared();
    assert!(
        mapped(&all, first, &other).is_none(),
        "a later registration"
    );
    let there = used.place(h.base() + 16, 8).unwrap();
    assert_ne!(there as u64, h.base() + 16, "a mapping of its own");
    let here: *mut u64 = ptr::with_exposed_provenance_mut(h.base() as usize + 16);
    // SAFETY: both handles name one word of the file, which stays mapped.
    unsafe {
        here.write_volatile(9);
        assert_eq!(there.cast::<u64>().read_volatile(), 9);
    }
    assert_eq!(used.place(h.base() + 7992, 8).map(drop), Ok(()));
    for (at, size) in [
        (h.base() - 1, 1),
        (h.base() + 7993, 8),
        (0, 1),
        (u64::MAX, 1),
    ] {
        assert_eq!(used.place(at, size), Err(Status::VALUE_OUT_OF_BOUNDS));
    }
    owner.announced.withdraw(&h);
    assert_eq!(used.place(h.base(), 8), Err(Status::PERM));
}

#[test]
fn a_mapping_in_use_stays() {
    let (owner, all) = (Owner::new(), MappedRegions::default());
    let (h, peer) = (owner.region(1), peer(1));
    all.insert(peer, &h, || owner.map(&h)).unwrap();
    let used = mapped(&all, peer, &h).unwrap();
    let there: *mut u64 = used.place(h.base(), 8).unwrap().cast();
    all.abandon(peer);
    assert!(mapped(&all, peer, &h).is_none(), "nobody else begins");
    // SAFETY: the pointer is to a word of the file, which is mapped there while `used` lives.
    unsafe { there.write_volatile(5) };
    assert_eq!(all.lock().len(), 1);
    drop(used);
    all.sweep();
    assert!(all.lock().is_empty());
    all.insert(peer, &h, || owner.map(&h)).unwrap();
    assert!(mapped(&all, peer, &h).is_some());
}

#[test]
fn what_is_over_makes_room() {
    let (owner, all) = (Owner::new(), MappedRegions::default());
    let peer = peer(1);
    let set = |h: &Handle| MappedRegions::first(peer, h.cookie());
    let wanted = Handle::new(0, 0, 0, Access::all(), 1 << 30).shared();
    // These are more regions of one set than it has slots.
    let alike = (0..u32::MAX).filter(|generation| {
        let h = Handle::new(0, 0, 0, Access::all(), *generation).shared();
        set(&h) == set(&wanted) && *generation < 1 << 24
    });
    let regions: Vec<Handle> = alike.take(WAYS + 1).map(|g| owner.region(g)).collect();
    for h in &regions {
        all.insert(peer, h, || owner.map(h)).unwrap();
    }
    let found = |h| mapped(&all, peer, h).is_some();
    assert_eq!(regions.iter().filter(|h| found(h)).count(), WAYS);
    let last = regions.last().unwrap();
    assert!(!found(last), "the places are taken");
    owner.announced.withdraw(&regions[1]);
    all.insert(peer, last, || owner.map(last)).unwrap();
    assert!(found(last) && !found(&regions[1]));
    // A region that cannot be mapped has a slot, too. A region that is no longer registered gets
    // none.
    owner.announced.withdraw(&regions[0]);
    all.sweep();
    assert_eq!(
        all.insert(peer, &regions[0], || owner.map(&regions[0])),
        Err(None)
    );
    assert!(matches!(all.find(peer, &regions[0], true), Found::Unknown));
    all.insert(peer, &wanted, || Ok::<_, ()>(None)).unwrap();
    assert!(matches!(all.find(peer, &wanted, true), Found::Unmappable));
    all.abandon(peer);
    assert!(all.lock().is_empty());
}

/// A region that could not be mapped keeps its slot only for a while. After that time, the region and other
/// regions can be mapped.
#[test]
fn what_cannot_be_mapped_leaves() {
    let (owner, all) = (Owner::new(), MappedRegions::default());
    let (h, peer) = (owner.region(1), peer(1));
    all.insert(peer, &h, || Ok::<_, ()>(None)).unwrap();
    for _ in 1..KEPT {
        all.sweep();
        assert!(matches!(all.find(peer, &h, true), Found::Unmappable));
    }
    all.sweep();
    assert!(matches!(all.find(peer, &h, true), Found::Unknown));
    assert!(all.lock().is_empty());
    all.insert(peer, &h, || owner.map(&h)).unwrap();
    for _ in 0..2 * KEPT {
        all.sweep();
    }
    assert!(mapped(&all, peer, &h).is_some(), "mappings stay");
}

/// Data from another process is checked before its use.
#[test]
fn descriptors_of_other_files_are_refused() {
    use std::os::fd::AsRawFd;
    let owner = Owner::new();
    let (h, place) = (owner.region(1), owner.place());
    let regions = place.shared_regions().unwrap();
    let refusal = |descriptor: i32, offset: u64| {
        owner.announced.withdraw(&h);
        assert!(regions.announce(h.cookie(), descriptor as u32, offset));
        match owner.map(&h) {
            Err(Some(why)) => why,
            Err(None) => panic!("it is registered"),
            Ok(_) => panic!("it is mapped"),
        }
    };
    let memory = File::from(sys::memory_file(c"test-region").unwrap());
    memory.set_len(8192).unwrap();
    assert_eq!(refusal(memory.as_raw_fd(), 8), "its file may shrink");
    let program = File::open("/proc/self/exe").unwrap();
    let (pipe, _other) = std::io::pipe().unwrap();
    let device = File::open("/dev/null").unwrap();
    for file in [pipe.as_raw_fd(), device.as_raw_fd()] {
        let why = "its descriptor is not one of a file";
        assert_eq!(refusal(file, 8), why);
    }
    // The file of a running program cannot be opened for writing.
    assert!(refusal(program.as_raw_fd(), 8).contains("Text file busy"));
    assert!(refusal(1 << 20, 8).contains("No such file"));
    let short = "its file is shorter than the region";
    sys::add_seals(&memory, libc::F_SEAL_SHRINK).unwrap();
    assert_eq!(refusal(memory.as_raw_fd(), 4096 + 8), short);
    assert_eq!(refusal(memory.as_raw_fd(), u64::MAX - 4087), short);
    let skewed = "its place in its file is not one of its address";
    assert_eq!(refusal(memory.as_raw_fd(), 0), skewed);
}
