//! Open MPI 4.1, BTL interface 3.1.0, OSC interface 3.0.0: its differences from 5.0 and 6.0.

use std::ffi::{CStr, c_int};

/// The BTL interface that the component declares.
pub(crate) const BTL_INTERFACE: (i32, i32, i32) = (3, 1, 0);

/// The interface of windows that the component declares.
pub(crate) const OSC_INTERFACE: (i32, i32, i32) = (3, 0, 0);

/// A count of a window's functions.
pub(crate) type Count = c_int;

/// A displacement unit of a window's functions.
pub(crate) type Unit = c_int;

/// The prefix of every version string of this series.
pub(crate) const VERSION_PREFIX: &str = "4.1.";

/// The library that registers the parameters shared by components over libfabric, in the folder of libopen-pal.
pub(crate) const COMMON_OFI: Option<&CStr> = Some(c"libmca_common_ofi.so.10");

/// 3.1.0 has no flag for remote completion: its callers assume it.
pub(crate) const REMOTE_COMPLETION: u32 = 0;

/// The tags of messages that Open MPI answers through the sender's endpoint: none, because this series does not
/// pass the sender to the receiver.
pub(crate) const ANSWERED_TAGS: [u8; 0] = [];

/// The default of `btl_ofi_mode`: one-sided.
pub(crate) const MODE: i32 = 0;

/// MPI_Init or MPI_Init_thread decides once whether threads call, and passes this to `init`.
pub(crate) const THREADS_MAY_FOLLOW: bool = false;

const _: () = assert!(crate::bindings::BTL_VERSION == 310, "BTL interface 3.1.0");
