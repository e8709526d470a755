//! A rank's wishes for a new window.

use crate::win::info::Info;
use crate::win::kind::WindowKind;

/// Where a window's memory comes from.
#[derive(Clone, Copy)]
pub(in crate::win) enum Source {
    /// The caller.
    Caller(*mut u8, usize),
    /// The window, this many bytes.
    Own(usize),
    /// Nowhere; some is attached later.
    None,
}

impl Source {
    pub(in crate::win) fn len(self) -> usize {
        match self {
            Source::Caller(_, len) | Source::Own(len) => len,
            Source::None => 0,
        }
    }
}

/// What a rank wants.
pub(in crate::win) struct Wanted<'a> {
    pub(in crate::win) kind: WindowKind,
    pub(in crate::win) unit: u32,
    pub(in crate::win) source: Source,
    pub(in crate::win) info: &'a Info,
}
