//! Provider settings that libfabric reads only from the environment, when a process first asks for providers.
//!
//! A change of the environment is sound only while no other thread can read it: `setenv(3)` and `getenv(3)` share
//! memory without a lock. So this module sets a variable only in a process with one thread. In other processes it
//! tells the user what to export. The host's launcher exports the same settings for its ranks.

use crate::base::params::Options;
use crate::base::sys;

/// A setting that a provider needs for one-sided use.
struct Setting {
    provider: &'static str,
    variable: &'static str,
    value: &'static str,
    /// The effect when the variable is not set.
    without: &'static str,
}

const SETTINGS: [Setting; 1] = [Setting {
    provider: "sockets",
    variable: "FI_SOCKETS_PE_WAITTIME",
    value: "0",
    without: "its progress thread sleeps 10 ms at a time, and an operation takes as long",
}];

impl Setting {
    /// Whether the environment lacks the variable.
    fn is_missing(&self) -> bool {
        std::env::var_os(self.variable).is_none()
    }
}

/// Sets the missing variables of all providers that `options` admits, if this process has one thread. Values that the
/// user set stay.
pub(crate) fn prepare(options: &Options) {
    for setting in &SETTINGS {
        if options.admits(setting.provider).is_ok() && setting.is_missing() && has_one_thread() {
            // SAFETY: this is the only thread of the process, so no other thread reads or changes the environment.
            unsafe { std::env::set_var(setting.variable, setting.value) };
        }
    }
}

/// Advice for the user if the chosen provider lacks a setting.
pub(crate) fn advice(provider: &str) -> Option<String> {
    let mut wanted = SETTINGS.iter().filter(|s| s.provider == provider);
    let Setting {
        variable,
        value,
        without,
        ..
    } = wanted.find(|setting| setting.is_missing())?;
    Some(format!(
        "provider {provider}: {variable} is not set, so {without}; a process with several threads cannot set \
         it: export {variable}={value} before it starts (with mpirun: -x {variable}={value})"
    ))
}

/// Whether this process has one thread, according to `/proc`; false where `/proc` cannot be read.
fn has_one_thread() -> bool {
    sys::threads("self").is_ok_and(|threads| threads.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sys::script::Script;

    /// A process whose threads cannot be counted must not change its environment.
    #[test]
    fn one_thread_is_counted_or_denied() {
        for (threads, alone) in [
            (vec![Some(7u32)], true),
            (vec![Some(7), Some(8)], false),
            (vec![Some(7), None], false),
        ] {
            let _script = Script::new().answers("getdents", threads);
            assert_eq!(has_one_thread(), alone);
        }
        let _script = Script::new().fails("getdents", libc::EACCES);
        assert!(!has_one_thread(), "a hidden /proc");
    }
}
