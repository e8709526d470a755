//! Windows: creation, transfers, epochs, requests, and the layers that replace their functions.

pub mod elements;
pub mod entries;
pub mod epochs;
pub mod handler;
pub mod hooks;
pub mod info;
pub mod layers;
pub mod layout;
pub mod local_entries;
pub mod over;
pub mod query;
pub mod request;
pub mod rma;
pub mod sync;
pub mod table;
pub mod typed;
pub mod update;
pub mod window;
