//! How a program joins a job.

use std::path::PathBuf;

use osc_engine::base::CombineFn;
use plugin_api::ThreadLevel;

use crate::base::params::Setting;
use crate::crt::Level;

/// How to join a job. The default: the default plugin, no explicit settings, any threads at once.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// The plugin's file; [`default_path`](crate::loader::default_path) if none is given.
    pub(super) plugin: Option<PathBuf>,
    /// Parameters set above every other source.
    pub settings: Vec<Setting>,
    /// Arithmetic on elements of types that windows do not know ([`Window::accumulate_custom`](crate::win::Window::accumulate_custom)); the same
    /// codes at all ranks.
    pub arithmetic: Option<CombineFn>,
    pub(super) level: Level,
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions {
            plugin: None,
            settings: Vec::new(),
            arithmetic: None,
            level: Level::Multiple,
        }
    }
}

impl JobOptions {
    /// Names the plugin's file, instead of [`default_path`](crate::loader::default_path): the one that the
    /// user's environment names, or that is installed beside this program.
    ///
    /// # Safety
    /// The code in the file is trusted: see [`Plugin::open`](crate::loader::Plugin::open).
    pub unsafe fn plugin(mut self, path: impl Into<PathBuf>) -> Self {
        self.plugin = Some(path.into());
        self
    }

    /// Promises a weaker use of threads than [`ThreadLevel::Multiple`], so that the transport can
    /// leave out its locks.
    ///
    /// # Safety
    /// The program keeps to the level: see [`Component::init`](crate::loader::Component::init).
    pub unsafe fn assume_threads(self, level: ThreadLevel) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { self.assume_level(level.into()) }
    }

    /// As [`assume_threads`](Self::assume_threads), for any level.
    ///
    /// # Safety
    /// The program keeps to the level that is provided ([`Runtime::provided`](crate::crt::Runtime::provided)).
    pub unsafe fn assume_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Asks for [`Level::TaskMultiple`]: tasks wait without their threads. Provided only where hooks of
    /// a tasking runtime are set ([`set_hooks`](crate::crt::set_hooks)); else, with a warning,
    /// [`Level::Multiple`].
    pub fn task_multiple(mut self) -> Self {
        self.level = Level::TaskMultiple;
        self
    }
}
