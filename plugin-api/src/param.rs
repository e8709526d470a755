//! Parameters: their declaration and value in the form that crosses the boundary.

use std::ffi::c_char;

/// The type of a parameter, as Open MPI's `mca_base_var_type_t` names them.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// 32-bit signed; in [`ParamValueBits::i`].
    Int = 0,
    /// 32-bit unsigned; in [`ParamValueBits::u`].
    UnsignedInt = 1,
    /// A size in bytes; in [`ParamValueBits::u`].
    SizeT = 3,
    /// 0 or 1; in [`ParamValueBits::u`].
    Bool = 4,
    /// NUL-terminated UTF-8 or NULL for unset; in [`ParamValueBits::s`].
    String = 5,
}

impl TryFrom<u32> for ParamKind {
    type Error = crate::UnknownCode;

    fn try_from(code: u32) -> Result<Self, Self::Error> {
        Ok(match code {
            0 => ParamKind::Int,
            1 => ParamKind::UnsignedInt,
            3 => ParamKind::SizeT,
            4 => ParamKind::Bool,
            5 => ParamKind::String,
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
    /// Written as zero.
    pub reserved: u32,
}
