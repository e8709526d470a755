//! Parameters: their declaration and value in the form that crosses the boundary.

use std::ffi::{c_char, c_double};

/// The type of a parameter, as Open MPI's `mca_base_var_type_t` names them.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// 32-bit signed; in [`ParamValueBits::i`].
    Int = 0,
    /// 32-bit unsigned; in [`ParamValueBits::u`].
    UnsignedInt = 1,
    /// 64-bit unsigned; in [`ParamValueBits::u`].
    UnsignedLong = 2,
    /// A size in bytes; in [`ParamValueBits::u`].
    SizeT = 3,
    /// 0 or 1; in [`ParamValueBits::u`].
    Bool = 4,
    /// NUL-terminated UTF-8 or NULL for unset; in [`ParamValueBits::s`].
    String = 5,
    /// In [`ParamValueBits::d`].
    Double = 6,
}

impl TryFrom<u32> for ParamKind {
    type Error = crate::UnknownCode;

    fn try_from(code: u32) -> Result<Self, Self::Error> {
        Ok(match code {
            0 => ParamKind::Int,
            1 => ParamKind::UnsignedInt,
            2 => ParamKind::UnsignedLong,
            3 => ParamKind::SizeT,
            4 => ParamKind::Bool,
            5 => ParamKind::String,
            6 => ParamKind::Double,
            _ => {
                return Err(crate::UnknownCode {
                    what: "parameter kind",
                    code,
                });
            }
        })
    }
}

/// The bits of a value; the kind selects the valid field.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ParamValueBits {
    /// Signed integers.
    pub i: i64,
    /// Unsigned integers, sizes and booleans.
    pub u: u64,
    /// Floating point.
    pub d: c_double,
    /// Strings; NULL means unset.
    pub s: *const c_char,
}

/// A value with its kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ParamValue {
    /// A [`ParamKind`].
    pub kind: u32,
    /// Written as zero.
    pub reserved: u32,
    /// The value.
    pub bits: ParamValueBits,
}

/// A parameter as a plugin declares it. All pointers are borrowed for the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ParamDecl {
    /// Full name, e.g. `btl_ofi_num_cq_read`.
    pub name: *const c_char,
    /// Description, one line.
    pub help: *const c_char,
    /// NULL-terminated array of further names, or NULL.
    pub synonyms: *const *const c_char,
    /// NULL-terminated array of the allowed strings, or NULL for any.
    pub allowed: *const *const c_char,
    /// Type and default.
    pub default: ParamValue,
    /// Smallest allowed integer; meaningful when `min <= max`.
    pub min: i64,
    /// Largest allowed integer; meaningful when `min <= max`.
    pub max: i64,
    /// Detail level, 1 (everyone) to 9 (developers).
    pub level: u32,
    /// Scope, as Open MPI's `mca_base_var_scope_t`: 0 constant, 1 read-only, 2 local, 3 group,
    /// 4 group-equal, 5 all, 6 all-equal.
    pub scope: u32,
}
