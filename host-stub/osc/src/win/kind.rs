//! The kinds of windows.

/// The origin of a window's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// The caller's memory.
    Create,
    /// Memory that the window owns.
    Allocate,
    /// Memory that the window owns and every rank may address.
    AllocateShared,
    /// Memory attached and detached while the window lives.
    Dynamic,
}

impl WindowKind {
    /// The kind of a code.
    pub(super) fn of(code: u32) -> Option<WindowKind> {
        [
            WindowKind::Create,
            WindowKind::Allocate,
            WindowKind::Dynamic,
            WindowKind::AllocateShared,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }

    pub(super) const fn code(self) -> u32 {
        match self {
            WindowKind::Create => 1,
            WindowKind::Allocate => 2,
            WindowKind::Dynamic => 3,
            WindowKind::AllocateShared => 4,
        }
    }
}
