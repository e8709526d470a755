//! The callback of an operation, and what it is called with.

use std::ffi::c_void;

use plugin_api::{CompletionFn, Handle};

use crate::op::tag::Tag;

/// The callback of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The function.
    pub function: CompletionFn,
    /// Its `context` argument.
    pub context: *mut c_void,
    /// Its `data` argument.
    pub data: *mut c_void,
}

/// The data of a record that its callback needs, once the record is given back.
#[derive(Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) tag: Tag,
    pub(crate) function: Option<CompletionFn>,
    pub(crate) context: *mut c_void,
    pub(crate) data: *mut c_void,
    pub(crate) local_address: *mut c_void,
    pub(crate) local_handle: *mut Handle,
}
