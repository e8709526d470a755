//! The functions of a communicator.

use std::any::Any;
use std::sync::Arc;

use super::args::{CollArgs, Collective};
use super::placed::copied;
use super::request::CollRequest;
use super::staged::{give_back, lose};
use crate::comm::{Comm, CommResult};

/// A blocking entry. The function receives the table in which it was set, the communicator, and checked
/// arguments, whose buffers are valid for the collective.
pub type Blocking = unsafe fn(&CollTable, &Comm, &CollArgs<'_>) -> CommResult<()>;

/// A nonblocking entry. The function is like [`Blocking`], with buffers that are valid until the request is
/// complete.
pub type Nonblocking = unsafe fn(&CollTable, &Comm, &CollArgs<'_>) -> CommResult<CollRequest>;

/// The function that runs in place of an absent blocking entry: the host's default of a collective.
pub(crate) type Absent = unsafe fn(Collective, &Comm, &CollArgs<'_>) -> CommResult<()>;

/// The data that a layer keeps with its table.
pub type LayerData = Arc<dyn Any + Send + Sync>;

/// One function for each collective, and the set of functions that a layer has set.
///
/// A layer copies the functions of the table that it overrides ([`CollTable::functions`]), and
/// replaces some of them. A blocking entry may be absent; the host's default then runs (not the
/// entry of the table below). A nonblocking entry is never absent:
///
/// ```
/// # use host_stub::coll::{CollTable, Collective};
/// fn change(table: &CollTable) {
///     table.functions().set_blocking(Collective::Bcast, None);
/// }
/// ```
///
/// ```compile_fail
/// # use host_stub::coll::{CollTable, Collective};
/// fn change(table: &CollTable) {
///     table.functions().set_nonblocking(Collective::Bcast, None);
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Collectives {
    blocking: [Option<Blocking>; Collective::ALL.len()],
    nonblocking: [Nonblocking; Collective::ALL.len()],
    absent: Absent,
    /// Entries that were set here, not copied; one bit each.
    set_blocking: u64,
    set_nonblocking: u64,
    /// Entries that accept buffers on devices, set here or copied; one bit each.
    taking_blocking: u64,
    taking_nonblocking: u64,
}

const fn bit(collective: Collective) -> u64 {
    1 << collective as u64
}

impl Collectives {
    /// A complete set of functions that accept buffers on devices. The blocking entries are absent.
    pub(crate) const fn of_nonblocking(
        nonblocking: [Nonblocking; Collective::ALL.len()],
        absent: Absent,
    ) -> Collectives {
        Collectives {
            blocking: [None; Collective::ALL.len()],
            nonblocking,
            absent,
            set_blocking: u64::MAX,
            set_nonblocking: u64::MAX,
            taking_blocking: 0,
            taking_nonblocking: u64::MAX,
        }
    }

    /// The blocking entry of a collective.
    #[inline]
    pub fn blocking(&self, collective: Collective) -> Option<Blocking> {
        self.blocking[collective as usize]
    }

    /// The nonblocking entry of a collective.
    #[inline]
    pub fn nonblocking(&self, collective: Collective) -> Nonblocking {
        self.nonblocking[collective as usize]
    }

    /// Sets a blocking entry. `None` selects the host's default.
    pub fn set_blocking(&mut self, collective: Collective, entry: Option<Blocking>) {
        self.blocking[collective as usize] = entry;
        self.set_blocking |= bit(collective);
        self.taking_blocking &= !bit(collective);
    }

    /// Sets a nonblocking entry.
    pub fn set_nonblocking(&mut self, collective: Collective, entry: Nonblocking) {
        self.nonblocking[collective as usize] = entry;
        self.set_nonblocking |= bit(collective);
        self.taking_nonblocking &= !bit(collective);
    }

    /// States that the entries of a collective that were set here, not copied, accept buffers on devices. If a buffer is on
    /// a device, they are called with [`CollArgs::on_device`], and with the program's own pointers. Other entries get
    /// copies in host memory.
    pub fn take_devices(&mut self, collective: Collective) {
        if self.blocking(collective).is_some() {
            self.taking_blocking |= self.set_blocking & bit(collective);
        }
        self.taking_nonblocking |= self.set_nonblocking & bit(collective);
    }

    /// Whether the blocking entry accepts buffers on devices. The default for an absent entry does.
    fn takes_blocking(&self, collective: Collective) -> bool {
        self.blocking(collective).is_none() || self.taking_blocking & bit(collective) != 0
    }

    /// Whether both have the same functions everywhere, set by the same layer. One function may
    /// have two addresses; then tables are not shared although they could be.
    pub(super) fn is_same(&self, other: &Collectives) -> bool {
        let set = |functions: &Collectives| {
            let taking = (functions.taking_blocking, functions.taking_nonblocking);
            (functions.set_blocking, functions.set_nonblocking, taking)
        };
        set(self) == set(other)
            && Collective::ALL.into_iter().all(|collective| {
                let address = |entry: Option<Blocking>| entry.map(|entry| entry as usize);
                address(self.blocking(collective)) == address(other.blocking(collective))
                    && self.nonblocking(collective) as usize
                        == other.nonblocking(collective) as usize
            })
    }
}

/// A table of collectives. Communicators whose layers set the same functions over the same previous
/// table share one table, which is freed with the last of them.
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

    /// A copy of the functions, some of which a layer then replaces.
    pub fn functions(&self) -> Collectives {
        Collectives {
            set_blocking: 0,
            set_nonblocking: 0,
            ..self.functions
        }
    }

    /// The blocking entry of a collective.
    #[inline]
    pub fn blocking(&self, collective: Collective) -> Option<Blocking> {
        self.functions.blocking(collective)
    }

    /// The nonblocking entry of a collective.
    #[inline]
    pub fn nonblocking(&self, collective: Collective) -> Nonblocking {
        self.functions.nonblocking(collective)
    }

    /// The table in which a layer has set an entry: this table, or a table below from which the
    /// entry was copied. An entry is called with the table in which it was set, so that the
    /// functions that it overrode are below.
    #[inline]
    fn setter(&self, is_set: impl Fn(&Collectives) -> bool) -> &CollTable {
        let mut table = self;
        while !is_set(&table.functions) {
            match &table.previous {
                Some(previous) => table = previous,
                None => break,
            }
        }
        table
    }

    /// The table that this table overrides; `None` for the host's default.
    #[inline]
    pub fn previous(&self) -> Option<&Arc<CollTable>> {
        self.previous.as_ref()
    }

    /// The data that the layer keeps with the table.
    pub fn data(&self) -> Option<&LayerData> {
        self.data.as_ref()
    }

    /// Whether this table is equal to one that a layer would make by setting `functions` and `data`
    /// over `previous`.
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

    /// Calls the blocking entry of a collective, or the host's default if there is no entry. A layer calls this on
    /// [`previous`](Self::previous) to run the functions that it overrode. If the entry does not accept buffers on
    /// devices, they go through host memory.
    ///
    /// # Safety
    /// The conditions of [`Blocking`].
    #[inline]
    pub unsafe fn call(
        &self,
        collective: Collective,
        comm: &Comm,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        // SAFETY: the caller guarantees the arguments.
        unsafe {
            if args.on_device && !self.functions.takes_blocking(collective) {
                return staged_call(comm, collective, args, |args| {
                    self.call_entry(collective, comm, args)
                });
            }
            self.call_entry(collective, comm, args)
        }
    }

    #[inline]
    unsafe fn call_entry(
        &self,
        collective: Collective,
        comm: &Comm,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        // SAFETY: the caller guarantees the arguments.
        unsafe {
            match self.functions.blocking(collective) {
                Some(entry) => {
                    let is_set = |f: &Collectives| f.set_blocking & bit(collective) != 0;
                    entry(self.setter(is_set), comm, args)
                }
                None => (self.functions.absent)(collective, comm, args),
            }
        }
    }

    /// Calls the nonblocking entry of a collective, in the way in which [`call`](Self::call) calls
    /// the blocking entry.
    ///
    /// # Safety
    /// The conditions of [`Nonblocking`].
    #[inline]
    pub unsafe fn start(
        &self,
        collective: Collective,
        comm: &Comm,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        let setter = self.setter(|f| f.set_nonblocking & bit(collective) != 0);
        let entry = self.functions.nonblocking(collective);
        // SAFETY: the caller guarantees the arguments.
        unsafe {
            if args.on_device && self.functions.taking_nonblocking & bit(collective) == 0 {
                return staged_start(comm, collective, args, |args| entry(setter, comm, args));
            }
            entry(setter, comm, args)
        }
    }
}

/// Calls a blocking entry that does not accept buffers on devices.
///
/// # Safety
/// The conditions of [`Blocking`].
#[cold]
#[inline(never)]
unsafe fn staged_call(
    comm: &Comm,
    collective: Collective,
    args: &CollArgs<'_>,
    call: impl FnOnce(&CollArgs<'_>) -> CommResult<()>,
) -> CommResult<()> {
    // SAFETY: the caller guarantees the same conditions; the copies live until the call returns.
    unsafe {
        let devices = comm.job().devices();
        let placed = copied(&comm.view(), devices, collective, args)?;
        let done = call(&placed.args);
        give_back(placed.staged, devices, done)
    }
}

/// Calls a nonblocking entry that does not accept buffers on devices.
///
/// # Safety
/// The conditions of [`Nonblocking`].
#[cold]
#[inline(never)]
unsafe fn staged_start(
    comm: &Comm,
    collective: Collective,
    args: &CollArgs<'_>,
    start: impl FnOnce(&CollArgs<'_>) -> CommResult<CollRequest>,
) -> CommResult<CollRequest> {
    // SAFETY: the caller guarantees the same conditions; the request keeps the copies.
    let placed = unsafe { copied(&comm.view(), comm.job().devices(), collective, args) }?;
    match start(&placed.args) {
        Ok(request) => Ok(request.and_then_back(placed.staged)),
        Err(error) => {
            lose(placed.staged);
            Err(error)
        }
    }
}

impl std::fmt::Debug for CollTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let depth = std::iter::successors(Some(self), |table| table.previous.as_deref()).count();
        write!(f, "CollTable(layer {})", depth - 1)
    }
}
