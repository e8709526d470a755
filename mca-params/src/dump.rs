//! Dumps of parameters: the text of `ompi_info --param`, and plain data for other formats.

use std::fmt;

use crate::declaration::{Allowed, Declaration, Level};
use crate::registry::Registry;
use crate::resolved::Resolved;
use crate::source::Source;
use crate::value::{Kind, Value};

/// A parameter under one of its names, as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name: the parameter's own, or a synonym.
    pub name: String,
    /// The framework, the first part of the name.
    pub framework: String,
    /// The component, the second part of the name, or `base`.
    pub component: String,
    /// The type.
    pub kind: Kind,
    /// The value.
    pub value: Value,
    /// The value as text; its name if the value has a name.
    pub value_text: String,
    /// The default as text.
    pub default_text: String,
    /// The source of the value.
    pub source: Source,
    /// The synonym that set the value, if not the parameter's own name did.
    pub via_synonym: Option<String>,
    /// The audience.
    pub level: Level,
    /// Description, one line.
    pub help: String,
    /// The accepted values, if the type has further values.
    pub valid_values: Option<String>,
    /// The synonyms, if this entry is the parameter's own name.
    pub synonyms: Vec<String>,
    /// The parameter's own name, if this entry is a synonym.
    pub synonym_of: Option<String>,
}

impl Entry {
    fn new(resolved: &Resolved, name: &str) -> Self {
        let d = &resolved.declaration;
        let own = name == d.name;
        let (framework, component) = family(name);
        Self {
            name: name.to_owned(),
            framework,
            component,
            kind: d.kind,
            value: resolved.value.clone(),
            value_text: resolved.value_text(),
            default_text: d.value_text(&d.default),
            source: resolved.source.clone(),
            via_synonym: resolved.via_synonym.clone(),
            level: d.level,
            help: d.help.to_string(),
            valid_values: valid_values(d),
            synonyms: if own {
                d.synonyms.iter().map(ToString::to_string).collect()
            } else {
                Vec::new()
            },
            synonym_of: (!own).then(|| d.name.to_string()),
        }
    }

    fn readable(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>24}: parameter \"{}\" ", self.title(), self.name)?;
        write!(
            f,
            "(current value: \"{}\", data source: {}, ",
            self.value_text, self.source
        )?;
        write!(f, "level: {}, type: {}", self.level, self.kind)?;
        if let Some(name) = &self.synonym_of {
            write!(f, ", synonym of: {name}")?;
        } else if !self.synonyms.is_empty() {
            write!(f, ", synonyms: {}", self.synonyms.join(", "))?;
        }
        writeln!(f, ")")?;
        if !self.help.is_empty() {
            writeln!(f, "{:26}{}", "", self.help)?;
        }
        match &self.valid_values {
            Some(values) => writeln!(f, "{:26}Valid values: {values}", ""),
            None => Ok(()),
        }
    }

    fn title(&self) -> String {
        format!("MCA {} {}", self.framework, self.component)
    }
}

/// The entries up to a level, grouped by component. Prints as `ompi_info --param` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Dump {
    entries: Vec<Entry>,
}

impl Registry {
    /// The registered parameters up to a level, ready to print as `ompi_info --param` does.
    pub fn dump(&self, up_to: Level) -> Dump {
        Dump::new(
            self.iter()
                .filter(|resolved| resolved.declaration.level <= up_to),
        )
    }
}

impl Dump {
    fn new<'a>(parameters: impl Iterator<Item = &'a Resolved>) -> Self {
        let names = |resolved: &Resolved| {
            let d = &resolved.declaration;
            [&d.name]
                .into_iter()
                .chain(d.synonyms.iter())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let all = parameters.flat_map(|resolved| {
            names(resolved)
                .into_iter()
                .map(|name| Entry::new(resolved, &name))
        });
        let mut components: Vec<(String, Vec<Entry>)> = Vec::new();
        for entry in all {
            let title = entry.title();
            match components.iter_mut().find(|(known, _)| *known == title) {
                Some((_, entries)) => entries.push(entry),
                None => components.push((title, vec![entry])),
            }
        }
        Self {
            entries: components
                .into_iter()
                .flat_map(|(_, entries)| entries)
                .collect(),
        }
    }

    /// The entries as plain data, for other formats.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = String::new();
        for entry in &self.entries {
            let title = entry.title();
            if title != last {
                writeln!(f, "{title:>24}: {:-<51}", "")?;
                last = title;
            }
            entry.readable(f)?;
        }
        Ok(())
    }
}

/// Framework and component of a name. The frameworks of shared code contain the name of their project.
fn family(name: &str) -> (String, String) {
    const SHARED: [&str; 4] = ["opal_common", "ompi_common", "orte_common", "oshmem_common"];
    let shared = SHARED.iter().find_map(|framework| {
        let rest = name.strip_prefix(framework)?.strip_prefix('_')?;
        Some((*framework, rest))
    });
    let (framework, rest) = shared.unwrap_or_else(|| name.split_once('_').unwrap_or((name, "")));
    let component = rest
        .split_once('_')
        .map_or("base", |(component, _)| component);
    (framework.to_owned(), component.to_owned())
}

fn valid_values(d: &Declaration) -> Option<String> {
    let shown = d.kind == Kind::Bool || !matches!(d.allowed, Allowed::Any);
    shown.then(|| d.allowed_text())
}

#[cfg(test)]
mod tests;
