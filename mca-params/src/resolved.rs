//! A registered parameter with its value and the value's source.

use crate::declaration::Declaration;
use crate::source::Source;
use crate::value::Value;

/// A registered parameter with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The declaration.
    pub declaration: Declaration,
    /// The value; it fits the declared type and the allowed values.
    pub value: Value,
    /// The source of the value.
    pub source: Source,
    /// The synonym that set the value, if not the parameter's own name did.
    pub via_synonym: Option<String>,
}

impl Resolved {
    /// The value as a dump prints it.
    pub fn value_text(&self) -> String {
        self.declaration.value_text(&self.value)
    }
}
