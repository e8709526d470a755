//! Operations that can be waited for one by one.

pub(super) mod handle;
pub(super) mod notice;
pub(super) mod request_state;
