//! Names that a source sets but no component declares: usually typing errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::source::{Layers, Source};

/// A setting of an undeclared name, which has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The name that was set.
    pub name: String,
    /// The source of the setting.
    pub source: Source,
    /// A similar declared name.
    pub similar: Option<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown parameter {} in {}",
            self.name,
            self.source.place()
        )?;
        match &self.similar {
            Some(similar) => write!(f, "; did you mean {similar}?"),
            None => Ok(()),
        }
    }
}

pub(crate) fn find(
    prefix: &str,
    layers: &Layers,
    claimed: &BTreeMap<String, usize>,
) -> Vec<Unknown> {
    let mut seen = BTreeSet::new();
    layers
        .iter()
        .filter(|(name, _)| name.starts_with(prefix) && !claimed.contains_key(*name))
        .filter(|(name, _)| seen.insert(*name))
        .map(|(name, setting)| Unknown {
            name: name.to_owned(),
            source: setting.source.clone(),
            similar: similar(
                name,
                claimed.keys().filter(|known| known.starts_with(prefix)),
            ),
        })
        .collect()
}

/// The most similar of the known names, if at most three bytes, and a third of `name`, differ. Very long names, of a file's
/// size, are not compared.
pub fn similar<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    const LONGEST: usize = 128;
    const FARTHEST: usize = 3;
    if name.len() > LONGEST {
        return None;
    }
    known
        .map(|known| (distance(name.as_bytes(), known.as_bytes()), known))
        .min()
        .filter(|(distance, _)| *distance <= FARTHEST.min(name.len() / 3))
        .map(|(_, known)| known.clone())
}

/// The edit distance: the number of bytes to insert, remove or replace.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let best = (diagonal + usize::from(x != y))
                .min(*cell + 1)
                .min(left + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Declaration, Kind, Registry, Value};

    #[test]
    fn distances() {
        for (a, b, wanted) in [
            ("", "", 0),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("mode", "moed", 2),
            ("a", "a", 0),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), wanted, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), wanted, "{b} {a}");
        }
    }

    #[test]
    fn typing_errors_are_found_with_what_was_meant() {
        let mut registry = Registry::builder()
            .environment([
                ("OMPI_MCA_btl_ofi_mdoe", "1"),
                ("OMPI_MCA_btl_ofi_mode", "1"),
                ("OMPI_MCA_SOURCE_btl_ofi_mode", "command"),
                ("OMPI_MCA_btl_tcp_links", "1"),
            ])
            .build()
            .expect("no files");
        registry.set("btl_ofi_something_else", "1").expect("a name");
        registry
            .register(&Declaration::new("btl_ofi_mode", Kind::Int, Value::Int(0)))
            .expect("valid");
        let found: Vec<String> = registry
            .unknown("btl_ofi_")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "unknown parameter btl_ofi_something_else in an explicit setting",
                "unknown parameter btl_ofi_mdoe in environment variable OMPI_MCA_btl_ofi_mdoe; did you mean btl_ofi_mode?"
            ]
        );
    }
}
