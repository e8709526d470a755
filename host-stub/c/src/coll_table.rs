//! Collective tables: how layers of C programs override the collectives of a communicator.
//!
//! A table of C is kept as the data of a table of the host, whose entries are then the functions here
//! that call the C ones. Entries that a layer leaves as they were are not set in the host's table, so
//! that a call goes past the layer.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use host::coll::{Blocking, CollArgs, CollRequest, CollTable, Collective, LayerData, Nonblocking};
use host::comm::{Comm, CommError, CommResult};

use crate::codes::{datatype, op, op_code, type_code};
use crate::coll_request::{give, host_coll_request_t, take};
use crate::comm::{comm, handle, host_comm_t};
use crate::error::{Error, Result, guarded, last_text};
use crate::handles::place;
use crate::job::job;

/// Place of the barrier entries in a table.
pub const HOST_COLL_BARRIER: c_int = 0;
/// Place of the bcast entries in a table.
pub const HOST_COLL_BCAST: c_int = 1;
/// Place of the reduce entries in a table.
pub const HOST_COLL_REDUCE: c_int = 2;
/// Place of the allreduce entries in a table.
pub const HOST_COLL_ALLREDUCE: c_int = 3;
/// Place of the gather entries in a table.
pub const HOST_COLL_GATHER: c_int = 4;
/// Place of the scatter entries in a table.
pub const HOST_COLL_SCATTER: c_int = 5;
/// Place of the allgather entries in a table.
pub const HOST_COLL_ALLGATHER: c_int = 6;
/// Place of the alltoall entries in a table.
pub const HOST_COLL_ALLTOALL: c_int = 7;
/// Place of the reduce_scatter entries in a table.
pub const HOST_COLL_REDUCE_SCATTER: c_int = 8;
/// Place of the scan entries in a table.
pub const HOST_COLL_SCAN: c_int = 9;
/// Place of the exscan entries in a table.
pub const HOST_COLL_EXSCAN: c_int = 10;
/// Entries of each kind in a table.
pub const HOST_COLL_ENTRIES: usize = 11;

const _: () = assert!(Collective::ALL.len() == HOST_COLL_ENTRIES);

/// The arguments of a collective, those that it has a meaning for; the others are zero.
#[repr(C)]
pub struct host_coll_args_t {
    /// sizeof(host_coll_args_t).
    pub size: usize,
    /// What this rank gives; NULL: it is in `recv`.
    pub send: *const c_void,
    /// What it gets; the buffer of a broadcast.
    pub recv: *mut c_void,
    /// Elements of a broadcast or reduction; of a block in all others.
    pub count: usize,
    /// Elements that each rank gets of a reduce_scatter; NULL: `count` each.
    pub counts: *const usize,
    /// The element type.
    pub datatype: c_int,
    /// How elements are combined.
    pub op: c_int,
    /// The root's rank.
    pub root: c_int,
}

/// The place of an entry among the tables of a communicator: what host_coll_previous goes on from. For
/// the time of the communicator.
pub struct host_coll_layer_t {
    _private: [u8; 0],
}

/// A blocking entry: HOST_SUCCESS when the collective is done, or a negative code. `data` is that of
/// the table.
pub type host_coll_fn = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        layer: *const host_coll_layer_t,
        comm: *mut host_comm_t,
        collective: c_int,
        args: *const host_coll_args_t,
    ) -> c_int,
>;

/// A nonblocking entry: begins the collective and gives a request, from host_coll_previous_start or
/// host_coll_request_of_layer; NULL when it is done already. The buffers are good until it is, `args`
/// until this returns.
pub type host_coll_start_fn = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        layer: *const host_coll_layer_t,
        comm: *mut host_comm_t,
        collective: c_int,
        args: *const host_coll_args_t,
        request: *mut *mut host_coll_request_t,
    ) -> c_int,
>;

/// The collectives of a communicator, as host_comm_get_table copies them and host_comm_override takes
/// them. The functions lie at the places HOST_COLL_*. The layout grows at its end only, and `size` says
/// which one a program was compiled with; one that the host does not know is refused.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_coll_table_t {
    /// sizeof(host_coll_table_t).
    pub size: usize,
    /// What the layer's entries are called with.
    pub data: *mut c_void,
    /// NULL: the host's default is used, not the entry below.
    pub blocking: [host_coll_fn; 11],
    /// Never NULL.
    pub nonblocking: [host_coll_start_fn; 11],
}

// SAFETY: the program that gave the table says that any thread may call its functions with its data.
unsafe impl Send for host_coll_table_t {}
// SAFETY: as for Send.
unsafe impl Sync for host_coll_table_t {}

impl host_coll_table_t {
    fn is_same(&self, other: &host_coll_table_t) -> bool {
        let blocking = |table: &host_coll_table_t| table.blocking.map(|f| f.map(|f| f as usize));
        let starting = |table: &host_coll_table_t| table.nonblocking.map(|f| f.map(|f| f as usize));
        self.data == other.data
            && blocking(self) == blocking(other)
            && starting(self) == starting(other)
    }
}

/// Tables of C programs that communicators have. Equal ones are one, so that the host's are.
static TABLES: Mutex<Vec<Weak<host_coll_table_t>>> = Mutex::new(Vec::new());

fn kept(table: &host_coll_table_t) -> LayerData {
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    tables.retain(|table| table.strong_count() > 0);
    let mut live = tables.iter().filter_map(Weak::upgrade);
    if let Some(found) = live.find(|known| known.is_same(table)) {
        return found;
    }
    let made = Arc::new(*table);
    tables.push(Arc::downgrade(&made));
    made
}

/// The arguments for C.
fn to_c(args: &CollArgs<'_>) -> host_coll_args_t {
    host_coll_args_t {
        size: size_of::<host_coll_args_t>(),
        send: args.send.cast(),
        recv: args.recv.cast(),
        count: args.count,
        counts: match args.counts {
            [] => std::ptr::null(),
            counts => counts.as_ptr(),
        },
        datatype: type_code(args.datatype),
        op: op_code(args.op),
        root: c_int::try_from(args.root).unwrap_or(c_int::MAX),
    }
}

/// The arguments from C.
///
/// # Safety
/// `args` is NULL or arguments, whose counts are NULL or as many as there are ranks.
unsafe fn from_c<'a>(
    call: &str,
    args: *const host_coll_args_t,
    ranks: usize,
) -> Result<CollArgs<'a>> {
    // SAFETY: the caller vouches for it.
    let args =
        unsafe { args.as_ref() }.ok_or_else(|| Error::argument(call, "the arguments are NULL"))?;
    sized(call, args.size, size_of::<host_coll_args_t>())?;
    Ok(CollArgs {
        send: args.send.cast(),
        recv: args.recv.cast(),
        count: args.count,
        counts: match args.counts.is_null() {
            true => &[],
            // SAFETY: the caller vouches for so many.
            false => unsafe { std::slice::from_raw_parts(args.counts, ranks) },
        },
        datatype: datatype(call, args.datatype)?,
        op: op(call, args.op)?,
        root: crate::codes::rank(call, args.root)?,
        // Layers see host memory only.
        on_device: false,
    })
}

/// Refuses structures of a layout that is not known. There has been one so far.
pub(crate) fn sized(call: &str, found: usize, wanted: usize) -> Result {
    if found == wanted {
        return Ok(());
    }
    let text = format!("its size is {found}, wanted {wanted}: sizeof, by this host's host_stub.h");
    Err(Error::argument(call, &text))
}

fn layer(table: &CollTable) -> *const host_coll_layer_t {
    std::ptr::from_ref(table).cast()
}

/// The table of C under a table of the host.
fn of_c(table: &CollTable) -> Option<&host_coll_table_t> {
    table.data()?.downcast_ref()
}

fn failed(collective: Collective, code: c_int) -> CommError {
    CommError::Layer {
        call: collective.name(),
        code: code.min(-1),
        reason: last_text(),
    }
}

unsafe fn blocking<const C: usize>(
    table: &CollTable,
    comm: &Comm,
    args: &CollArgs<'_>,
) -> CommResult<()> {
    let collective = Collective::ALL[C];
    let entry = of_c(table).and_then(|of_c| Some((of_c.blocking[C]?, of_c.data)));
    let Some((entry, data)) = entry else {
        return Err(failed(collective, -1));
    };
    // SAFETY: whoever set the table vouches for the function; the arguments live until it returns.
    let code = unsafe { entry(data, layer(table), handle(comm), C as c_int, &to_c(args)) };
    if code != 0 {
        return Err(failed(collective, code));
    }
    Ok(())
}

unsafe fn start<const C: usize>(
    table: &CollTable,
    comm: &Comm,
    args: &CollArgs<'_>,
) -> CommResult<CollRequest> {
    let collective = Collective::ALL[C];
    let entry = of_c(table).and_then(|of_c| Some((of_c.nonblocking[C]?, of_c.data)));
    let Some((entry, data)) = entry else {
        return Err(failed(collective, -1));
    };
    let mut request = std::ptr::null_mut();
    let args = to_c(args);
    // SAFETY: as in `blocking`.
    let code = unsafe {
        entry(
            data,
            layer(table),
            handle(comm),
            C as c_int,
            &args,
            &mut request,
        )
    };
    if code != 0 {
        return Err(failed(collective, code));
    }
    if request.is_null() {
        return Ok(CollRequest::done(comm));
    }
    take(collective.name(), request).map_err(|error| {
        let code = crate::error::fail(error);
        failed(collective, code)
    })
}

const BLOCKING: [Blocking; 11] = [
    blocking::<0>,
    blocking::<1>,
    blocking::<2>,
    blocking::<3>,
    blocking::<4>,
    blocking::<5>,
    blocking::<6>,
    blocking::<7>,
    blocking::<8>,
    blocking::<9>,
    blocking::<10>,
];

const STARTING: [Nonblocking; 11] = [
    start::<0>,
    start::<1>,
    start::<2>,
    start::<3>,
    start::<4>,
    start::<5>,
    start::<6>,
    start::<7>,
    start::<8>,
    start::<9>,
    start::<10>,
];

/// What a layer goes on with: the table below the one of `layer`, its arguments and the collective.
///
/// # Safety
/// As for [`from_c`].
unsafe fn below<'a>(
    call: &str,
    over: *const host_coll_layer_t,
    handle: *mut host_comm_t,
    collective: c_int,
    args: *const host_coll_args_t,
) -> Result<(Arc<CollTable>, Comm, Collective, CollArgs<'a>)> {
    let comm = comm(call, handle)?;
    let index = usize::try_from(collective).ok();
    let collective = index
        .and_then(|index| Collective::ALL.get(index))
        .ok_or_else(|| Error::argument(call, &format!("no collective {collective}")))?;
    // SAFETY: the caller vouches for the arguments.
    let args = unsafe { from_c(call, args, comm.size()) }?;
    let mut table = comm.collectives();
    loop {
        let Some(previous) = table.previous().cloned() else {
            return Err(Error::argument(
                call,
                "that is no layer of the communicator's collectives",
            ));
        };
        if layer(&table) == over {
            return Ok((previous, comm, *collective, args));
        }
        table = previous;
    }
}

/// Does what a blocking entry has overridden. Called by entries with what they were called with, or
/// other arguments.
///
/// # Safety
/// The arguments are good for the collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_previous(
    _data: *mut c_void,
    layer: *const host_coll_layer_t,
    comm: *mut host_comm_t,
    collective: c_int,
    args: *const host_coll_args_t,
) -> c_int {
    guarded(|| {
        let call = "host_coll_previous";
        // SAFETY: passed on.
        let (table, comm, collective, args) =
            unsafe { below(call, layer, comm, collective, args) }?;
        // SAFETY: the caller vouches for the buffers.
        Ok(unsafe { table.call(collective, &comm, &args) }?)
    })
}

/// Begins what a nonblocking entry has overridden.
///
/// # Safety
/// The arguments are good for the collective, its buffers until it is done; `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_previous_start(
    _data: *mut c_void,
    layer: *const host_coll_layer_t,
    comm: *mut host_comm_t,
    collective: c_int,
    args: *const host_coll_args_t,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    guarded(|| {
        let call = "host_coll_previous_start";
        // SAFETY: passed on.
        let request = unsafe { place(call, request) }?;
        // SAFETY: passed on.
        let (table, comm, collective, args) =
            unsafe { below(call, layer, comm, collective, args) }?;
        // SAFETY: the caller vouches for the buffers.
        *request = give(unsafe { table.start(collective, &comm, &args) }?);
        Ok(())
    })
}

/// Copies the collectives of a communicator into a table, whose `size` is set, for a layer to replace
/// some. Entries read host_coll_previous and host_coll_previous_start, which stand for what is there;
/// blocking ones that are absent are NULL. `data` becomes NULL.
///
/// # Safety
/// `table` is NULL or a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_get_table(
    comm: *mut host_comm_t,
    table: *mut host_coll_table_t,
) -> c_int {
    guarded(|| {
        let call = "host_comm_get_table";
        // SAFETY: passed on.
        let table = unsafe { place(call, table) }?;
        sized(call, table.size, size_of::<host_coll_table_t>())?;
        let current = self::comm(call, comm)?.collectives();
        table.data = std::ptr::null_mut();
        for collective in Collective::ALL {
            let at = collective as usize;
            let there = current.blocking(collective);
            table.blocking[at] = there.map(|_| host_coll_previous as _);
            table.nonblocking[at] = Some(host_coll_previous_start);
        }
        Ok(())
    })
}

/// Overrides the collectives of a communicator; in its create hooks only. Usually the table is what
/// host_comm_get_table has copied, with some entries replaced. It is copied, and shared with other
/// communicators for which equal tables override the same. HOST_ERR_ARG: a nonblocking entry is NULL;
/// nothing has changed.
///
/// # Safety
/// `table` is NULL or a table, whose functions any thread may call with its data as long as
/// communicators have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_override(
    comm: *mut host_comm_t,
    table: *const host_coll_table_t,
) -> c_int {
    guarded(|| {
        let call = "host_comm_override";
        // SAFETY: the caller vouches for it.
        let table =
            unsafe { table.as_ref() }.ok_or_else(|| Error::argument(call, "the table is NULL"))?;
        sized(call, table.size, size_of::<host_coll_table_t>())?;
        let missing = Collective::ALL.into_iter();
        if let Some(missing) = missing
            .into_iter()
            .find(|c| table.nonblocking[*c as usize].is_none())
        {
            let text = format!("the table has no nonblocking {missing}; copy the previous table's");
            return Err(Error::argument(call, &text));
        }
        let comm = self::comm(call, comm)?;
        let mut functions = comm.collectives().functions();
        let inherited = host_coll_previous as *const () as usize;
        let inherited_start = host_coll_previous_start as *const () as usize;
        for collective in Collective::ALL {
            let at = collective as usize;
            match table.blocking[at] {
                Some(entry) if entry as usize == inherited => {}
                Some(_) => functions.set_blocking(collective, Some(BLOCKING[at])),
                None if functions.blocking(collective).is_none() => {}
                None => functions.set_blocking(collective, None),
            }
            if table.nonblocking[at].is_some_and(|entry| entry as usize != inherited_start) {
                functions.set_nonblocking(collective, STARTING[at]);
            }
        }
        comm.override_collectives(functions, Some(kept(table)))?;
        Ok(())
    })
}

/// Undoes the last host_comm_override of a communicator; in its destroy hooks only, once for each
/// override, so that the layer above finds its own.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_restore(comm: *mut host_comm_t) -> c_int {
    guarded(|| {
        self::comm("host_comm_restore", comm)?.restore_collectives()?;
        Ok(())
    })
}

/// Tables of layers that communicators of this process have, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_coll_live_tables() -> c_int {
    let mut live = 0;
    let outcome = guarded(|| {
        live = job("host_coll_live_tables")?.live_collective_tables();
        Ok(())
    });
    if outcome == 0 { live as c_int } else { outcome }
}
