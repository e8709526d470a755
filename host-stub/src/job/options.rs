//! Options for joining a job.

use std::path::PathBuf;

use osc_engine::base::CombineFn;
use plugin_api::ThreadLevel;

use crate::base::params::Setting;
use crate::crt::Level;

/// The options of joining a job. The defaults are: the default plugin, no explicit settings, and any threads
/// at the same time.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// The plugin's file; `None` stands for [`default_path`](crate::loader::default_path).
    pub(super) plugin: Option<PathBuf>,
    /// Parameters that override every other source.
    pub settings: Vec<Setting>,
    /// Arithmetic on elements of types that windows do not know
    /// ([`Window::accumulate_custom`](crate::win::Window::accumulate_custom)). All ranks use the same codes.
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
    /// Sets the plugin's file. The default is [`default_path`](crate::loader::default_path): the file that
    /// the user's environment names, or the file that is installed beside this program.
    ///
    /// # Safety
    /// The code in the file is trusted: see [`Plugin::open`](crate::loader::Plugin::open).
    pub unsafe fn plugin(mut self, path: impl Into<PathBuf>) -> Self {
        self.plugin = Some(path.into());
        self
    }

    /// Promises a thread level below [`ThreadLevel::Multiple`], so that the transport can omit its
    /// locks.
    ///
    /// # Safety
    /// The program respects the level: see [`Component::init`](crate::loader::Component::init).
    pub unsafe fn assume_threads(self, level: ThreadLevel) -> Self {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { self.assume_level(level.into()) }
    }

    /// The same as [`assume_threads`](Self::assume_threads), for any level.
    ///
    /// # Safety
    /// The program respects the level that is provided ([`Runtime::provided`](crate::crt::Runtime::provided)).
    pub unsafe fn assume_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Asks for [`Level::TaskMultiple`]: tasks wait without blocking their threads. The job provides this
    /// level only if hooks of a tasking runtime are set ([`set_hooks`](crate::crt::set_hooks)); otherwise it
    /// warns and provides [`Level::Multiple`].
    pub fn task_multiple(mut self) -> Self {
        self.level = Level::TaskMultiple;
        self
    }
}
