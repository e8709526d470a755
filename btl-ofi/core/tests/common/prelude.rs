//! Names that most tests use.

#![allow(unused_imports, reason = "each test file uses a part")]

pub(crate) use btl_ofi::{Completion, Endpoint, Handle, Leaves, Notice, Op, Region, Transport};
pub(crate) use mca_params::Value;
pub(crate) use plugin_api::counters::Carrier;
pub(crate) use plugin_api::{
    Access, AtomicKind, AtomicOp, BtlAtomicOp, Datatype, IoVec, Module, ModuleFlags, OpFlags,
    OverrideOps, Status, ThreadLevel, TransferFlags, hmem_iface,
};
pub(crate) use std::cell::Cell;
pub(crate) use std::ffi::c_void;
pub(crate) use std::process::{Command, Stdio};
pub(crate) use std::ptr::NonNull;
pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::time::{Duration, Instant};
pub(crate) use std::{ptr, thread};

pub(crate) use super::Calls as _;
pub(crate) use super::attending::{attended, attended_at_times};
pub(crate) use super::memory::{Memory, Window};
pub(crate) use super::numbers::Numbers;
pub(crate) use super::pair::{DeviceWay, Target, handle_of, handle_text, hex, unhex};
pub(crate) use super::reports::Reports;
pub(crate) use super::seen::Seen;
pub(crate) use super::shows::shows;
pub(crate) use super::there::{Element, Own, Pair, There};
pub(crate) use super::told::{Ended, FAILED, Receives};
pub(crate) use super::{
    BLOCKED, Patience, SAME_NODE, SAME_NODE_OFF, again, again_over, close, device, insist,
    loopback, near, open, options, refusal, register, signal, try_open, until, worked,
};
