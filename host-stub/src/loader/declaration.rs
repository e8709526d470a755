//! A plugin's declaration of a parameter, brought into the terms of `mca-params`.

use std::borrow::Cow;
use std::ffi::c_char;

use mca_params::{Allowed, Declaration, Kind, Level, Value};
use plugin_api::{ParamDecl, ParamKind};

use osc_engine::transport::text;

/// The maximum number of names or words in an array of a declaration; a longer array has no
/// terminator.
const LIST_LIMIT: usize = 1024;

/// Converts a declaration; also returns whether its default is the unset string. An error names the
/// violation of the contract.
///
/// # Safety
/// The strings are NULL or NUL-terminated, the arrays NULL or NULL-terminated.
pub(super) unsafe fn declaration(decl: &ParamDecl) -> Result<(Declaration, bool), String> {
    // SAFETY: the caller guarantees that the strings and arrays are terminated.
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
        // SAFETY: unsigned numbers are in `u`.
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
    };
    let numeric = !matches!(kind, Kind::Bool | Kind::String);
    let allowed = if !words.is_empty() && kind == Kind::String {
        // An unset default is allowed in addition to the words.
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
    let declaration = Declaration {
        name: Cow::Owned(name),
        kind,
        default,
        help: Cow::Owned(help),
        level,
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
        // SAFETY: the caller guarantees that each string is terminated.
        .map(|item| Cow::Owned(unsafe { text(item) }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use plugin_api::{ParamValue, ParamValueBits};

    use super::*;

    /// A change that makes a valid declaration invalid.
    type Spoil = fn(&mut ParamDecl);

    fn decl(kind: ParamKind, bits: ParamValueBits) -> ParamDecl {
        ParamDecl {
            name: c"btl_x_y".as_ptr(),
            help: null(),
            synonyms: null(),
            allowed: null(),
            default: ParamValue {
                kind: kind as u32,
                reserved: 0,
                bits,
            },
            min: 1,
            max: 0,
            level: 3,
            reserved: 0,
        }
    }

    fn converted(decl: &ParamDecl) -> Result<(Declaration, bool), String> {
        // SAFETY: every string and array of these tests is static and terminated.
        unsafe { declaration(decl) }
    }

    #[test]
    fn every_kind_keeps_its_default() {
        for (kind, bits, default) in [
            (ParamKind::Int, ParamValueBits { i: -3 }, Value::Int(-3)),
            (
                ParamKind::UnsignedInt,
                ParamValueBits { u: 7 },
                Value::Unsigned(7),
            ),
            (
                ParamKind::SizeT,
                ParamValueBits { u: u64::MAX },
                Value::Unsigned(u64::MAX),
            ),
            (ParamKind::Bool, ParamValueBits { u: 1 }, Value::Bool(true)),
            (
                ParamKind::String,
                ParamValueBits { s: c"a".as_ptr() },
                Value::str("a"),
            ),
        ] {
            let (declaration, unset) = converted(&decl(kind, bits)).expect("good");
            assert_eq!(declaration.default, default);
            assert_eq!(declaration.allowed, Allowed::Any);
            assert!(!unset);
        }
    }

    #[test]
    fn words_and_an_unset_default_go_together() {
        let words = [c"one".as_ptr(), c"two".as_ptr(), null()];
        let synonyms = [c"opal_x_y".as_ptr(), null()];
        let mut decl = decl(ParamKind::String, ParamValueBits { s: null() });
        decl.allowed = words.as_ptr();
        decl.synonyms = synonyms.as_ptr();
        let (declaration, unset) = converted(&decl).expect("good");
        assert!(unset);
        assert_eq!(declaration.synonyms.as_ref(), ["opal_x_y"]);
        let expected = ["one", "two", ""].map(Cow::Borrowed).to_vec();
        assert_eq!(declaration.allowed, Allowed::OneOf(expected.into()));
    }

    #[test]
    fn ranges_hold_for_numbers_only() {
        for (kind, ranged) in [(ParamKind::Int, true), (ParamKind::Bool, false)] {
            let mut decl = decl(kind, ParamValueBits { u: 1 });
            (decl.min, decl.max) = (0, 9);
            let allowed = converted(&decl).expect("good").0.allowed;
            assert_eq!(allowed == Allowed::Range { min: 0, max: 9 }, ranged);
        }
    }

    #[test]
    fn what_breaks_the_contract_is_named() {
        let good = || decl(ParamKind::Int, ParamValueBits { i: 0 });
        let cases: [(Spoil, &str); 4] = [
            (|d| d.level = 0, "level 0"),
            (|d| d.level = 300, "level 300"),
            (|d| d.default.kind = 99, "parameter kind 99"),
            (|d| d.default.bits.i = 1 << 40, "no 32-bit int"),
        ];
        for (spoil, words) in cases {
            let mut decl = good();
            spoil(&mut decl);
            let error = converted(&decl).expect_err(words);
            assert!(
                error.contains("btl_x_y") && error.contains(words),
                "{error}"
            );
        }
    }
}
