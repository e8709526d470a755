//! The tables of a process, and the table that a communicator points to.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::functions::{CollTable, Collectives, LayerData};

/// All tables that communicators of this process use.
#[derive(Default)]
pub(crate) struct Tables {
    base: OnceLock<Arc<CollTable>>,
    live: Mutex<Vec<Weak<CollTable>>>,
}

impl Tables {
    /// The host's default table. The first call makes the table of these functions.
    pub(crate) fn base_of(&self, functions: Collectives) -> &Arc<CollTable> {
        let make = || Arc::new(CollTable::new(functions, None, None));
        self.base.get_or_init(make)
    }

    /// The host's default table; `None` before the world is made.
    pub(crate) fn base(&self) -> Option<&Arc<CollTable>> {
        self.base.get()
    }

    /// The table of these functions over `previous`: an existing one, or a new one.
    pub(crate) fn table(
        &self,
        functions: Collectives,
        previous: &Arc<CollTable>,
        data: Option<LayerData>,
    ) -> Arc<CollTable> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|table| table.strong_count() > 0);
        let found = live
            .iter()
            .filter_map(Weak::upgrade)
            .find(|table| table.serves(&functions, Some(previous), data.as_ref()));
        found.unwrap_or_else(|| {
            let previous = Some(Arc::clone(previous));
            let table = Arc::new(CollTable::new(functions, previous, data));
            live.push(Arc::downgrade(&table));
            table
        })
    }

    /// Number of layers' tables that some communicator uses.
    pub(crate) fn live(&self) -> usize {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|table| table.strong_count() > 0);
        live.len()
    }
}

/// The table of a communicator. Calls read a plain pointer; layers change the pointer while no call
/// is in progress.
pub(crate) struct Stack {
    current: AtomicPtr<CollTable>,
    /// The table to which `current` points.
    owned: Mutex<Arc<CollTable>>,
}

impl Stack {
    pub(crate) fn new(table: Arc<CollTable>) -> Stack {
        Stack {
            current: AtomicPtr::new(Arc::as_ptr(&table).cast_mut()),
            owned: Mutex::new(table),
        }
    }

    /// The table.
    pub(crate) fn shared(&self) -> Arc<CollTable> {
        Arc::clone(&self.owned.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets another table, and returns the previous one.
    pub(crate) fn set(&self, table: Arc<CollTable>) -> Arc<CollTable> {
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        // Release pairs with the Acquire load in `current`.
        self.current
            .store(Arc::as_ptr(&table).cast_mut(), Ordering::Release);
        std::mem::replace(&mut owned, table)
    }

    /// The table, for one call.
    ///
    /// # Safety
    /// The table that a [`set`](Self::set) returns is kept until the reference is dropped.
    #[inline]
    pub(crate) unsafe fn current(&self) -> &CollTable {
        // SAFETY: `owned` keeps the table of `current`; after a change, the caller guarantees that
        // something else keeps it.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }
}
