//! The ranks of a window in the engine's terms. The communicator is used only during the window's creation.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use osc_engine::door::{Context, Group, NotMet};
use osc_engine::transport::EndpointRef;

use crate::bindings as ffi;
use crate::osc::card::{Card, State};
use crate::osc::meeting::{Contribution, Ended, meet, to_all};
use crate::osc::transport::Opened;

/// The ranks of a communicator, and their processes.
#[derive(Clone)]
pub(crate) struct Comm {
    pub(crate) raw: *mut ffi::ompi_communicator_t,
    pub(crate) rank: usize,
    pub(crate) processes: Arc<[u64]>,
}

impl Comm {
    /// # Safety
    /// The communicator lives.
    pub(crate) unsafe fn of(raw: *mut ffi::ompi_communicator_t) -> Comm {
        // SAFETY: the caller guarantees the communicator, and these are its ranks.
        unsafe {
            let size = ffi::mca_osc_ofi_host_size(raw);
            let process = |rank| ffi::mca_osc_ofi_host_process(raw, rank);
            Comm {
                raw,
                rank: ffi::mca_osc_ofi_host_rank(raw) as usize,
                processes: (0..size).map(process).collect(),
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.processes.len()
    }
}

/// Whether Open MPI places a rank of a living communicator on this node.
pub(crate) fn is_beside(comm: *mut ffi::ompi_communicator_t, rank: usize) -> bool {
    // SAFETY: the communicator lives, and the engine and this component name ranks of it.
    unsafe {
        rank as c_int == ffi::mca_osc_ofi_host_rank(comm)
            || ffi::mca_osc_ofi_host_is_beside(comm, rank as c_int)
    }
}

/// Returns the bytes of all ranks, the same number of each, in the order of the ranks. Collective. The error is
/// Open MPI's code.
pub(crate) fn exchange(
    comm: *mut ffi::ompi_communicator_t,
    ranks: usize,
    mine: &[u8],
) -> Result<Vec<u8>, c_int> {
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

/// This rank's contribution when the ranks meet.
pub(crate) struct Words {
    pub(crate) card: Card,
    /// See [`Contribution::text`].
    pub(crate) text: Vec<u8>,
    /// Whether hints have an effect, so that they must not differ.
    pub(crate) with_hints: bool,
}

/// The cards of all ranks, or the reason why there is no window; `None` before the ranks have met.
type Met = Option<Result<Vec<Card>, Ended>>;

/// The ranks of a window.
pub(crate) struct Ranks {
    context: Arc<Context>,
    opened: Arc<Opened>,
    rank: usize,
    processes: Arc<[u64]>,
    /// The endpoints of the ranks, after all are connected.
    endpoints: OnceLock<Box<[EndpointRef]>>,
    /// NULL after the window was made.
    comm: AtomicPtr<ffi::ompi_communicator_t>,
    words: Words,
    met: Mutex<Met>,
}

impl Ranks {
    /// The ranks of a communicator that lives until [`part`](Self::part), and their endpoints if all are connected.
    pub(crate) fn new(
        opened: &Arc<Opened>,
        comm: &Comm,
        endpoints: Option<Box<[EndpointRef]>>,
        words: Words,
    ) -> Ranks {
        Ranks {
            context: Arc::clone(&opened.context),
            opened: Arc::clone(opened),
            rank: comm.rank,
            processes: Arc::clone(&comm.processes),
            endpoints: endpoints.map_or_else(OnceLock::new, OnceLock::from),
            comm: AtomicPtr::new(comm.raw),
            words,
            met: Mutex::default(),
        }
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the communicator, which the program may free. Returns the cards of all ranks, or the reason why there is no window.
    pub(crate) fn part(&self) -> Met {
        self.comm.store(null_mut(), Ordering::Relaxed);
        self.met().take()
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
        self.processes.len()
    }

    fn process(&self, rank: usize) -> u64 {
        self.processes.get(rank).copied().unwrap_or(u64::MAX)
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        let endpoints = self.endpoints.get().map_or(&[][..], |all| all);
        let endpoint = endpoints.get(rank).copied();
        endpoint.ok_or_else(|| format!("there is no rank {rank}"))
    }

    fn is_beside(&self, rank: usize) -> bool {
        let comm = self.comm.load(Ordering::Relaxed);
        !comm.is_null() && is_beside(comm, rank)
    }

    fn meet(&self, offer: &[u8]) -> Result<Vec<Vec<u8>>, NotMet> {
        let comm = self.comm.load(Ordering::Relaxed);
        if comm.is_null() {
            return Err(NotMet::Failed("the window is made".to_owned()));
        }
        let Words {
            card,
            text,
            with_hints,
        } = &self.words;
        let told = Contribution {
            card: *card,
            text,
            offer,
        };
        let connect = |addresses: &[&[u8]]| {
            let connected = self.opened.connect(&self.processes, addresses)?;
            // A rank that is connected to all has them already.
            self.endpoints.get_or_init(|| connected);
            Ok(())
        };
        let ranks = self.processes.len();
        let exchange = |mine: &[u8]| exchange(comm, ranks, mine);
        let (met, offers) = match meet(ranks, &told, *with_hints, &exchange, connect) {
            Ok((cards, offers)) => {
                if card.state == State::Meets {
                    self.opened.confirm(&self.processes);
                }
                (Ok(cards), Ok(offers))
            }
            Err(ended) => {
                let not_met = ended.not_met();
                (Err(ended), Err(not_met))
            }
        };
        *self.met() = Some(met);
        offers
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let comm = self.comm.load(Ordering::Relaxed);
        if comm.is_null() {
            return Err("the window is made".to_owned());
        }
        let ranks = self.processes.len();
        let all = to_all(ranks, mine, &|mine: &[u8]| exchange(comm, ranks, mine));
        all.map_err(|rc| format!("Open MPI's allgather failed with {rc}"))
    }
}
