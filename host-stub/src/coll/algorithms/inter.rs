//! Collectives of intercommunicators: what one group gives goes to the other. Reductions, and what all ranks of a group
//! get, go through the lowest rank of the group, which is its leader; within a group the algorithms are those of
//! [`choose`](super::choose). (The algorithms of MPICH; Silva, Silva, "Implementing MPI-2 Extended Collective
//! Operations", 1999.)
//!
//! Outside of [`Plan::among`] a plan numbers the ranks of both groups.

use super::choose::{BLOCK_LONG, broadcast, reduced};
use super::{Reduction, at, at_mut, barrier, gather, scatter};
use crate::coll::{CollArgs, Collective};
use crate::comm::Sides;
use crate::comm::table::{Role, View};
use crate::schedule::{Extents, Plan};

/// Adds the steps of one rank. The arguments were checked.
pub(super) fn build(
    plan: &mut Plan,
    collective: Collective,
    args: &CollArgs<'_>,
    (view, sides): (&View<'_>, &Sides),
) {
    let over = Over {
        args,
        view,
        sides,
        leads: view.rank == 0,
    };
    match collective {
        Collective::Barrier => barrier::dissemination(plan),
        Collective::Bcast => over.bcast(plan),
        Collective::Reduce => over.reduce(plan),
        Collective::Allreduce => over.allreduce(plan),
        Collective::Gather | Collective::Gatherv => over.gather(plan, collective),
        Collective::Scatter | Collective::Scatterv => over.scatter(plan, collective),
        Collective::Allgather | Collective::Allgatherv => over.allgather(plan, collective),
        Collective::Alltoall | Collective::Alltoallv | Collective::Alltoallw => {
            over.alltoall(plan, collective);
        }
        Collective::ReduceScatter => over.reduce_scatter(plan),
        // Refused.
        _ => {}
    }
}

/// One collective.
struct Over<'a> {
    args: &'a CollArgs<'a>,
    view: &'a View<'a>,
    sides: &'a Sides,
    /// Whether this rank is the leader of its group.
    leads: bool,
}

impl Over<'_> {
    fn other_leader(&self) -> usize {
        self.sides.remote.start
    }

    /// The root, at a rank of the other group.
    fn root(&self) -> usize {
        self.sides.remote.start + self.args.root
    }

    fn what(&self, count: usize) -> Reduction {
        Reduction {
            op: self.args.op,
            datatype: self.args.datatype,
            count,
        }
    }

    /// From the leader to its group.
    fn spread(&self, plan: &mut Plan, buffer: *mut u8, len: usize) {
        plan.among(self.sides.local.clone(), |plan| {
            broadcast(plan, buffer, len, 0)
        });
    }

    /// The operands of the group, of so many elements, combined at its leader in the memory that is returned.
    fn combined(&self, plan: &mut Plan, count: usize) -> *mut u8 {
        let what = self.what(count);
        let held = plan.scratch(what.bytes());
        plan.copy(self.args.send, held, what.bytes());
        plan.among(self.sides.local.clone(), |plan| {
            reduced(plan, &what, held, 0)
        });
        held
    }

    /// To the leader of the other group, and down a tree there.
    fn bcast(&self, plan: &mut Plan) {
        let (buffer, block) = (self.args.recv, self.args.block());
        match Role::of(self.args.root) {
            Role::Idle => {}
            Role::Root => plan.send(self.other_leader(), buffer, block),
            Role::Other => {
                if self.leads {
                    plan.receive(self.root(), buffer, block);
                    plan.round();
                }
                self.spread(plan, buffer, block);
            }
        }
    }

    /// To the leader, and from it to the root.
    fn reduce(&self, plan: &mut Plan) {
        let block = self.args.block();
        match Role::of(self.args.root) {
            Role::Idle => {}
            Role::Root => plan.receive(self.other_leader(), self.args.recv, block),
            Role::Other => {
                let held = self.combined(plan, self.args.count);
                if self.leads {
                    plan.send(self.root(), held, block);
                }
            }
        }
    }

    /// A reduce in each group, whose results the leaders swap and spread.
    fn allreduce(&self, plan: &mut Plan) {
        let (recv, block) = (self.args.recv, self.args.block());
        let held = self.combined(plan, self.args.count);
        self.swap(plan, held, recv, block);
        self.spread(plan, recv, block);
    }

    /// Between the leaders.
    fn swap(&self, plan: &mut Plan, given: *const u8, taken: *mut u8, len: usize) {
        if self.leads {
            plan.send(self.other_leader(), given, len);
            plan.receive(self.other_leader(), taken, len);
            plan.round();
        }
    }

    /// Short blocks through the leader, others straight to the root.
    fn gather(&self, plan: &mut Plan, collective: Collective) {
        let (args, block) = (self.args, self.args.block());
        let short = collective == Collective::Gather && block < BLOCK_LONG;
        let (local, remote) = (self.sides.local.clone(), self.sides.remote.clone());
        match Role::of(args.root) {
            Role::Idle => {}
            Role::Root if short => {
                plan.receive(self.other_leader(), args.recv, block * remote.len());
            }
            Role::Root => {
                let blocks = args.taken_blocks(collective, self.view);
                self.take(plan, args.recv, &blocks);
            }
            Role::Other if short => {
                let all = plan.scratch(block * local.len());
                let bytes = block * local.len();
                plan.among(local, |plan| {
                    gather::binomial(plan, args.send, all, block, 0)
                });
                if self.leads {
                    plan.send(self.root(), all, bytes);
                }
            }
            Role::Other => plan.send(self.root(), args.send, block),
        }
    }

    /// A block of each rank of the other group.
    fn take(&self, plan: &mut Plan, into: *mut u8, blocks: &Extents) {
        for (index, rank) in self.sides.remote.clone().enumerate() {
            let block = blocks.of(index);
            plan.receive(rank, at_mut(into, block.offset), block.len);
        }
    }

    /// Short blocks through the leader, others straight from the root.
    fn scatter(&self, plan: &mut Plan, collective: Collective) {
        let (args, block) = (self.args, self.args.block());
        let short = collective == Collective::Scatter && block < BLOCK_LONG;
        let (local, remote) = (self.sides.local.clone(), self.sides.remote.clone());
        match Role::of(args.root) {
            Role::Idle => {}
            Role::Root if short => {
                plan.send(self.other_leader(), args.send, block * remote.len());
            }
            Role::Root => {
                let blocks = args.given_blocks(collective, self.view);
                for (index, rank) in remote.enumerate() {
                    let block = blocks.of(index);
                    plan.send(rank, at(args.send, block.offset), block.len);
                }
            }
            Role::Other if short => {
                let all = plan.scratch(block * local.len());
                if self.leads {
                    plan.receive(self.root(), all, block * local.len());
                    plan.round();
                }
                plan.among(local, |plan| {
                    scatter::binomial(plan, all, args.recv, block, 0)
                });
            }
            Role::Other => plan.receive(self.root(), args.recv, block),
        }
    }

    /// Straight to the leader of the other group, which knows the sizes and spreads all.
    fn allgather(&self, plan: &mut Plan, collective: Collective) {
        let args = self.args;
        plan.send(self.other_leader(), args.send, args.block());
        let ranks = self.sides.remote.len();
        let blocks = args.taken_blocks(collective, self.view);
        let len = blocks.bytes(0, ranks, ranks);
        let all = match blocks {
            Extents::Even(_) => args.recv,
            Extents::Listed(_) => plan.scratch(len),
        };
        if self.leads {
            self.take(plan, all, &blocks.packed(ranks));
            plan.round();
        }
        self.spread(plan, all, len);
        if let Extents::Listed(_) = blocks {
            blocks.unpack(plan, all, (0, ranks), args.recv);
        }
    }

    /// Pair by pair, in as many rounds as the larger group has ranks.
    fn alltoall(&self, plan: &mut Plan, collective: Collective) {
        let args = self.args;
        let given = args.given_blocks(collective, self.view);
        let taken = args.taken_blocks(collective, self.view);
        let (mine, theirs) = (self.view.size, self.sides.remote.len());
        let (rank, rounds) = (self.view.rank, mine.max(theirs));
        for step in 0..rounds {
            let (to, from) = ((rank + step) % rounds, (rank + rounds - step) % rounds);
            if to < theirs {
                let block = given.of(to);
                let start = at(args.send, block.offset);
                plan.send(self.sides.remote.start + to, start, block.len);
            }
            if from < theirs {
                let block = taken.of(from);
                let start = at_mut(args.recv, block.offset);
                plan.receive(self.sides.remote.start + from, start, block.len);
            }
            plan.round();
        }
    }

    /// A reduce in each group, whose results the leaders swap and scatter.
    fn reduce_scatter(&self, plan: &mut Plan) {
        let (args, size) = (self.args, self.view.size);
        let held = self.combined(plan, args.total(size));
        let element = args.datatype.size();
        let counts = Extents::Listed(
            (0..size)
                .scan(0, |offset, rank| {
                    let len = args.count_of(rank) * element;
                    *offset += len;
                    Some(crate::schedule::Extent {
                        offset: *offset - len,
                        len,
                    })
                })
                .collect(),
        );
        let all = plan.scratch(args.total(size) * element);
        self.swap(plan, held, all, args.total(size) * element);
        let mine = (args.recv, counts.of(self.view.rank).len);
        plan.among(self.sides.local.clone(), |plan| {
            scatter::linear(plan, all, &counts, mine, 0);
        });
    }
}
