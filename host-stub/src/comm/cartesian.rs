//! Grids of ranks: coordinates, shifts, and dimensions that differ as little as can be.

use super::error::{CommError, CommResult};

/// A grid of ranks, of which the last coordinate varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dims: Vec<usize>,
    periods: Vec<bool>,
}

impl Cartesian {
    /// A grid of at most so many ranks; or what is wrong with it.
    pub(super) fn new(dims: &[usize], periods: &[bool], ranks: usize) -> Result<Cartesian, String> {
        if dims.len() != periods.len() {
            let (dims, periods) = (dims.len(), periods.len());
            return Err(format!("{dims} dimensions and {periods} periods"));
        }
        if let Some(empty) = dims.iter().position(|dim| *dim == 0) {
            return Err(format!("dimension {empty} of the grid is 0"));
        }
        let cells = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim));
        if cells.is_none_or(|cells| cells > ranks) {
            return Err(format!(
                "a grid of {dims:?} has more places than the communicator's {ranks} ranks"
            ));
        }
        Ok(Cartesian {
            dims: dims.to_vec(),
            periods: periods.to_vec(),
        })
    }

    /// Ranks in each dimension.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Whether the last rank of each dimension is followed by its first.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Ranks of the grid.
    pub fn size(&self) -> usize {
        self.dims.iter().product()
    }

    /// The coordinate in a dimension that so many steps lead to; none beyond an open border.
    fn wrapped(&self, dimension: usize, coordinate: i64) -> Option<usize> {
        let dim = self.dims[dimension] as i64;
        let inside = (0..dim).contains(&coordinate);
        (inside || self.periods[dimension]).then(|| coordinate.rem_euclid(dim) as usize)
    }

    fn rank_at(&self, coordinates: &[usize]) -> usize {
        let steps = self.dims.iter().zip(coordinates);
        steps.fold(0, |rank, (dim, coordinate)| rank * dim + coordinate)
    }

    /// The rank at a place (MPI_Cart_rank). Coordinates wrap around in periodic dimensions; outside
    /// of others they are refused.
    pub fn rank(&self, coordinates: &[i64]) -> CommResult<usize> {
        let refuse = |reason: String| CommError::BadArgument {
            call: "cartesian rank",
            reason,
        };
        let (wanted, found) = (self.dims.len(), coordinates.len());
        if found != wanted {
            return Err(refuse(format!(
                "{found} coordinates in a grid of {wanted} dimensions"
            )));
        }
        let mut place = Vec::with_capacity(found);
        for (dimension, coordinate) in coordinates.iter().enumerate() {
            let inside = self.wrapped(dimension, *coordinate).ok_or_else(|| {
                let dim = self.dims[dimension];
                refuse(format!(
                    "coordinate {coordinate} of dimension {dimension}, which has {dim} ranks and open borders"
                ))
            })?;
            place.push(inside);
        }
        Ok(self.rank_at(&place))
    }

    /// The coordinates of a rank (MPI_Cart_coords).
    pub fn coordinates(&self, rank: usize) -> CommResult<Vec<usize>> {
        if rank >= self.size() {
            let size = self.size();
            return Err(CommError::BadArgument {
                call: "cartesian coordinates",
                reason: format!("no rank {rank} in a grid of {size} ranks"),
            });
        }
        Ok(self.place(rank))
    }

    /// The coordinates of a rank of the grid.
    pub(super) fn place(&self, rank: usize) -> Vec<usize> {
        let mut rest = rank;
        let mut place: Vec<usize> = self
            .dims
            .iter()
            .rev()
            .map(|dim| {
                let coordinate = rest % dim;
                rest /= dim;
                coordinate
            })
            .collect();
        place.reverse();
        place
    }

    /// The rank that lies `displacement` steps before a rank along a dimension, and the one so many
    /// behind it (the source and the destination of MPI_Cart_shift); none beyond an open border.
    pub fn shift(
        &self,
        rank: usize,
        dimension: usize,
        displacement: i64,
    ) -> CommResult<(Option<usize>, Option<usize>)> {
        let place = self.coordinates(rank)?;
        if dimension >= self.dims.len() {
            let dims = self.dims.len();
            return Err(CommError::BadArgument {
                call: "cartesian shift",
                reason: format!("no dimension {dimension} in a grid of {dims} dimensions"),
            });
        }
        // Where whole turns leave the same rank; beyond every border in the others.
        let reach = |steps: Option<i64>| {
            let here = place[dimension] as i64;
            let there = self.wrapped(dimension, here.checked_add(steps?)?)?;
            let mut place = place.clone();
            place[dimension] = there;
            Some(self.rank_at(&place))
        };
        let steps = match self.periods[dimension] {
            true => displacement % self.dims[dimension] as i64,
            false => displacement,
        };
        Ok((reach(steps.checked_neg()), reach(Some(steps))))
    }

    /// The neighbours of a rank in MPI's order: along each dimension the one before it, then the one
    /// behind it.
    pub(super) fn neighbours(&self, rank: usize) -> CommResult<Vec<Option<usize>>> {
        let mut all = Vec::with_capacity(2 * self.dims.len());
        for dimension in 0..self.dims.len() {
            let (before, behind) = self.shift(rank, dimension, 1)?;
            all.extend([before, behind]);
        }
        Ok(all)
    }
}

/// Dimensions of a grid of exactly so many ranks (MPI_Dims_create): those of `dims` that are not 0
/// stay, the others become as equal as can be, the greater first.
pub fn balanced(ranks: usize, dims: &[usize]) -> CommResult<Vec<usize>> {
    let refuse = |reason: String| CommError::BadArgument {
        call: "balanced dimensions",
        reason,
    };
    let given = dims.iter().filter(|dim| **dim > 0);
    let given = given.fold(1usize, |n, dim| n.saturating_mul(*dim));
    let free = dims.iter().filter(|dim| **dim == 0).count();
    if ranks == 0 || !ranks.is_multiple_of(given) || (free == 0 && ranks != given) {
        return Err(refuse(format!(
            "no grid of {ranks} ranks has the dimensions {dims:?} (0: any)"
        )));
    }
    let rest = ranks / given;
    let small = (2..).take_while(|factor| factor * factor <= rest);
    let small = small.filter(|factor| rest.is_multiple_of(*factor));
    let mut factors: Vec<usize> = small.flat_map(|factor| [factor, rest / factor]).collect();
    factors.push(rest);
    let mut best = Vec::new();
    most_equal(rest, (free, &factors), &mut Vec::new(), &mut best);
    let mut chosen = best.into_iter().chain(std::iter::repeat(1));
    let filled = dims.iter().map(|dim| match dim {
        0 => chosen.next().unwrap_or(1),
        dim => *dim,
    });
    Ok(filled.collect())
}

/// Tries all ways to write `rest` as at most `free` of `factors`, none greater than the last of `chosen`; keeps in
/// `best` the one whose greatest and least differ least. Factors of 1 are left out.
fn most_equal(
    rest: usize,
    (free, factors): (usize, &[usize]),
    chosen: &mut Vec<usize>,
    best: &mut Vec<usize>,
) {
    if rest == 1 {
        let places = free + chosen.len();
        let spread = |factors: &[usize]| {
            let greatest = factors.first().copied().unwrap_or(1);
            let least = factors.last().filter(|_| factors.len() == places);
            (greatest - least.copied().unwrap_or(1), greatest)
        };
        if best.is_empty() || spread(chosen) < spread(best) {
            best.clone_from(chosen);
        }
        return;
    }
    if free == 0 {
        return;
    }
    let most = chosen.last().copied().unwrap_or(rest);
    let fits = |factor: &&usize| **factor <= most && rest.is_multiple_of(**factor);
    for factor in factors.iter().filter(fits) {
        chosen.push(*factor);
        most_equal(rest / factor, (free - 1, factors), chosen, best);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dims: &[usize], periods: &[bool]) -> Cartesian {
        Cartesian::new(dims, periods, 1000).unwrap()
    }

    #[test]
    fn ranks_and_coordinates_agree() {
        let grid = grid(&[2, 3, 4], &[false, true, false]);
        for rank in 0..grid.size() {
            let place = grid.coordinates(rank).unwrap();
            let place: Vec<i64> = place.into_iter().map(|c| c as i64).collect();
            assert_eq!(grid.rank(&place).unwrap(), rank);
        }
        assert_eq!(grid.coordinates(23).unwrap(), [1, 2, 3]);
        assert_eq!(grid.rank(&[1, -1, 3]).unwrap(), 23);
        assert_eq!(grid.rank(&[1, 5, 3]).unwrap(), 23);
        assert!(grid.rank(&[2, 0, 0]).is_err());
        assert!(grid.rank(&[0, 0]).is_err());
        assert!(grid.coordinates(24).is_err());
    }

    #[test]
    fn shifts_stop_at_open_borders() {
        let grid = grid(&[3, 2], &[false, true]);
        assert_eq!(grid.shift(0, 0, 1).unwrap(), (None, Some(2)));
        assert_eq!(grid.shift(4, 0, 1).unwrap(), (Some(2), None));
        assert_eq!(grid.shift(4, 0, 2).unwrap(), (Some(0), None));
        assert_eq!(grid.shift(4, 0, -1).unwrap(), (None, Some(2)));
        assert_eq!(grid.shift(0, 1, 1).unwrap(), (Some(1), Some(1)));
        assert_eq!(grid.shift(0, 1, 0).unwrap(), (Some(0), Some(0)));
        assert_eq!(grid.shift(0, 1, i64::MIN).unwrap(), (Some(0), Some(0)));
        assert_eq!(grid.shift(0, 0, i64::MIN).unwrap(), (None, None));
        assert!(grid.shift(0, 2, 1).is_err());
        assert!(grid.shift(6, 0, 1).is_err());
        assert_eq!(
            grid.neighbours(0).unwrap(),
            [None, Some(2), Some(1), Some(1)]
        );
    }

    #[test]
    fn grids_that_cannot_be_are_named() {
        let said = |dims: &[usize], periods: &[bool]| Cartesian::new(dims, periods, 7).unwrap_err();
        assert!(said(&[2, 4], &[true, true]).contains("more places"));
        assert!(said(&[usize::MAX, 2], &[true, true]).contains("more places"));
        assert!(said(&[2, 0], &[true, true]).contains("dimension 1"));
        assert!(said(&[2, 2], &[true]).contains("1 periods"));
        assert_eq!(Cartesian::new(&[], &[], 7).unwrap().size(), 1);
    }

    #[test]
    fn dimensions_are_as_equal_as_can_be() {
        let of = |ranks, dims: &[usize]| balanced(ranks, dims).unwrap();
        assert_eq!(of(6, &[0, 0]), [3, 2]);
        assert_eq!(of(7, &[0, 0]), [7, 1]);
        assert_eq!(of(6, &[0, 3, 0]), [2, 3, 1]);
        assert_eq!(of(16, &[0, 0, 0]), [4, 2, 2]);
        assert_eq!(of(36, &[0, 0]), [6, 6]);
        assert_eq!(of(72, &[0, 0, 0]), [6, 4, 3]);
        assert_eq!(of(1, &[0, 0]), [1, 1]);
        assert_eq!(of(4, &[2, 2]), [2, 2]);
        assert_eq!(of(1, &[]), [] as [usize; 0]);
        assert!(balanced(7, &[0, 3]).is_err());
        assert!(balanced(8, &[2, 2]).is_err());
        assert!(balanced(0, &[0]).is_err());
    }
}
