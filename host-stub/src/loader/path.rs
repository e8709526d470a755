//! The search for the plugin.

use std::path::PathBuf;

/// The plugin's file name.
pub const DEFAULT_PLUGIN: &str = "libbtl_ofi.so";

/// The environment variable that names the plugin's file; the launcher sets it for its ranks.
pub const PLUGIN_ENV: &str = "HOST_STUB_PLUGIN";

/// The default plugin: [`PLUGIN_ENV`], else [`DEFAULT_PLUGIN`] beside the executable, else
/// [`DEFAULT_PLUGIN`] without a folder, which the dynamic loader searches on its own path.
pub fn default_path() -> PathBuf {
    if let Some(path) = std::env::var_os(PLUGIN_ENV).filter(|path| !path.is_empty()) {
        return PathBuf::from(path);
    }
    std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join(DEFAULT_PLUGIN)))
        .filter(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from(DEFAULT_PLUGIN))
}
