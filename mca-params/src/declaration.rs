//! The declaration of a parameter, which a component writes once as data. The module `registry` resolves a
//! parameter's value from its sources.

use std::borrow::Cow;
use std::fmt;
use std::mem;

use crate::error::Error;
use crate::value::{Kind, Value};

mod convert;

/// The audience of a parameter, from 1 (every user) to 9 (developers), as in `ompi_info --level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// 1: basics for users.
    pub const USER_BASIC: Self = Self(1);
    /// 2: details for users.
    pub const USER_DETAIL: Self = Self(2);
    /// 3: everything for users.
    pub const USER_ALL: Self = Self(3);
    /// 4: basics for tuning.
    pub const TUNER_BASIC: Self = Self(4);
    /// 5: details for tuning.
    pub const TUNER_DETAIL: Self = Self(5);
    /// 6: everything for tuning.
    pub const TUNER_ALL: Self = Self(6);
    /// 7: basics for developers.
    pub const DEV_BASIC: Self = Self(7);
    /// 8: details for developers.
    pub const DEV_DETAIL: Self = Self(8);
    /// 9: everything.
    pub const DEV_ALL: Self = Self(9);

    /// The level with this number; `None` outside 1 to 9.
    pub const fn new(number: u8) -> Option<Self> {
        match number {
            1..=9 => Some(Self(number)),
            _ => None,
        }
    }

    /// The number, 1 to 9.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The name that `ompi_info` prints, such as `tuner/detail`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "user/basic",
            2 => "user/detail",
            3 => "user/all",
            4 => "tuner/basic",
            5 => "tuner/detail",
            6 => "tuner/all",
            7 => "dev/basic",
            8 => "dev/detail",
            _ => "dev/all",
        }
    }
}

/// Prints number and name, such as `5 tuner/detail`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.name())
    }
}

/// A number with a name, for [`Allowed::Flags`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The number that the program uses.
    pub value: i64,
    /// The word that a user may write instead, in any case.
    pub name: Cow<'static, str>,
}

impl Named {
    /// A pair that can stand in a `static` table.
    pub const fn new(value: i64, name: &'static str) -> Self {
        Self {
            value,
            name: Cow::Borrowed(name),
        }
    }
}

/// The values that a parameter accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allowed {
    /// Every value of the type.
    Any,
    /// One of these words, in any case; the value gets the spelling of the table. For numbers, one of these numbers.
    OneOf(Cow<'static, [Cow<'static, str>]>),
    /// A number from `min` to `max`, both included.
    Range {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// A set of bits, written as comma-separated numbers or names (an Open MPI flag enumerator).
    Flags(Cow<'static, [Named]>),
}

/// A parameter's declaration. All fields are public, so that tables can be `static` data; [`Declaration::new`] and its
/// builder methods are shorter.
///
/// ```
/// use mca_params::{Allowed, Declaration, Kind, Level, Value};
///
/// static PARAMETERS: [Declaration; 1] = [Declaration::new("btl_ofi_rd_num", Kind::Int, Value::Int(10))
///     .help("Receive descriptors posted per context.")
///     .level(Level::TUNER_DETAIL)
///     .allowed(Allowed::Range { min: 1, max: 4096 })];
/// assert_eq!(PARAMETERS[0].default.as_int(), Some(10));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The full name without the project, such as `btl_ofi_mode`: letters, digits, `_`, `-` and `.`.
    pub name: Cow<'static, str>,
    /// The type.
    pub kind: Kind,
    /// The value if no source sets one. This default fits the type and the allowed values.
    pub default: Value,
    /// Description, one line.
    pub help: Cow<'static, str>,
    /// The audience.
    pub level: Level,
    /// The accepted values.
    pub allowed: Allowed,
    /// Other names. At the same rank a synonym has precedence over the name, and a later synonym over an earlier one.
    pub synonyms: Cow<'static, [Cow<'static, str>]>,
}

impl Declaration {
    /// A read-only parameter for developers that accepts every value of its type. The methods below change this.
    pub const fn new(name: &'static str, kind: Kind, default: Value) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind,
            default,
            help: Cow::Borrowed(""),
            level: Level::DEV_ALL,
            allowed: Allowed::Any,
            synonyms: Cow::Borrowed(&[]),
        }
    }

    // The three methods below use `forget`, because a `const fn` cannot drop. The values of a table are borrowed, so
    // that no memory leaks.

    /// Replaces the help.
    pub const fn help(mut self, help: &'static str) -> Self {
        mem::forget(mem::replace(&mut self.help, Cow::Borrowed(help)));
        self
    }

    /// Replaces the level.
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Replaces the allowed values.
    pub const fn allowed(mut self, allowed: Allowed) -> Self {
        mem::forget(mem::replace(&mut self.allowed, allowed));
        self
    }

    /// Replaces the synonyms.
    pub const fn synonyms(mut self, synonyms: &'static [Cow<'static, str>]) -> Self {
        mem::forget(mem::replace(&mut self.synonyms, Cow::Borrowed(synonyms)));
        self
    }

    /// Parses `text`. `home` replaces `~` at the start of each colon-separated path. The error text completes the
    /// sentence "the value ...".
    pub(crate) fn parse(&self, text: &str, home: Option<&str>) -> Result<Value, String> {
        convert::parse(self, text, home)
    }

    /// The accepted values as text: printed after `Valid values:` in a dump and after `allowed:` in an error.
    pub fn allowed_text(&self) -> String {
        convert::describe(self)
    }

    /// A value of this parameter as a dump prints it: by name if the declaration has one.
    pub fn value_text(&self, value: &Value) -> String {
        convert::display(self, value)
    }

    /// All names in order of precedence: synonyms from the last to the first, then the name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.synonyms
            .iter()
            .rev()
            .chain([&self.name])
            .map(AsRef::as_ref)
    }

    /// Refuses an inconsistent declaration. Such an error is an error of the program, not of the
    /// user.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |reason: String| {
            Err(Error::Declaration {
                name: self.name.to_string(),
                reason,
            })
        };
        if let Some(name) = self.names().find(|name| !is_name(name)) {
            return wrong(format!("`{}` is not a parameter name", name.escape_debug()));
        }
        if !self.default.fits(self.kind) {
            return wrong(format!(
                "the default {:?} is not of type {}",
                self.default, self.kind
            ));
        }
        let applies = match &self.allowed {
            Allowed::Any => true,
            Allowed::OneOf(_) => self.kind != Kind::Bool,
            Allowed::Range { .. } | Allowed::Flags(_) => self.kind.bounds().is_some(),
        };
        if !applies {
            return wrong(format!(
                "{:?} means nothing for type {}",
                self.allowed, self.kind
            ));
        }
        match convert::permit(self, self.default.clone()) {
            Ok(_) => Ok(()),
            Err(reason) => wrong(format!("the default `{}` {reason}", self.default)),
        }
    }
}

/// Whether a parameter file of Open MPI can contain this name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

/// Whether a name in a parameter file may contain this byte.
pub(crate) const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(d: &Declaration) -> String {
        d.check().expect_err("must be refused").to_string()
    }

    #[test]
    fn levels_are_one_to_nine() {
        assert_eq!(Level::new(0), None);
        assert_eq!(Level::new(10), None);
        assert_eq!(Level::new(5), Some(Level::TUNER_DETAIL));
        assert_eq!(Level::DEV_ALL.to_string(), "9 dev/all");
        assert!(Level::USER_BASIC < Level::DEV_BASIC);
    }

    #[test]
    fn tables_can_be_static_either_way() {
        static LONG: &[Declaration] = &[Declaration {
            name: Cow::Borrowed("btl_ofi_provider_include"),
            kind: Kind::String,
            default: Value::String(Cow::Borrowed("")),
            help: Cow::Borrowed("Providers to use."),
            level: Level::USER_BASIC,
            allowed: Allowed::Any,
            synonyms: Cow::Borrowed(&[Cow::Borrowed("a"), Cow::Borrowed("b")]),
        }];
        static SHORT: &[Declaration] =
            &[
                Declaration::new("btl_ofi_provider_include", Kind::String, Value::str(""))
                    .help("Providers to use.")
                    .level(Level::USER_BASIC)
                    .synonyms(&[Cow::Borrowed("a"), Cow::Borrowed("b")]),
            ];
        assert_eq!(LONG, SHORT);
        assert_eq!(
            LONG[0].names().collect::<Vec<_>>(),
            ["b", "a", "btl_ofi_provider_include"]
        );
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(reason(&Declaration::new("a b", Kind::Int, Value::Int(0))).contains("`a b`"));
        assert!(
            reason(&Declaration::new("", Kind::Int, Value::Int(0)))
                .contains("not a parameter name")
        );
        assert!(
            reason(&Declaration::new("a", Kind::Int, Value::Unsigned(0)))
                .contains("not of type int")
        );
        assert!(
            reason(&Declaration::new(
                "a",
                Kind::UnsignedInt,
                Value::Unsigned(1 << 40)
            ))
            .contains("not of type unsigned_int")
        );
        let range = Allowed::Range { min: 1, max: 2 };
        assert!(
            reason(&Declaration::new("a", Kind::Int, Value::Int(0)).allowed(range.clone()))
                .contains("is below 1")
        );
        assert!(
            reason(&Declaration::new("a", Kind::String, Value::str("")).allowed(range))
                .contains("means nothing for type string")
        );
    }
}
