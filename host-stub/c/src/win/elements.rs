//! The arguments of calls on `count` elements of a type that lie together.

use std::ffi::{c_int, c_void};

use host::device::HOST;
use host::win::{Datatype, Layout, Op, Target};

use crate::base::codes::{HOST_PROC_NULL, marked, op, rank};
use crate::base::error::{Error, Result};
use crate::job::job;
use crate::win::window::{host_win_t, window};

/// What all have in common, checked.
pub(crate) struct Elements {
    pub(crate) win: &'static host_win_t,
    pub(crate) layout: Layout,
    pub(crate) datatype: Datatype,
    pub(crate) op: Op,
    pub(crate) rank: usize,
    pub(crate) displacement: u64,
}

/// The same as a program gives it.
pub(crate) struct Given<'a> {
    pub(crate) call: &'a str,
    /// The buffers; each with whether it may be NULL.
    pub(crate) buffers: &'a [(*const c_void, bool)],
    pub(crate) count: usize,
    pub(crate) datatype: c_int,
    pub(crate) op: c_int,
    pub(crate) target: c_int,
    pub(crate) displacement: u64,
    pub(crate) win: *mut host_win_t,
}

impl Given<'_> {
    /// None for the target HOST_PROC_NULL: the call has nothing to do.
    ///
    /// # Safety
    /// As for [`window`].
    pub(crate) unsafe fn check(&self) -> Result<Option<Elements>> {
        let call = self.call;
        // SAFETY: passed on.
        let win = unsafe { window(call, self.win) }?;
        if self.target == HOST_PROC_NULL {
            return Ok(None);
        }
        let null = |(buffer, may): &(*const c_void, bool)| buffer.is_null() && !may;
        if self.count > 0 && self.buffers.iter().any(null) {
            return Err(Error::argument(call, "a buffer is NULL"));
        }
        let (datatype, on_device) = marked(call, self.datatype)?;
        let bytes = self.count.checked_mul(datatype.size());
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(Error::argument(call, "no memory has so many elements"));
        }
        if on_device && self.count > 0 {
            let buffers = self.buffers.iter().map(|(buffer, _)| *buffer);
            on_a_device(call, buffers.filter(|buffer| !buffer.is_null()))?;
        }
        Ok(Some(Elements {
            win,
            layout: Layout::contiguous(datatype, self.count),
            datatype,
            op: op(call, self.op)?,
            rank: rank(call, self.target)?,
            displacement: self.displacement,
        }))
    }
}

/// Refuses host memory where the type says that buffers are on a device.
#[cold]
fn on_a_device(call: &str, buffers: impl Iterator<Item = *const c_void>) -> Result {
    let job = job(call)?;
    for buffer in buffers {
        let location = job.devices().target_location(buffer.cast());
        if location.device == HOST {
            let text = format!("its type says device memory, and {buffer:p} is host memory");
            return Err(Error::argument(call, &text));
        }
    }
    Ok(())
}

impl Elements {
    pub(crate) fn target(&self) -> Target<'_> {
        Target {
            rank: self.rank,
            displacement: self.displacement,
            layout: &self.layout,
        }
    }
}
