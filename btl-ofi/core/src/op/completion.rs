//! The callback of an operation, and its arguments.

use std::ffi::c_void;
use std::ptr;

use plugin_api::{CompletionFn, Handle};

use crate::op::tag::Tag;

/// The callback of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The function.
    pub function: CompletionFn,
    /// The `context` argument of the callback.
    pub context: *mut c_void,
    /// The `data` argument of the callback.
    pub data: *mut c_void,
}

impl Completion {
    /// The fields of an optional completion. A call with these fields as arguments needs no address in its caller's frame.
    /// So the caller can jump to its slow path.
    #[inline(always)]
    pub(crate) fn parts(
        completion: Option<Completion>,
    ) -> (Option<CompletionFn>, *mut c_void, *mut c_void) {
        let none = ptr::null_mut();
        completion.map_or((None, none, none), |c| {
            (Some(c.function), c.context, c.data)
        })
    }

    /// The optional completion with these [`parts`](Self::parts).
    #[inline(always)]
    pub(crate) fn of(
        function: Option<CompletionFn>,
        context: *mut c_void,
        data: *mut c_void,
    ) -> Option<Completion> {
        function.map(|function| Completion {
            function,
            context,
            data,
        })
    }
}

/// The data that the callback of an operation needs after its record was given back.
#[derive(Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) tag: Tag,
    pub(crate) function: Option<CompletionFn>,
    pub(crate) context: *mut c_void,
    pub(crate) data: *mut c_void,
    pub(crate) local_address: *mut c_void,
    pub(crate) local_handle: *mut Handle,
}
