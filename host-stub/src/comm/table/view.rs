//! A communicator as one of its ranks sees it.

/// A communicator as one of its ranks sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

impl View {
    /// Checks a root; the error text names the violation.
    pub(super) fn check_root(&self, root: usize) -> Result<(), String> {
        let size = self.size;
        match root < size {
            true => Ok(()),
            false => Err(format!("no root {root} in a communicator of {size} ranks")),
        }
    }
}
