//! libfabric's objects: their common frame (`object`), one file for each kind, and the calls on
//! endpoints (`rma`, `atomics`, `message`, and their common part `post`).

pub(crate) mod atomics;
mod bare;
pub(crate) mod domain;
pub(crate) mod endpoint;
pub(crate) mod fabric;
pub(crate) mod message;
pub(crate) mod object;
pub(crate) mod overrides;
pub(crate) mod post;
pub(crate) mod queue;
pub(crate) mod region;
pub(crate) mod rma;
pub(crate) mod vector;
