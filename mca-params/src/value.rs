//! The types and values of parameters. The conversion from text is in `declaration::convert`.

use std::borrow::Cow;
use std::fmt;

/// The type of a parameter, with Open MPI's names (`mca_base_var_type_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// C's `int`: an `i32` in [`Value::Int`].
    Int,
    /// C's `unsigned int`: at most `u32::MAX`, in [`Value::Unsigned`].
    UnsignedInt,
    /// C's `size_t` on a 64-bit machine, in [`Value::Unsigned`].
    SizeT,
    /// A boolean, in [`Value::Bool`].
    Bool,
    /// Text, in [`Value::String`].
    String,
}

impl Kind {
    /// The name that `ompi_info` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::UnsignedInt => "unsigned_int",
            Self::SizeT => "size_t",
            Self::Bool => "bool",
            Self::String => "string",
        }
    }

    /// The smallest and largest number of an integer type; `None` for other types.
    pub(crate) const fn bounds(self) -> Option<(i128, i128)> {
        match self {
            Self::Int => Some((i32::MIN as i128, i32::MAX as i128)),
            Self::UnsignedInt => Some((0, u32::MAX as i128)),
            Self::SizeT => Some((0, u64::MAX as i128)),
            Self::Bool | Self::String => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A typed value. [`Kind`] documents the variant of each type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value of a [`Kind::Int`].
    Int(i32),
    /// The value of a [`Kind::UnsignedInt`] or [`Kind::SizeT`].
    Unsigned(u64),
    /// The value of a [`Kind::Bool`].
    Bool(bool),
    /// The value of a [`Kind::String`].
    String(Cow<'static, str>),
}

impl Value {
    /// A string value that can stand in a `static` table.
    pub const fn str(text: &'static str) -> Self {
        Self::String(Cow::Borrowed(text))
    }

    /// The number of a [`Value::Int`]; `None` for other variants.
    pub const fn as_int(&self) -> Option<i32> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The number of a [`Value::Unsigned`]; `None` for other variants.
    pub const fn as_unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(n) => Some(*n),
            _ => None,
        }
    }

    /// The boolean of a [`Value::Bool`]; `None` for other variants.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The text of a [`Value::String`]; `None` for other variants.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The number of either integer variant, in a type that holds both.
    pub(crate) fn as_whole(&self) -> Option<i128> {
        match self {
            Self::Int(n) => Some(i128::from(*n)),
            Self::Unsigned(n) => Some(i128::from(*n)),
            _ => None,
        }
    }

    /// Whether a parameter of this type can have this value.
    pub fn fits(&self, kind: Kind) -> bool {
        match self {
            Self::Int(_) => kind == Kind::Int,
            Self::Unsigned(n) => match kind {
                Kind::UnsignedInt => u32::try_from(*n).is_ok(),
                Kind::SizeT => true,
                _ => false,
            },
            Self::Bool(_) => kind == Kind::Bool,
            Self::String(_) => kind == Kind::String,
        }
    }
}

/// Prints as `ompi_info` does: `true` and `false`, text as it is.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => write!(f, "{n}"),
            Self::Unsigned(n) => write!(f, "{n}"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::String(s) => f.write_str(s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accessors_answer_for_their_own_variant_only() {
        assert_eq!(Value::Int(-3).as_int(), Some(-3));
        assert_eq!(Value::Int(3).as_unsigned(), None);
        assert_eq!(Value::Unsigned(3).as_unsigned(), Some(3));
        assert_eq!(Value::Unsigned(3).as_int(), None);
        assert_eq!(Value::Bool(true).as_bool(), Some(true));
        assert_eq!(Value::str("x").as_str(), Some("x"));
        assert_eq!(Value::str("x").as_int(), None);
    }

    #[test]
    fn fits_knows_the_width_of_each_kind() {
        assert!(Value::Unsigned(u64::MAX).fits(Kind::SizeT));
        assert!(!Value::Unsigned(u64::MAX).fits(Kind::UnsignedInt));
        assert!(!Value::Unsigned(1).fits(Kind::Int));
    }

    #[test]
    fn prints_like_ompi_info() {
        assert_eq!(Value::Bool(false).to_string(), "false");
        assert_eq!(Value::str("").to_string(), "");
        assert_eq!(Kind::UnsignedInt.to_string(), "unsigned_int");
    }
}
