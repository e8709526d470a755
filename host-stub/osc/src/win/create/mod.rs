//! The creation of windows: each rank's wishes and memory, and the resulting window.

pub(super) mod assemble;
pub(super) mod create_calls;
pub(super) mod intent;
pub(super) mod join;
pub(super) mod make;
pub(super) mod own_part;
pub(super) mod share;
pub(super) mod wanted;
