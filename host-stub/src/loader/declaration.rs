//! A plugin's declaration of a parameter, brought into the terms of `mca-params`.

use std::borrow::Cow;
use std::ffi::c_char;

use mca_params::{Allowed, Declaration, Kind, Level, Scope, Value};
use plugin_api::{ParamDecl, ParamKind};

use super::services::text;

/// Names and words in one array of a declaration; a longer one has lost its terminator.
const LIST_LIMIT: usize = 1024;

/// Converts; beside the declaration, whether its default is the unset string. An error says what
/// in it breaks the contract.
///
/// # Safety
/// The strings are NULL or NUL-terminated, the arrays NULL or NULL-terminated.
pub(super) unsafe fn declaration(decl: &ParamDecl) -> Result<(Declaration, bool), String> {
    // SAFETY: the caller vouches for the strings and arrays.
    let (name, help, synonyms, words) = unsafe {
        (
            text(decl.name),
            text(decl.help),
            list(decl.synonyms),
            list(decl.allowed),
        )
    };
    let wrong = |reason: String| format!("`{name}`: {reason}");
    let kind = ParamKind::try_from(decl.default.kind).map_err(|error| wrong(error.to_string()))?;
    let bits = decl.default.bits;
    let mut unset = false;
    // SAFETY (each read below): the kind says which field of the union was written.
    let (kind, default) = match kind {
        ParamKind::Int => {
            // SAFETY: an Int is in `i`.
            let i = unsafe { bits.i };
            let i = i32::try_from(i).map_err(|_| wrong(format!("default {i} is no 32-bit int")))?;
            (Kind::Int, Value::Int(i))
        }
        // SAFETY: unsigned numbers are in `u`.
        ParamKind::UnsignedInt => (Kind::UnsignedInt, Value::Unsigned(unsafe { bits.u })),
        // SAFETY: as above.
        ParamKind::UnsignedLong => (Kind::UnsignedLong, Value::Unsigned(unsafe { bits.u })),
        // SAFETY: as above.
        ParamKind::SizeT => (Kind::SizeT, Value::Unsigned(unsafe { bits.u })),
        // SAFETY: booleans are in `u`.
        ParamKind::Bool => (Kind::Bool, Value::Bool(unsafe { bits.u } != 0)),
        ParamKind::String => {
            // SAFETY: strings are in `s`, NULL or NUL-terminated.
            let default = unsafe {
                unset = bits.s.is_null();
                text(bits.s)
            };
            (Kind::String, Value::String(Cow::Owned(default)))
        }
        // SAFETY: doubles are in `d`.
        ParamKind::Double => (Kind::Double, Value::Double(unsafe { bits.d })),
    };
    let numeric = !matches!(kind, Kind::Bool | Kind::String);
    let allowed = if !words.is_empty() && kind == Kind::String {
        // An unset default stands beside the words, not among them.
        let extra = (unset && !words.contains(&Cow::Borrowed(""))).then_some(Cow::Borrowed(""));
        Allowed::OneOf(words.into_iter().chain(extra).collect())
    } else if numeric && decl.min <= decl.max {
        Allowed::Range {
            min: decl.min,
            max: decl.max,
        }
    } else {
        Allowed::Any
    };
    let level = u8::try_from(decl.level)
        .ok()
        .and_then(Level::new)
        .ok_or_else(|| wrong(format!("level {} is none of 1 to 9", decl.level)))?;
    let scope = match decl.scope {
        0 => Scope::Constant,
        1 => Scope::ReadOnly,
        2 => Scope::Local,
        3 => Scope::Group,
        4 => Scope::GroupEq,
        5 => Scope::All,
        6 => Scope::AllEq,
        other => return Err(wrong(format!("scope {other} is none of 0 to 6"))),
    };
    let declaration = Declaration {
        name: Cow::Owned(name),
        kind,
        default,
        help: Cow::Owned(help),
        level,
        scope,
        allowed,
        synonyms: Cow::Owned(synonyms),
    };
    Ok((declaration, unset))
}

/// # Safety
/// `array` is NULL or a NULL-terminated array of NUL-terminated strings.
unsafe fn list(array: *const *const c_char) -> Vec<Cow<'static, str>> {
    if array.is_null() {
        return Vec::new();
    }
    (0..LIST_LIMIT)
        // SAFETY: `map_while` stops at the terminator, so every read lies inside the array.
        .map(|index| unsafe { *array.add(index) })
        .take_while(|item| !item.is_null())
        // SAFETY: the caller vouches for each string.
        .map(|item| Cow::Owned(unsafe { text(item) }))
        .collect()
}
