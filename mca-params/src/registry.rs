//! Registers declarations and resolves them against the layers of settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::declaration::{Allowed, Declaration, is_name};
use crate::error::{Error, InvalidValue, Warning};
use crate::resolved::Resolved;
use crate::source::{Layers, Setting, Source};
use crate::unknown::{self, Unknown};
use crate::value::Value;

/// The project of every parameter known here: what a long name starts with.
const PROJECT: &str = "opal";

/// Parameters and the sources of their values. Reads its sources when it is built and never again; registering and
/// setting need `&mut`, reading needs `&`, and it may be sent to and shared with other threads.
#[derive(Clone, Debug)]
pub struct Registry {
    layers: Layers,
    home: Option<String>,
    files: Vec<PathBuf>,
    warnings: Vec<Warning>,
    /// In the order of registration, which is the order of a dump.
    parameters: Vec<Resolved>,
    /// Every name, synonym and long form, to an index into `parameters`.
    names: BTreeMap<String, usize>,
}

impl Registry {
    pub(crate) fn new(
        layers: Layers,
        home: Option<String>,
        files: Vec<PathBuf>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self {
            layers,
            home,
            files,
            warnings,
            parameters: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// Sets a parameter, above the environment and all files but the administrator's override file. Before the
    /// parameter is registered any text is taken, and looked at then. Of several settings of a parameter the last holds.
    ///
    /// # Errors
    ///
    /// A name that is none. For a registered parameter also a value that it does not take, and a parameter that cannot
    /// be changed any more; then nothing changes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        if !is_name(name) {
            return Err(Error::Name {
                name: name.to_owned(),
            });
        }
        let setting = Setting {
            text: Ok(value.to_owned()),
            source: Source::Set,
        };
        if let Some(&index) = self.names.get(name) {
            let parameter = &self.parameters[index];
            let declaration = &parameter.declaration;
            let not_settable = |reason: String| {
                Err(Error::NotSettable {
                    name: name.to_owned(),
                    reason,
                })
            };
            if !declaration.scope.settable() || declaration.allowed == Allowed::Fixed {
                return not_settable(format!(
                    "it is registered, and its scope is {}",
                    declaration.scope
                ));
            }
            if let Some(used) = self.layers.overridden(&names(declaration)) {
                return not_settable(format!("{} decides it", used.source.place()));
            }
            let resolved = self.convert(declaration, name, &setting)?;
            self.parameters[index] = resolved;
        }
        self.layers.sets.push((name.to_owned(), setting));
        Ok(())
    }

    /// Registers a parameter and resolves its value. Registering an equal declaration again changes nothing.
    ///
    /// # Errors
    ///
    /// A value that the parameter does not take, in whichever source decides it; a declaration that contradicts itself,
    /// or an earlier one.
    pub fn register(&mut self, declaration: &Declaration) -> Result<&Resolved, Error> {
        if let Some(&index) = self.names.get(declaration.name.as_ref())
            && self.parameters[index].declaration == *declaration
        {
            return Ok(&self.parameters[index]);
        }
        declaration.check()?;
        let names = names(declaration);
        if let Some((taken, &index)) = names.iter().find_map(|name| self.names.get_key_value(name))
        {
            let earlier = &self.parameters[index].declaration;
            let reason = if earlier.name == declaration.name {
                difference(earlier, declaration)
            } else {
                format!("its name {taken} belongs to {}", earlier.name)
            };
            return Err(Error::Conflict {
                name: declaration.name.to_string(),
                reason,
            });
        }
        let resolved = self.resolve(declaration, &names)?;
        self.warn(declaration, &names);
        let index = self.parameters.len();
        self.names
            .extend(names.into_iter().map(|name| (name, index)));
        self.parameters.push(resolved);
        Ok(&self.parameters[index])
    }

    /// Registers a table of parameters, in its order.
    ///
    /// # Errors
    ///
    /// The first error of [`Registry::register`]; what comes before it in the table stays registered.
    pub fn register_all<'a>(
        &mut self,
        table: impl IntoIterator<Item = &'a Declaration>,
    ) -> Result<(), Error> {
        table
            .into_iter()
            .try_for_each(|declaration| self.register(declaration).map(drop))
    }

    /// The registered parameter with this name, synonym or long name.
    pub fn resolved(&self, name: &str) -> Option<&Resolved> {
        self.names.get(name).map(|&index| &self.parameters[index])
    }

    /// The value of the registered parameter with this name, synonym or long name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.resolved(name).map(|resolved| &resolved.value)
    }

    /// All registered parameters, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Resolved> {
        self.parameters.iter()
    }

    /// The files that were looked for, strongest first and the override file last; not all of them need to exist.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// What a user wrote in vain about the parameters registered so far.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What the sources set under names that start with `prefix` (such as `btl_ofi_`) and no declaration claims, once
    /// per name, from the strongest source. Call it when everything is registered, to warn about typing errors.
    pub fn unknown(&self, prefix: &str) -> Vec<Unknown> {
        unknown::find(prefix, &self.layers, &self.names)
    }

    fn resolve(&self, declaration: &Declaration, names: &[String]) -> Result<Resolved, Error> {
        match self.layers.find(names) {
            Some((name, setting)) if declaration.allowed != Allowed::Fixed => {
                self.convert(declaration, name, setting)
            }
            _ => Ok(Resolved {
                declaration: declaration.clone(),
                value: declaration.default.clone(),
                source: Source::Default,
                via_synonym: None,
            }),
        }
    }

    fn convert(
        &self,
        declaration: &Declaration,
        name: &str,
        setting: &Setting,
    ) -> Result<Resolved, Error> {
        let invalid = |text: &str, reason: String| InvalidValue {
            name: name.to_owned(),
            text: text.to_owned(),
            from: setting.source.clone(),
            reason,
            allowed: declaration.allowed_text(),
        };
        let text = setting
            .text
            .as_deref()
            .map_err(|text| invalid(text, "is not UTF-8".into()))?;
        let value = declaration
            .parse(text, self.home.as_deref())
            .map_err(|reason| invalid(text, reason))?;
        let own = name == declaration.name || name == long(&declaration.name);
        Ok(Resolved {
            declaration: declaration.clone(),
            value,
            source: setting.source.clone(),
            via_synonym: (!own).then(|| name.to_owned()),
        })
    }

    fn warn(&mut self, declaration: &Declaration, names: &[String]) {
        let name = || declaration.name.to_string();
        if declaration.allowed == Allowed::Fixed {
            if let Some((_, setting)) = self.layers.find(names) {
                self.warnings.push(Warning::Fixed {
                    name: name(),
                    unused: setting.source.clone(),
                });
            }
        } else if let (Some(used), Some(unused)) = (
            self.layers.overridden(names),
            self.layers.find_below_overrides(names),
        ) {
            let (unused, used) = (unused.source.clone(), used.source.clone());
            self.warnings.push(Warning::Overridden {
                name: name(),
                unused,
                used,
            });
        }
    }
}

/// All names of a parameter, strongest first: each long name before its short one.
fn names(declaration: &Declaration) -> Vec<String> {
    declaration
        .names()
        .flat_map(|name| [long(name), name.to_owned()])
        .collect()
}

fn long(name: &str) -> String {
    format!("{PROJECT}_{name}")
}

fn difference(earlier: &Declaration, later: &Declaration) -> String {
    let fields = [
        ("type", earlier.kind != later.kind),
        ("default", earlier.default != later.default),
        ("help", earlier.help != later.help),
        ("level", earlier.level != later.level),
        ("scope", earlier.scope != later.scope),
        ("allowed values", earlier.allowed != later.allowed),
        ("synonyms", earlier.synonyms != later.synonyms),
    ];
    let differing: Vec<_> = fields
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(name, _)| *name)
        .collect();
    format!("the two differ in {}", differing.join(", "))
}

#[cfg(test)]
mod tests;
