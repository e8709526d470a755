//! The kinds of windows.

/// The origin of a window's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// The caller's memory.
    Create = 1,
    /// Memory that the window owns.
    Allocate = 2,
    /// Memory that the window owns and every rank may address.
    AllocateShared = 4,
    /// Memory attached and detached while the window lives.
    Dynamic = 3,
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
        .find(|kind| *kind as u32 == code)
    }
}
