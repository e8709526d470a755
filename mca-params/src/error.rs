//! What can go wrong, told so that the reader knows where to go and what to change.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::source::Source;

/// An error of this crate. [`Error::Declaration`] and [`Error::Conflict`] are mistakes of the program; the others come
/// from what a user or an administrator wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that means nothing for its parameter.
    #[error(transparent)]
    InvalidValue(Box<InvalidValue>),
    /// A parameter file that is there and cannot be read.
    #[error("cannot read parameter file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A line of a parameter file that cannot be understood.
    #[error("{}:{line}: {reason}: `{text}`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The line as it stands there, made printable and cut short.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A parameter name that no source could hold.
    #[error("`{}` is not a parameter name: letters, digits, `_`, `-` and `.` are", name.escape_debug())]
    Name {
        /// The name.
        name: String,
    },
    /// A parameter that cannot be set after it was registered.
    #[error("parameter {name} cannot be set any more: {reason}")]
    NotSettable {
        /// The parameter.
        name: String,
        /// Why.
        reason: String,
    },
    /// A declaration that contradicts itself.
    #[error("parameter {name} is declared wrongly: {reason}")]
    Declaration {
        /// The parameter.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A declaration that contradicts an earlier one.
    #[error("parameter {name} is declared twice: {reason}")]
    Conflict {
        /// The parameter.
        name: String,
        /// What the two disagree on.
        reason: String,
    },
}

/// A value that means nothing for its parameter, and all there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter {name}: the value `{}` from {} {reason}; allowed: {allowed}", text.escape_debug(), from.place())]
pub struct InvalidValue {
    /// The parameter, under the name the value was given to.
    pub name: String,
    /// The value as it was written; where that is not UTF-8, with replacement characters.
    pub text: String,
    /// Where it was written.
    pub from: Source,
    /// What is wrong with it: the end of a sentence that starts with "the value".
    pub reason: String,
    /// What would be right.
    pub allowed: String,
}

impl From<InvalidValue> for Error {
    fn from(error: InvalidValue) -> Self {
        Self::InvalidValue(Box::new(error))
    }
}

/// Something a user wrote that has no effect, or will not have one for much longer. For the host to show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A value for a parameter that only ever has its default.
    Fixed {
        /// The parameter.
        name: String,
        /// Where the unused value is.
        unused: Source,
    },
    /// A value for a parameter that the override file decides.
    Overridden {
        /// The parameter.
        name: String,
        /// Where the unused value is.
        unused: Source,
        /// Where the used value is.
        used: Source,
    },
    /// A name that still works and is going away.
    Deprecated {
        /// The name that was used.
        name: String,
        /// The name to use.
        instead: String,
        /// Where it was used.
        used_in: Source,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { name, unused } => {
                write!(
                    f,
                    "parameter {name} cannot be changed; {} is ignored",
                    unused.place()
                )
            }
            Self::Overridden { name, unused, used } => {
                write!(
                    f,
                    "parameter {name} is decided by {}; {} is ignored",
                    used.place(),
                    unused.place()
                )
            }
            Self::Deprecated {
                name,
                instead,
                used_in,
            } => {
                write!(
                    f,
                    "parameter {name} is deprecated, use {instead} instead (in {})",
                    used_in.place()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_value_says_what_where_and_what_instead() {
        let error = Error::from(InvalidValue {
            name: "btl_ofi_mode".into(),
            text: "ab\n".into(),
            from: Source::UserFile {
                path: "/h/p.conf".into(),
                line: 3,
            },
            reason: "is not an integer".into(),
            allowed: "0 to 2".into(),
        });
        assert_eq!(
            error.to_string(),
            "parameter btl_ofi_mode: the value `ab\\n` from /h/p.conf:3 is not an integer; allowed: 0 to 2"
        );
    }

    #[test]
    fn errors_stay_small_enough_to_return() {
        assert!(size_of::<Error>() <= 96, "{}", size_of::<Error>());
    }

    #[test]
    fn warnings_name_both_places() {
        let warning = Warning::Overridden {
            name: "a".into(),
            unused: Source::Environment {
                variable: "OMPI_MCA_a".into(),
            },
            used: Source::OverrideFile {
                path: "/e/o.conf".into(),
                line: 1,
            },
        };
        assert_eq!(
            warning.to_string(),
            "parameter a is decided by /e/o.conf:1; environment variable OMPI_MCA_a is ignored"
        );
    }
}
