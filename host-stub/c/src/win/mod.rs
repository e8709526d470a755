//! Windows: creation, transfers, epochs, requests, and the layers that replace their functions.

pub mod entries;
pub mod hooks;
pub mod info;
pub mod layers;
pub mod layout;
pub mod local_entries;
pub mod notified;
pub mod over;
pub mod query;
pub mod request;
pub mod rma;
pub mod sync;
pub mod table;
pub mod window;
