//! Collectives among neighbours, over grids and graphs, against a model that knows both ends of every edge.

mod made;

use super::super::case::{Case, Context, Failure, Outcome};
use super::super::random::Random;
use super::lists::{Lists, end, lay};
use super::ops::types;
use super::run::{Contents, Form, Running};
use host_stub::coll::{CollArgs, Collective, ElementType};
use host_stub::comm::{Comm, CommError, balanced};

/// Exchanges of each form over each communicator.
const ROUNDS: usize = 12;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for collective in Collective::ALL.into_iter().filter(|c| c.is_neighbor()) {
        for form in Form::ALL {
            let name = format!("coll/{}{}", form.prefix(), collective.name());
            cases.push(Case::new(format!("{name}/grids"), move |context| {
                over_grids(context, collective, form)
            }));
            cases.push(Case::new(format!("{name}/graphs"), move |context| {
                over_graphs(context, collective, form)
            }));
        }
    }
    cases.push(Case::new("coll/neighbours/several", several));
    cases.extend(made::cases());
    cases
}

/// For each rank and each block that it receives the rank that sends it, and which of its blocks that is; and
/// the ranks that each sends to.
struct Edges {
    into: Vec<Vec<Option<(usize, usize)>>>,
    out: Vec<Vec<Option<usize>>>,
}

impl Edges {
    /// Those of a grid: what is sent towards a higher coordinate comes from the lower one.
    fn of_grid(dims: &[usize], periods: &[bool]) -> Edges {
        let size: usize = dims.iter().product();
        let neighbour = |rank: usize, dimension: usize, step: isize| {
            let stride: usize = dims[dimension + 1..].iter().product();
            let (dim, here) = (dims[dimension], rank / stride % dims[dimension]);
            let there = here as isize + step;
            if !periods[dimension] && !(0..dim as isize).contains(&there) {
                return None;
            }
            let there = there.rem_euclid(dim as isize) as usize;
            Some(rank - here * stride + there * stride)
        };
        let both = |rank: usize| {
            let steps = (0..2 * dims.len()).map(move |block| (block / 2, block % 2));
            steps.map(move |(dimension, up)| {
                let step = if up == 1 { 1 } else { -1 };
                let from = neighbour(rank, dimension, step)?;
                Some((from, 2 * dimension + 1 - up))
            })
        };
        Edges {
            into: (0..size).map(|rank| both(rank).collect()).collect(),
            out: (0..size)
                .map(|rank| both(rank).map(|end| Some(end?.0)).collect())
                .collect(),
        }
    }

    /// Random ones, some of them twice, some from a rank to itself.
    fn random(size: usize, random: &mut Random) -> Edges {
        let count = random.below(3 * size + 1);
        let edges: Vec<(usize, usize)> = (0..count)
            .map(|_| (random.below(size), random.below(size)))
            .collect();
        let mut out = vec![Vec::new(); size];
        for (from, to) in &edges {
            out[*from].push(Some(*to));
        }
        let mut into = vec![Vec::new(); size];
        for (to, ends) in into.iter_mut().enumerate() {
            let mut sources: Vec<usize> = edges.iter().filter(|e| e.1 == to).map(|e| e.0).collect();
            random.shuffle(&mut sources);
            for from in sources {
                // The blocks of one rank arrive in the order in which it names this one.
                let nth = ends
                    .iter()
                    .flatten()
                    .filter(|end: &&(usize, usize)| end.0 == from)
                    .count();
                let mut blocks = (0..out[from].len()).filter(|block| out[from][*block] == Some(to));
                ends.push(blocks.nth(nth).map(|block| (from, block)));
            }
        }
        Edges { into, out }
    }
}

/// One exchange among neighbours.
#[derive(Clone, Debug)]
struct Exchange {
    collective: Collective,
    count: usize,
    datatype: ElementType,
    uneven: bool,
}

impl Exchange {
    fn any(collective: Collective, random: &mut Random) -> Exchange {
        Exchange {
            collective,
            count: random.pick(&[0, 1, 3, 40, 110, 700, 5000]),
            datatype: random.pick(&types()),
            uneven: random.below(2) == 1,
        }
    }

    /// Whether all neighbours get the same.
    fn is_allgather(&self) -> bool {
        matches!(
            self.collective,
            Collective::NeighborAllgather | Collective::NeighborAllgatherv
        )
    }

    fn is_listed(&self) -> bool {
        !matches!(
            self.collective,
            Collective::NeighborAllgather | Collective::NeighborAlltoall
        )
    }

    /// The elements and the type of a block of a rank's send buffer.
    fn block(&self, from: usize, block: usize) -> (usize, ElementType) {
        let salt = from * 5 + if self.is_allgather() { 0 } else { block * 3 };
        let count = match self.uneven && self.is_listed() {
            true => self.count * (salt % 4) / 2,
            false => self.count,
        };
        let types = types();
        match self.collective {
            Collective::NeighborAlltoallw => (count, types[salt % types.len()]),
            _ => (count, self.datatype),
        }
    }

    fn bytes(&self, from: usize, block: usize) -> usize {
        let (count, datatype) = self.block(from, block);
        count * datatype.size()
    }

    /// What a rank sends, block after block.
    fn sent(&self, edges: &Edges, rank: usize, stream: &Random) -> Vec<u8> {
        let blocks = match self.is_allgather() {
            true => 1,
            false => edges.out[rank].len(),
        };
        let bytes = (0..blocks).map(|block| self.bytes(rank, block));
        stream.fork(rank as u64).bytes(bytes.sum())
    }

    /// One block of that.
    fn part<'a>(&self, sent: &'a [u8], from: usize, block: usize) -> &'a [u8] {
        let block = if self.is_allgather() { 0 } else { block };
        let start: usize = (0..block).map(|before| self.bytes(from, before)).sum();
        &sent[start..][..self.bytes(from, block)]
    }

    fn lists(&self, blocks: impl Iterator<Item = (usize, ElementType)>) -> Lists {
        let blocks: Vec<_> = blocks.collect();
        let same = (self.collective != Collective::NeighborAlltoallw).then_some(self.datatype);
        match self.is_listed() {
            true => Lists::spread(&blocks, same, self.uneven),
            false => Lists::unsaid(&blocks),
        }
    }

    /// The lists of a rank's receive buffer, and what it holds before and after.
    fn received(&self, edges: &Edges, rank: usize, stream: &Random) -> (Lists, Vec<u8>, Vec<u8>) {
        let ends = edges.into[rank].iter();
        let mut taken = self.lists(ends.clone().map(|end| match end {
            Some((from, block)) => self.block(*from, *block),
            None => (self.count, self.datatype),
        }));
        let initial = vec![0x33; end(&taken.places)];
        let mut wanted = initial.clone();
        for (index, end) in ends.enumerate() {
            match end {
                Some((from, block)) => {
                    let sent = self.sent(edges, *from, stream);
                    let place = vec![taken.places[index]];
                    lay(&mut wanted, self.part(&sent, *from, *block), &place);
                }
                None if self.is_listed() => taken.ignore(index),
                None => {}
            }
        }
        (taken, initial, wanted)
    }

    /// Calls it.
    fn start(
        &self,
        context: &Context<'_>,
        (comm, edges): (&Comm, &Edges),
        form: Form,
        stream: &Random,
    ) -> Result<Running, Failure> {
        let rank = comm.rank();
        let mut given = self.lists((0..edges.out[rank].len()).map(|block| self.block(rank, block)));
        let mut send = self.sent(edges, rank, stream);
        if self.is_allgather() {
            given = Lists::default();
        } else {
            let packed = std::mem::replace(&mut send, vec![0x44; end(&given.places)]);
            lay(&mut send, &packed, &given.places);
        }
        let (taken, initial, wanted) = self.received(edges, rank, stream);
        let args = CollArgs {
            count: self.block(rank, 0).0,
            datatype: self.datatype,
            send_blocks: given.blocks(),
            recv_blocks: taken.blocks(),
            ..CollArgs::default()
        };
        let contents = Contents {
            sent: Some(send),
            initial,
            wanted,
            keeps_own: false,
        };
        let what = format!("{self:?} at rank {rank} of {:?}", comm.topology());
        let devices = context.on_device.then(|| context.job.devices());
        let what = (self.collective, form, what);
        Running::launch(devices, comm, what, stream, contents, args)
    }
}

/// Dimensions, and which are periodic.
type Grid = (Vec<usize>, Vec<bool>);

/// Grids of at most so many ranks: lines and rings, two and three dimensions, and some that leave ranks out.
fn shapes(size: usize, random: &mut Random) -> Result<Vec<Grid>, Failure> {
    let mut shapes = vec![
        (vec![], vec![]),
        (vec![size], vec![true]),
        (vec![size], vec![false]),
        (vec![1, size, 1], vec![true, true, false]),
        (vec![size.div_ceil(2)], vec![true]),
    ];
    for dims in [vec![0, 0], vec![0, 0, 0], vec![0, 0]] {
        let dims = balanced(size, &dims)?;
        let periods = dims.iter().map(|_| random.below(2) == 1).collect();
        shapes.push((dims, periods));
    }
    if size >= 4 {
        shapes.push((vec![2, 2], vec![true, true]));
        shapes.push((vec![2, size / 2], vec![true, false]));
    }
    Ok(shapes)
}

fn over_grids(context: &Context<'_>, collective: Collective, form: Form) -> Outcome {
    let world = Comm::world(context.job)?;
    let mut common = context.common();
    for (index, (dims, periods)) in shapes(world.size(), &mut common)?.into_iter().enumerate() {
        let Some(comm) = world.cartesian(&dims, &periods, index % 2 == 1)? else {
            continue;
        };
        let edges = Edges::of_grid(&dims, &periods);
        rounds(
            context,
            (&comm, &edges),
            (collective, form),
            common.fork(index as u64),
        )?;
        comm.free()?;
    }
    Ok(())
}

fn over_graphs(context: &Context<'_>, collective: Collective, form: Form) -> Outcome {
    let world = Comm::world(context.job)?;
    let mut common = context.common();
    for index in 0..6 {
        let edges = Edges::random(world.size(), &mut common);
        let comm = graph(&world, &edges)?;
        rounds(
            context,
            (&comm, &edges),
            (collective, form),
            common.fork(index),
        )?;
        comm.free()?;
    }
    Ok(())
}

fn graph(world: &Comm, edges: &Edges) -> Result<Comm, CommError> {
    let sources: Vec<usize> = edges.into[world.rank()]
        .iter()
        .flatten()
        .map(|end| end.0)
        .collect();
    let destinations: Vec<usize> = edges.out[world.rank()].iter().flatten().copied().collect();
    world.graph_adjacent(&sources, &destinations)
}

fn rounds(
    context: &Context<'_>,
    over: (&Comm, &Edges),
    (collective, form): (Collective, Form),
    mut random: Random,
) -> Outcome {
    for round in 0..ROUNDS {
        let exchange = Exchange::any(collective, &mut random);
        let stream = random.fork(round as u64);
        exchange.start(context, over, form, &stream)?.finish()?;
    }
    Ok(())
}

/// Several at once, of all forms, ended in another order at each rank.
fn several(context: &Context<'_>) -> Outcome {
    let world = Comm::world(context.job)?;
    let (mut common, mut own) = (context.common(), context.of_rank(context.rank));
    let edges = Edges::random(world.size(), &mut common);
    let made = graph(&world, &edges)?;
    let comm = made.dup()?;
    made.free()?;
    let all: Vec<Collective> = Collective::ALL
        .into_iter()
        .filter(|c| c.is_neighbor())
        .collect();
    for _ in 0..ROUNDS {
        let mut running = Vec::new();
        for index in 0..8 {
            let exchange = Exchange::any(common.pick(&all), &mut common);
            let form = common.pick(&Form::ALL);
            let stream = common.fork(index);
            running.push(exchange.start(context, (&comm, &edges), form, &stream)?);
        }
        own.shuffle(&mut running);
        for one in running {
            one.finish()?;
        }
    }
    Ok(comm.free()?)
}
