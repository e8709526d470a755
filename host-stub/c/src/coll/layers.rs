//! Passing collectives of a communicator to the layers of C programs.
//!
//! A C table is kept as the data of a table of the host, whose entries are the functions here that call the C
//! ones. Entries that a layer leaves unchanged are not set in the host's table, so a call skips the layer.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use host::coll::{Blocking, CollArgs, CollRequest, CollTable, Collective, LayerData, Nonblocking};
use host::comm::{Comm, CommError, CommResult};

use crate::base::codes::{HOST_ON_DEVICE, op_code, root_code, type_code};
use crate::base::error::{self, Error, Result, guarded, last_text};
use crate::base::handles::place;
use crate::base::tables;
use crate::coll::blocks;
use crate::coll::calls::{known, with_args};
use crate::coll::request::{give, host_coll_request_t, take};
use crate::coll::table::{
    HOST_COLL_ARGS_MAGIC, HOST_COLL_ENTRIES, HOST_COLL_ROOM, HOST_COLL_TABLE_MAGIC,
    HOST_COLL_TAKES_DEVICES, NO_ENTRY, host_coll_args_t, host_coll_entry_t, host_coll_layer_t,
    host_coll_table_t,
};
use crate::comm::communicator::{comm, handle, host_comm_t};

/// The C tables of communicators. Equal tables are shared, so that the host's tables are shared,
/// too.
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
        datatype: match args.on_device {
            true => type_code(args.datatype) | HOST_ON_DEVICE,
            false => type_code(args.datatype),
        },
        op: op_code(args.op),
        root: root_code(args.root),
        reserved: 0,
        given: blocks::to_c(&args.send_blocks),
        taken: blocks::to_c(&args.recv_blocks),
    }
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
    // SAFETY: the program that set the table guarantees the function; the arguments live until it returns.
    let code = unsafe {
        let args = to_c(args);
        entry(data, layer(table), handle(comm), C as c_int, &args)
    };
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
    // SAFETY: the program that set the table guarantees the function; the arguments live until it returns.
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
        let code = error::keep(&error);
        failed(collective, code)
    })
}

/// Lists an instance of a function for each collective.
macro_rules! of_each {
    ($function:ident) => {
        of_each!($function: 0 1 2 3 4 5 6 7 8 9 10 11 12)
    };
    ($function:ident: $($at:literal)+) => {
        [$($function::<$at>),+]
    };
}

const BLOCKING: [Blocking; HOST_COLL_ENTRIES] = of_each!(blocking);

const STARTING: [Nonblocking; HOST_COLL_ENTRIES] = of_each!(start);

/// The table below the one of `layer`, and the collective, with which a layer goes on.
fn below(
    call: &str,
    over: *const host_coll_layer_t,
    handle: *mut host_comm_t,
    collective: c_int,
) -> Result<(Arc<CollTable>, Comm, Collective)> {
    let comm = comm(call, handle)?;
    let collective = known(call, collective)?;
    let mut table = comm.collectives();
    loop {
        let Some(previous) = table.previous().cloned() else {
            return Err(Error::argument(
                call,
                "that is no layer of the communicator's collectives",
            ));
        };
        if layer(&table) == over {
            return Ok((previous, comm, collective));
        }
        table = previous;
    }
}

/// Calls the function that a blocking entry has overridden. Entries call this function with their
/// own arguments or with others.
///
/// # Safety
/// The arguments are valid for the collective.
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
        let (table, comm, collective) = below(call, layer, comm, collective)?;
        // SAFETY: the caller guarantees the arguments and the buffers.
        unsafe {
            with_args(call, args, &comm, |args| {
                Ok(table.call(collective, &comm, args)?)
            })
        }
    })
}

/// Calls the function that a nonblocking entry has overridden.
///
/// # Safety
/// The arguments are valid for the collective, and its buffers until it is done; `request` is
/// writable.
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
        let (table, comm, collective) = below(call, layer, comm, collective)?;
        // SAFETY: the caller guarantees the arguments and the buffers.
        let started = unsafe {
            with_args(call, args, &comm, |args| {
                Ok(table.start(collective, &comm, args)?)
            })
        }?;
        *request = give(started);
        Ok(())
    })
}

/// Copies the collectives of a communicator into a table, so that a layer can replace some of them. The
/// caller sets `magic` and `size` before the call. The host sets each entry to host_coll_previous or
/// host_coll_previous_start, which call the present collective. The host sets an entry to NULL if the
/// blocking form is absent or if this host does not know the collective, and `data` to NULL.
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

/// Overrides the collectives of a communicator; in its create hooks only. Usually the table comes from
/// host_comm_get_table, with some entries replaced. The host copies the table, and shares the copy
/// between communicators whose overrides are equal. HOST_ERR_ARG, and nothing changes: a blocking entry
/// is set and its nonblocking entry is NULL, or an entry is set that this host does not know.
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
            if entry.flags & HOST_COLL_TAKES_DEVICES != 0 {
                functions.take_devices(collective);
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
