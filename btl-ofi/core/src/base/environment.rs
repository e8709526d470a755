//! Settings of providers that libfabric reads from the environment alone, when it is first asked for providers.
//!
//! To change the environment is sound only while nobody else can read it (`setenv(3)` and `getenv(3)` share
//! memory without a lock), so it is done in a process that has no other thread; in others the user is told
//! what to export. The host's launcher sets the same for its ranks, before they run.

use std::fs;

use crate::base::params::Options;

/// A setting that makes a provider fit for one-sided use.
struct Setting {
    provider: &'static str,
    variable: &'static str,
    value: &'static str,
    /// What happens without it.
    without: &'static str,
}

const SETTINGS: [Setting; 1] = [Setting {
    provider: "sockets",
    variable: "FI_SOCKETS_PE_WAITTIME",
    value: "0",
    without: "its progress thread sleeps 10 ms at a time, and an operation takes as long",
}];

impl Setting {
    /// Whether it is for the environment to hold, which holds nothing.
    fn is_missing(&self) -> bool {
        std::env::var_os(self.variable).is_none()
    }
}

/// Sets what the providers that the options admit want, if that is sound. The user's own values stay.
pub(crate) fn prepare(options: &Options) {
    for setting in &SETTINGS {
        if options.admits(setting.provider).is_ok() && setting.is_missing() && is_alone() {
            // SAFETY: no other thread exists that could read or change the environment, and only this one
            // could start another.
            unsafe { std::env::set_var(setting.variable, setting.value) };
        }
    }
}

/// What the user is to do for the provider that was chosen, if it lacks a setting.
pub(crate) fn advice(provider: &str) -> Option<String> {
    let mut wanted = SETTINGS.iter().filter(|s| s.provider == provider);
    let Setting {
        variable,
        value,
        without,
        ..
    } = wanted.find(|setting| setting.is_missing())?;
    Some(format!(
        "provider {provider}: {variable} is not set, so {without}; a process that has threads already cannot set \
         it: export {variable}={value} before it starts (with mpirun: -x {variable}={value})"
    ))
}

/// Whether this thread is the only one of its process, as far as can be told.
fn is_alone() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}
