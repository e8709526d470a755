//! Provider settings that libfabric reads only from the environment, when a process first asks for providers.
//!
//! A change of the environment is sound only while no other thread can read it: `setenv(3)` and `getenv(3)` share
//! memory without a lock. Therefore this module sets a variable only in a process with one thread. In other
//! processes this module prints the variable that the user must export. The host's launcher exports the same
//! settings for its ranks.

use crate::base::sys;

/// A setting that a provider needs for one-sided use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) variable: &'static str,
    pub(crate) value: &'static str,
    /// The effect when the variable is not set.
    pub(crate) without: &'static str,
}

impl Setting {
    /// Whether the environment lacks the variable.
    fn is_missing(&self) -> bool {
        std::env::var_os(self.variable).is_none()
    }
}

/// Sets the missing variables, if this process has one thread. Variables that the user set keep their values.
pub(crate) fn prepare(settings: impl Iterator<Item = &'static Setting>) {
    for setting in settings {
        if setting.is_missing() && has_one_thread() {
            // SAFETY: this is the only thread of the process, so no other thread reads or changes the environment.
            unsafe { std::env::set_var(setting.variable, setting.value) };
        }
    }
}

/// Advice for the user if the chosen provider lacks one of its settings.
pub(crate) fn advice(
    provider: &str,
    mut settings: impl Iterator<Item = &'static Setting>,
) -> Option<String> {
    let Setting {
        variable,
        value,
        without,
    } = settings.find(|setting| setting.is_missing())?;
    Some(format!(
        "provider {provider}: {variable} is not set, so {without}; a process with several threads cannot set \
         it: export {variable}={value} before it starts (with mpirun: -x {variable}={value})"
    ))
}

/// The value of libfabric's variable that limits the providers to load, if the user set it.
pub(crate) fn filter() -> Option<String> {
    let names = std::env::var_os("FI_PROVIDER")?;
    (!names.is_empty()).then(|| names.to_string_lossy().into_owned())
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

    const MISSING: Setting = Setting {
        variable: "BTL_OFI_TEST_NO_SUCH_VARIABLE",
        value: "7",
        without: "it waits",
    };

    #[test]
    fn several_threads_leave_the_environment_to_the_user() {
        let _script = Script::new().answers("getdents", vec![Some(1u32), Some(2)]);
        prepare([&MISSING].into_iter());
        assert!(MISSING.is_missing());
        assert_eq!(
            advice("any", [&MISSING].into_iter()).unwrap(),
            "provider any: BTL_OFI_TEST_NO_SUCH_VARIABLE is not set, so it waits; a process with several threads \
             cannot set it: export BTL_OFI_TEST_NO_SUCH_VARIABLE=7 before it starts (with mpirun: -x \
             BTL_OFI_TEST_NO_SUCH_VARIABLE=7)"
        );
    }
}
