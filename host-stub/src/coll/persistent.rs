//! Collectives that are started again and again with the same arguments.

use super::{BlockList, CollArgs, CollRequest, Collective, ElementType, ReduceOp};
use crate::comm::{Comm, CommError, CommResult};
use crate::schedule::Scope;

/// The lists of blocks of one buffer.
#[derive(Default)]
struct Blocks {
    counts: Vec<usize>,
    displacements: Vec<usize>,
    types: Vec<ElementType>,
}

impl Blocks {
    fn of(list: &BlockList<'_>) -> Blocks {
        Blocks {
            counts: list.counts.to_vec(),
            displacements: list.displacements.to_vec(),
            types: list.types.to_vec(),
        }
    }

    fn list(&self) -> BlockList<'_> {
        BlockList {
            counts: &self.counts,
            displacements: &self.displacements,
            types: &self.types,
        }
    }
}

/// A collective with its arguments, to be started any number of times (MPI_Allreduce_init and the like). Every rank makes
/// the persistent collectives of a communicator in the same order; it may start them in any order, unless a layer has
/// overridden their nonblocking form, which then sees the order of the starts. Dropping one that is under way waits.
///
/// One thread at a time uses it. A start costs what a nonblocking call does.
pub struct Persistent {
    comm: Comm,
    collective: Collective,
    send: *const u8,
    recv: *mut u8,
    count: usize,
    counts: Vec<usize>,
    datatype: ElementType,
    op: ReduceOp,
    root: usize,
    on_device: bool,
    given: Blocks,
    taken: Blocks,
    /// Its number among those of the communicator.
    number: u32,
    starts: u32,
    running: Option<CollRequest>,
}

// SAFETY: its constructors require buffers that any thread may use until it is dropped.
unsafe impl Send for Persistent {}

impl Comm {
    /// Makes a persistent collective. The lists among the arguments are copied. Collective in order, but no rank
    /// waits for another.
    ///
    /// # Errors
    /// What [`start_collective`](Self::start_collective) refuses, and more than 4096 on one communicator at a time.
    ///
    /// # Safety
    /// The buffers are good for the collective until the result is dropped, and are left alone from each start until
    /// the end of what was started. A user's operation is freed after that.
    pub unsafe fn init_collective(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<Persistent> {
        let call = collective.name();
        // Before the checks: what only this rank refuses counts at the others.
        let number = self.scope().new_persistent();
        let number = number.map_err(|reason| CommError::BadArgument { call, reason })?;
        if let Err(error) = args.check(collective, &self.view()) {
            self.scope().end_persistent(number);
            return Err(error);
        }
        Ok(Persistent {
            comm: self.clone(),
            collective,
            send: args.send,
            recv: args.recv,
            count: args.count,
            counts: args.counts.to_vec(),
            datatype: args.datatype,
            op: args.op,
            root: args.root,
            on_device: args.on_device,
            given: Blocks::of(&args.send_blocks),
            taken: Blocks::of(&args.recv_blocks),
            number,
            starts: 0,
            running: None,
        })
    }
}

impl Comm {
    /// Counts a persistent collective that this rank refuses, where what it was given makes no arguments: it counts at
    /// the others.
    pub fn refuse_persistent(&self) {
        if let Ok(number) = self.scope().new_persistent() {
            self.scope().end_persistent(number);
        }
    }
}

impl Persistent {
    /// Starts it.
    ///
    /// # Errors
    /// It is still under way; or what a nonblocking call fails with.
    pub fn start(&mut self) -> CommResult<()> {
        let call = self.collective.name();
        if self.running.is_some() {
            return Err(CommError::BadArgument {
                call,
                reason: "the persistent collective is still under way; wait before the next start"
                    .to_owned(),
            });
        }
        let args = CollArgs {
            send: self.send,
            recv: self.recv,
            count: self.count,
            counts: &self.counts,
            datatype: self.datatype,
            op: self.op,
            root: self.root,
            on_device: self.on_device,
            send_blocks: self.given.list(),
            recv_blocks: self.taken.list(),
        };
        let start = Scope::persistent_start(self.number, self.starts);
        // SAFETY: the maker vouches for the buffers; the request lives as long as they are in use.
        let started = unsafe {
            self.comm
                .start_collective_as(self.collective, &args, Some(start))
        };
        self.starts = self.starts.wrapping_add(1);
        self.running = Some(started?);
        Ok(())
    }

    /// Makes progress, and says whether nothing is under way. A failure is reported once.
    pub fn test(&mut self) -> CommResult<bool> {
        let Some(request) = &mut self.running else {
            return Ok(true);
        };
        let tested = request.test();
        if !matches!(tested, Ok(false)) {
            self.running = None;
        }
        tested
    }

    /// Waits until what was started is done; returns at once where nothing was.
    pub fn wait(&mut self) -> CommResult<()> {
        self.running.take().map_or(Ok(()), CollRequest::wait)
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        // The request waits.
        self.running = None;
        self.comm.scope().end_persistent(self.number);
    }
}

impl std::fmt::Debug for Persistent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, comm) = (self.collective.name(), &self.comm);
        write!(f, "Persistent({name}, {} starts, {comm:?})", self.starts)
    }
}
