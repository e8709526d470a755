//! Operations by rings in the memory that local peers share (`sm`). Rings belong to the first context, whose lock guards them.

mod claim;
mod commands;
pub(crate) mod transfers;
mod words;
