//! Collects the sources of a registry: the files in their order, and the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Warning};
use crate::file;
use crate::registry::Registry;
use crate::source::{Layer, Layers, Setting, Source};

/// The prefix of an environment variable that sets a parameter.
pub(crate) const PREFIX: &str = "OMPI_MCA_";
const USER_FILE: &str = ".openmpi/mca-params.conf";
const SYSTEM_FOLDER: &str = "/etc/openmpi";
const SYSTEM_FILE: &str = "openmpi-mca-params.conf";
const OVERRIDE_FILE: &str = "openmpi-mca-params-override.conf";
const FILE_LIST: &str = "OMPI_MCA_mca_base_param_files";
const FILE_LIST_DEPRECATED: &str = "OMPI_MCA_mca_param_files";
/// Largest parameter file, bytes: far above any real one, and cheap to hold in memory.
const MAX_FILE: u64 = 4 << 20;

impl Registry {
    /// A registry over this process's environment and the files that Open MPI reads.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`].
    pub fn from_system() -> Result<Self, Error> {
        Self::builder()
            .process_environment()
            .standard_files()
            .build()
    }

    /// Starts a registry over chosen sources.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// Builds a [`Registry`] from chosen sources. A new builder has none: no environment and no file.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    environment: BTreeMap<OsString, OsString>,
    user_file: Option<PathBuf>,
    system_file: Option<PathBuf>,
    override_file: Option<PathBuf>,
}

impl Builder {
    /// Adds variables to the environment of the registry. The registry looks up `HOME`, `OMPI_MCA_mca_base_param_files`
    /// and the parameters only there.
    pub fn environment<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        self.environment.extend(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        self
    }

    /// Adds a copy of this process's environment.
    pub fn process_environment(self) -> Self {
        self.environment(std::env::vars_os())
    }

    /// Sets the files that Open MPI reads, from the environment added so far: one below `$HOME`, if it is set, and two
    /// in `$OPAL_SYSCONFDIR`, by default `/etc/openmpi`.
    pub fn standard_files(mut self) -> Self {
        let folder = self
            .variable("OPAL_SYSCONFDIR")
            .map_or_else(|| SYSTEM_FOLDER.into(), PathBuf::from);
        self.user_file = self
            .variable("HOME")
            .map(|home| Path::new(home).join(USER_FILE));
        self.system_file = Some(folder.join(SYSTEM_FILE));
        self.override_file = Some(folder.join(OVERRIDE_FILE));
        self
    }

    /// Reads all sources once and makes the registry.
    ///
    /// # Errors
    ///
    /// A file exists but cannot be read, or one of its lines is malformed. Values are not checked here, but when their
    /// parameter is registered.
    pub fn build(self) -> Result<Registry, Error> {
        let home = self
            .variable("HOME")
            .and_then(OsStr::to_str)
            .map(str::to_owned);
        let (paths, warning) = self.file_list(home.as_deref());
        let mut layers = Layers {
            environment: self.environment_layer(),
            ..Layers::default()
        };
        if let Some(paths) = paths {
            for path in paths {
                layers.files.extend(read(&path)?);
            }
            if let Some(path) = self.override_file {
                layers.overrides = read(&path)?.unwrap_or_default();
            }
        }
        Ok(Registry::new(layers, home, warning.into_iter().collect()))
    }

    /// The value of a variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The files to read, highest rank first; `None` if the user asked for no files.
    fn file_list(&self, home: Option<&str>) -> (Option<Vec<PathBuf>>, Option<Warning>) {
        let deprecated = self.variable(FILE_LIST_DEPRECATED);
        let warning = deprecated.map(|_| Warning::Deprecated {
            name: FILE_LIST_DEPRECATED.trim_start_matches(PREFIX).into(),
            instead: FILE_LIST.trim_start_matches(PREFIX).into(),
            used_in: Source::Environment {
                variable: FILE_LIST_DEPRECATED.into(),
            },
        });
        let paths = match deprecated.or_else(|| self.variable(FILE_LIST)) {
            None => Some(
                [&self.user_file, &self.system_file]
                    .into_iter()
                    .flatten()
                    .cloned()
                    .collect(),
            ),
            Some(list) if list == "none" => None,
            Some(list) => Some(split(list, home)),
        };
        (paths, warning)
    }

    fn environment_layer(&self) -> Layer {
        let setting = |(variable, value): (&OsString, &OsString)| {
            let variable = variable.to_str()?;
            let name = variable.strip_prefix(PREFIX)?;
            let text = value
                .to_str()
                .map(str::to_owned)
                .ok_or_else(|| value.to_string_lossy().into_owned());
            Some((
                name.to_owned(),
                Setting {
                    text,
                    source: Source::Environment {
                        variable: variable.to_owned(),
                    },
                },
            ))
        };
        self.environment.iter().filter_map(setting).collect()
    }
}

fn split(list: &OsStr, home: Option<&str>) -> Vec<PathBuf> {
    let Some(list) = list.to_str() else {
        // A list that is not UTF-8 can still be one path.
        return vec![list.into()];
    };
    let expand = |path: &str| match (path.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => Path::new(home).join(below),
        _ => path.into(),
    };
    list.split(',')
        .filter(|path| !path.is_empty())
        .map(expand)
        .collect()
}

/// The settings of a file; `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Layer>, Error> {
    let unreadable = |error| Error::Unreadable {
        path: path.to_owned(),
        error,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 4 MiB");
        return Err(unreadable(error));
    }
    let assignments =
        file::parse(&bytes).map_err(|file::Malformed { line, text, reason }| Error::Malformed {
            path: path.to_owned(),
            line,
            text,
            reason,
        })?;
    // In the order of the file, so that the last value of a name stays.
    let setting = |a: file::Assignment| {
        (
            a.name,
            Setting {
                text: Ok(a.value),
                source: Source::File {
                    path: path.to_owned(),
                    line: a.line,
                },
            },
        )
    };
    Ok(Some(assignments.into_iter().map(setting).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(variables: &[(&str, &str)]) -> Option<Vec<String>> {
        let builder = Builder::default()
            .environment(variables.iter().copied())
            .standard_files();
        let (paths, _) = builder.file_list(Some("/h"));
        paths.map(|paths| {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        })
    }

    fn some(paths: &[&str]) -> Option<Vec<String>> {
        Some(paths.iter().map(|path| (*path).into()).collect())
    }

    #[test]
    fn the_standard_files() {
        let system = "/etc/openmpi/openmpi-mca-params.conf";
        assert_eq!(
            list(&[("HOME", "/h")]),
            some(&["/h/.openmpi/mca-params.conf", system])
        );
        assert_eq!(list(&[]), some(&[system]));
        assert_eq!(
            list(&[("HOME", ""), ("OPAL_SYSCONFDIR", "/e")]),
            some(&["/e/openmpi-mca-params.conf"])
        );
    }

    #[test]
    fn a_list_replaces_them() {
        assert_eq!(list(&[(FILE_LIST, "a,,~/b")]), some(&["a", "/h/b"]));
        assert_eq!(list(&[(FILE_LIST, "none")]), None);
        assert_eq!(
            list(&[(FILE_LIST, "a"), (FILE_LIST_DEPRECATED, "b")]),
            some(&["b"])
        );
    }

    #[test]
    fn the_deprecated_name_warns() {
        let builder = Builder::default().environment([(FILE_LIST_DEPRECATED, "none")]);
        let (paths, warning) = builder.file_list(None);
        assert_eq!(paths, None);
        assert!(
            matches!(warning, Some(Warning::Deprecated { instead, .. }) if instead == "mca_base_param_files")
        );
    }

    #[test]
    fn only_prefixed_variables_are_settings() {
        let builder = Builder::default().environment([
            ("OMPI_MCA_a", "1"),
            ("ompi_mca_b", "2"),
            ("OMPI_MCA", "3"),
        ]);
        assert_eq!(
            builder.environment_layer().into_keys().collect::<Vec<_>>(),
            ["a"]
        );
    }
}
