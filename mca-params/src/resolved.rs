//! A parameter with its value and where that came from.

use crate::declaration::Declaration;
use crate::source::Source;
use crate::value::Value;

/// A parameter with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// What was declared.
    pub declaration: Declaration,
    /// Its value, of the declared type and among the allowed.
    pub value: Value,
    /// Where the value came from.
    pub source: Source,
    /// The name the value was given under, where that is not the parameter's own.
    pub via_synonym: Option<String>,
}

impl Resolved {
    /// The value as a dump prints it.
    pub fn value_text(&self) -> String {
        self.declaration.value_text(&self.value)
    }
}
