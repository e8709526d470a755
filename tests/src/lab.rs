//! The lab provider (`tests/lab-provider`), in a folder where libfabric finds it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use crate::fixtures::lab_provider;

/// A folder with the provider under the name that libfabric looks for, and with the provider's outputs. The
/// drop removes the folder.
pub struct Lab(PathBuf);

impl Default for Lab {
    fn default() -> Lab {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("btl-ofi-lab-{}-{number}", std::process::id());
        let lab = Lab(env::temp_dir().join(name));
        fs::create_dir_all(&lab.0).unwrap();
        std::os::unix::fs::symlink(lab_provider(), lab.0.join("liblab-fi.so")).unwrap();
        lab
    }
}

impl Lab {
    /// Makes a command find the provider, with a shape of `LAB_*` variables without the prefix.
    pub fn serve<'a>(
        &self,
        command: &mut Command,
        shape: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        command
            .env("FI_PROVIDER_PATH", &self.0)
            .env("LAB_REPORT", self.0.join("report"))
            .env("LAB_STATS", self.0.join("stats"));
        for (name, value) in shape {
            command.env(format!("LAB_{name}"), value);
        }
    }

    /// The lines of the provider's `report` (violated rules), or of its `stats`.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.0.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
