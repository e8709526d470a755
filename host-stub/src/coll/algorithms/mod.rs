//! The published algorithms, each as the steps of one rank.

mod allgather;

pub(crate) use allgather::allgather_bruck;
