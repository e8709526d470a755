//! Parses integers in a user's notation: C's prefixes, and suffixes for powers of 1024.

/// Parses a signed integer: decimal, hexadecimal with `0x` or octal with a leading `0`. The suffixes `k`, `m` and `g`
/// (also `kb`, `mb`, `gb`) multiply by 2^10, 2^20 and 2^30. Blanks around the number are ignored; empty text is 0. The
/// error text completes the sentence "the value ...".
pub(crate) fn parse(text: &str) -> Result<i128, &'static str> {
    const NOT: &str = "is not an integer";
    const LARGE: &str = "is too large";

    let text = text.trim_matches(is_blank);
    if text.is_empty() {
        return Ok(0);
    }
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = radix(text);
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    if digits.is_empty() {
        return Err(NOT);
    }
    let mut magnitude: i128 = 0;
    for digit in digits.chars().filter_map(|c| c.to_digit(radix)) {
        magnitude = magnitude * i128::from(radix) + i128::from(digit);
        // No type is wider than 64 bits, and below this bound the arithmetic cannot overflow.
        if magnitude > i128::from(u64::MAX) {
            return Err(LARGE);
        }
    }
    let shift = shift(suffix).ok_or(NOT)?;
    magnitude <<= shift;
    Ok(if negative { -magnitude } else { magnitude })
}

/// The blanks of C's `isspace`.
pub(crate) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

fn radix(text: &str) -> (u32, &str) {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return (16, hex);
    }
    match text.strip_prefix('0') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => (8, rest),
        _ => (10, text),
    }
}

fn shift(suffix: &str) -> Option<u32> {
    let unit = match suffix.strip_suffix(['b', 'B']) {
        Some("") => return None,
        Some(unit) => unit,
        None => suffix,
    };
    match unit {
        "" => Some(0),
        "k" | "K" => Some(10),
        "m" | "M" => Some(20),
        "g" | "G" => Some(30),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_c_reads() {
        for (text, number) in [
            ("", 0),
            ("  ", 0),
            ("0", 0),
            ("64", 64),
            (" +5 ", 5),
            ("-1", -1),
            ("010", 8),
            ("0x10", 16),
            ("0XfF", 255),
            ("00", 0),
            ("18446744073709551615", i128::from(u64::MAX)),
        ] {
            assert_eq!(parse(text), Ok(number), "{text:?}");
        }
    }

    #[test]
    fn suffixes_are_powers_of_1024() {
        for (text, number) in [
            ("2k", 2048),
            ("2K", 2048),
            ("64kb", 65536),
            ("1m", 1 << 20),
            ("3G", 3 << 30),
            ("-1k", -1024),
            ("0x2k", 2048),
        ] {
            assert_eq!(parse(text), Ok(number), "{text:?}");
        }
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in [
            "abc",
            "1.5",
            "2 k",
            "09",
            "0x",
            "-",
            "--1",
            "1kk",
            "12 apples",
            "5b",
            "1t",
            "٣",
            "k",
            "1\0",
        ] {
            assert_eq!(parse(text), Err("is not an integer"), "{text:?}");
        }
        for text in [
            "18446744073709551616",
            "99999999999999999999999999999999999999999999999",
        ] {
            assert_eq!(parse(text), Err("is too large"), "{text:?}");
        }
    }
}
