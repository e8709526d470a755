//! Errors in a message.

use std::fmt;

use super::{MAGIC, VERSION};

/// An error in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the fields are what the variants' messages print"
)]
pub enum ProtocolError {
    /// The message ends inside a field.
    Truncated {
        what: &'static str,
        wanted: usize,
        found: usize,
    },
    /// There are bytes after the last field.
    Trailing { message: &'static str, bytes: usize },
    /// A field is longer than allowed.
    TooLong {
        what: &'static str,
        limit: usize,
        found: usize,
    },
    /// A text is not UTF-8.
    Text { what: &'static str },
    /// No message has this code.
    UnknownCode { what: &'static str, code: u8 },
    /// The first message does not belong to this protocol.
    Magic { found: u64 },
    /// The other side speaks another version.
    Version { found: u16 },
    /// A known message arrived when another one was expected.
    Unexpected {
        wanted: &'static str,
        found: &'static str,
    },
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::Truncated {
                what,
                wanted,
                found,
            } => write!(
                f,
                "malformed message: {what}: wanted {wanted} bytes, found {found}"
            ),
            ProtocolError::Trailing { message, bytes } => {
                write!(
                    f,
                    "malformed message: {bytes} bytes after the end of {message}"
                )
            }
            ProtocolError::TooLong { what, limit, found } => {
                write!(f, "{what}: wanted at most {limit} bytes, found {found}")
            }
            ProtocolError::Text { what } => write!(f, "{what}: is not UTF-8"),
            ProtocolError::UnknownCode { what, code } => {
                write!(f, "malformed message: no {what} has the code {code}")
            }
            ProtocolError::Magic { found } => write!(
                f,
                "malformed message: wanted a greeting \"{}\", found \"{}\"",
                MAGIC.to_le_bytes().escape_ascii(),
                found.to_le_bytes().escape_ascii()
            ),
            ProtocolError::Version { found } => write!(
                f,
                "the other side speaks version {found} of the protocol, this one version {VERSION}: \
                 use the host-stub of one build on both"
            ),
            ProtocolError::Unexpected { wanted, found } => {
                write!(f, "wanted {wanted}, found {found}")
            }
        }
    }
}

impl std::error::Error for ProtocolError {}
