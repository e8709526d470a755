//! The base of every function here: codes, errors and the guard, handles, and tables that grow.

pub mod codes;
pub mod error;
pub mod handles;
pub mod slots;
pub mod tables;
pub mod version;
