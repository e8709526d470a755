//! Waiting of calls: conditions, the hooks of a tasking runtime, and the names of OpenMP.

pub mod condition;
pub mod omp;
