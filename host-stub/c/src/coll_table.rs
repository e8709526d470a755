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
use crate::tables;

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
/// Collectives that this host knows, at the places below this one.
pub const HOST_COLL_ENTRIES: usize = 11;
/// Places of a table.
pub const HOST_COLL_ROOM: usize = 64;

const _: () = assert!(Collective::ALL.len() == HOST_COLL_ENTRIES);

/// What a host_coll_args_t begins with.
pub const HOST_COLL_ARGS_MAGIC: u64 = 0x3147524154534f48;
/// What a host_coll_table_t begins with.
pub const HOST_COLL_TABLE_MAGIC: u64 = 0x314c4f4354534f48;

/// The arguments of a collective, those that it has a meaning for; the others are zero. They grow at the
/// end only, and `size` says where that is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_coll_args_t {
    /// HOST_COLL_ARGS_MAGIC.
    pub magic: u64,
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
    /// Zero.
    pub reserved: c_int,
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

/// The functions of one collective. All NULL: those that are there stay.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_coll_entry_t {
    /// NULL: the host's default is used, not the entry below.
    pub blocking: host_coll_fn,
    /// Not NULL where `blocking` is not.
    pub nonblocking: host_coll_start_fn,
    /// Zero: room for other forms of the collective.
    pub reserved: [usize; 2],
}

/// The collectives of a communicator, as host_comm_get_table copies them and host_comm_override takes
/// them. No entry ever moves: new collectives take the places after those that there are, and `size` says how
/// many places the table has where a program was compiled. What an older program has no place for stays as it
/// is; what a newer one sets and this host does not know is refused.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_coll_table_t {
    /// HOST_COLL_TABLE_MAGIC.
    pub magic: u64,
    /// sizeof(host_coll_table_t).
    pub size: usize,
    /// What the layer's entries are called with.
    pub data: *mut c_void,
    /// The functions, at the places HOST_COLL_*.
    pub entries: [host_coll_entry_t; HOST_COLL_ROOM],
}

/// A place that nobody uses.
const NO_ENTRY: host_coll_entry_t = host_coll_entry_t {
    blocking: None,
    nonblocking: None,
    reserved: [0; 2],
};

// SAFETY: the program that gave the table says that any thread may call its functions with its data.
unsafe impl Send for host_coll_table_t {}
// SAFETY: as for Send.
unsafe impl Sync for host_coll_table_t {}

impl host_coll_entry_t {
    fn addresses(&self) -> [Option<usize>; 2] {
        [
            self.blocking.map(|entry| entry as usize),
            self.nonblocking.map(|entry| entry as usize),
        ]
    }

    fn is_absent(&self) -> bool {
        self.addresses() == [None; 2]
    }
}

impl host_coll_table_t {
    fn is_same(&self, other: &host_coll_table_t) -> bool {
        let mut pairs = self.entries.iter().zip(&other.entries);
        self.data == other.data && pairs.all(|(mine, other)| mine.addresses() == other.addresses())
    }

    /// Refuses a table with entries that cannot be used.
    fn whole(&self, call: &str) -> Result {
        for (at, entry) in self.entries.iter().enumerate() {
            let text = match Collective::ALL.get(at) {
                None if !entry.is_absent() || entry.reserved != [0; 2] => format!(
                    "entry {at} is set, and this host knows {HOST_COLL_ENTRIES} collectives; the program was \
                     compiled for a newer one"
                ),
                Some(name) if entry.reserved != [0; 2] => format!(
                    "the reserved room of {name} is not zero; the program was compiled for a newer host, or \
                     did not clear the table"
                ),
                Some(name) if entry.nonblocking.is_none() && entry.blocking.is_some() => {
                    format!("the table has no nonblocking {name}; copy the previous table's")
                }
                _ => continue,
            };
            return Err(Error::argument(call, &text));
        }
        Ok(())
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
        magic: HOST_COLL_ARGS_MAGIC,
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
        reserved: 0,
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
    // SAFETY: the caller vouches for them.
    let args = unsafe { tables::read(call, args) }?;
    if args.reserved != 0 {
        let text = "the reserved room of the host_coll_args_t is not zero";
        return Err(Error::argument(call, text));
    }
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
    let entry = of_c(table).and_then(|of_c| Some((of_c.entries[C].blocking?, of_c.data)));
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
    let entry = of_c(table).and_then(|of_c| Some((of_c.entries[C].nonblocking?, of_c.data)));
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

const BLOCKING: [Blocking; HOST_COLL_ENTRIES] = [
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

const STARTING: [Nonblocking; HOST_COLL_ENTRIES] = [
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

/// Copies the collectives of a communicator into a table, whose `magic` and `size` are set, for a layer to
/// replace some. Entries read host_coll_previous and host_coll_previous_start, which stand for what is
/// there; blocking ones that are absent are NULL, and so are both of a collective that this host does not
/// know. `data` becomes NULL.
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
        let current = self::comm(call, comm)?.collectives();
        let mut found = host_coll_table_t {
            magic: HOST_COLL_TABLE_MAGIC,
            size: size_of::<host_coll_table_t>(),
            data: std::ptr::null_mut(),
            entries: [NO_ENTRY; HOST_COLL_ROOM],
        };
        for collective in Collective::ALL {
            let there = current.blocking(collective);
            found.entries[collective as usize] = host_coll_entry_t {
                blocking: there.map(|_| host_coll_previous as _),
                nonblocking: Some(host_coll_previous_start),
                ..NO_ENTRY
            };
        }
        // SAFETY: passed on.
        unsafe { tables::write(call, table, &found) }
    })
}

/// Overrides the collectives of a communicator; in its create hooks only. Usually the table is what
/// host_comm_get_table has copied, with some entries replaced. It is copied, and shared with other
/// communicators for which equal tables override the same. HOST_ERR_ARG: a blocking entry is set and its
/// nonblocking one is NULL, or an entry is set that this host does not know; nothing has changed.
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
        // SAFETY: passed on.
        let table = unsafe { tables::read(call, table) }?;
        table.whole(call)?;
        let comm = self::comm(call, comm)?;
        let mut functions = comm.collectives().functions();
        let inherited = host_coll_previous as *const () as usize;
        let inherited_start = host_coll_previous_start as *const () as usize;
        for collective in Collective::ALL {
            let at = collective as usize;
            let entry = &table.entries[at];
            if entry.is_absent() {
                continue;
            }
            match entry.blocking {
                Some(entry) if entry as usize == inherited => {}
                Some(_) => functions.set_blocking(collective, Some(BLOCKING[at])),
                None if functions.blocking(collective).is_none() => {}
                None => functions.set_blocking(collective, None),
            }
            if entry
                .nonblocking
                .is_some_and(|entry| entry as usize != inherited_start)
            {
                functions.set_nonblocking(collective, STARTING[at]);
            }
        }
        comm.override_collectives(functions, Some(kept(&table)))?;
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
