//! Tables of windows, in which layers of C programs replace functions of one window.

use std::ffi::{c_char, c_int, c_void};

use crate::base::error::{Error, Result};
use crate::base::tables::{self, layout};
use crate::win::info::host_info_t;

/// Place of put in a window's table.
pub const HOST_RMA_PUT: usize = 0;
/// Place of get in a window's table.
pub const HOST_RMA_GET: usize = 1;
/// Place of accumulate in a window's table.
pub const HOST_RMA_ACCUMULATE: usize = 2;
/// Place of get_accumulate in a window's table.
pub const HOST_RMA_GET_ACCUMULATE: usize = 3;
/// Place of fetch_and_op in a window's table.
pub const HOST_RMA_FETCH_AND_OP: usize = 4;
/// Place of compare_and_swap in a window's table.
pub const HOST_RMA_COMPARE_AND_SWAP: usize = 5;
/// Place of rput in a window's table.
pub const HOST_RMA_RPUT: usize = 6;
/// Place of rget in a window's table.
pub const HOST_RMA_RGET: usize = 7;
/// Place of raccumulate in a window's table.
pub const HOST_RMA_RACCUMULATE: usize = 8;
/// Place of rget_accumulate in a window's table.
pub const HOST_RMA_RGET_ACCUMULATE: usize = 9;
/// Place of fence in a window's table.
pub const HOST_RMA_FENCE: usize = 10;
/// Place of lock in a window's table.
pub const HOST_RMA_LOCK: usize = 11;
/// Place of unlock in a window's table.
pub const HOST_RMA_UNLOCK: usize = 12;
/// Place of lock_all in a window's table.
pub const HOST_RMA_LOCK_ALL: usize = 13;
/// Place of unlock_all in a window's table.
pub const HOST_RMA_UNLOCK_ALL: usize = 14;
/// Place of flush in a window's table.
pub const HOST_RMA_FLUSH: usize = 15;
/// Place of flush_all in a window's table.
pub const HOST_RMA_FLUSH_ALL: usize = 16;
/// Place of flush_local in a window's table.
pub const HOST_RMA_FLUSH_LOCAL: usize = 17;
/// Place of flush_local_all in a window's table.
pub const HOST_RMA_FLUSH_LOCAL_ALL: usize = 18;
/// Place of start in a window's table.
pub const HOST_RMA_START: usize = 19;
/// Place of complete in a window's table.
pub const HOST_RMA_COMPLETE: usize = 20;
/// Place of post in a window's table.
pub const HOST_RMA_POST: usize = 21;
/// Place of wait in a window's table.
pub const HOST_RMA_WAIT: usize = 22;
/// Place of test in a window's table.
pub const HOST_RMA_TEST: usize = 23;
/// Place of sync in a window's table.
pub const HOST_RMA_SYNC: usize = 24;
/// Place of free in a window's table.
pub const HOST_RMA_FREE: usize = 25;
/// Place of attach in a window's table.
pub const HOST_RMA_ATTACH: usize = 26;
/// Place of detach in a window's table.
pub const HOST_RMA_DETACH: usize = 27;
/// Place of shared_query in a window's table.
pub const HOST_RMA_SHARED_QUERY: usize = 28;
/// Place of set_info in a window's table.
pub const HOST_RMA_SET_INFO: usize = 29;
/// Place of get_info in a window's table.
pub const HOST_RMA_GET_INFO: usize = 30;
/// Functions that this host knows, at the places below this one.
pub const HOST_RMA_ENTRIES: usize = 31;
/// Places of a window's table.
pub const HOST_RMA_ROOM: usize = 64;

/// The magic number of a host_rma_table_t.
pub const HOST_RMA_TABLE_MAGIC: u64 = 0x31414d5254534f48;

/// Added to the type of a host_rma_call_t: the elements of one side are not contiguous (host_put_layout and
/// similar calls), and the call does not tell where they lie. An entry passes such a call to
/// host_rma_previous.
pub const HOST_WITH_GAPS: c_int = 0x200;

/// One call of an entry. The host has checked that the epoch allows the call and that the target's
/// elements lie in the target's memory. Fields that the entry does not use are zero. The structure
/// grows at its end only: `size` tells the length that this host fills in.
#[repr(C)]
pub struct host_rma_call_t {
    /// sizeof(host_rma_call_t).
    pub size: usize,
    /// HOST_RMA_*.
    pub entry: usize,
    /// The target's rank. For shared_query, a negative rank means the first rank that has memory.
    pub target: c_int,
    /// HOST_LOCK_* for lock and unlock; negative if no lock was taken.
    pub lock: c_int,
    /// HOST_MODE_*.
    pub assertion: u32,
    /// For test: the entry sets this flag if the exposure is over.
    pub done: c_int,
    /// The address of the target's first element: in this process if the window's table is shm, else
    /// in the target's process.
    pub address: u64,
    /// The origin's buffer; for get and rget, the buffer that is written.
    pub origin: *mut c_void,
    /// The buffer for the old values of fetching calls.
    pub result: *mut c_void,
    /// The value that compare_and_swap compares with.
    pub compare: *const c_void,
    /// Elements; contiguous at both ends unless the type has HOST_WITH_GAPS.
    pub count: usize,
    /// The element type; with HOST_ON_DEVICE if `origin` is memory of a device, which only the transport may
    /// access.
    pub datatype: c_int,
    /// The operation of accumulates.
    pub op: c_int,
    /// The ranks of start, complete and post.
    pub group: *const usize,
    /// The number of groups.
    pub group_count: usize,
    /// The memory of attach and detach; for shared_query, the entry sets it.
    pub base: *mut c_void,
    /// The bytes of this memory; for shared_query, the entry sets it.
    pub bytes: usize,
    /// For shared_query: the target's displacement unit, which the entry sets.
    pub unit: u32,
    /// Zero.
    pub reserved: c_int,
    /// The hints of set_info, which belong to the host. For get_info, the entry sets this field to new
    /// hints, which then belong to the host.
    pub info: *mut host_info_t,
}

impl host_rma_call_t {
    /// A call of an entry without arguments.
    pub(crate) fn none(entry: usize) -> host_rma_call_t {
        host_rma_call_t {
            size: size_of::<host_rma_call_t>(),
            entry,
            target: 0,
            lock: -1,
            assertion: 0,
            done: 0,
            address: 0,
            origin: std::ptr::null_mut(),
            result: std::ptr::null_mut(),
            compare: std::ptr::null(),
            count: 0,
            datatype: 0,
            op: 0,
            group: std::ptr::null(),
            group_count: 0,
            base: std::ptr::null_mut(),
            bytes: 0,
            unit: 0,
            reserved: 0,
            info: std::ptr::null_mut(),
        }
    }
}

layout!(host_rma_call_t: 128 bytes {
    size at 0,
    entry at 8,
    target at 16,
    lock at 20,
    assertion at 24,
    done at 28,
    address at 32,
    origin at 40,
    result at 48,
    compare at 56,
    count at 64,
    datatype at 72,
    op at 76,
    group at 80,
    group_count at 88,
    base at 96,
    bytes at 104,
    unit at 112,
    reserved at 116,
    info at 120,
});

/// A layer during one call, from which host_rma_previous continues. Valid on any thread until the entry
/// that got it returns, so that a task may wait and continue on another thread.
pub struct host_rma_layer_t {
    _private: [u8; 0],
}

/// An entry: HOST_SUCCESS, or a negative code. `data` is the data of the table.
pub type host_rma_fn = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        layer: *const host_rma_layer_t,
        call: *mut host_rma_call_t,
    ) -> c_int,
>;

/// The functions of one window. When a hook gets the table, each entry that the host knows is
/// host_rma_previous, which stands for the present function. Calls skip an entry that a hook leaves unchanged;
/// a hook that sets such an entry to NULL is refused. No entry ever moves: new functions are added at the end.
/// Entries that a host does not know are NULL, and a hook that sets such an entry is refused. A hook must not
/// write beyond `size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_rma_table_t {
    /// HOST_RMA_TABLE_MAGIC.
    pub magic: u64,
    /// sizeof(host_rma_table_t).
    pub size: usize,
    /// The first argument of this window's entries.
    pub data: *mut c_void,
    /// The functions, at the places HOST_RMA_*.
    pub entries: [host_rma_fn; HOST_RMA_ROOM],
}

layout!(host_rma_table_t: 536 bytes {
    magic at 0,
    size at 8,
    data at 16,
    entries at 24,
} magic HOST_RMA_TABLE_MAGIC = b"HOSTRMA1", least 24, by 8);

// SAFETY: the program that passed the table guarantees that any thread may call its functions with
// its data.
unsafe impl Send for host_rma_table_t {}
// SAFETY: as for Send.
unsafe impl Sync for host_rma_table_t {}

/// A window that is being made, for a hook. The structure grows at its end only: `size` tells the length
/// that this host fills in.
#[repr(C)]
pub struct host_new_win_t {
    /// sizeof(host_new_win_t).
    pub size: usize,
    /// This process's rank in the window.
    pub rank: c_int,
    /// Ranks of the window.
    pub ranks: c_int,
    /// HOST_WIN_*.
    pub kind: c_int,
    /// Zero.
    pub reserved: c_int,
    /// The table that the window got: shm, mixed or btl.
    pub table_name: *const c_char,
    /// This rank's memory.
    pub base: *mut c_void,
    /// Its bytes.
    pub bytes: usize,
}

layout!(host_new_win_t: 48 bytes {
    size at 0,
    rank at 8,
    ranks at 12,
    kind at 16,
    reserved at 20,
    table_name at 24,
    base at 32,
    bytes at 40,
});

/// A hook, called with every new window before its creation returns. The hook may replace entries
/// of `table` and set its data. Returns HOST_SUCCESS, or a negative code with which the creation
/// fails at all ranks.
pub type host_win_hook_fn = Option<
    unsafe extern "C" fn(
        win: *const host_new_win_t,
        table: *mut host_rma_table_t,
        param: *mut c_void,
    ) -> c_int,
>;

/// Called when a window ends for which the hook succeeded, or when its creation fails. `data` is
/// the value that the hook set in the table.
pub type host_win_ended_fn = Option<unsafe extern "C" fn(data: *mut c_void, param: *mut c_void)>;

/// Refuses a table that no window can have.
pub(crate) fn whole(table: &host_rma_table_t) -> Result {
    let call = "a window hook's table";
    tables::still(call, table)?;
    let (known, room) = table.entries.split_at(HOST_RMA_ENTRIES);
    if let Some(at) = known.iter().position(Option::is_none) {
        return Err(Error::argument(call, &format!("entry {at} is NULL")));
    }
    if let Some(at) = room.iter().position(Option::is_some) {
        let at = HOST_RMA_ENTRIES + at;
        let text = format!(
            "entry {at} is set, and this host knows {HOST_RMA_ENTRIES} functions of a window; the hook was \
             compiled for a newer one"
        );
        return Err(Error::argument(call, &text));
    }
    Ok(())
}
