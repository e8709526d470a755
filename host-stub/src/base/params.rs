//! The parameters of this process: one registry shared by the host and its plugin, with the
//! settings of the command line above all other sources.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mca_params::{Declaration, Error, Registry, Value};

/// Carries explicit settings from a launcher to its ranks: a JSON array of name and value pairs.
pub const SETTINGS_ENV: &str = "HOST_STUB_MCA";

/// An explicit setting, as `--mca name value` gives it.
pub type Setting = (String, String);

/// The registry behind a lock. Any thread may call; nothing here is on a hot path.
pub struct Params {
    registry: Mutex<Registry>,
}

impl Params {
    /// Reads the environment and the parameter files, puts what a launcher passed in
    /// [`SETTINGS_ENV`] above them, and `explicit` above that.
    pub fn from_system(explicit: &[Setting]) -> Result<Params, ParamsError> {
        let mut registry = Registry::from_system()?;
        for (name, value) in inherited()?.iter().chain(explicit) {
            registry.set(name, value)?;
        }
        Ok(Params {
            registry: Mutex::new(registry),
        })
    }

    /// Declares a parameter and resolves its value. Declaring it again gives the same value.
    pub fn declare(&self, declaration: &Declaration) -> Result<Value, Error> {
        Ok(self.lock().register(declaration)?.value.clone())
    }

    /// The value of a declared parameter.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.lock().value(name).cloned()
    }

    /// Looks at the whole registry.
    pub fn read<R>(&self, look: impl FnOnce(&Registry) -> R) -> R {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why there are no parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// A source that cannot be read, or an explicit setting that cannot be taken.
    #[error(transparent)]
    Source(#[from] Error),
    /// [`SETTINGS_ENV`] is not what a launcher writes there.
    #[error(
        "{SETTINGS_ENV}: wanted a JSON array of [name, value] pairs, found `{found}`: {reason}"
    )]
    Inherited {
        /// Its start.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The settings that a launcher passed to this process.
pub fn inherited() -> Result<Vec<Setting>, ParamsError> {
    let Some(text) = std::env::var_os(SETTINGS_ENV) else {
        return Ok(Vec::new());
    };
    let text = text.to_string_lossy();
    serde_json::from_str(&text).map_err(|error| ParamsError::Inherited {
        found: text.chars().take(80).collect(),
        reason: error.to_string(),
    })
}

/// The value of [`SETTINGS_ENV`] for ranks.
pub fn encode(settings: &[Setting]) -> String {
    serde_json::json!(settings).to_string()
}
