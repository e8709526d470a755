//! Collectives of a communicator, and the layers that override them.

mod blocks;
pub mod calls;
pub mod layers;
pub mod request;
pub mod table;
