//! Whether a collective can be as it is called: found out before anything is sent.

use super::args::{CollArgs, Collective};
use super::blocks::BlockList;
use super::view::View;
use crate::base::ReduceOp;
use crate::comm::{CommError, CommResult};

impl CollArgs<'_> {
    /// Refuses what cannot be: before anything is sent.
    pub(crate) fn check(&self, collective: Collective, view: &View) -> CommResult<()> {
        let (rank, size) = (view.rank, view.size);
        let call = collective.name();
        let refuse = |reason: String| CommError::BadArgument { call, reason };
        if collective == Collective::Barrier {
            return Ok(());
        }
        if collective.is_rooted() {
            view.check_root(self.root).map_err(refuse)?;
        }
        if self.datatype.size() == 0 {
            return Err(refuse("an element of its type has no bytes".to_owned()));
        }
        if collective.reduces() {
            if let ReduceOp::User(op) = self.op
                && !op.is_live()
            {
                return Err(refuse("its operation was freed".to_owned()));
            }
            if !self.op.is_defined_on(self.datatype) {
                return Err(CommError::InvalidOperation {
                    call,
                    op: self.op,
                    datatype: self.datatype,
                });
            }
        }
        let (gives, gets) = if collective.is_listed() {
            self.check_listed(collective, view)
        } else {
            self.check_even(collective, rank, size)
        }
        .map_err(refuse)?;
        if gives && self.send.is_null() {
            return Err(refuse("its send buffer is at the null address".to_owned()));
        }
        if gets && self.recv.is_null() {
            return Err(refuse(
                "its receive buffer is at the null address".to_owned(),
            ));
        }
        Ok(())
    }

    /// Whether a rank needs a send buffer and a receive buffer, or what is wrong with the counts of
    /// blocks of one size.
    fn check_even(
        &self,
        collective: Collective,
        rank: usize,
        size: usize,
    ) -> Result<(bool, bool), String> {
        if !self.counts.is_empty() && self.counts.len() != size {
            let found = self.counts.len();
            return Err(format!("{found} counts for {size} ranks"));
        }
        let elements = if self.counts.is_empty() {
            self.count.checked_mul(size)
        } else {
            let mut counts = self.counts.iter();
            counts.try_fold(0usize, |sum, count| sum.checked_add(*count))
        };
        let bytes = elements.and_then(|elements| elements.checked_mul(self.datatype.size()));
        match bytes {
            None => return Err("its buffers would be larger than memory".to_owned()),
            Some(bytes) if isize::try_from(bytes).is_err() => {
                return Err(format!("no buffer has {bytes} B"));
            }
            // Nothing is read or written.
            Some(0) => return Ok((false, false)),
            Some(_) => {}
        }
        let root = rank == self.root;
        Ok(match collective {
            Collective::Barrier => (false, false),
            // In place at the root only.
            Collective::Reduce | Collective::Gather => (!root, root),
            Collective::Scatter => (root, !root),
            _ => (false, true),
        })
    }

    /// The same of lists of blocks. Those of a gatherv and a scatterv mean something at the root only.
    fn check_listed(&self, collective: Collective, view: &View) -> Result<(bool, bool), String> {
        let (rank, size) = (view.rank, view.size);
        let root = rank == self.root;
        let bytes = self.count.checked_mul(self.datatype.size());
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(format!("no buffer has {} elements", self.count));
        }
        let typed = collective == Collective::Alltoallw;
        let sends = || {
            let list = &self.send_blocks;
            list.check(("send", false), self.datatype, (size, typed))
        };
        let receives = || {
            let list = &self.recv_blocks;
            list.check(("receive", true), self.datatype, (size, typed))
        };
        let some = |list: &BlockList<'_>| list.counts.iter().any(|count| *count > 0);
        let own = self.count > 0;
        Ok(match collective {
            Collective::Gatherv if root => {
                receives()?;
                self.same_own("gives", &self.recv_blocks, (rank, self.send.is_null()))?;
                (false, some(&self.recv_blocks))
            }
            Collective::Gatherv => (own, false),
            Collective::Scatterv if root => {
                sends()?;
                self.same_own("gets", &self.send_blocks, (rank, self.recv.is_null()))?;
                (some(&self.send_blocks), false)
            }
            Collective::Scatterv => (false, own),
            Collective::Allgatherv => {
                receives()?;
                self.same_own("gives", &self.recv_blocks, (rank, self.send.is_null()))?;
                (false, some(&self.recv_blocks))
            }
            _ => {
                receives()?;
                if self.is_in_place(collective) {
                    return Ok((false, some(&self.recv_blocks)));
                }
                sends()?;
                let given = self.given_blocks(collective, view).of(rank).len;
                let taken = self.taken_blocks(collective, view).of(rank).len;
                if given != taken {
                    return Err(format!(
                        "rank {rank} gives itself {given} B and takes {taken} B of itself"
                    ));
                }
                (some(&self.send_blocks), some(&self.recv_blocks))
            }
        })
    }

    /// Refuses a rank's own count that is not the one listed for it, unless its block is in place.
    fn same_own(
        &self,
        does: &str,
        list: &BlockList<'_>,
        (rank, in_place): (usize, bool),
    ) -> Result<(), String> {
        let listed = list.counts[rank];
        if in_place || self.count == listed {
            return Ok(());
        }
        let count = self.count;
        Err(format!(
            "rank {rank} {does} {count} elements itself, and counts[{rank}] is {listed}"
        ))
    }
}
