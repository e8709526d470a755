//! Checks the arguments of a collective before anything is sent.

use super::args::{CollArgs, Collective};
use super::blocks::BlockList;
use super::view::View;
use crate::base::Op;
use crate::comm::{CommError, CommResult};

impl CollArgs<'_> {
    /// Refuses invalid arguments, before anything is sent.
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
        let combines = !matches!(self.op, Op::Replace | Op::NoOp);
        if collective.reduces() && !(combines && self.op.is_defined_on(self.datatype)) {
            return Err(CommError::InvalidOperation {
                call,
                op: self.op,
                datatype: self.datatype,
            });
        }
        let (gives, gets) = if collective.is_listed() {
            self.check_listed(collective, view.rank, view.size)
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

    /// Returns whether a rank needs a send buffer, and whether it needs a receive buffer. Fails if
    /// the counts of blocks of one size are invalid.
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
            // No bytes are read or written.
            Some(0) => return Ok((false, false)),
            Some(_) => {}
        }
        let root = rank == self.root;
        Ok(match collective {
            Collective::Barrier => (false, false),
            // Only the root may use its buffer in place.
            Collective::Reduce | Collective::Gather => (!root, root),
            Collective::Scatter => (root, !root),
            _ => (false, true),
        })
    }

    /// The same check for lists of blocks.
    fn check_listed(
        &self,
        collective: Collective,
        rank: usize,
        size: usize,
    ) -> Result<(bool, bool), String> {
        let bytes = self.count.checked_mul(self.datatype.size());
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(format!("no buffer has {} elements", self.count));
        }
        let some = |list: &BlockList<'_>| list.counts.iter().any(|count| *count > 0);
        self.recv_blocks
            .check(("receive", true), self.datatype, size)?;
        let gets = some(&self.recv_blocks);
        if self.is_in_place(collective) {
            return Ok((false, gets));
        }
        if collective == Collective::Allgatherv {
            let (count, listed) = (self.count, self.recv_blocks.counts[rank]);
            if count != listed {
                return Err(format!(
                    "rank {rank} gives {count} elements itself, and counts[{rank}] is {listed}"
                ));
            }
            return Ok((false, gets));
        }
        self.send_blocks
            .check(("send", false), self.datatype, size)?;
        let given = self.given_blocks(collective).of(rank).len;
        let taken = self.taken_blocks(collective).of(rank).len;
        if given != taken {
            return Err(format!(
                "rank {rank} gives itself {given} B and takes {taken} B of itself"
            ));
        }
        Ok((some(&self.send_blocks), gets))
    }
}
