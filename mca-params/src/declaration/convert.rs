//! Converts text to a value of a declared parameter, and back. This module does not know the source of the text: its
//! errors complete the sentence "the value ...".

use std::borrow::Cow;

use super::{Allowed, Declaration, Named};
use crate::number;
use crate::value::{Kind, Value};

const TRUE: [&str; 5] = ["true", "t", "enabled", "yes", "y"];
const FALSE: [&str; 5] = ["false", "f", "disabled", "no", "n"];

/// Parses `text` as a value of this parameter. `home` replaces `~` at the start of each colon-separated path.
pub(super) fn parse(d: &Declaration, text: &str, home: Option<&str>) -> Result<Value, String> {
    let value = match (d.kind, &d.allowed) {
        (Kind::Bool, _) => Value::Bool(boolean(text)?),
        (Kind::String, _) => Value::String(Cow::Owned(string(text, home)?)),
        (_, Allowed::Flags(table)) => whole(d.kind, flags(table, text)?)?,
        _ => whole(d.kind, number::parse(text)?)?,
    };
    permit(d, value)
}

/// The value in its canonical spelling, if it is allowed.
pub(super) fn permit(d: &Declaration, value: Value) -> Result<Value, String> {
    match &d.allowed {
        Allowed::Any => {}
        Allowed::OneOf(words) => {
            let text = value.to_string();
            let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(&text)) else {
                return Err("is not among the allowed ones".into());
            };
            if matches!(value, Value::String(_)) {
                return Ok(Value::String(word.clone()));
            }
        }
        Allowed::Range { min, max } => {
            let number = value.as_whole().unwrap_or(0);
            if number < i128::from(*min) {
                return Err(format!("is below {min}"));
            }
            if number > i128::from(*max) {
                return Err(format!("is above {max}"));
            }
        }
        Allowed::Flags(table) => {
            let spare = value.as_whole().unwrap_or(0) & !known_bits(table);
            if spare != 0 {
                return Err(format!("has unknown bits (0x{spare:x})"));
            }
        }
    }
    Ok(value)
}

/// The accepted values as text.
pub(super) fn describe(d: &Declaration) -> String {
    match &d.allowed {
        Allowed::OneOf(words) => words.join(", "),
        Allowed::Range { min, max } => format!("{min} to {max}"),
        Allowed::Flags(table) => {
            let flags = list(table, |named| {
                format!("0x{:x}:\"{}\"", named.value, named.name)
            });
            format!("Comma-delimited list of:  {flags}")
        }
        Allowed::Any => match d.kind.bounds() {
            Some((min, max)) => {
                format!("an integer from {min} to {max}, also as 0x.., 0.., ..k, ..m, ..g")
            }
            None if d.kind == Kind::Bool => {
                "0: f|false|disabled|no|n, 1: t|true|enabled|yes|y".into()
            }
            None => "any text".into(),
        },
    }
}

/// The value as a dump prints it.
pub(super) fn display(d: &Declaration, value: &Value) -> String {
    let Some(number) = value.as_whole() else {
        return value.to_string();
    };
    match &d.allowed {
        Allowed::Flags(table) if number & !known_bits(table) == 0 => {
            let mut left = number;
            let mut names = Vec::new();
            for named in table.iter() {
                let bits = i128::from(named.value);
                if bits & left != 0 {
                    names.push(named.name.as_ref());
                    left &= !bits;
                }
            }
            Some(names.join(","))
        }
        _ => None,
    }
    .unwrap_or_else(|| value.to_string())
}

fn list(table: &[Named], one: impl Fn(&Named) -> String) -> String {
    table.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn known_bits(table: &[Named]) -> i128 {
    table
        .iter()
        .fold(0, |bits, named| bits | i128::from(named.value))
}

fn whole(kind: Kind, number: i128) -> Result<Value, String> {
    let unfit = || format!("does not fit the type {kind}");
    match kind {
        Kind::Int => i32::try_from(number).map(Value::Int).map_err(|_| unfit()),
        Kind::UnsignedInt => u32::try_from(number)
            .map(|n| Value::Unsigned(u64::from(n)))
            .map_err(|_| unfit()),
        // Users of Open MPI write -1 for an unlimited 64-bit size; other negative numbers are errors.
        _ if number == -1 => Ok(Value::Unsigned(u64::MAX)),
        _ => u64::try_from(number)
            .map(Value::Unsigned)
            .map_err(|_| unfit()),
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    let text = text.trim_matches(number::is_blank);
    let is = |word: &&str| word.eq_ignore_ascii_case(text);
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text.is_empty() || FALSE.iter().any(is) {
        Ok(false)
    } else if TRUE.iter().any(is) {
        Ok(true)
    } else if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        Ok(digits.bytes().any(|b| b != b'0'))
    } else {
        Err("is not a boolean".into())
    }
}

fn string(text: &str, home: Option<&str>) -> Result<String, String> {
    let path = |part: &str| match part.strip_prefix("~/") {
        Some(rest) => home.map_or_else(|| rest.to_owned(), |home| format!("{home}/{rest}")),
        None => part.to_owned(),
    };
    let text = text.split(':').map(path).collect::<Vec<_>>().join(":");
    // A C string cannot contain a NUL. The check follows the expansion of `~`: the home folder's path may contain one.
    if text.contains('\0') {
        return Err("contains a NUL byte".into());
    }
    Ok(text)
}

fn find(table: &[Named], word: &str) -> Option<i128> {
    table
        .iter()
        .find(|named| named.name.eq_ignore_ascii_case(word))
        .map(|named| i128::from(named.value))
}

fn flags(table: &[Named], text: &str) -> Result<i128, String> {
    let words = text
        .split(',')
        .map(|word| word.trim_matches(number::is_blank))
        .filter(|word| !word.is_empty());
    let mut bits = 0;
    for word in words {
        bits |= match (find(table, word), number::parse(word)) {
            (Some(number), _) => number,
            (None, Ok(number)) => number,
            (None, Err(_)) => return Err(format!("has an unknown flag `{}`", word.escape_debug())),
        };
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, default: Value) -> Declaration {
        Declaration::new("p", kind, default)
    }

    fn flag_table() -> Allowed {
        Allowed::Flags(Cow::Borrowed(
            const {
                &[
                    Named::new(1, "send"),
                    Named::new(2, "put"),
                    Named::new(4, "get"),
                ]
            },
        ))
    }

    #[test]
    fn whole_numbers_keep_to_their_type() {
        let int = of(Kind::Int, Value::Int(0));
        assert_eq!(parse(&int, "-1k", None), Ok(Value::Int(-1024)));
        assert!(
            parse(&int, "2g", None)
                .unwrap_err()
                .contains("does not fit")
        );
        let unsigned = of(Kind::UnsignedInt, Value::Unsigned(0));
        assert!(parse(&unsigned, "-1", None).is_err());
        assert!(parse(&unsigned, "4g", None).is_err());
        let size = of(Kind::SizeT, Value::Unsigned(0));
        assert_eq!(parse(&size, "4g", None), Ok(Value::Unsigned(4 << 30)));
        assert_eq!(parse(&size, "-1", None), Ok(Value::Unsigned(u64::MAX)));
        assert!(parse(&size, "-2", None).is_err());
        assert_eq!(parse(&size, "", None), Ok(Value::Unsigned(0)));
    }

    #[test]
    fn booleans() {
        let d = of(Kind::Bool, Value::Bool(false));
        for text in ["1", "2", "-1", "true", "t", "enabled", "yes", "y", " TRUE"] {
            assert_eq!(parse(&d, text, None), Ok(Value::Bool(true)), "{text:?}");
        }
        for text in ["0", "", "00", "false", "f", "disabled", "no", "n"] {
            assert_eq!(parse(&d, text, None), Ok(Value::Bool(false)), "{text:?}");
        }
        for text in ["0x1", "on", "tru", "-", "1.0"] {
            assert_eq!(
                parse(&d, text, None),
                Err("is not a boolean".into()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn strings_expand_the_home_folder() {
        let d = of(Kind::String, Value::str(""));
        assert_eq!(
            parse(&d, "~/a:b:~/c", Some("/h")),
            Ok(Value::str("/h/a:b:/h/c"))
        );
        assert_eq!(parse(&d, "~/a:/b~/", None), Ok(Value::str("a:/b~/")));
        assert_eq!(parse(&d, "~/a", Some("x:~/")), Ok(Value::str("x:~//a")));
        assert!(parse(&d, "a\0b", None).is_err());
        assert!(parse(&d, "~/a", Some("\0")).is_err());
    }

    #[test]
    fn words_take_their_declared_spelling() {
        let words: &[_] = &[Cow::Borrowed("auto"), Cow::Borrowed("manual")];
        let d = of(Kind::String, Value::str("auto"))
            .allowed(Allowed::OneOf(Cow::Owned(words.to_vec())));
        assert_eq!(parse(&d, "MANUAL", None), Ok(Value::str("manual")));
        assert_eq!(
            parse(&d, "never", None),
            Err("is not among the allowed ones".into())
        );
        assert_eq!(describe(&d), "auto, manual");
    }

    #[test]
    fn flags_by_name_or_number() {
        let d = of(Kind::UnsignedInt, Value::Unsigned(0)).allowed(flag_table());
        assert_eq!(parse(&d, "PUT, get", None), Ok(Value::Unsigned(6)));
        assert_eq!(parse(&d, "put,1", None), Ok(Value::Unsigned(3)));
        assert_eq!(parse(&d, "7", None), Ok(Value::Unsigned(7)));
        assert_eq!(parse(&d, "", None), Ok(Value::Unsigned(0)));
        assert_eq!(parse(&d, "8", None), Err("has unknown bits (0x8)".into()));
        assert_eq!(
            parse(&d, "put,bogus", None),
            Err("has an unknown flag `bogus`".into())
        );
        assert_eq!(display(&d, &Value::Unsigned(6)), "put,get");
        assert_eq!(display(&d, &Value::Unsigned(8)), "8");
        assert_eq!(
            describe(&d),
            "Comma-delimited list of:  0x1:\"send\", 0x2:\"put\", 0x4:\"get\""
        );
    }
}
