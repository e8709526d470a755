//! Errors in a message.

use super::{MAGIC, VERSION};

/// An error in a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the fields are what the variants' messages print"
)]
pub enum ProtocolError {
    /// The message ends inside a field.
    #[error("malformed message: {what}: wanted {wanted} bytes, found {found}")]
    Truncated {
        what: &'static str,
        wanted: usize,
        found: usize,
    },
    /// There are bytes after the last field.
    #[error("malformed message: {bytes} bytes after the end of {message}")]
    Trailing { message: &'static str, bytes: usize },
    /// A field is longer than allowed.
    #[error("{what}: wanted at most {limit} bytes, found {found}")]
    TooLong {
        what: &'static str,
        limit: usize,
        found: usize,
    },
    /// A text is not UTF-8.
    #[error("{what}: is not UTF-8")]
    Text { what: &'static str },
    /// No message has this code.
    #[error("malformed message: no {what} has the code {code}")]
    UnknownCode { what: &'static str, code: u8 },
    /// The first message does not belong to this protocol.
    #[error(
        "malformed message: wanted a greeting \"{}\", found \"{}\"",
        MAGIC.to_le_bytes().escape_ascii(),
        found.to_le_bytes().escape_ascii()
    )]
    Magic { found: u64 },
    /// The other side speaks another version.
    #[error(
        "the other side speaks version {found} of the protocol, this one version {VERSION}: use the host-stub of one \
         build on both"
    )]
    Version { found: u16 },
    /// A known message arrived when another one was expected.
    #[error("wanted {wanted}, found {found}")]
    Unexpected {
        wanted: &'static str,
        found: &'static str,
    },
}
