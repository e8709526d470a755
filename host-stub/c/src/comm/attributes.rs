//! Attributes of communicators that the host defines.

use std::ffi::c_int;

use host::Comm;

use crate::base::error::{Error, guarded};
use crate::base::handles::place;
use crate::comm::communicator::{comm, host_comm_t};
use crate::job::job;

/// The attribute of the world with the level of device support; see host_device_level.
pub const HOST_ATTR_DEVICE_LEVEL: c_int = 1;

/// Reads an attribute of a communicator. Sets `found` to whether the communicator has this attribute, and
/// sets `value` only then. The world has the host's attributes. HOST_ERR_ARG: the host knows no such
/// attribute.
///
/// # Safety
/// `value` and `found` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_get_attr(
    handle: *mut host_comm_t,
    attribute: c_int,
    value: *mut c_int,
    found: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_comm_get_attr";
        // SAFETY: passed on.
        let (value, found) = unsafe { (place(call, value)?, place(call, found)?) };
        let asked = comm(call, handle)?;
        if attribute != HOST_ATTR_DEVICE_LEVEL {
            let text = format!("{attribute} is no attribute that the host knows");
            return Err(Error::argument(call, &text));
        }
        let job = job(call)?;
        // The world exists already, because there is a communicator, so this call is not
        // collective.
        let is_world = asked.is_same(&Comm::world(&job)?);
        *found = c_int::from(is_world);
        if is_world {
            *value = c_int::from(job.device_support().level.number());
        }
        Ok(())
    })
}
