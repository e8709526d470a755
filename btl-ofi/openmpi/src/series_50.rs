//! Open MPI 5.0, BTL interface 3.3.0: where it differs from 4.1.

use std::ffi::CStr;

/// The BTL interface that the component declares.
pub(crate) const BTL_INTERFACE: (i32, i32, i32) = (3, 3, 0);

/// What every version string of this series starts with.
pub(crate) const VERSION_PREFIX: &str = "5.0.";

/// `common/ofi` is part of libopen-pal, where it is built at all.
pub(crate) const COMMON_OFI: Option<&CStr> = None;

/// osc/rdma takes no transport without this flag: a completion means that the data is visible at the target.
pub(crate) const REMOTE_COMPLETION: u32 = crate::bindings::MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION;

const _: () = assert!(crate::bindings::BTL_VERSION == 330, "BTL interface 3.3.0");
