//! Sources of values: the place of a setting, and the layers of settings that a registry searches.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The source of a parameter's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The declaration.
    Default,
    /// A parameter file.
    File {
        /// The path as opened.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// The environment.
    Environment {
        /// The variable's whole name, such as `OMPI_MCA_btl_ofi_mode`.
        variable: String,
    },
    /// An explicit [`Registry::set`](crate::Registry::set).
    Set,
}

impl Source {
    /// The source as text for an error message: the place to change.
    pub fn place(&self) -> String {
        match self {
            Self::File { path, line } => format!("{}:{line}", path.display()),
            Self::Environment { variable } => format!("environment variable {variable}"),
            Self::Set => "an explicit setting".into(),
            Self::Default => "the declaration".into(),
        }
    }
}

/// Prints the text that `ompi_info` prints after `data source:`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "file ({}:{line})", path.display()),
            Self::Environment { .. } => f.write_str("environment"),
            Self::Set => f.write_str("set"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The text. `Err` holds text from the environment that is not UTF-8, with replacement characters.
    pub(crate) text: Result<String, String>,
    pub(crate) source: Source,
}

/// All settings of one rank, by the name in the source.
pub(crate) type Layer = BTreeMap<String, Setting>;

/// The layers in order of precedence, without the declared defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    pub(crate) overrides: Layer,
    /// In the order of the calls: of two settings of one parameter, under any of its names, the later one counts.
    pub(crate) sets: Vec<(String, Setting)>,
    pub(crate) environment: Layer,
    /// The files, highest rank first.
    pub(crate) files: Vec<Layer>,
}

impl Layers {
    /// The setting with the highest rank under any of `names`, and its name. `names` are in order of precedence.
    pub(crate) fn find(&self, names: &[String]) -> Option<(&str, &Setting)> {
        let overrides = find_in(&self.overrides, names);
        overrides.or_else(|| self.find_below_overrides(names))
    }

    /// The override file's setting for any of these names.
    pub(crate) fn overridden(&self, names: &[String]) -> Option<&Setting> {
        find_in(&self.overrides, names).map(|(_, setting)| setting)
    }

    /// The setting with the highest rank below the override file, and its name.
    pub(crate) fn find_below_overrides(&self, names: &[String]) -> Option<(&str, &Setting)> {
        let mut sets = self.sets.iter().rev();
        let set = sets.find(|(name, _)| names.contains(name));
        let mut layers = [&self.environment].into_iter().chain(&self.files);
        set.map(|(name, setting)| (name.as_str(), setting))
            .or_else(|| layers.find_map(|layer| find_in(layer, names)))
    }

    /// Every setting, highest rank first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        let sets = self
            .sets
            .iter()
            .map(|(name, setting)| (name.as_str(), setting));
        let below = [&self.environment].into_iter().chain(&self.files).flatten();
        self.overrides
            .iter()
            .map(|(name, setting)| (name.as_str(), setting))
            .chain(sets)
            .chain(below.map(|(name, setting)| (name.as_str(), setting)))
    }
}

fn find_in<'a>(layer: &'a Layer, names: &[String]) -> Option<(&'a str, &'a Setting)> {
    let (name, setting) = names.iter().find_map(|name| layer.get_key_value(name))?;
    Some((name, setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(text: &str) -> Setting {
        Setting {
            text: Ok(text.into()),
            source: Source::Set,
        }
    }

    fn layer(entries: &[(&str, &str)]) -> Layer {
        entries
            .iter()
            .map(|(name, text)| ((*name).into(), setting(text)))
            .collect()
    }

    fn text<'a>(layers: &'a Layers, names: &[&str]) -> Option<&'a str> {
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        layers
            .find(&names)
            .and_then(|(_, setting)| setting.text.as_deref().ok())
    }

    #[test]
    fn rank_comes_before_the_order_of_names() {
        let mut layers = Layers {
            files: vec![layer(&[("syn", "user")]), layer(&[("real", "system")])],
            ..Layers::default()
        };
        assert_eq!(text(&layers, &["syn", "real"]), Some("user"));
        layers.environment = layer(&[("real", "env")]);
        assert_eq!(text(&layers, &["syn", "real"]), Some("env"));
        layers.environment = layer(&[("real", "env"), ("syn", "env syn")]);
        assert_eq!(text(&layers, &["syn", "real"]), Some("env syn"));
        layers.sets = vec![
            ("syn".into(), setting("first")),
            ("real".into(), setting("second")),
        ];
        assert_eq!(text(&layers, &["syn", "real"]), Some("second"));
        layers.overrides = layer(&[("real", "admin")]);
        assert_eq!(text(&layers, &["syn", "real"]), Some("admin"));
        assert_eq!(text(&layers, &["other"]), None);
    }

    #[test]
    fn a_place_is_where_to_change_it() {
        let file = Source::File {
            path: "/h/p.conf".into(),
            line: 3,
        };
        assert_eq!(file.place(), "/h/p.conf:3");
        assert_eq!(file.to_string(), "file (/h/p.conf:3)");
        let variable = Source::Environment {
            variable: "OMPI_MCA_x".into(),
        };
        assert_eq!(variable.place(), "environment variable OMPI_MCA_x");
        assert_eq!(variable.to_string(), "environment");
        assert_eq!(Source::Default.to_string(), "default");
    }
}
