//! The functions of a communicator.

use std::any::Any;
use std::sync::Arc;

use super::args::{CollArgs, Collective};
use super::request::CollRequest;
use crate::comm::{Comm, CommResult};

/// A blocking entry. It is called with the table that it is in, the communicator, and checked
/// arguments, whose buffers are good for what the collective does with them.
pub type Blocking = unsafe fn(&CollTable, &Comm, &CollArgs<'_>) -> CommResult<()>;

/// A nonblocking entry: as [`Blocking`], with buffers that are good until the request is done.
pub type Nonblocking = unsafe fn(&CollTable, &Comm, &CollArgs<'_>) -> CommResult<CollRequest>;

/// What a layer keeps with its table.
pub type LayerData = Arc<dyn Any + Send + Sync>;

/// One function for each collective. A blocking entry may be absent, and the host's default is used
/// (not the entry of the table below); a nonblocking one never is.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "each is the collective of its name")]
pub struct Collectives {
    pub barrier: Option<Blocking>,
    pub bcast: Option<Blocking>,
    pub reduce: Option<Blocking>,
    pub allreduce: Option<Blocking>,
    pub gather: Option<Blocking>,
    pub scatter: Option<Blocking>,
    pub allgather: Option<Blocking>,
    pub alltoall: Option<Blocking>,
    pub reduce_scatter: Option<Blocking>,
    pub scan: Option<Blocking>,
    pub exscan: Option<Blocking>,
    pub ibarrier: Nonblocking,
    pub ibcast: Nonblocking,
    pub ireduce: Nonblocking,
    pub iallreduce: Nonblocking,
    pub igather: Nonblocking,
    pub iscatter: Nonblocking,
    pub iallgather: Nonblocking,
    pub ialltoall: Nonblocking,
    pub ireduce_scatter: Nonblocking,
    pub iscan: Nonblocking,
    pub iexscan: Nonblocking,
}

impl Collectives {
    /// The blocking entry of a collective.
    #[inline]
    pub fn blocking(&self, collective: Collective) -> Option<Blocking> {
        match collective {
            Collective::Barrier => self.barrier,
            Collective::Bcast => self.bcast,
            Collective::Reduce => self.reduce,
            Collective::Allreduce => self.allreduce,
            Collective::Gather => self.gather,
            Collective::Scatter => self.scatter,
            Collective::Allgather => self.allgather,
            Collective::Alltoall => self.alltoall,
            Collective::ReduceScatter => self.reduce_scatter,
            Collective::Scan => self.scan,
            Collective::Exscan => self.exscan,
        }
    }

    /// The nonblocking entry of a collective.
    #[inline]
    pub fn nonblocking(&self, collective: Collective) -> Nonblocking {
        match collective {
            Collective::Barrier => self.ibarrier,
            Collective::Bcast => self.ibcast,
            Collective::Reduce => self.ireduce,
            Collective::Allreduce => self.iallreduce,
            Collective::Gather => self.igather,
            Collective::Scatter => self.iscatter,
            Collective::Allgather => self.iallgather,
            Collective::Alltoall => self.ialltoall,
            Collective::ReduceScatter => self.ireduce_scatter,
            Collective::Scan => self.iscan,
            Collective::Exscan => self.iexscan,
        }
    }

    /// Replaces a blocking entry.
    pub fn set_blocking(&mut self, collective: Collective, entry: Option<Blocking>) {
        *match collective {
            Collective::Barrier => &mut self.barrier,
            Collective::Bcast => &mut self.bcast,
            Collective::Reduce => &mut self.reduce,
            Collective::Allreduce => &mut self.allreduce,
            Collective::Gather => &mut self.gather,
            Collective::Scatter => &mut self.scatter,
            Collective::Allgather => &mut self.allgather,
            Collective::Alltoall => &mut self.alltoall,
            Collective::ReduceScatter => &mut self.reduce_scatter,
            Collective::Scan => &mut self.scan,
            Collective::Exscan => &mut self.exscan,
        } = entry;
    }

    /// Replaces a nonblocking entry.
    pub fn set_nonblocking(&mut self, collective: Collective, entry: Nonblocking) {
        *match collective {
            Collective::Barrier => &mut self.ibarrier,
            Collective::Bcast => &mut self.ibcast,
            Collective::Reduce => &mut self.ireduce,
            Collective::Allreduce => &mut self.iallreduce,
            Collective::Gather => &mut self.igather,
            Collective::Scatter => &mut self.iscatter,
            Collective::Allgather => &mut self.iallgather,
            Collective::Alltoall => &mut self.ialltoall,
            Collective::ReduceScatter => &mut self.ireduce_scatter,
            Collective::Scan => &mut self.iscan,
            Collective::Exscan => &mut self.iexscan,
        } = entry;
    }

    /// Whether both have the same functions everywhere. Two addresses of one function may differ;
    /// then tables are not shared that could be.
    pub(super) fn is_same(&self, other: &Collectives) -> bool {
        Collective::ALL.into_iter().all(|collective| {
            let address = |entry: Option<Blocking>| entry.map(|entry| entry as usize);
            address(self.blocking(collective)) == address(other.blocking(collective))
                && self.nonblocking(collective) as usize == other.nonblocking(collective) as usize
        })
    }
}

/// A table of collectives, counted: communicators whose layers set the same functions over the same
/// previous table share one, and it goes with the last of them.
pub struct CollTable {
    functions: Collectives,
    previous: Option<Arc<CollTable>>,
    data: Option<LayerData>,
}

impl CollTable {
    pub(super) fn new(
        functions: Collectives,
        previous: Option<Arc<CollTable>>,
        data: Option<LayerData>,
    ) -> CollTable {
        CollTable {
            functions,
            previous,
            data,
        }
    }

    /// The functions; to be copied by a layer that replaces some.
    #[inline]
    pub fn functions(&self) -> &Collectives {
        &self.functions
    }

    /// The table that this one overrides; none for the host's default.
    #[inline]
    pub fn previous(&self) -> Option<&Arc<CollTable>> {
        self.previous.as_ref()
    }

    /// What the layer keeps with it.
    pub fn data(&self) -> Option<&LayerData> {
        self.data.as_ref()
    }

    /// Whether a layer that sets `functions` and `data` over `previous` may have this one.
    pub(super) fn serves(
        &self,
        functions: &Collectives,
        previous: Option<&Arc<CollTable>>,
        data: Option<&LayerData>,
    ) -> bool {
        let same_previous = match (self.previous.as_ref(), previous) {
            (Some(mine), Some(other)) => Arc::ptr_eq(mine, other),
            (None, None) => true,
            _ => false,
        };
        let same_data = match (self.data.as_ref(), data) {
            (Some(mine), Some(other)) => std::ptr::addr_eq(Arc::as_ptr(mine), Arc::as_ptr(other)),
            (None, None) => true,
            _ => false,
        };
        same_previous && same_data && self.functions.is_same(functions)
    }

    /// Calls the blocking entry of a collective, or the host's default where there is none. This is
    /// how a layer calls what it has overridden: on [`previous`](Self::previous).
    ///
    /// # Safety
    /// As for [`Blocking`].
    #[inline]
    pub unsafe fn call(
        &self,
        collective: Collective,
        comm: &Comm,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        // SAFETY: the caller vouches for the arguments.
        unsafe {
            match self.functions.blocking(collective) {
                Some(entry) => entry(self, comm, args),
                None => super::defaults::blocking(collective, comm, args),
            }
        }
    }

    /// Calls the nonblocking entry of a collective.
    ///
    /// # Safety
    /// As for [`Nonblocking`].
    #[inline]
    pub unsafe fn start(
        &self,
        collective: Collective,
        comm: &Comm,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.functions.nonblocking(collective)(self, comm, args) }
    }
}

impl std::fmt::Debug for CollTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let depth = std::iter::successors(Some(self), |table| table.previous.as_deref()).count();
        write!(f, "CollTable(layer {})", depth - 1)
    }
}
