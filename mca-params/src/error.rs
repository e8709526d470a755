//! Errors and warnings. Each message names the place of the mistake and the change to make.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::source::Source;

/// An error of this crate. [`Error::Declaration`] and [`Error::Conflict`] are mistakes of the program; the others are
/// mistakes of a user or an administrator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that its parameter does not accept.
    #[error(transparent)]
    InvalidValue(Box<InvalidValue>),
    /// A parameter file exists but cannot be read.
    #[error("cannot read parameter file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A line of a parameter file is malformed.
    #[error("{}:{line}: {reason}: `{text}`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line, made printable and truncated.
        text: String,
        /// The mistake.
        reason: String,
    },
    /// A text is not a parameter name.
    #[error("`{}` is not a parameter name: only letters, digits, `_`, `-` and `.` are allowed", name.escape_debug())]
    Name {
        /// The name.
        name: String,
    },
    /// A registered parameter cannot be set.
    #[error("parameter {name} cannot be set any more: it is registered")]
    NotSettable {
        /// The parameter.
        name: String,
    },
    /// A setting of a parameter that was removed.
    #[error("parameter {name}, set by {}, was removed: {instead}", from.place())]
    Removed {
        /// The parameter, by the name that the source uses.
        name: String,
        /// The source of the setting.
        from: Source,
        /// The parameter or option to use instead.
        instead: &'static str,
    },
    /// A declaration is inconsistent.
    #[error("parameter {name} is declared wrongly: {reason}")]
    Declaration {
        /// The parameter.
        name: String,
        /// The mistake.
        reason: String,
    },
    /// A declaration contradicts an earlier one.
    #[error("parameter {name} is declared twice: {reason}")]
    Conflict {
        /// The parameter.
        name: String,
        /// The difference between the two.
        reason: String,
    },
}

/// A value that its parameter does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter {name}: the value `{}` from {} {reason}; allowed: {allowed}", text.escape_debug(), from.place())]
pub struct InvalidValue {
    /// The parameter, by the name that the source uses.
    pub name: String,
    /// The value's text; with replacement characters if it is not UTF-8.
    pub text: String,
    /// The source of the value.
    pub from: Source,
    /// The mistake: the end of a sentence that starts with "the value".
    pub reason: String,
    /// The accepted values.
    pub allowed: String,
}

impl From<InvalidValue> for Error {
    fn from(error: InvalidValue) -> Self {
        Self::InvalidValue(Box::new(error))
    }
}

/// A setting of a user that has no effect, or that a later release will ignore. The host prints
/// this warning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A value for a parameter that the override file sets.
    Overridden {
        /// The parameter.
        name: String,
        /// The source of the ignored value.
        unused: Source,
        /// The source of the used value.
        used: Source,
    },
    /// A deprecated name, which still works.
    Deprecated {
        /// The deprecated name.
        name: String,
        /// The name to use.
        instead: String,
        /// The source that uses the setting.
        used_in: Source,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            from: Source::File {
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
            used: Source::File {
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
