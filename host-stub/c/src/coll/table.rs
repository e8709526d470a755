//! Collective tables: what a layer of a C program passes to override the collectives of a communicator.

use std::ffi::{c_int, c_void};

use host::coll::Collective;

use crate::base::error::{Error, Result};
use crate::base::tables::layout;
use crate::coll::request::host_coll_request_t;
use crate::comm::communicator::host_comm_t;

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
/// Place of the allgatherv entries in a table.
pub const HOST_COLL_ALLGATHERV: c_int = 11;
/// Place of the alltoallv entries in a table.
pub const HOST_COLL_ALLTOALLV: c_int = 12;
/// Collectives that this host knows, at the places below this one.
pub const HOST_COLL_ENTRIES: usize = 13;
/// Places of a table.
pub const HOST_COLL_ROOM: usize = 64;

const _: () = assert!(Collective::ALL.len() == HOST_COLL_ENTRIES);

/// A flag of an entry: its functions take buffers on devices, except host_coll_previous and host_coll_previous_start. If a
/// buffer is on a device, the host calls the function with HOST_ON_DEVICE in the type and with the buffers as the program
/// named them; host_target_location tells where each buffer lies. Other functions get copies in host memory.
pub const HOST_COLL_TAKES_DEVICES: usize = 1;

/// The magic number of a host_coll_args_t.
pub const HOST_COLL_ARGS_MAGIC: u64 = 0x3147524154534f48;
/// The magic number of a host_coll_table_t.
pub const HOST_COLL_TABLE_MAGIC: u64 = 0x314c4f4354534f48;

/// The places of a buffer's blocks in the v forms. There is one block for each rank, so each list has one value
/// for each rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_blocks_t {
    /// Elements of each block.
    pub counts: *const usize,
    /// The beginning of each block, in elements from the beginning of the buffer.
    pub displacements: *const usize,
}

layout!(host_blocks_t: 16 bytes {
    counts at 0,
    displacements at 8,
});

/// The arguments of a collective; arguments that the collective does not use are zero. The structure
/// grows at its end only, and `size` tells its length.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_coll_args_t {
    /// HOST_COLL_ARGS_MAGIC.
    pub magic: u64,
    /// sizeof(host_coll_args_t).
    pub size: usize,
    /// The data that this rank contributes; NULL: the data is in `recv`. For an alltoallv, NULL is allowed
    /// only if the lists of `given` are NULL too.
    pub send: *const c_void,
    /// The data that this rank receives; the buffer of a broadcast.
    pub recv: *mut c_void,
    /// The number of elements of a broadcast or reduction, of this rank's contribution to an allgatherv, and of one
    /// block in all others.
    pub count: usize,
    /// The number of elements that each rank gets of a reduce_scatter; NULL: `count` each.
    pub counts: *const usize,
    /// The element type; with HOST_ON_DEVICE if a buffer is on a device. Only an entry with
    /// HOST_COLL_TAKES_DEVICES gets buffers on devices.
    pub datatype: c_int,
    /// The operation that combines elements.
    pub op: c_int,
    /// The root's rank.
    pub root: c_int,
    /// Zero.
    pub reserved: c_int,
    /// The places of the blocks of an alltoallv's `send`.
    pub given: host_blocks_t,
    /// The places of the blocks of an allgatherv's or alltoallv's `recv`.
    pub taken: host_blocks_t,
}

layout!(host_coll_args_t: 96 bytes {
    magic at 0,
    size at 8,
    send at 16,
    recv at 24,
    count at 32,
    counts at 40,
    datatype at 48,
    op at 52,
    root at 56,
    reserved at 60,
    given at 64,
    taken at 80,
} magic HOST_COLL_ARGS_MAGIC = b"HOSTARG1", least 64, by 8);

/// The place of an entry among the tables of a communicator, from which host_coll_previous continues.
/// Valid as long as the communicator.
pub struct host_coll_layer_t {
    _private: [u8; 0],
}

/// A blocking entry: HOST_SUCCESS when the collective is done, or a negative code. `data` is the
/// data of the table.
pub type host_coll_fn = Option<
    unsafe extern "C" fn(
        data: *mut c_void,
        layer: *const host_coll_layer_t,
        comm: *mut host_comm_t,
        collective: c_int,
        args: *const host_coll_args_t,
    ) -> c_int,
>;

/// A nonblocking entry: starts the collective and returns a request from host_coll_previous_start or
/// host_coll_request_of_layer, or NULL if the collective is done already. The buffers are valid until
/// the collective is done, `args` until the entry returns.
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

/// The functions of one collective. If all are NULL, the present functions stay.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_coll_entry_t {
    /// NULL: the host's default is used, not the entry below.
    pub blocking: host_coll_fn,
    /// Not NULL if `blocking` is not NULL.
    pub nonblocking: host_coll_start_fn,
    /// HOST_COLL_TAKES_DEVICES, or 0.
    pub flags: usize,
    /// Zero: room for another form of the collective.
    pub reserved: [usize; 1],
}

layout!(host_coll_entry_t: 32 bytes {
    blocking at 0,
    nonblocking at 8,
    flags at 16,
    reserved at 24,
});

/// The collectives of a communicator, as host_comm_get_table copies them and host_comm_override takes
/// them. No entry ever moves: new collectives are added at the end, and `size` tells how many entries the
/// program was compiled with. A collective that an older program has no entry for stays unchanged. The host
/// refuses a table of a newer program that sets an entry unknown to this host.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_coll_table_t {
    /// HOST_COLL_TABLE_MAGIC.
    pub magic: u64,
    /// sizeof(host_coll_table_t).
    pub size: usize,
    /// The first argument of the layer's entries.
    pub data: *mut c_void,
    /// The functions, at the places HOST_COLL_*.
    pub entries: [host_coll_entry_t; HOST_COLL_ROOM],
}

layout!(host_coll_table_t: 2072 bytes {
    magic at 0,
    size at 8,
    data at 16,
    entries at 24,
} magic HOST_COLL_TABLE_MAGIC = b"HOSTCOL1", least 24, by 32);

/// An unused place.
pub(crate) const NO_ENTRY: host_coll_entry_t = host_coll_entry_t {
    blocking: None,
    nonblocking: None,
    flags: 0,
    reserved: [0; 1],
};

// SAFETY: the program that passed the table guarantees that any thread may call its functions with
// its data.
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

    pub(crate) fn is_absent(&self) -> bool {
        self.addresses() == [None; 2]
    }
}

impl host_coll_table_t {
    pub(crate) fn is_same(&self, other: &host_coll_table_t) -> bool {
        let same = |(mine, other): (&host_coll_entry_t, &host_coll_entry_t)| {
            mine.addresses() == other.addresses() && mine.flags == other.flags
        };
        self.data == other.data && self.entries.iter().zip(&other.entries).all(same)
    }

    /// Refuses a table with entries that cannot be used.
    pub(crate) fn whole(&self, call: &str) -> Result {
        for (at, entry) in self.entries.iter().enumerate() {
            let text = match Collective::ALL.get(at) {
                None if !entry.is_absent() || entry.flags != 0 || entry.reserved != [0; 1] => {
                    format!(
                        "entry {at} is set, and this host knows {HOST_COLL_ENTRIES} collectives; the program was \
                     compiled for a newer one"
                    )
                }
                Some(name) if entry.reserved != [0; 1] => format!(
                    "the reserved room of {name} is not zero; the program was compiled for a newer host, or \
                     did not clear the table"
                ),
                Some(name) if entry.flags > HOST_COLL_TAKES_DEVICES => format!(
                    "the flags of {name} are {:#x}, and this host knows HOST_COLL_TAKES_DEVICES; the program was \
                     compiled for a newer one, or did not clear the table",
                    entry.flags
                ),
                Some(name) if entry.is_absent() && entry.flags != 0 => {
                    format!("the flags of {name} are set, and it has no function")
                }
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
