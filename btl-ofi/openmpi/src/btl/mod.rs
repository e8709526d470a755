//! The component `btl`: Open MPI's interface to transports, which pml/ob1 and osc/rdma use.

mod component;
mod entries;
mod flags;
mod fragments;
mod live;
mod module;
mod own_words;
mod params;
mod peers;
mod registrations;
mod sender;
mod transfers;
mod waiting;
