//! The layer's hooks and its table.

use mca_params::{Declaration, Kind, Level, Value};

use super::lines::{INLINE, SHORT};
use super::state::{NodeState, Steps, state};
use super::{exchange, reduce};
use crate::coll::{CollArgs, CollTable, Collective};
use crate::comm::{Comm, CommResult, HookError, Hooks, Layer};

/// Whether the layer is there at all.
pub static NODE_COLLECTIVES: Declaration =
    Declaration::new("host_coll_node", Kind::Bool, Value::Bool(true))
        .help("Collectives of communicators whose ranks share a node go through shared memory")
        .level(Level::USER_BASIC);

/// Ranks that a segment is made for: the slots of more would hold too little of each.
pub const MOST: usize = 512;

/// Puts the layer into a process's hooks.
pub(crate) fn register(hooks: &Hooks) {
    hooks.register(Layer::NODE, created, destroyed, ());
}

fn created(comm: &Comm, _: &()) -> Result<(), HookError> {
    if comm.size() < 2 || comm.size() > MOST || !comm.is_one_node() {
        return Ok(());
    }
    let Some(state) = NodeState::make(comm)? else {
        tracing::info!("no shared memory among the ranks of {comm:?}; its collectives go without");
        return Ok(());
    };
    comm.set_attribute(Layer::NODE, state);
    let mut functions = comm.collectives().functions();
    for (collective, entry) in ENTRIES {
        functions.set_blocking(collective, Some(entry));
    }
    comm.override_collectives(functions, None)?;
    Ok(())
}

fn destroyed(comm: &Comm, _: &()) -> Result<(), HookError> {
    // Where the hook above left the table alone there is nothing to restore.
    if comm.take_attribute(Layer::NODE).is_some() {
        comm.restore_collectives()?;
    }
    Ok(())
}

/// Runs a collective in shared memory, or, where there are no slots for it, as the table below has
/// it; the choice depends on what all ranks have in common.
///
/// # Safety
/// The arguments were checked and their buffers are good.
unsafe fn through_slots(
    table: &CollTable,
    comm: &Comm,
    collective: Collective,
    args: &CollArgs<'_>,
    (bytes, least): (usize, usize),
    run: impl FnOnce(&mut Steps<'_>) -> CommResult<()>,
) -> CommResult<()> {
    if let Some(state) = state(comm)
        && let Some(mut steps) = Steps::begin(collective.name(), comm, &state, bytes, least)?
    {
        return run(&mut steps);
    }
    match table.previous() {
        // SAFETY: the caller's promise is passed on.
        Some(below) => unsafe { below.call(collective, comm, args) },
        None => Ok(()),
    }
}

macro_rules! entries {
    ($($name:ident, $collective:ident, |$args:ident, $size:ident| $bytes:expr, $steps:ident => $run:expr;)*) => {
        $(
            unsafe fn $name(
                table: &CollTable,
                comm: &Comm,
                args: &CollArgs<'_>,
            ) -> CommResult<()> {
                let ($args, $size) = (args, comm.size());
                let _ = $size;
                let sizes: (usize, usize) = $bytes;
                // SAFETY: the caller vouches for the arguments, here and below.
                unsafe {
                    through_slots(table, comm, Collective::$collective, args, sizes, |$steps| {
                        $run
                    })
                }
            }
        )*

        const ENTRIES: [(Collective, crate::coll::Blocking); 11] = [
            $((Collective::$collective, $name),)*
        ];
    };
}

/// Bytes of a slot for a reduction, and the least that makes sense: an element.
fn whole(args: &CollArgs<'_>) -> (usize, usize) {
    (args.block(), args.datatype.size().max(8))
}

/// Bytes of a slot of which each rank has an equal part, and the least that makes sense.
fn parts(block: usize, size: usize) -> (usize, usize) {
    let padded = block.next_multiple_of(8) * size;
    let bytes = if padded <= INLINE { INLINE + 1 } else { padded };
    (bytes.min(usize::MAX / 2), 8 * size)
}

entries! {
    barrier, Barrier, |_args, size| (0, 0), steps => exchange::barrier(steps);
    bcast, Bcast, |args, size| (args.block(), 1), steps => exchange::bcast(steps, args);
    gather, Gather, |args, size| (args.block(), 1),
        steps => exchange::gather(steps, args, Some(args.root));
    allgather, Allgather, |args, size| (args.block(), 1),
        steps => exchange::gather(steps, args, None);
    scatter, Scatter, |args, size| parts(args.block(), size), steps => exchange::scatter(steps, args);
    alltoall, Alltoall, |args, size| parts(args.block(), size),
        steps => exchange::alltoall(steps, args);
    reduce, Reduce, |args, size| whole(args),
        steps => reduce::reduce_shared(steps, Collective::Reduce, args);
    allreduce, Allreduce, |args, size| whole(args), steps => {
        if args.block() <= SHORT {
            reduce::allreduce_short(steps, args)
        } else {
            reduce::reduce_shared(steps, Collective::Allreduce, args)
        }
    };
    reduce_scatter, ReduceScatter, |args, size| {
        let longest = (0..size).map(|rank| args.count_of(rank)).max().unwrap_or(0);
        let (bytes, least) = parts(longest * args.datatype.size(), size);
        (bytes, least.max(args.datatype.size() * size))
    }, steps => reduce::reduce_scatter(steps, args);
    scan, Scan, |args, size| whole(args), steps => reduce::scan(steps, args, true);
    exscan, Exscan, |args, size| whole(args), steps => reduce::scan(steps, args, false);
}
