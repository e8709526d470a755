//! Ordered sets of processes.

use super::error::{CommError, CommResult};

/// An ordered set of processes, identified by their ranks in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(Vec<u32>);

impl Group {
    /// A group of job ranks in this order. [`CommError::BadArgument`] if a rank occurs twice.
    pub fn new(job_ranks: Vec<u32>) -> CommResult<Group> {
        let mut sorted = job_ranks.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(CommError::BadArgument {
                call: "group",
                reason: format!("job rank {} is in it twice", twice[0]),
            }),
            None => Ok(Group(job_ranks)),
        }
    }

    /// A group of members that are known to be distinct.
    pub(crate) fn of_members(job_ranks: &[u32]) -> Group {
        Group(job_ranks.to_vec())
    }

    /// Number of processes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Whether the group is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The job ranks, in order.
    pub fn job_ranks(&self) -> &[u32] {
        &self.0
    }

    /// The rank in the group of a job rank.
    pub fn rank_of(&self, job_rank: u32) -> Option<usize> {
        self.0.iter().position(|member| *member == job_rank)
    }

    /// The members with these ranks, in the order of `ranks` (MPI_Group_incl).
    pub fn include(&self, ranks: &[usize]) -> CommResult<Group> {
        let members: CommResult<Vec<u32>> = ranks.iter().map(|rank| self.member(*rank)).collect();
        Group::new(members?)
    }

    fn member(&self, rank: usize) -> CommResult<u32> {
        self.0.get(rank).copied().ok_or(CommError::BadArgument {
            call: "group",
            reason: format!("no rank {rank} in a group of {}", self.0.len()),
        })
    }

    /// The members that are not in `other`, in this group's order.
    pub fn difference(&self, other: &Group) -> Group {
        let only = self.0.iter().filter(|m| !other.0.contains(m));
        Group(only.copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(members: &[u32]) -> Group {
        Group::new(members.to_vec()).unwrap()
    }

    #[test]
    fn sets_keep_their_order() {
        let (a, b) = (group(&[4, 1, 3]), group(&[3, 7, 4]));
        assert_eq!(a.difference(&b), group(&[1]));
        assert_eq!(a.include(&[2, 0]).unwrap(), group(&[3, 4]));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        assert!(Group::new(vec![1, 2, 1]).is_err());
        assert!(group(&[1]).include(&[1]).is_err());
        assert!(group(&[1]).include(&[0, 0]).is_err());
    }
}
