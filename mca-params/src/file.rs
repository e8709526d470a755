//! The grammar of a parameter file. The list of files is in `builder`.
//!
//! ```text
//! # a comment, and so is this, at the start of a line:
//! // another
//! /* and this,
//!    over lines */
//! name = value up to the end of the line, # and ' and " included
//! name =
//! -mca name value --mca name "value with blanks"
//! -x VARIABLE -x VARIABLE=value
//! ```
//!
//! Blanks around names, `=` and values are removed. The last value of a name in the file counts. A line may contain
//! several options `-mca` and `-x`; `-x` (variables that a launcher exports) has no effect here. A carriage return at
//! the end of a line and a byte-order mark at the start of the file are removed.

use crate::declaration::is_name_byte;

/// `name = value` at a line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// A line that is not of this grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) reason: String,
}

/// All assignments of a file in order, or its first malformed line.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Assignment>, Malformed> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut assignments = Vec::new();
    // While a comment is open: the number and the text of the line on which it starts.
    let mut open: Option<(usize, &[u8])> = None;
    for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let number = index + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut parser = Line {
            rest: line,
            number,
            in_comment: open.is_some(),
        };
        parser
            .parse(&mut assignments)
            .map_err(|reason| malformed(number, line, reason))?;
        open = match (parser.in_comment, open) {
            (false, _) => None,
            (true, Some(earlier)) if parser.rest.len() == line.len() => Some(earlier),
            (true, _) => Some((number, line)),
        };
    }
    match open {
        Some((number, line)) => Err(malformed(
            number,
            line,
            "the comment is never closed".into(),
        )),
        None => Ok(assignments),
    }
}

fn malformed(line: usize, text: &[u8], reason: String) -> Malformed {
    const SHOWN: usize = 80;
    let text = String::from_utf8_lossy(text);
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .collect::<String>()
        .escape_debug()
        .to_string();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    Malformed {
        line,
        text: shown,
        reason,
    }
}

struct Line<'a> {
    rest: &'a [u8],
    number: usize,
    in_comment: bool,
}

impl<'a> Line<'a> {
    /// Parses the line to its end. If an open comment covers the whole line, `rest` stays unchanged.
    fn parse(&mut self, out: &mut Vec<Assignment>) -> Result<(), String> {
        let mut after_option = false;
        loop {
            if self.in_comment {
                let Some(end) = self.rest.windows(2).position(|pair| pair == b"*/") else {
                    return Ok(());
                };
                self.rest = &self.rest[end + 2..];
                self.in_comment = false;
            }
            self.blanks();
            if self.rest.is_empty() || self.rest.starts_with(b"#") || self.rest.starts_with(b"//") {
                return Ok(());
            } else if self.eat(b"/*") {
                self.in_comment = true;
            } else if self.option("mca") {
                let assignment = self.mca()?;
                out.push(assignment);
                after_option = true;
            } else if self.option("x") {
                self.export()?;
                after_option = true;
            } else if after_option {
                return Err("expected only -mca and -x options on the line of an option".into());
            } else {
                let assignment = self.assignment()?;
                out.push(assignment);
                return Ok(());
            }
        }
    }

    fn assignment(&mut self) -> Result<Assignment, String> {
        let name = self.name().ok_or("expected a parameter name")?;
        self.blanks();
        if !self.eat(b"=") {
            return Err(format!("expected `=` after `{name}`"));
        }
        let value = trim(std::mem::take(&mut self.rest));
        self.assign(name, value)
    }

    /// Parses the arguments of `-mca`.
    fn mca(&mut self) -> Result<Assignment, String> {
        let name = self.name().ok_or("expected a parameter name after -mca")?;
        if !self.blanks() && !self.rest.is_empty() {
            return Err(format!("expected a blank after `{name}`"));
        }
        let value = self
            .word()?
            .ok_or_else(|| format!("expected a value after `-mca {name}`"))?;
        self.assign(name, value)
    }

    /// Parses the argument of `-x`.
    fn export(&mut self) -> Result<(), String> {
        let name = self
            .name()
            .ok_or("expected the name of a variable after -x")?;
        self.blanks();
        if self.eat(b"=") {
            self.blanks();
            self.word()?
                .ok_or_else(|| format!("expected a value after `-x {name}=`"))?;
        }
        Ok(())
    }

    fn assign(&self, name: String, value: &[u8]) -> Result<Assignment, String> {
        let value = std::str::from_utf8(value)
            .map_err(|_| format!("the value of `{name}` is not UTF-8"))?;
        if value.contains('\0') {
            return Err(format!("the value of `{name}` contains a NUL byte"));
        }
        Ok(Assignment {
            name,
            value: value.to_owned(),
            line: self.number,
        })
    }

    /// Consumes the option, with one or two dashes, if a blank or the end of the line follows it.
    fn option(&mut self, option: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(b"-") else {
            return false;
        };
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        let Some(rest) = rest.strip_prefix(option.as_bytes()) else {
            return false;
        };
        let ends = rest.first().is_none_or(|b| is_blank(*b));
        if ends {
            self.rest = rest;
            self.blanks();
        }
        ends
    }

    fn name(&mut self) -> Option<String> {
        let name = self.take_while(is_name_byte);
        // Cannot fail: the bytes of a name are ASCII.
        std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
    }

    /// A word without blanks, or the text between two equal quotes.
    fn word(&mut self) -> Result<Option<&'a [u8]>, String> {
        let quote = match self.rest.first() {
            None => return Ok(None),
            Some(byte) => *byte,
        };
        if !matches!(quote, b'"' | b'\'') {
            return Ok(Some(self.take_while(|b| !is_blank(b))));
        }
        let inside = &self.rest[1..];
        let end = inside
            .iter()
            .position(|b| *b == quote)
            .ok_or("the quote is never closed")?;
        self.rest = &inside[end + 1..];
        match self.rest.first() {
            Some(byte) if !is_blank(*byte) => {
                Err("expected a blank after the closing quote".into())
            }
            _ => Ok(Some(trim(&inside[..end]))),
        }
    }

    fn eat(&mut self, prefix: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn blanks(&mut self) -> bool {
        !self.take_while(is_blank).is_empty()
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self
            .rest
            .iter()
            .position(|b| !wanted(*b))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String, usize)> {
        let assignments = parse(text.as_bytes()).expect("well-formed");
        assignments
            .into_iter()
            .map(|a| (a.name, a.value, a.line))
            .collect()
    }

    fn one(text: &str) -> (String, String, usize) {
        let mut all = read(text);
        assert_eq!(all.len(), 1, "{text:?}: {all:?}");
        all.remove(0)
    }

    fn bad(text: &[u8]) -> (usize, String) {
        let error = parse(text).expect_err("malformed");
        (error.line, error.reason)
    }

    fn is(name: &str, value: &str, line: usize) -> (String, String, usize) {
        (name.into(), value.into(), line)
    }

    #[test]
    fn comments_and_blank_lines_are_nothing() {
        assert_eq!(
            read("# a\n\n \t\n  // b = 1\n/* c = 1\n d = 2 */\n/**/ # e\n# last"),
            []
        );
        assert_eq!(one("/* x\n */ a = 1\n"), is("a", "1", 2));
    }

    #[test]
    fn a_value_reaches_to_the_end_of_its_line() {
        assert_eq!(
            one(" a.b-c_1\t=  7 # not a comment \t\r\n"),
            is("a.b-c_1", "7 # not a comment", 1)
        );
        assert_eq!(one("a=\"q\""), is("a", "\"q\"", 1));
        assert_eq!(one("a = b /* c"), is("a", "b /* c", 1));
        assert_eq!(one("\u{feff}a = ^tcp,self"), is("a", "^tcp,self", 1));
        assert_eq!(one("a = b = c"), is("a", "b = c", 1));
        assert_eq!(one("a =\n"), is("a", "", 1));
    }

    #[test]
    fn options_may_share_a_line() {
        assert_eq!(
            read("x = 1\n-mca a 1 --mca b 'two words' -x HOME --x V=3 -mca c \"x \" # done\n"),
            [
                is("x", "1", 1),
                is("a", "1", 2),
                is("b", "two words", 2),
                is("c", "x", 2)
            ]
        );
        assert_eq!(read("-x A = b"), []);
    }

    #[test]
    fn a_name_may_look_like_an_option() {
        assert_eq!(one("-mcab = 1"), is("-mcab", "1", 1));
    }

    #[test]
    fn malformed_lines_are_named() {
        assert_eq!(
            bad(b"a = 1\nbtl_ofi_mode\n"),
            (2, "expected `=` after `btl_ofi_mode`".into())
        );
        assert_eq!(bad(b"\n\n= 3"), (3, "expected a parameter name".into()));
        assert_eq!(
            bad(b"-mca a"),
            (1, "expected a value after `-mca a`".into())
        );
        assert_eq!(
            bad(b"-mca"),
            (1, "expected a parameter name after -mca".into())
        );
        assert_eq!(bad(b"-mca a=b"), (1, "expected a blank after `a`".into()));
        assert_eq!(bad(b"-mca a 'b"), (1, "the quote is never closed".into()));
        assert_eq!(
            bad(b"-mca a 'b'c"),
            (1, "expected a blank after the closing quote".into())
        );
        assert_eq!(bad(b"-mca a b c = d").0, 1);
        assert_eq!(
            bad(b"-x"),
            (1, "expected the name of a variable after -x".into())
        );
        assert_eq!(
            bad(b"x = 1\n/* a\n\nb\n"),
            (2, "the comment is never closed".into())
        );
        assert_eq!(
            bad(b"/* a */ /* b\n"),
            (1, "the comment is never closed".into())
        );
        assert_eq!(
            bad(b"a = \xff"),
            (1, "the value of `a` is not UTF-8".into())
        );
        assert_eq!(
            bad(b"a = x\0y"),
            (1, "the value of `a` contains a NUL byte".into())
        );
        assert_eq!(
            bad("ä = 1".as_bytes()),
            (1, "expected a parameter name".into())
        );
    }

    #[test]
    fn what_is_shown_of_a_line_is_short_and_printable() {
        let error = parse(&[0x1b; 500]).expect_err("malformed");
        assert!(
            error.text.starts_with("\\u{1b}") && error.text.ends_with("..."),
            "{}",
            error.text
        );
    }
}
