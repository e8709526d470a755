//! The registry: registers declarations and resolves their values from the layers of settings.

use std::collections::BTreeMap;

use crate::declaration::{Declaration, is_name};
use crate::error::{Error, InvalidValue, Warning};
use crate::removed::Removed;
use crate::resolved::Resolved;
use crate::source::{Layers, Setting, Source};
use crate::unknown::{self, Unknown};
use crate::value::Value;

/// The project of every parameter: the prefix of a long name.
const PROJECT: &str = "opal";

/// Parameters and the sources of their values. A registry reads its sources once, when it is built. Registering and
/// setting need `&mut`, reading needs `&`. Other threads may own or share a registry.
#[derive(Clone, Debug)]
pub struct Registry {
    layers: Layers,
    home: Option<String>,
    warnings: Vec<Warning>,
    /// In the order of registration, which is also the order of a dump.
    parameters: Vec<Resolved>,
    /// Maps every name, synonym and long form to an index into `parameters`.
    names: BTreeMap<String, usize>,
}

impl Registry {
    pub(crate) fn new(layers: Layers, home: Option<String>, warnings: Vec<Warning>) -> Self {
        Self {
            layers,
            home,
            warnings,
            parameters: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// Sets a parameter, with precedence over the environment and all files except the administrator's override file. Any text
    /// is accepted; the registration of the parameter, which comes later, checks it. The last setting of a parameter counts.
    ///
    /// # Errors
    ///
    /// The text is not a parameter name, or the parameter is registered. Nothing has changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        if !is_name(name) {
            return Err(Error::Name {
                name: name.to_owned(),
            });
        }
        if self.names.contains_key(name) {
            return Err(Error::NotSettable {
                name: name.to_owned(),
            });
        }
        let setting = Setting {
            text: Ok(value.to_owned()),
            source: Source::Set,
        };
        self.layers.sets.push((name.to_owned(), setting));
        Ok(())
    }

    /// Registers a parameter and resolves its value. A second registration of an equal declaration changes nothing.
    ///
    /// # Errors
    ///
    /// The parameter does not accept the value of the deciding source; or the declaration is inconsistent, or
    /// contradicts an earlier one.
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
                "the two differ".to_owned()
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

    /// Refuses settings of parameters that are gone.
    ///
    /// # Errors
    ///
    /// The first of the table that any source sets, by its short or long name.
    pub fn refuse(&self, table: &[Removed]) -> Result<(), Error> {
        for removed in table {
            let names = [long(removed.name), removed.name.to_owned()];
            if let Some((name, setting)) = self.layers.find(&names) {
                return Err(Error::Removed {
                    name: name.to_owned(),
                    from: setting.source.clone(),
                    instead: removed.instead,
                });
            }
        }
        Ok(())
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

    /// Ignored and deprecated settings of the parameters registered so far.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The settings whose names start with `prefix` (such as `btl_ofi_`) and are not declared: one per name, from the
    /// source with the highest rank. Call this function after all registrations, to warn about typing errors.
    pub fn unknown(&self, prefix: &str) -> Vec<Unknown> {
        unknown::find(prefix, &self.layers, &self.names)
    }

    fn resolve(&self, declaration: &Declaration, names: &[String]) -> Result<Resolved, Error> {
        match self.layers.find(names) {
            Some((name, setting)) => self.convert(declaration, name, setting),
            None => Ok(Resolved {
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
        if let (Some(used), Some((_, unused))) = (
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

/// All names of a parameter in order of precedence: each long name before its short form.
fn names(declaration: &Declaration) -> Vec<String> {
    declaration
        .names()
        .flat_map(|name| [long(name), name.to_owned()])
        .collect()
}

fn long(name: &str) -> String {
    format!("{PROJECT}_{name}")
}

#[cfg(test)]
mod tests;
