//! The host's list of devices beside the list of another runtime, which is OpenMP: the host takes equal numbers
//! as the same device until it sees that they are not, and logs the difference once.

use std::cell::Cell;

/// Knowledge of another runtime's numbers.
#[derive(Default)]
pub(crate) struct Numbering {
    /// The number of the host's devices at the last comparison of the lists.
    compared: Cell<usize>,
    /// Whether a number was found that means another device at the host.
    differs: Cell<bool>,
}

impl Numbering {
    /// Compares the numbers of devices of both lists, again after the host has got more. `theirs` is called
    /// only then.
    pub(crate) fn compare(&self, theirs: impl FnOnce() -> Option<usize>, ours: usize) {
        if self.compared.replace(ours) == ours {
            return;
        }
        // A program may use OpenMP for its threads alone.
        let Some(theirs) = theirs().filter(|theirs| *theirs != 0 && *theirs != ours) else {
            return;
        };
        let (first, who) = match theirs > ours {
            true => (ours, "the host does not know OpenMP's"),
            false => (theirs, "OpenMP does not know the host's"),
        };
        tracing::warn!(
            "OpenMP has {theirs} device(s) and the host {ours}: {who} from number {first} on; a program adds its \
             devices in OpenMP's order"
        );
    }

    /// Notes that a number of the other runtime stands for another number at the host.
    pub(crate) fn see(&self, theirs: i32, ours: i32) {
        if theirs != ours && !self.differs.replace(true) {
            tracing::warn!(
                "OpenMP's device {theirs} is device {ours} of the host, by the memory that it maps variables to; \
                 the host goes by the memory"
            );
        }
    }

    /// Whether a device may have another number in the other runtime.
    pub(crate) fn differs(&self) -> bool {
        self.differs.get()
    }
}
