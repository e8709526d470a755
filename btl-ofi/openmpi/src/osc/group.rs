//! The ranks of a window in the engine's terms. The communicator is used only during the window's creation.

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use osc_engine::door::{Context, Group};
use osc_engine::transport::EndpointRef;

use crate::bindings as ffi;
use crate::osc::transport::Opened;

/// Bytes that one exchange carries of each rank. A rank with more bytes makes a second exchange
/// necessary.
const ONE_EXCHANGE: usize = 320 - LENGTH;
/// Bytes of the number of bytes before them.
const LENGTH: usize = 4;

/// A member of a window.
pub(crate) struct Member {
    pub(crate) process: u64,
    pub(crate) node: u32,
    pub(crate) endpoint: EndpointRef,
}

/// The ranks of a window.
pub(crate) struct Ranks {
    context: Arc<Context>,
    rank: usize,
    members: Box<[Member]>,
    /// NULL once the window is made.
    comm: AtomicPtr<ffi::ompi_communicator_t>,
}

impl Ranks {
    /// The ranks of a communicator that lives until [`forget`](Self::forget).
    pub(crate) fn new(
        opened: &Opened,
        rank: usize,
        members: Box<[Member]>,
        comm: *mut ffi::ompi_communicator_t,
    ) -> Ranks {
        Ranks {
            context: Arc::clone(&opened.context),
            rank,
            members,
            comm: AtomicPtr::new(comm),
        }
    }

    /// Forgets the communicator, which the program may free.
    pub(crate) fn forget(&self) {
        self.comm.store(null_mut(), Ordering::Relaxed);
    }
}

/// Gives every rank what each gave, `size` bytes each, one after the other. Collective. The error is Open MPI's code.
pub(crate) fn exchange(
    comm: *mut ffi::ompi_communicator_t,
    ranks: usize,
    mine: &[u8],
) -> Result<Vec<u8>, i32> {
    let mut all = vec![0u8; mine.len() * ranks];
    // SAFETY: the communicator lives and has `ranks` ranks; the buffer has room for the data of
    // each.
    let rc = unsafe {
        ffi::mca_osc_ofi_host_allgather(
            comm,
            mine.as_ptr().cast(),
            mine.len(),
            all.as_mut_ptr().cast(),
        )
    };
    if rc == ffi::OMPI_SUCCESS {
        Ok(all)
    } else {
        Err(rc)
    }
}

impl Group for Ranks {
    fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn process(&self, rank: usize) -> u64 {
        self.members
            .get(rank)
            .map_or(u64::MAX, |member| member.process)
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        let member = self.members.get(rank);
        member
            .map(|member| member.endpoint)
            .ok_or_else(|| format!("there is no rank {rank}"))
    }

    fn node(&self, rank: usize) -> u32 {
        self.members
            .get(rank)
            .map_or(u32::MAX, |member| member.node)
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let comm = self.comm.load(Ordering::Relaxed);
        if comm.is_null() {
            return Err("the window is made".to_owned());
        }
        let failed = |rc| format!("Open MPI's allgather failed with {rc}");
        let ranks = self.members.len();
        let mut first = [0u8; LENGTH + ONE_EXCHANGE];
        let length = u32::try_from(mine.len()).map_err(|_| "too long".to_owned())?;
        first[..LENGTH].copy_from_slice(&length.to_ne_bytes());
        let here = mine.len().min(ONE_EXCHANGE);
        first[LENGTH..LENGTH + here].copy_from_slice(&mine[..here]);
        let all = exchange(comm, ranks, &first).map_err(failed)?;
        let mut given: Vec<(usize, Vec<u8>)> = all
            .chunks(first.len())
            .map(|one| {
                let mut length = [0; LENGTH];
                length.copy_from_slice(&one[..LENGTH]);
                let length = u32::from_ne_bytes(length) as usize;
                let here = length.min(ONE_EXCHANGE);
                (length, one[LENGTH..LENGTH + here].to_vec())
            })
            .collect();
        let most = given.iter().map(|(length, _)| *length).max().unwrap_or(0);
        if most > ONE_EXCHANGE {
            let mut rest = vec![0u8; most - ONE_EXCHANGE];
            let more = mine.get(ONE_EXCHANGE..).unwrap_or_default();
            rest[..more.len()].copy_from_slice(more);
            let all = exchange(comm, ranks, &rest).map_err(failed)?;
            for ((length, bytes), more) in given.iter_mut().zip(all.chunks(rest.len())) {
                let missing = length.saturating_sub(bytes.len());
                bytes.extend_from_slice(&more[..missing]);
            }
        }
        Ok(given.into_iter().map(|(_, bytes)| bytes).collect())
    }
}
