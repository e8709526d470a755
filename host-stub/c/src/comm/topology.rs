//! Topologies of communicators: grids and graphs.

use std::ffi::c_int;

use host::Comm;
use host::comm::{Cartesian, Topology, balanced};

use crate::base::codes::{HOST_PROC_NULL, numbers, ranks};
use crate::base::error::{Error, Result, guarded};
use crate::base::handles::place;
use crate::comm::communicator::{comm, host_comm_t, make, number, or_refuse};

/// A communicator without a topology.
pub const HOST_TOPOLOGY_NONE: c_int = 0;
/// A communicator whose ranks lie in a grid.
pub const HOST_TOPOLOGY_CART: c_int = 1;
/// A communicator whose ranks have named their neighbours.
pub const HOST_TOPOLOGY_GRAPH: c_int = 2;

/// Fills a list of C, which has exactly so many places.
///
/// # Safety
/// `list` is NULL or has `room` writable places.
unsafe fn fill(
    call: &str,
    (list, room): (*mut c_int, usize),
    values: impl ExactSizeIterator<Item = c_int>,
) -> Result {
    let count = values.len();
    if room != count {
        let text = format!("the list has {room} places for {count} numbers");
        return Err(Error::argument(call, &text));
    }
    if list.is_null() && count > 0 {
        return Err(Error::argument(call, "a list is NULL"));
    }
    for (index, value) in values.enumerate() {
        // SAFETY: the caller guarantees so many places.
        unsafe { list.add(index).write(value) };
    }
    Ok(())
}

fn dimensions(call: &str, dims: &[c_int]) -> Result<Vec<usize>> {
    let dims = dims.iter().enumerate().map(|(index, dim)| {
        usize::try_from(*dim)
            .map_err(|_| Error::argument(call, &format!("dimension {index} is {dim}")))
    });
    dims.collect()
}

/// Fills the entries of `dims` that are 0, so that a grid of these dimensions has `ranks` places; the dimensions become
/// as equal as can be, the greater first.
///
/// # Safety
/// `dims` is `count` writable numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_dims_create(ranks: c_int, count: usize, dims: *mut c_int) -> c_int {
    guarded(|| {
        let call = "host_dims_create";
        let size = usize::try_from(ranks)
            .map_err(|_| Error::argument(call, &format!("a grid of {ranks} ranks")))?;
        // SAFETY: passed on.
        let given = dimensions(call, unsafe { numbers(call, "dimensions", dims, count) }?)?;
        let filled = balanced(size, &given)?;
        // SAFETY: passed on.
        unsafe { fill(call, (dims, count), filled.iter().map(|dim| *dim as c_int)) }
    })
}

/// A communicator whose ranks lie in a grid of `count` dimensions, of which the last varies fastest: `dims[i]` ranks in
/// dimension i, where the last is followed by the first if `periods[i]` is not 0. NULL for ranks that the grid has no
/// place for. Unless `reorder` is 0 ranks may have other numbers: each node gets a block of the grid where that is
/// possible. Collective, with the same arguments at every rank.
///
/// # Safety
/// `dims` and `periods` are `count` numbers; `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_cart_create(
    parent: *mut host_comm_t,
    count: usize,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    made: *mut *mut host_comm_t,
) -> c_int {
    let call = "host_cart_create";
    let create = || {
        let parent = comm(call, parent)?;
        // SAFETY: passed on.
        let lists = unsafe { numbers(call, "dimensions", dims, count) }.and_then(|dims| {
            // SAFETY: passed on.
            let periods = unsafe { numbers(call, "periods", periods, count) }?;
            Ok((dimensions(call, dims)?, periods))
        });
        let (dims, periods) = or_refuse(call, &parent, lists)?;
        let periods: Vec<bool> = periods.iter().map(|period| *period != 0).collect();
        Ok(parent.cartesian(&dims, &periods, reorder != 0)?)
    };
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, create) })
}

/// A communicator of the same ranks, each of which names the ranks that it receives from and those that it sends to. A
/// rank may be named more than once, and may name itself; each names as many edges from another as that one names to
/// it. Collective.
///
/// # Safety
/// The lists have so many ranks of the parent; `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_dist_graph_create_adjacent(
    parent: *mut host_comm_t,
    source_count: usize,
    sources: *const c_int,
    destination_count: usize,
    destinations: *const c_int,
    made: *mut *mut host_comm_t,
) -> c_int {
    let call = "host_dist_graph_create_adjacent";
    let create = || {
        let parent = comm(call, parent)?;
        // SAFETY: passed on.
        let lists = unsafe { ranks(call, sources, source_count) }.and_then(|sources| {
            // SAFETY: passed on.
            let destinations = unsafe { ranks(call, destinations, destination_count) }?;
            Ok((sources, destinations))
        });
        let (sources, destinations) = or_refuse(call, &parent, lists)?;
        Ok(Some(parent.graph_adjacent(&sources, &destinations)?))
    };
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, create) })
}

/// Looks at the topology of a communicator.
fn with_topology<R>(
    call: &str,
    handle: *mut host_comm_t,
    look: impl FnOnce(&Comm, &Topology) -> Result<R>,
) -> Result<R> {
    let comm = comm(call, handle)?;
    let topology = comm.topology();
    let topology = topology
        .ok_or_else(|| Error::argument(call, "the communicator was made without a topology"))?;
    look(&comm, topology)
}

fn with_grid<R>(
    call: &str,
    handle: *mut host_comm_t,
    look: impl FnOnce(&Comm, &Cartesian) -> Result<R>,
) -> Result<R> {
    with_topology(call, handle, |comm, topology| {
        let grid = topology.grid();
        look(
            comm,
            grid.ok_or_else(|| Error::argument(call, "the communicator's topology is no grid"))?,
        )
    })
}

/// The kind of a communicator's topology, HOST_TOPOLOGY_*, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_topology(comm: *mut host_comm_t) -> c_int {
    number("host_comm_topology", comm, |comm| {
        let kind = match comm.topology() {
            None => HOST_TOPOLOGY_NONE,
            Some(topology) if topology.grid().is_some() => HOST_TOPOLOGY_CART,
            Some(_) => HOST_TOPOLOGY_GRAPH,
        };
        kind as usize
    })
}

/// Dimensions of a communicator's grid, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_cartdim_get(comm: *mut host_comm_t) -> c_int {
    let mut found = 0;
    let rc = guarded(|| {
        found = with_grid("host_cartdim_get", comm, |_, grid| Ok(grid.dims().len()))?;
        Ok(())
    });
    if rc == 0 { found as c_int } else { rc }
}

/// The dimensions of a communicator's grid, whether each is periodic, and this rank's coordinates; as many of each as
/// host_cartdim_get says.
///
/// # Safety
/// Each list has `count` writable places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_cart_get(
    comm: *mut host_comm_t,
    count: usize,
    dims: *mut c_int,
    periods: *mut c_int,
    coordinates: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_cart_get";
        with_grid(call, comm, |comm, grid| {
            let place = grid.coordinates(comm.rank())?;
            // SAFETY: passed on.
            unsafe {
                fill(
                    call,
                    (dims, count),
                    grid.dims().iter().map(|dim| *dim as c_int),
                )?;
                fill(
                    call,
                    (periods, count),
                    grid.periods().iter().map(|one| c_int::from(*one)),
                )?;
                fill(
                    call,
                    (coordinates, count),
                    place.iter().map(|one| *one as c_int),
                )
            }
        })
    })
}

/// The rank at a place of a communicator's grid, or a negative code. Coordinates wrap around in periodic dimensions;
/// outside of others they are refused.
///
/// # Safety
/// `coordinates` has `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_cart_rank(
    comm: *mut host_comm_t,
    count: usize,
    coordinates: *const c_int,
) -> c_int {
    let mut found = 0;
    let rc = guarded(|| {
        let call = "host_cart_rank";
        found = with_grid(call, comm, |_, grid| {
            let dims = grid.dims().len();
            if count != dims {
                let text = format!("{count} coordinates in a grid of {dims} dimensions");
                return Err(Error::argument(call, &text));
            }
            // SAFETY: passed on.
            let place = unsafe { numbers(call, "coordinates", coordinates, count) }?;
            let place: Vec<i64> = place.iter().map(|one| i64::from(*one)).collect();
            Ok(grid.rank(&place)?)
        })?;
        Ok(())
    });
    if rc == 0 { found as c_int } else { rc }
}

/// The coordinates of a rank in a communicator's grid.
///
/// # Safety
/// `coordinates` has `count` writable places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_cart_coords(
    comm: *mut host_comm_t,
    rank: c_int,
    count: usize,
    coordinates: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_cart_coords";
        let rank = crate::base::codes::rank(call, rank)?;
        with_grid(call, comm, |_, grid| {
            let place = grid.coordinates(rank)?;
            // SAFETY: passed on.
            unsafe {
                fill(
                    call,
                    (coordinates, count),
                    place.iter().map(|one| *one as c_int),
                )
            }
        })
    })
}

fn or_null(rank: Option<usize>) -> c_int {
    rank.map_or(HOST_PROC_NULL, |rank| rank as c_int)
}

/// The rank that lies `displacement` steps before this one along a dimension of the communicator's grid, and the one so
/// many behind it; HOST_PROC_NULL beyond an open border.
///
/// # Safety
/// `source` and `destination` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_cart_shift(
    comm: *mut host_comm_t,
    dimension: usize,
    displacement: c_int,
    source: *mut c_int,
    destination: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_cart_shift";
        // SAFETY: passed on.
        let (source, destination) = unsafe { (place(call, source)?, place(call, destination)?) };
        let ends = with_grid(call, comm, |comm, grid| {
            Ok(grid.shift(comm.rank(), dimension, displacement.into())?)
        })?;
        (*source, *destination) = (or_null(ends.0), or_null(ends.1));
        Ok(())
    })
}

/// The number of neighbours in a communicator's topology that this rank receives from, and sends to.
///
/// # Safety
/// `sources` and `destinations` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_neighbors_count(
    comm: *mut host_comm_t,
    sources: *mut usize,
    destinations: *mut usize,
) -> c_int {
    guarded(|| {
        let call = "host_neighbors_count";
        // SAFETY: passed on.
        let (sources, destinations) =
            unsafe { (place(call, sources)?, place(call, destinations)?) };
        with_topology(call, comm, |_, topology| {
            *sources = topology.sources().len();
            *destinations = topology.destinations().len();
            Ok(())
        })
    })
}

/// The neighbours that this rank receives from, and sends to, as many as host_neighbors_count says. Of a grid those
/// of each dimension: the rank before this one and the one behind it, or HOST_PROC_NULL. Of a graph as they were named.
///
/// # Safety
/// The lists have so many writable places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_neighbors(
    comm: *mut host_comm_t,
    source_count: usize,
    sources: *mut c_int,
    destination_count: usize,
    destinations: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_neighbors";
        with_topology(call, comm, |_, topology| {
            let from = topology.sources().iter().map(|rank| or_null(*rank));
            let to = topology.destinations().iter().map(|rank| or_null(*rank));
            // SAFETY: passed on.
            unsafe {
                fill(call, (sources, source_count), from)?;
                fill(call, (destinations, destination_count), to)
            }
        })
    })
}
