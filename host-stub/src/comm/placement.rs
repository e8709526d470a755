//! Which rank takes which place of a grid, so that neighbours share nodes: each node gets a block of the
//! grid (Gropp, "Using Node Information to Implement MPI Cartesian Topologies", 2018).

use super::cartesian::Cartesian;

/// The rank for each place of a grid, of the first ranks, whose nodes are given. Ranks stay in order where
/// nodes have different numbers of them, or no block of the grid has as many places as a node has ranks.
pub(super) fn by_node(grid: &Cartesian, nodes: &[u32]) -> Vec<usize> {
    let cells = grid.size();
    let mut groups: Vec<(u32, Vec<usize>)> = Vec::new();
    for (rank, node) in nodes[..cells].iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| known == node) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((*node, vec![rank])),
        }
    }
    let each = groups[0].1.len();
    let alike = groups.iter().all(|(_, ranks)| ranks.len() == each);
    let block = alike.then(|| least_border(grid, each)).flatten();
    let Some(block) = block else {
        return (0..cells).collect();
    };
    let places = (0..cells).map(|cell| {
        let (mut node, mut local) = (0, 0);
        for ((coordinate, dim), side) in grid.place(cell).into_iter().zip(grid.dims()).zip(&block) {
            node = node * (dim / side) + coordinate / side;
            local = local * side + coordinate % side;
        }
        groups[node].1[local]
    });
    places.collect()
}

/// The sides of the block of so many places, with which the grid can be tiled, such that the fewest neighbours
/// are in different blocks.
fn least_border(grid: &Cartesian, places: usize) -> Option<Vec<usize>> {
    let mut best = None;
    tile(grid.dims(), places, &mut Vec::new(), &mut |sides| {
        let cut = (0..sides.len()).map(|dimension| {
            let dim = grid.dims()[dimension];
            let blocks = dim / sides[dimension];
            let closed = grid.periods()[dimension] && blocks > 1;
            (blocks - usize::from(!closed)) * (grid.size() / dim)
        });
        let border: usize = cut.sum();
        if best.as_ref().is_none_or(|(least, _)| border < *least) {
            best = Some((border, sides.to_vec()));
        }
    });
    best.map(|(_, sides)| sides)
}

/// Calls `each` with all sides of blocks of `rest` places that tile the dimensions behind those of `sides`.
fn tile(dims: &[usize], rest: usize, sides: &mut Vec<usize>, each: &mut impl FnMut(&[usize])) {
    let Some(dim) = dims.get(sides.len()) else {
        if rest == 1 {
            each(sides);
        }
        return;
    };
    let fits = |side: &usize| dim.is_multiple_of(*side) && rest.is_multiple_of(*side);
    for side in (1..=*dim.min(&rest)).filter(fits) {
        sides.push(side);
        tile(dims, rest / side, sides, each);
        sides.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(dims: &[usize], nodes: &[u32]) -> Vec<usize> {
        let grid = Cartesian::new(dims, &vec![false; dims.len()], nodes.len()).unwrap();
        by_node(&grid, nodes)
    }

    #[test]
    fn each_node_gets_a_block() {
        // In order each node would have a row, with 12 edges between nodes; here there are 8.
        let nodes = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3];
        assert_eq!(
            placed(&[4, 4], &nodes),
            [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
        );
        // Ranks that alternate between two nodes.
        assert_eq!(placed(&[2, 2], &[7, 9, 7, 9]), [0, 2, 1, 3]);
    }

    #[test]
    fn what_no_block_fits_stays_in_order() {
        assert_eq!(placed(&[2, 2], &[0, 0, 0, 1]), [0, 1, 2, 3]);
        assert_eq!(placed(&[3, 2], &[0, 1, 2, 0, 1, 2]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(placed(&[5], &[0, 1, 0, 1, 0, 9]), [0, 1, 2, 3, 4]);
        assert_eq!(placed(&[], &[3, 4]), [0]);
    }
}
