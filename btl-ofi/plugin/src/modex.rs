//! Publishes and fetches addresses through the host's modex.

use std::ffi::CStr;

use plugin_api::{HostVtable, Status};

/// The key of an address in the modex.
const KEY: &CStr = c"btl.ofi";
/// Largest address that this process accepts from a peer, bytes.
const MAX_BLOB: usize = 64 * 1024;

/// Publishes this process's address for all processes of the job.
pub(crate) fn publish(host: &HostVtable, address: &[u8]) -> Status {
    let Some(modex_put) = host.modex_put else {
        return Status::TYPE_MISMATCH;
    };
    // SAFETY: `HostVtable::check` accepted the table; the bytes live through the call.
    unsafe {
        modex_put(
            host.context,
            KEY.as_ptr(),
            address.as_ptr().cast(),
            address.len(),
        )
    }
}

/// The address that a process published. The error holds a status and the reason as text.
pub(crate) fn fetch(host: &HostVtable, proc: u64) -> Result<Vec<u8>, (Status, String)> {
    let Some(modex_get) = host.modex_get else {
        return Err((
            Status::TYPE_MISMATCH,
            String::from("the host has no modex_get"),
        ));
    };
    let mut blob = vec![0u8; 512];
    loop {
        let mut size = 0;
        // SAFETY: `HostVtable::check` accepted the table; the buffer has `blob.len()` writable bytes.
        let status = unsafe {
            modex_get(
                host.context,
                proc,
                KEY.as_ptr(),
                blob.as_mut_ptr().cast(),
                blob.len(),
                &mut size,
            )
        };
        if status == Status::NOT_FOUND {
            return Err((Status::UNREACH, String::from("it published no address")));
        }
        status.ok().map_err(|s| {
            (
                s,
                format!("the host's modex_get returned {s} for its address"),
            )
        })?;
        if size <= blob.len() {
            blob.truncate(size);
            return Ok(blob);
        }
        if size > MAX_BLOB {
            return Err((
                Status::UNREACH,
                format!("its address has {size} bytes; at most {MAX_BLOB} are allowed"),
            ));
        }
        blob.resize(size, 0);
    }
}
