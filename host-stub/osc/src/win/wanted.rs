//! What a rank asks for when a window is made.

use super::info::Info;
use super::kind::WindowKind;

/// Where a window's memory comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// The caller.
    Caller(*mut u8, usize),
    /// The window, this many bytes.
    Own(usize),
    /// Nowhere; some is attached later.
    None,
}

impl Source {
    pub(super) fn len(self) -> usize {
        match self {
            Source::Caller(_, len) | Source::Own(len) => len,
            Source::None => 0,
        }
    }
}

/// What a rank wants.
pub(super) struct Wanted<'a> {
    pub(super) kind: WindowKind,
    pub(super) unit: u32,
    pub(super) source: Source,
    pub(super) info: &'a Info,
}
