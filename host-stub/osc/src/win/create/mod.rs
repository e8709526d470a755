//! How windows are made: what each rank wants and brings, and what they come to.

pub(super) mod assemble;
pub(super) mod create_calls;
pub(super) mod intent;
pub(super) mod make;
pub(super) mod own_part;
pub(super) mod share;
pub(super) mod wanted;
