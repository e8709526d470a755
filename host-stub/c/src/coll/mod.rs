//! Collectives of a communicator, and the layers that override them.

pub mod calls;
pub mod layers;
pub mod reduce;
pub mod request;
pub mod table;
