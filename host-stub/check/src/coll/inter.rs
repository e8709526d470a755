//! Collectives of intercommunicators, against a model that knows both groups. Groups of every size are tried: one rank
//! and all others, interleaved ones, and random ones that leave ranks out.

mod groups;
mod made;

use groups::{Groups, Pairing};

use super::super::case::{Case, Context, Failure, Outcome};
use super::super::random::Random;
use super::lists::{Lists, end, is_listed, lay};
use super::ops::{self, TestOp};
use super::run::{Contents, Form, Running};
use host_stub::coll::{CollArgs, Collective, ElementType, PROC_NULL, ROOT};

/// Exchanges of each form over each intercommunicator.
const ROUNDS: usize = 8;

/// The collectives that there are between groups.
fn between_groups() -> impl Iterator<Item = Collective> {
    super::among_all().filter(|one| !matches!(one, Collective::Scan | Collective::Exscan))
}

/// The tests of these files.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for collective in between_groups() {
        for form in Form::ALL {
            let name = format!("coll/inter/{}{}/types", form.prefix(), collective.name());
            cases.push(Case::new(name, move |context| {
                let mut random = context.common();
                for groups in Groups::several(context.size, &mut random) {
                    let stream = random.fork(1);
                    random.next();
                    if let Some(pairing) = groups.connect(context)? {
                        rounds(context, &pairing, (collective, form), stream)?;
                        pairing.free()?;
                    }
                }
                Ok(())
            }));
        }
    }
    cases.push(Case::new("coll/inter/several", several));
    cases.extend(made::cases());
    cases
}

/// One collective between two groups.
#[derive(Clone, Debug)]
struct Exchange {
    collective: Collective,
    count: usize,
    datatype: ElementType,
    op: TestOp,
    uneven: bool,
    /// The group of the root, and its rank there.
    root: (usize, usize),
    sizes: [usize; 2],
}

impl Exchange {
    fn any(collective: Collective, sizes: [usize; 2], random: &mut Random) -> Exchange {
        let datatype = random.pick(&ops::types());
        let side = random.below(2);
        let long = (collective == Collective::Bcast).then_some((1 << 20) / datatype.size() + 3);
        Exchange {
            collective,
            count: random.pick(&[0, 1, 3, 40, 110, 700, 3000, long.unwrap_or(5000)]),
            datatype,
            op: random.pick(&ops::operations(collective, datatype)),
            uneven: random.below(2) == 1,
            root: (side, random.below(sizes[side])),
            sizes,
        }
    }

    /// Elements of a reduce_scatter: each group can divide them.
    fn total(&self) -> usize {
        self.count.min(700) * self.sizes[0] * self.sizes[1]
    }

    /// Elements that a rank gets of that.
    fn share(&self, side: usize, rank: usize) -> usize {
        let even = self.total() / self.sizes[side];
        let has_partner = rank ^ 1 < self.sizes[side];
        match (self.uneven && has_partner, rank % 2) {
            (false, _) => even,
            (true, 0) => even + even / 3,
            (true, _) => even - even / 3,
        }
    }

    /// What goes from a rank of a group to one of the other; of an allgather to any.
    fn pair(&self, side: usize, from: usize, to: usize) -> (usize, ElementType) {
        let to = match self.collective {
            Collective::Allgather | Collective::Allgatherv => 0,
            _ => to,
        };
        let salt = side * 7 + from * 5 + to * 3;
        let count = match self.uneven && is_listed(self.collective) {
            true => self.count * (salt % 4) / 2,
            false => self.count,
        };
        let types = ops::types();
        match self.collective {
            Collective::Alltoallw => (count, types[salt % types.len()]),
            _ => (count, self.datatype),
        }
    }

    /// The blocks of a rank's send buffer; none where it has no such buffer.
    fn given(&self, side: usize, rank: usize) -> Vec<(usize, ElementType)> {
        let (root_here, is_root) = (self.root.0 == side, self.root == (side, rank));
        let to_each = || {
            let others = 0..self.sizes[1 - side];
            others.map(|to| self.pair(side, rank, to)).collect()
        };
        match self.collective {
            Collective::Reduce if !root_here => vec![(self.count, self.datatype)],
            Collective::Gather | Collective::Gatherv if !root_here => {
                vec![self.pair(side, rank, self.root.1)]
            }
            Collective::Scatter | Collective::Scatterv if is_root => to_each(),
            Collective::Allreduce => vec![(self.count, self.datatype)],
            Collective::ReduceScatter => vec![(self.total(), self.datatype)],
            Collective::Allgather | Collective::Allgatherv => vec![self.pair(side, rank, 0)],
            Collective::Alltoall | Collective::Alltoallv | Collective::Alltoallw => to_each(),
            _ => Vec::new(),
        }
    }

    /// The blocks of a rank's receive buffer, likewise.
    fn taken(&self, side: usize, rank: usize) -> Vec<(usize, ElementType)> {
        let (root_here, is_root) = (self.root.0 == side, self.root == (side, rank));
        let of_each = || {
            let others = 0..self.sizes[1 - side];
            others.map(|from| self.pair(1 - side, from, rank)).collect()
        };
        match self.collective {
            Collective::Bcast if is_root || !root_here => vec![(self.count, self.datatype)],
            Collective::Reduce if is_root => vec![(self.count, self.datatype)],
            Collective::Gather | Collective::Gatherv if is_root => of_each(),
            Collective::Scatter | Collective::Scatterv if !root_here => {
                vec![self.pair(self.root.0, self.root.1, rank)]
            }
            Collective::Allreduce => vec![(self.count, self.datatype)],
            Collective::ReduceScatter => vec![(self.share(side, rank), self.datatype)],
            Collective::Allgather
            | Collective::Allgatherv
            | Collective::Alltoall
            | Collective::Alltoallv
            | Collective::Alltoallw => of_each(),
            _ => Vec::new(),
        }
    }

    /// What a rank gives, block after block; the root of a broadcast what it holds.
    fn sent(&self, side: usize, rank: usize, stream: &Random) -> Vec<u8> {
        let mut random = stream.fork((side << 20 | rank) as u64);
        let blocks = match self.collective {
            Collective::Bcast => self.taken(side, rank),
            _ => self.given(side, rank),
        };
        let len = blocks
            .iter()
            .map(|(count, datatype)| count * datatype.size())
            .sum();
        match self.collective.reduces() {
            true => ops::operand(self.datatype, &mut random, len),
            false => random.bytes(len),
        }
    }

    /// What a rank gets, block after block.
    fn result(&self, side: usize, rank: usize, stream: &Random) -> Vec<u8> {
        let other = 1 - side;
        if self.collective.reduces() {
            let mut sum = self.sent(other, 0, stream);
            for rank in 1..self.sizes[other] {
                let operand = self.sent(other, rank, stream);
                self.op.apply(self.datatype, &mut sum, &operand);
            }
            if self.collective == Collective::ReduceScatter {
                let size = self.datatype.size();
                let before: usize = (0..rank).map(|rank| self.share(side, rank)).sum();
                return sum[before * size..][..self.share(side, rank) * size].to_vec();
            }
            return sum;
        }
        // A block of each rank of the other group, or of the root.
        let from = match self.collective {
            Collective::Bcast => return self.sent(self.root.0, self.root.1, stream),
            Collective::Scatter | Collective::Scatterv => self.root.1..self.root.1 + 1,
            _ => 0..self.sizes[other],
        };
        let mut result = Vec::new();
        for from in from {
            let sent = self.sent(other, from, stream);
            let bytes = |to: usize| {
                let (count, datatype) = self.pair(other, from, to);
                count * datatype.size()
            };
            let before = match self.given(other, from).len() {
                1 => 0,
                _ => (0..rank).map(bytes).sum(),
            };
            result.extend_from_slice(&sent[before..][..bytes(rank)]);
        }
        result
    }

    /// The lists of a buffer with these blocks.
    fn lists(&self, blocks: &[(usize, ElementType)], listed: bool) -> Lists {
        let same = (self.collective != Collective::Alltoallw).then_some(self.datatype);
        match listed {
            true => Lists::spread(blocks, same, self.uneven),
            false => Lists::unsaid(blocks),
        }
    }

    /// Calls it.
    fn start(
        &self,
        context: &Context<'_>,
        pairing: &Pairing,
        form: Form,
        stream: &Random,
    ) -> Result<Running, Failure> {
        let (side, rank) = (pairing.side, pairing.comm.rank());
        let is_root = self.root == (side, rank);
        let (given, taken) = (self.given(side, rank), self.taken(side, rank));
        let all_listed = matches!(
            self.collective,
            Collective::Alltoallv | Collective::Alltoallw
        );
        let sends = all_listed || (self.collective == Collective::Scatterv && is_root);
        let receives = all_listed
            || self.collective == Collective::Allgatherv
            || (self.collective == Collective::Gatherv && is_root);
        let (to, from) = (self.lists(&given, sends), self.lists(&taken, receives));
        let sent = (!given.is_empty()).then(|| {
            let mut buffer = vec![0x44; end(&to.places)];
            lay(&mut buffer, &self.sent(side, rank, stream), &to.places);
            buffer
        });
        let mut initial = vec![0x33; end(&from.places)];
        if self.collective == Collective::Bcast && is_root {
            initial = self.sent(side, rank, stream);
        }
        let mut wanted = initial.clone();
        if !taken.is_empty() {
            lay(&mut wanted, &self.result(side, rank, stream), &from.places);
        }
        let shares: Vec<usize> = (0..self.sizes[side]).map(|r| self.share(side, r)).collect();
        let scattered = self.collective == Collective::ReduceScatter;
        let count = match self.collective {
            Collective::Gatherv | Collective::Allgatherv => given.first().map_or(0, |one| one.0),
            Collective::Scatterv => taken.first().map_or(0, |one| one.0),
            Collective::ReduceScatter => self.total() / self.sizes[side],
            _ => self.count,
        };
        let args = CollArgs {
            count,
            counts: if scattered && self.uneven {
                &shares
            } else {
                &[]
            },
            datatype: self.datatype,
            op: self.op.made(),
            root: match (self.root.0 == side, is_root) {
                (true, true) => ROOT,
                (true, false) => PROC_NULL,
                (false, _) => self.root.1,
            },
            send_blocks: to.blocks(),
            recv_blocks: from.blocks(),
            ..CollArgs::default()
        };
        let contents = Contents {
            sent,
            initial,
            wanted,
            keeps_own: taken.is_empty(),
        };
        let what = format!("{self:?} at rank {rank} of group {side}");
        let devices = context.on_device.then(|| context.job.devices());
        let what = (self.collective, form, what);
        Running::launch(devices, &pairing.comm, what, stream, contents, args)
    }
}

fn rounds(
    context: &Context<'_>,
    pairing: &Pairing,
    (collective, form): (Collective, Form),
    mut random: Random,
) -> Outcome {
    for round in 0..ROUNDS {
        let exchange = Exchange::any(collective, pairing.sizes(), &mut random);
        let stream = random.fork(round as u64);
        exchange.start(context, pairing, form, &stream)?.finish()?;
    }
    Ok(())
}

/// Several at once, of all forms, ended in another order at each rank.
fn several(context: &Context<'_>) -> Outcome {
    let (mut common, mut own) = (context.common(), context.of_rank(context.rank));
    let all: Vec<Collective> = between_groups().collect();
    for groups in Groups::several(context.size, &mut common) {
        let mut random = common.fork(2);
        common.next();
        let Some(pairing) = groups.connect(context)? else {
            continue;
        };
        for _ in 0..ROUNDS {
            let mut running = Vec::new();
            for index in 0..8 {
                let exchange = Exchange::any(random.pick(&all), pairing.sizes(), &mut random);
                let form = random.pick(&Form::ALL);
                let stream = random.fork(index);
                running.push(exchange.start(context, &pairing, form, &stream)?);
            }
            own.shuffle(&mut running);
            for one in running {
                one.finish()?;
            }
        }
        pairing.free()?;
    }
    Ok(())
}
