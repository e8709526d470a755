//! Records which processes have this component. Each process publishes a number when Open MPI opens its components. If a
//! process has published none, all ranks of a window leave it to another component.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::bindings as ffi;
use crate::osc::log;

/// The number of the protocol between the ranks of a window: raised when the exchanged data changes. Processes with another
/// number do not make windows together.
const PROTOCOL: u16 = 7;

/// The numbers of processes, by their names; `None` for a process that has published none.
static KNOWN: Mutex<Option<HashMap<u64, Option<u32>>>> = Mutex::new(None);

/// Encodes the published value of this process from its priority.
fn encode(priority: i32) -> u32 {
    let priority = priority.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16;
    u32::from(PROTOCOL) << 16 | u32::from(priority as u16)
}

/// The priority in a number; `None` for another protocol.
fn decode(number: u32) -> Option<i32> {
    (number >> 16 == u32::from(PROTOCOL)).then_some(i32::from(number as u16 as i16))
}

/// Publishes this process's priority.
pub(crate) fn publish(priority: i32) {
    // SAFETY: Open MPI's runtime is up when it opens components; otherwise the function returns an
    // error.
    let rc = unsafe { ffi::mca_osc_ofi_host_publish(encode(priority)) };
    if rc != ffi::OMPI_SUCCESS {
        log::verbose(1, || {
            format!("its presence could not be published ({rc}); other components serve windows")
        });
    }
}

/// Forgets the known numbers, because processes have other names when Open MPI starts again.
pub(crate) fn forget() {
    *KNOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// The lowest priority of the processes of a communicator; -1 if one of them cannot take part. Each rank finds the
/// same value.
pub(crate) fn priority(comm: *mut ffi::ompi_communicator_t, own: i32) -> c_int {
    // SAFETY: Open MPI passes a communicator that lives through the call.
    let (rank, size) = unsafe {
        (
            ffi::mca_osc_ofi_host_rank(comm),
            ffi::mca_osc_ofi_host_size(comm),
        )
    };
    // SAFETY: the communicator lives, and has these ranks.
    let process = |rank| unsafe { ffi::mca_osc_ofi_host_process(comm, rank) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let mut lowest = own;
    for other in (0..size).filter(|other| *other != rank) {
        let name = process(other);
        // SAFETY: the communicator lives, and has this rank.
        if !unsafe { ffi::mca_osc_ofi_host_is_alike(comm, other) } {
            return refuse(|| format!("rank {other} has another architecture"));
        }
        let number = *known.entry(name).or_insert_with(|| {
            let mut number = 0;
            // SAFETY: the communicator lives, and has this rank; `number` is writable.
            unsafe { ffi::mca_osc_ofi_host_published(comm, other, &mut number) }.then_some(number)
        });
        match number.and_then(decode) {
            Some(theirs) => lowest = lowest.min(theirs),
            None => return refuse(|| format!("rank {other} does not have this component")),
        }
    }
    if lowest < 0 { -1 } else { lowest }
}

/// The answer for a window that other components serve.
#[cold]
fn refuse(reason: impl FnOnce() -> String) -> c_int {
    log::verbose(1, || format!("left to other components: {}", reason()));
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_comes_back_and_another_protocol_does_not() {
        for priority in [-1, 0, 102, 32_767] {
            assert_eq!(decode(encode(priority)), Some(priority));
        }
        assert_eq!(decode(encode(1 << 20)), Some(i32::from(i16::MAX)));
        assert_eq!(decode(102), None);
        assert_eq!(decode(encode(5) + (1 << 16)), None);
    }
}
