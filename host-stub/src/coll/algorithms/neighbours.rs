//! Neighbourhood collectives.

use super::{at, at_mut};
use crate::comm::Topology;
use crate::schedule::{Extents, Plan};

/// Straight to each destination and from each source, all in one round (Hoefler, Träff, "Sparse Collective
/// Operations for MPI", 2009). Blocks between the same two ranks are received in the order in which they are
/// sent.
pub(super) fn direct(
    plan: &mut Plan,
    topology: &Topology,
    (from, given): (*const u8, &Extents),
    (into, taken): (*mut u8, &Extents),
) {
    let rank = plan.rank();
    for (to, source) in topology.own_edges(rank) {
        let (block, place) = (given.of(to), taken.of(source));
        plan.copy(
            at(from, block.offset),
            at_mut(into, place.offset),
            block.len,
        );
    }
    for (index, source) in topology.arrivals().filter(|(_, source)| *source != rank) {
        let block = taken.of(index);
        plan.receive(source, at_mut(into, block.offset), block.len);
    }
    for (index, to) in topology.departures().filter(|(_, to)| *to != rank) {
        let block = given.of(index);
        plan.send(to, at(from, block.offset), block.len);
    }
}
