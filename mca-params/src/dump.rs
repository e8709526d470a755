//! Dumps of parameters: the text of `ompi_info --param`, its parsable form, and plain data for other formats.

use std::fmt;

use crate::declaration::{Allowed, Declaration, Level, Scope};
use crate::registry::Registry;
use crate::resolved::Resolved;
use crate::source::Source;
use crate::value::{Kind, Value};

/// The parameters to print. A parameter's name begins with its framework and component: `btl_ofi_mode` belongs to `btl`
/// and `ofi`, `btl_verbose` to `btl` and `base`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    framework: Option<String>,
    component: Option<String>,
    level: Level,
}

impl Filter {
    /// All parameters, up to level 9.
    pub fn all() -> Self {
        Self {
            framework: None,
            component: None,
            level: Level::DEV_ALL,
        }
    }

    /// One component of one framework, up to level 9. As for `ompi_info`, `all` selects every framework or component.
    pub fn new(framework: &str, component: &str) -> Self {
        let named = |name: &str| (name != "all").then(|| name.to_owned());
        Self {
            framework: named(framework),
            component: named(component),
            level: Level::DEV_ALL,
        }
    }

    /// Omits parameters above this level.
    pub fn up_to(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    fn lets(&self, entry: &Entry) -> bool {
        let matches = |wanted: &Option<String>, has: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == has)
        };
        matches(&self.framework, &entry.framework)
            && matches(&self.component, &entry.component)
            && entry.level <= self.level
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::all()
    }
}

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
    /// The value as text; by name if it has one.
    pub value_text: String,
    /// The default as text.
    pub default_text: String,
    /// The source of the value.
    pub source: Source,
    /// The synonym that set the value, if not the parameter's own name did.
    pub via_synonym: Option<String>,
    /// The audience.
    pub level: Level,
    /// When the value may change.
    pub scope: Scope,
    /// Whether the parameter always has its default.
    pub fixed: bool,
    /// Description, one line.
    pub help: String,
    /// The accepted values, if they are fewer than the type's.
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
            scope: d.scope,
            fixed: d.allowed == Allowed::Fixed,
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
        let what = if self.fixed {
            "informational"
        } else {
            "parameter"
        };
        write!(f, "{:>24}: {what} \"{}\" ", self.title(), self.name)?;
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

    fn parsable(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = format!(
            "mca:{}:{}:param:{}",
            self.framework, self.component, self.name
        );
        if self.value_text.contains(':') {
            writeln!(f, "{start}:value:\"{}\"", self.value_text)?;
        } else {
            writeln!(f, "{start}:value:{}", self.value_text)?;
        }
        writeln!(f, "{start}:source:{}", self.source)?;
        let status = if self.scope.settable() && !self.fixed {
            "writeable"
        } else {
            "read-only"
        };
        writeln!(f, "{start}:status:{status}")?;
        writeln!(f, "{start}:level:{}", self.level.number())?;
        if !self.help.is_empty() {
            writeln!(f, "{start}:help:{}", self.help)?;
        }
        writeln!(f, "{start}:deprecated:no")?;
        writeln!(f, "{start}:type:{}", self.kind)?;
        if let Some(name) = &self.synonym_of {
            writeln!(f, "{start}:synonym_of:name:{name}")?;
        }
        self.synonyms
            .iter()
            .try_for_each(|name| writeln!(f, "{start}:synonym:name:{name}"))
    }

    fn title(&self) -> String {
        format!("MCA {} {}", self.framework, self.component)
    }
}

/// The entries that a [`Filter`] selects, grouped by component. Prints as `ompi_info --param` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Dump {
    entries: Vec<Entry>,
}

impl Registry {
    /// The registered parameters that the filter selects, ready to print as `ompi_info --param` does.
    pub fn dump(&self, filter: &Filter) -> Dump {
        Dump::new(self.iter(), filter)
    }
}

impl Dump {
    fn new<'a>(parameters: impl Iterator<Item = &'a Resolved>, filter: &Filter) -> Self {
        let names = |resolved: &Resolved| {
            let d = &resolved.declaration;
            [&d.name]
                .into_iter()
                .chain(d.synonyms.iter())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let all = parameters
            .flat_map(|resolved| {
                names(resolved)
                    .into_iter()
                    .map(|name| Entry::new(resolved, &name))
            })
            .filter(|entry| filter.lets(entry));
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

    /// The form of `ompi_info --parsable`: one fact per line, fields separated by colons.
    pub fn parsable(&self) -> Parsable<'_> {
        Parsable(self)
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

/// Prints a [`Dump`] in the form of `ompi_info --parsable`.
#[derive(Clone, Copy, Debug)]
pub struct Parsable<'a>(&'a Dump);

impl fmt::Display for Parsable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .entries
            .iter()
            .try_for_each(|entry| entry.parsable(f))
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
    (shown && d.allowed != Allowed::Fixed).then(|| d.allowed_text())
}

#[cfg(test)]
mod tests;
