//! The layer's hooks and its table.

use mca_params::{Declaration, Kind, Level, Value};

use super::state::{NodeState, Steps, state};
use super::{exchange, reduce};
use crate::coll::{Blocking, CollArgs, CollTable, Collective};
use crate::comm::{Comm, CommResult, HookError, Hooks, Layer};

/// Whether the layer is used.
pub static NODE_COLLECTIVES: Declaration = Declaration::new(
    "host_coll_node",
    Kind::Bool,
    Value::Bool(true),
)
.help(
    "Barrier, and broadcast, reduce and allreduce of up to 4 KiB, of ranks that share a node go through shared memory",
)
.level(Level::USER_BASIC);

/// Maximum ranks of a segment. With more ranks, each slot would hold too little.
pub const MOST: usize = 512;

/// Adds the layer to a process's hooks.
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
    // If the create hook did not change the table, there is nothing to restore.
    if comm.take_attribute(Layer::NODE).is_some() {
        comm.restore_collectives()?;
    }
    Ok(())
}

/// Runs a collective in shared memory. If the payload is too long for a slot, runs the entry of the
/// table below. All ranks make the same choice, because it depends only on values that are equal on
/// all ranks.
///
/// # Safety
/// The arguments were checked, and their buffers are valid.
unsafe fn through_slots(
    table: &CollTable,
    comm: &Comm,
    collective: Collective,
    args: &CollArgs<'_>,
    run: impl FnOnce(&mut Steps<'_>) -> CommResult<()>,
) -> CommResult<()> {
    if let Some(state) = state(comm)
        && let Some(mut steps) = Steps::begin(collective.name(), comm, &state, args.block())?
    {
        return run(&mut steps);
    }
    match table.previous() {
        // SAFETY: the caller guarantees the same conditions.
        Some(below) => unsafe { below.call(collective, comm, args) },
        None => Ok(()),
    }
}

/// The entries that the layer overrides. Other collectives stay unchanged from the table below.
const ENTRIES: [(Collective, Blocking); 4] = [
    (Collective::Barrier, barrier),
    (Collective::Bcast, bcast),
    (Collective::Reduce, reduce),
    (Collective::Allreduce, allreduce),
];

unsafe fn barrier(table: &CollTable, comm: &Comm, args: &CollArgs<'_>) -> CommResult<()> {
    // SAFETY: the caller guarantees the same conditions.
    unsafe { through_slots(table, comm, Collective::Barrier, args, exchange::barrier) }
}

unsafe fn bcast(table: &CollTable, comm: &Comm, args: &CollArgs<'_>) -> CommResult<()> {
    // SAFETY: the caller guarantees the same conditions.
    unsafe {
        through_slots(table, comm, Collective::Bcast, args, |steps| {
            exchange::bcast(steps, args)
        })
    }
}

unsafe fn reduce(table: &CollTable, comm: &Comm, args: &CollArgs<'_>) -> CommResult<()> {
    // SAFETY: the caller guarantees the same conditions.
    unsafe {
        through_slots(table, comm, Collective::Reduce, args, |steps| {
            let wants = steps.me == args.root;
            reduce::reduce(steps, args, wants)
        })
    }
}

unsafe fn allreduce(table: &CollTable, comm: &Comm, args: &CollArgs<'_>) -> CommResult<()> {
    // SAFETY: the caller guarantees the same conditions.
    unsafe {
        through_slots(table, comm, Collective::Allreduce, args, |steps| {
            reduce::reduce(steps, args, true)
        })
    }
}
