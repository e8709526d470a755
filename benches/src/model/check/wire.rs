//! Bytes that this process has sent over TCP, as the kernel counts them.

use std::mem::size_of_val;

/// `tcpi_bytes_sent` of `struct tcp_info`, in words; Linux 4.19 and newer.
const BYTES_SENT: usize = 200 / 8;

/// Bytes sent on all connections that are open.
pub(super) fn sent() -> Result<u64, String> {
    let folder = "/proc/self/fd";
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{folder}: {e}"))?;
    let numbers = entries.flatten().map(|entry| entry.file_name());
    let numbers: Vec<i32> = numbers
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    Ok(numbers.into_iter().filter_map(of).sum())
}

/// Of one descriptor; none if it is no connection.
fn of(descriptor: i32) -> Option<u64> {
    let mut info = [0u64; 64];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and refuses descriptors that are closed or no TCP sockets.
    let rc = unsafe {
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let has = length as usize >= (BYTES_SENT + 1) * size_of::<u64>();
    (rc == 0 && has).then(|| info[BYTES_SENT])
}
