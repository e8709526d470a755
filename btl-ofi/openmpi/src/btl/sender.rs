//! The sender's name, at the end of messages that Open MPI answers through the sender's endpoint ([`ANSWERED_TAGS`]). These
//! are the requests of active-message RDMA (5.0, 6.0). osc/rdma uses it for windows on which no single BTL reaches all
//! processes.
//!
//! Processes are added on demand, so a target may not have added the origin. Open MPI aborts the process on a request without
//! an endpoint. So the receiver first adds the sender, which it finds by the name.

use std::ptr;

use crate::btl::peers::Name;
use crate::series::ANSWERED_TAGS;

/// Bytes of a name: job and rank.
const NAME: usize = 8;

/// The longest name of any message, bytes: the limit of messages is lower by this than the
/// transport's limit.
pub(crate) const LONGEST: usize = if ANSWERED_TAGS.is_empty() { 0 } else { NAME };

/// Whether messages with this tag end with a name.
#[inline]
pub(crate) fn is_named(tag: u8) -> bool {
    ANSWERED_TAGS.contains(&tag)
}

/// Bytes of the name at the end of a message.
#[inline]
pub(crate) fn size(tag: u8) -> usize {
    if is_named(tag) { NAME } else { 0 }
}

/// Writes this process's name to the end of a message, if its tag asks for it.
///
/// # Safety
/// `to` is writable for [`size`] bytes.
#[inline]
pub(crate) unsafe fn write(tag: u8, to: *mut u8) {
    if is_named(tag) {
        let bytes = encode(Name::own().unwrap_or_default());
        // SAFETY: the caller guarantees the room.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, NAME) };
    }
}

fn encode(name: Name) -> [u8; NAME] {
    (u64::from(name.0) << 32 | u64::from(name.1)).to_ne_bytes()
}

/// Divides a message that ends with a name; `None` if it is too short for one.
pub(crate) fn split(bytes: &[u8]) -> Option<(&[u8], Name)> {
    let (message, name) = bytes.split_last_chunk::<NAME>()?;
    let name = u64::from_ne_bytes(*name);
    Some((message, Name((name >> 32) as u32, name as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_behind_its_message() {
        let name = Name(0x8000_0001, 70_000);
        for message in [&b""[..], b"request"] {
            let sent = [message, &encode(name)].concat();
            assert_eq!(split(&sent), Some((message, name)));
        }
        assert_eq!(split(&encode(name)[..7]), None);
    }

    #[test]
    fn messages_have_room_for_the_names_that_they_carry() {
        let longest = (0..=u8::MAX).map(size).max();
        assert_eq!(longest, Some(LONGEST));
    }
}
