//! For the doors: what keeps their quick paths short. Nothing here changes what a program computes.
//!
//! The functions of the plugin's table (`btl-ofi/plugin/src/module/rma.rs`) are an example.

#[doc(inline)]
pub use crate::quick_entry;

/// Keeps two branches apart. The compiler otherwise merges their conditions: flags that are set and combined take
/// more instructions than branches that are never taken.
#[inline(always)]
pub fn branch() {
    #[cfg(not(miri))]
    // SAFETY: the assembly is empty, so it changes no state.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Defines a function of a door's table, `$name`, in two functions; `$slow` is written beside them. All three have
/// the same arguments in the same order, and each of the two calls the next in one place only, so that the compiler
/// makes it a jump (a tail call):
/// - `$name` serves peers whose requests of this class go by the provider, by `$quick` with `$by_fabric` true;
/// - `$other` serves others, by `$quick` with `$by_fabric` false;
/// - `$slow` serves everything else, after `$quick` returned `None`, before any side effect.
///
/// The constant `T` means that calls may overlap. A door's table has the functions of its case.
#[doc(hidden)]
#[macro_export]
macro_rules! quick_entry {
    (
        $name:ident, $other:ident, $slow:ident,
        ($module:ident: $module_type:ty, $endpoint:ident: $endpoint_type:ty, $($arg:ident: $type:ty),* $(,)?),
        $by_fabric:ident, $quick:block -> $result:ty
    ) => {
        pub(super) unsafe extern "C" fn $name<const T: bool>(
            $module: $module_type,
            $endpoint: $endpoint_type,
            $($arg: $type),*
        ) -> $result {
            let fast = (|| {
                const $by_fabric: bool = true;
                $quick
            })();
            if let Some(status) = fast {
                return status;
            }
            // SAFETY: the arguments are the host's own, unchanged, and the quick path did nothing.
            unsafe { $other::<T>($module, $endpoint, $($arg),*) }
        }

        #[inline(never)]
        unsafe extern "C" fn $other<const T: bool>(
            $module: $module_type,
            $endpoint: $endpoint_type,
            $($arg: $type),*
        ) -> $result {
            let fast = (|| {
                const $by_fabric: bool = false;
                $quick
            })();
            if let Some(status) = fast {
                return status;
            }
            // SAFETY: the arguments are the host's own, unchanged, and the quick path did nothing.
            unsafe { $slow($module, $endpoint, $($arg),*) }
        }
    };
}
