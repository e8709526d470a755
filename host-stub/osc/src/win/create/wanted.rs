//! A rank's wishes for a new window.

use crate::win::info::Info;
use crate::win::kind::WindowKind;

/// The origin of a window's memory.
#[derive(Clone, Copy)]
pub(in crate::win) enum Source {
    /// The caller passes memory of this many bytes.
    Caller(*mut u8, usize),
    /// The window allocates this many bytes.
    Own(usize),
    /// The window has no memory; ranks attach memory later.
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

/// The wishes of a rank.
pub(in crate::win) struct Wanted<'a> {
    pub(in crate::win) kind: WindowKind,
    pub(in crate::win) unit: u32,
    pub(in crate::win) source: Source,
    pub(in crate::win) info: &'a Info,
}
