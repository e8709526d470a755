//! The entries of a batch, which its target reads here.

use super::{Form, LARGEST, SAME_REGION};
use crate::op::responder::{Command, PUT, SEND};

/// The entries of a batch.
pub(crate) struct Entries {
    /// The word at which the next entry begins.
    at: usize,
    region: Option<(u64, u64)>,
}

/// An entry of a batch.
pub(crate) struct Entry {
    pub(crate) command: Command,
    /// The word at which the operands begin.
    pub(crate) operands: usize,
    pub(crate) form: Form,
}

/// A put to the region of the previous entry.
#[derive(Clone, Copy)]
pub(crate) struct NextPut {
    pub(crate) address: u64,
    /// Number of bytes, at least one.
    pub(crate) size: usize,
    /// The word at which the bytes begin.
    pub(crate) operands: usize,
}

impl Entries {
    /// The entries that begin at a word of a message.
    pub(crate) fn at(at: usize) -> Entries {
        Entries { at, region: None }
    }

    /// Key and cookie of the previous entry's region.
    pub(crate) fn region(&self) -> Option<(u64, u64)> {
        self.region
    }

    /// Returns the next entry if it is a put to the region of the previous entry. Most entries are such puts. For any other
    /// entry, returns `None` and changes nothing; the caller then calls [`next`](Self::next).
    #[inline(always)]
    pub(crate) fn next_put(&mut self, words: &[u64]) -> Option<NextPut> {
        let &[first, address] = words.get(self.at..)?.first_chunk()?;
        let (what, size) = (first as u32, (first >> 32) as usize);
        if what != PUT | SAME_REGION || size.wrapping_sub(1) >= LARGEST || self.region.is_none() {
            return None;
        }
        let operands = self.at + 2;
        // This takes fewer instructions than `div_ceil`. The size was already checked.
        let end = operands + (size.wrapping_add(7) >> 3);
        if end > words.len() {
            return None;
        }
        self.at = end;
        Some(NextPut {
            address,
            size,
            operands,
        })
    }

    /// Returns the next entry; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self, words: &[u64]) -> Result<Option<Entry>, &'static str> {
        const CUT: &str = "an entry is cut off";
        if self.at == words.len() {
            return Ok(None);
        }
        let &[first, address] = words
            .get(self.at..)
            .and_then(<[u64]>::first_chunk)
            .ok_or(CUT)?;
        self.at += 2;
        let (what, count) = (first as u32 & !SAME_REGION, (first >> 32) as u32);
        if first as u32 & SAME_REGION == 0 {
            let &[key, cookie] = words
                .get(self.at..)
                .and_then(<[u64]>::first_chunk)
                .ok_or(CUT)?;
            self.region = Some((key, cookie));
            self.at += 2;
        }
        let (key, cookie) = match self.region {
            Some(region) => region,
            None if what == SEND => (0, 0),
            None => return Err("the first entry names no region"),
        };
        let form = Form::of(what, count).ok_or("an entry has an unknown code or size")?;
        let mut compare = 0;
        if form.compares {
            compare = *words.get(self.at).ok_or(CUT)?;
            self.at += 1;
        }
        let operands = self.at;
        self.at += form.operands;
        if self.at > words.len() {
            return Err(CUT);
        }
        Ok(Some(Entry {
            command: Command {
                what,
                count,
                address,
                key,
                cookie,
                compare,
            },
            operands,
            form,
        }))
    }
}
