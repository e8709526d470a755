//! A layer for communicators that span several nodes, some of them with several ranks: data crosses
//! between nodes once per node and not once per rank.
//!
//! The lowest rank of each node is its leader. A collective runs in up to three stages, each a
//! collective of a communicator that this layer makes: among the ranks of a node (which the
//! node layer serves through shared memory), among the leaders, and within the nodes again.
//!
//! - `levels`: the nodes of a communicator, and the communicators of both stages.
//! - `stages`: what each collective does in its stages.
//!
//! Nonblocking entries, and collectives for which nothing is gained, stay those of the table below.

mod levels;
mod stages;

use mca_params::{Declaration, Kind, Level, Value};

use self::levels::Levels;
use crate::coll::{Blocking, CollArgs, CollTable, Collective};
use crate::comm::{Comm, CommError, CommResult, HookError, Hooks, Layer};

/// Whether the layer is there at all.
pub static HIERARCHY: Declaration =
    Declaration::new("host_coll_hierarchy", Kind::Bool, Value::Bool(true))
        .help(
            "Collectives of communicators over several nodes combine and distribute within each node, and cross between nodes \
             once per node",
        )
        .level(Level::USER_BASIC);

/// Puts the layer into a process's hooks.
pub(crate) fn register(hooks: &Hooks) {
    hooks.register(Layer::HIERARCHY, created, destroyed, ());
}

/// Looks at the nodes only. The communicators of the stages are made by the first collective that
/// uses them, so that one without such calls costs nothing.
fn created(comm: &Comm, _: &()) -> Result<(), HookError> {
    let Some(levels) = Levels::of(comm)? else {
        return Ok(());
    };
    comm.set_attribute(Layer::HIERARCHY, std::sync::Arc::new(levels));
    let mut functions = comm.collectives().functions();
    for (collective, entry) in ENTRIES {
        functions.set_blocking(collective, Some(entry));
    }
    comm.override_collectives(functions, None)?;
    Ok(())
}

fn destroyed(comm: &Comm, _: &()) -> Result<(), HookError> {
    let levels = comm.attribute::<Levels>(Layer::HIERARCHY);
    if comm.take_attribute(Layer::HIERARCHY).is_some() {
        comm.restore_collectives()?;
    }
    if let Some(levels) = levels {
        levels.end()?;
    }
    Ok(())
}

/// Runs a collective in stages, or as the table below has it; the choice depends on what all ranks
/// have in common.
///
/// # Safety
/// As for [`Blocking`].
unsafe fn run(
    table: &CollTable,
    comm: &Comm,
    collective: Collective,
    args: &CollArgs<'_>,
) -> CommResult<()> {
    let levels = comm.attribute::<Levels>(Layer::HIERARCHY);
    if let Some(levels) = levels.filter(|levels| levels.serves(collective, args)) {
        let stages = levels.stages(comm)?;
        // SAFETY: the caller vouches for the arguments.
        let done = unsafe { stages::run(&levels, stages, collective, args) };
        return done.inspect_err(|error| give_up(comm, collective, error));
    }
    match table.previous() {
        // SAFETY: the caller's promise is passed on.
        Some(below) => unsafe { below.call(collective, comm, args) },
        None => Ok(()),
    }
}

/// A stage failed here, and the ranks of the next one wait for this rank, of whose failure they know nothing: what failed may
/// be another node's, or this rank's alone.
#[cold]
fn give_up(comm: &Comm, collective: Collective, error: &CommError) {
    if let Ok(engine) = comm.any_engine(collective.name()) {
        engine.break_off(comm.scope(), &error.to_string());
    }
}

macro_rules! entries {
    ($($name:ident: $collective:ident),*) => {
        $(
            unsafe fn $name(table: &CollTable, comm: &Comm, args: &CollArgs<'_>) -> CommResult<()> {
                // SAFETY: the caller vouches for the arguments.
                unsafe { run(table, comm, Collective::$collective, args) }
            }
        )*

        const ENTRIES: [(Collective, Blocking); 5] = [$((Collective::$collective, $name)),*];
    };
}

entries!(barrier: Barrier, bcast: Bcast, reduce: Reduce, allreduce: Allreduce, allgather: Allgather);
