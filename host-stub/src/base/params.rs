//! The parameters of this process: one registry shared by the host and its plugin, with the
//! settings of the command line above all other sources.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mca_params::{Declaration, Error, Registry, Value};

/// Carries explicit settings from a launcher to its ranks: a JSON array of name and value pairs.
pub const SETTINGS_ENV: &str = "HOST_STUB_MCA";

/// An explicit setting, as `--mca name value` sets it.
pub type Setting = (String, String);

/// The registry behind a lock. Any thread may call; these calls are not on a hot path.
pub struct Params {
    registry: Mutex<Registry>,
}

impl Params {
    /// Reads the environment and the parameter files. The settings that a launcher passed in
    /// [`SETTINGS_ENV`] override them, and `explicit` overrides these settings.
    pub fn from_system(explicit: &[Setting]) -> Result<Params, ParamsError> {
        let mut registry = Registry::from_system()?;
        for (name, value) in inherited()?.iter().chain(explicit) {
            registry.set(name, value)?;
        }
        Ok(Params {
            registry: Mutex::new(registry),
        })
    }

    /// Declares a parameter, and resolves its value. A repeated declaration returns the same value.
    pub fn declare(&self, declaration: &Declaration) -> Result<Value, Error> {
        Ok(self.lock().register(declaration)?.value.clone())
    }

    /// The value of a declared parameter.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.lock().value(name).cloned()
    }

    /// Runs `look` on the whole registry.
    pub fn read<R>(&self, look: impl FnOnce(&Registry) -> R) -> R {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why there are no parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// A source cannot be read, or an explicit setting is refused.
    #[error(transparent)]
    Source(#[from] Error),
    /// [`SETTINGS_ENV`] has a value that no launcher writes.
    #[error(
        "{SETTINGS_ENV}: wanted a JSON array of [name, value] pairs, found `{found}`: {reason}"
    )]
    Inherited {
        /// The beginning of the value.
        found: String,
        /// The error in the value.
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
