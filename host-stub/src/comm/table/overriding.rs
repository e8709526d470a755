//! Overriding of a communicator's collectives by layers, and the lookup of their functions by
//! calls.

use std::sync::Arc;

use super::functions::{CollTable, Collectives, LayerData};
use crate::comm::registry::Registry;
use crate::comm::{Comm, CommError, CommResult};
use crate::crt::Entered;
use crate::job::Job;

impl Comm {
    /// The table of the communicator's collectives.
    pub fn collectives(&self) -> Arc<CollTable> {
        self.tables().shared()
    }

    /// Overrides the collectives of this communicator. Only a create hook may call this function.
    /// Usually `functions` is a copy of the functions of [`collectives`](Self::collectives), with
    /// some entries replaced. Communicators for which a layer sets the same functions and data over
    /// the same table share one table. Returns the new table, which refers to the previous one.
    pub fn override_collectives(
        &self,
        functions: Collectives,
        data: Option<LayerData>,
    ) -> CommResult<Arc<CollTable>> {
        let call = "override_collectives";
        if !self.is_being_made() {
            return Err(CommError::BadArgument {
                call,
                reason: "only the create hooks of a communicator change its table".to_owned(),
            });
        }
        let previous = self.collectives();
        let table = self.registry().tables.table(functions, &previous, data);
        self.tables().set(Arc::clone(&table));
        Ok(table)
    }

    /// Undoes the last [`override_collectives`](Self::override_collectives). Only a destroy hook
    /// may call this function. The layer then finds the table that it set, and the layer above will
    /// find its own. Returns the restored table.
    pub fn restore_collectives(&self) -> CommResult<Arc<CollTable>> {
        let call = "restore_collectives";
        if !self.is_freed() {
            return Err(CommError::BadArgument {
                call,
                reason: "only the destroy hooks of a communicator restore its table".to_owned(),
            });
        }
        let current = self.collectives();
        let Some(previous) = current.previous() else {
            return Err(CommError::BadArgument {
                call,
                reason: "no layer has overridden anything".to_owned(),
            });
        };
        self.tables().set(Arc::clone(previous));
        Ok(Arc::clone(previous))
    }
}

impl Job {
    /// Number of tables of layers that communicators of this process use.
    pub fn live_collective_tables(&self) -> usize {
        Registry::of(self).tables.live()
    }
}

/// One call of a collective. During the call, the communicator is not freed, so its table stays.
pub(crate) struct Visit<'c> {
    comm: &'c Comm,
    /// The entry is dropped at the end of the call.
    _entered: Option<Entered<'c>>,
}

impl<'c> Visit<'c> {
    #[inline]
    pub(crate) fn enter(comm: &'c Comm, call: &'static str) -> CommResult<Visit<'c>> {
        let entered = comm.job().runtime().enter(call)?;
        // Freeing sets its mark first, and then waits until no call is counted here. SeqCst puts
        // both steps in one total order, so no call can pass between them.
        comm.scope().enter();
        let visit = Visit {
            comm,
            _entered: entered,
        };
        if comm.is_freed() {
            return Err(CommError::Freed { call });
        }
        Ok(visit)
    }

    /// The communicator's table.
    #[inline]
    pub(crate) fn table(&self) -> &CollTable {
        // SAFETY: the new table of a create hook keeps the previous one. Destroy hooks, which drop
        // tables, run after the wait for all visits, and this is one of the visits.
        unsafe { self.comm.tables().current() }
    }
}

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.comm.scope().leave();
    }
}
