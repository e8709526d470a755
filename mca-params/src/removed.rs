//! Parameters that a later release no longer has.

/// A parameter that was removed. [`Registry::refuse`](crate::Registry::refuse) refuses a setting of it: a user who relies on
/// the parameter must not run without it unknowingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The former full name of the parameter, without the project.
    pub name: &'static str,
    /// The parameter or option to use instead, as the end of a message.
    pub instead: &'static str,
}

impl Removed {
    /// A pair that can stand in a `static` table.
    pub const fn new(name: &'static str, instead: &'static str) -> Self {
        Self { name, instead }
    }
}
