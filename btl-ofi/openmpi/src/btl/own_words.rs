//! Decides whether this component or the peers' lock protects the words of this process's own
//! windows.
//!
//! For a compare-and-swap on its own window a rank passes no handle. After NOT_SUPPORTED, osc/rdma makes the swap by loads and
//! stores under its lock. Executing and refusing both lose updates if the peers do the opposite:
//! - Memory of the program (MPI_Win_create): peers pass a handle, and do not take the lock. So the component must execute the
//!   swap.
//! - Memory of MPI_Win_allocate, if all ranks are on one node: the memory lies in a segment that one rank makes and registers,
//!   and that all ranks map. Peers pass no handle, are refused, and take the lock. So the component must refuse.
//!
//! 4.1.4 does not tell the component which kind a window is. The component recognises the segments by their names.

use std::fs;
use std::sync::{Mutex, PoisonError};

use btl_ofi::Handle;

/// Tells the two kinds of memory apart.
#[derive(Default)]
pub(crate) struct OwnWords {
    /// The region of the last query, and the answer. A region that is registered again has another handle.
    last: Mutex<Option<(Handle, bool)>>,
}

impl OwnWords {
    /// Whether the peers change the words of a region of this process under osc/rdma's lock.
    pub(crate) fn is_locked(&self, region: &Handle) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, answer)) = &*last
            && known == region
        {
            return *answer;
        }
        // Without the list, the memory counts as memory of the program.
        let maps = fs::read("/proc/self/maps").unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let place = shared_place(&maps, region.base());
        let answer = place.is_some_and(|(name, offset)| is_segment(name, offset));
        *last = Some((*region, answer));
        answer
    }
}

/// The place of an address in a file or other object that is mapped, shared, by a process with this list of
/// mappings (`/proc/PID/maps`): the object's name, and the offset in it in bytes. `None` for other memory.
fn shared_place(maps: &str, address: u64) -> Option<(&str, u64)> {
    let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
    maps.lines().find_map(|line| {
        // Addresses, rights, offset, device, inode, and the name, which may hold spaces.
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let from = hexadecimal(from)?;
        if !(from..hexadecimal(to)?).contains(&address) || !fields.next()?.ends_with('s') {
            return None;
        }
        let offset = hexadecimal(fields.next()?)?;
        let name = fields.nth(2)?.trim_start();
        Some((name, offset + (address - from)))
    })
}

/// Whether an object is a segment of osc/rdma, by its name and the offset of the region in it.
fn is_segment(name: &str, offset: u64) -> bool {
    // Of opal/shmem, at the beginning of each segment: 8 bytes in all series.
    const HEADER: u64 = 64;
    let file = name.rsplit('/').next().unwrap_or_default();
    // opal/shmem's mmap (the default) uses osc/rdma's name for the file. The names of its posix and sysv segments do not tell
    // the owner. osc/rdma registers each of its segments whole, but other windows of Open MPI begin behind more than a header.
    file.starts_with("osc_rdma.")
        || (file.starts_with("open_mpi.") || file.starts_with("SYSV")) && offset < HEADER
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55e0c8a00000-55e0c8a21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000002000 rw-s 00001000 00:1a 77                         /dev/shm/a b (deleted)
7f0000002000-7f0000003000 rw-p 00003000 00:1a 77                         /dev/shm/a b (deleted)
7f0000004000-7f0000005000 rw-s 00000000 00:01 3                          /SYSV00000000 (deleted)
";

    #[test]
    fn shared_memory_is_found_in_the_list() {
        let name = "/dev/shm/a b (deleted)";
        let of = |address| shared_place(MAPS, address);
        assert_eq!(of(0x7f00_0000_0000), Some((name, 0x1000)));
        assert_eq!(of(0x7f00_0000_1fff), Some((name, 0x2fff)));
        let segment = Some(("/SYSV00000000 (deleted)", 8));
        assert_eq!(of(0x7f00_0000_4008), segment);
        for other in [0x7f00_0000_2000, 0x7f00_0000_3000, 0x55e0_c8a0_0000, 16] {
            assert_eq!(of(other), None, "{other:#x}");
        }
        assert_eq!(shared_place("not a list of mappings\n", 0), None);
    }

    #[test]
    fn memory_of_this_process_is_found() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let word = 7u64;
        assert_eq!(shared_place(&maps, &raw const word as u64), None);
    }

    #[test]
    fn segments_are_known_by_their_names() {
        for (name, offset) in [
            ("/dev/shm/osc_rdma.node.64bb0001.3 (deleted)", 8),
            ("/scratch/osc_rdma.node.64bb0001.3", 4104),
            ("/dev/shm/open_mpi.0002 (deleted)", 8),
            ("/SYSV00000000 (deleted)", 8),
        ] {
            assert!(is_segment(name, offset), "{name}");
        }
    }

    #[test]
    fn other_shared_memory_is_none() {
        for (name, offset) in [
            ("/dev/shm/osc_sm.node.64ac0001.0.3 (deleted)", 264),
            ("/dev/shm/open_mpi.0002 (deleted)", 264),
            ("/SYSV00000000 (deleted)", 264),
            ("/memfd:osc (deleted)", 0),
            ("/osc_rdma.d/file", 0),
            ("", 0),
        ] {
            assert!(!is_segment(name, offset), "{name}");
        }
    }
}
