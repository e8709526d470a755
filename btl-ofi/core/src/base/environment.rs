//! Provider settings that libfabric reads only from the environment, when a process first asks for providers.
//!
//! `setenv(3)` may free the array of variables while another thread reads it. So this module makes a new array of the old and
//! the new variables, and never frees one: a thread that reads the environment meanwhile reads the old array or the new one. No
//! thread may change the environment meanwhile. libfabric, which reads it right after, requires the same.

use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::base::sys;

unsafe extern "C" {
    /// The variables of the process: strings `NAME=value`, and a null pointer behind them (environ(7)).
    static mut environ: *mut *mut c_char;
}

/// A setting that a provider needs for one-sided use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) variable: &'static str,
    pub(crate) value: &'static str,
}

impl Setting {
    /// Whether the environment lacks the variable.
    fn is_missing(&self) -> bool {
        std::env::var_os(self.variable).is_none()
    }
}

/// Sets the missing variables. Variables that the user set keep their values.
pub(crate) fn prepare(settings: impl Iterator<Item = &'static Setting>) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = settings.filter(|setting| setting.is_missing());
    let text = |setting: &Setting| CString::new(format!("{}={}", setting.variable, setting.value));
    let added: Vec<CString> = missing.filter_map(|setting| text(setting).ok()).collect();
    if !added.is_empty() {
        add(added);
    }
}

/// Adds variables to the environment, for good. Without memory the environment stays as it is.
fn add(variables: Vec<CString>) {
    // SAFETY: the C library's variable is aligned and lives as long as the process. Other threads only read it, as the module's
    // documentation requires.
    let place = unsafe { AtomicPtr::from_ptr(&raw mut environ) };
    let old = place.load(Ordering::Acquire);
    let mut count = 0;
    // SAFETY: the array ends with a null pointer, and no thread changes it.
    while !old.is_null() && unsafe { !(*old.add(count)).is_null() } {
        count += 1;
    }
    // The array lies in no heap: when `setenv(3)` has copied it, a leak checker would call it lost.
    let size = (count + variables.len() + 1) * size_of::<*mut c_char>();
    let Ok(array) = sys::map_zeros(size) else {
        return;
    };
    let array = array.as_ptr().cast::<*mut c_char>();
    // SAFETY: both arrays have `count` strings, and the new one is not used yet.
    unsafe { array.copy_from_nonoverlapping(old, count) };
    for (at, variable) in variables.into_iter().enumerate() {
        // SAFETY: the array has room for all variables, and for the null pointer behind them.
        unsafe { *array.add(count + at) = variable.into_raw() };
    }
    // Release: a thread that finds the new array also finds its contents.
    place.store(array, Ordering::Release);
}

/// The value of libfabric's variable that limits the providers to load, if the user set it.
pub(crate) fn filter() -> Option<String> {
    let names = std::env::var_os("FI_PROVIDER")?;
    (!names.is_empty()).then(|| names.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: [Setting; 2] = [
        Setting {
            variable: "BTL_OFI_TEST_NO_SUCH_VARIABLE",
            value: "7",
        },
        Setting {
            variable: "BTL_OFI_TEST_NO_SUCH_VARIABLE_2",
            value: "",
        },
    ];

    /// Other threads find every earlier variable meanwhile, and the added ones afterwards.
    #[test]
    fn variables_are_added_while_others_read() {
        let before: Vec<_> = std::env::vars_os().collect();
        let has_all = || {
            let now: Vec<_> = std::env::vars_os().collect();
            before.iter().all(|variable| now.contains(variable))
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while std::env::var(MISSING[1].variable).is_err() {
                    assert!(has_all());
                }
            });
            prepare(MISSING.iter());
            reader.join().unwrap();
        });
        assert!(has_all());
        for setting in MISSING {
            assert_eq!(std::env::var(setting.variable).unwrap(), setting.value);
        }
        let count = std::env::vars_os().count();
        prepare(MISSING.iter());
        assert_eq!(std::env::vars_os().count(), count, "added twice");
    }
}
