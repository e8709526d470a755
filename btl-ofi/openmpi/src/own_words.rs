//! Who changes the words of this process's own windows.
//!
//! For a compare-and-swap on its own window a rank passes no handle, and after NOT_SUPPORTED makes it by loads and stores under
//! osc/rdma's lock. Both ways lose updates where the peers choose the other one:
//! - Memory of the program (MPI_Win_create): peers come with a handle, and do not take the lock. So the component must execute
//!   it.
//! - Memory of MPI_Win_allocate, if all ranks are on one node: it lies in a segment that one rank makes and registers, and all
//!   map. Peers come without a handle, are refused, and take the lock. So the component must refuse.
//!
//! 4.1.4 does not tell the component which one it is. Its segments are found by their names.

use std::sync::{Mutex, PoisonError};

use btl_ofi::Handle;

/// Tells the two kinds of memory apart.
#[derive(Default)]
pub(crate) struct OwnWords {
    /// The region that was looked at last, and the answer. A region that is registered again has another handle.
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
        let object = btl_ofi::own_object(region.base());
        let answer = object.is_some_and(|(name, offset)| is_segment(&name, offset));
        *last = Some((*region, answer));
        answer
    }
}

/// Whether an object is a segment of osc/rdma, by its name and where the region begins in it.
fn is_segment(name: &str, offset: u64) -> bool {
    // Of opal/shmem, at the beginning of each segment: 8 bytes in all series.
    const HEADER: u64 = 64;
    let file = name.rsplit('/').next().unwrap_or_default();
    // opal/shmem's mmap (the default) uses osc/rdma's name for the file. Its posix and sysv choose names that do not tell whose a
    // segment is; osc/rdma registers all of its own, and other windows of Open MPI lie behind more than a header.
    file.starts_with("osc_rdma.")
        || (file.starts_with("open_mpi.") || file.starts_with("SYSV")) && offset < HEADER
}

#[cfg(test)]
mod tests {
    use super::*;

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
