//! The exchange of addresses through the host.

use std::ffi::CStr;

use plugin_api::{HostVtable, Status};

/// The key under which addresses are exchanged.
const KEY: &CStr = c"btl.ofi";
/// Largest address blob that is read from a peer.
const MAX_BLOB: usize = 64 * 1024;

/// Publishes this process's address for all others.
pub(crate) fn publish(host: &HostVtable, address: &[u8]) -> Status {
    let Some(modex_put) = host.modex_put else {
        return Status::TYPE_MISMATCH;
    };
    // SAFETY: a checked table; the bytes live through the call.
    unsafe {
        modex_put(
            host.context,
            KEY.as_ptr(),
            address.as_ptr().cast(),
            address.len(),
        )
    }
}

/// What a process published; with the status, a text that says what is wrong.
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
        // SAFETY: a checked table; the buffer has the capacity given.
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
                format!("the host answered {s} when asked for its address"),
            )
        })?;
        if size <= blob.len() {
            blob.truncate(size);
            return Ok(blob);
        }
        if size > MAX_BLOB {
            return Err((
                Status::UNREACH,
                format!("its address has {size} bytes, which cannot be"),
            ));
        }
        blob.resize(size, 0);
    }
}
