//! Open MPI 6.0, BTL interface 3.3.0 as in 5.0, OSC interface 4.0.0: its differences from 4.1.

use std::ffi::CStr;

/// The BTL interface that the component declares.
pub(crate) const BTL_INTERFACE: (i32, i32, i32) = (3, 3, 0);

/// The interface of windows that the component declares.
pub(crate) const OSC_INTERFACE: (i32, i32, i32) = (4, 0, 0);

/// A count of a window's functions.
pub(crate) type Count = usize;

/// A displacement unit of a window's functions.
pub(crate) type Unit = isize;

/// The prefix of every version string of this series.
pub(crate) const VERSION_PREFIX: &str = "6.0.";

/// `common/ofi` is part of libopen-pal if it is built.
pub(crate) const COMMON_OFI: Option<&CStr> = None;

/// A completion means that the data is visible at the target; osc/rdma uses no transport without this flag.
pub(crate) const REMOTE_COMPLETION: u32 = crate::bindings::MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION;

/// The tags of messages that Open MPI answers through the sender's endpoint: the requests of active-message RDMA.
pub(crate) const ANSWERED_TAGS: [u8; 2] = [
    crate::bindings::MCA_BTL_BASE_TAG_RDMA as u8,
    crate::bindings::MCA_BTL_BASE_TAG_ATOMIC as u8,
];

/// The default of `btl_ofi_mode`: one-sided and two-sided, as in the C component of this series.
pub(crate) const MODE: i32 = 2;

/// Threads may begin to call after `init` without notice to components: by MPI_Session_init with MPI_THREAD_MULTIPLE
/// while another instance lives, MPI_Init's included, and in the thread of ULFM's failure detector
/// (`mpi_ft_detector_thread`).
pub(crate) const THREADS_MAY_FOLLOW: bool = true;

const _: () = assert!(crate::bindings::BTL_VERSION == 330, "BTL interface 3.3.0");
