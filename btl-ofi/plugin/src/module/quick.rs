//! The quick paths of operations.

/// Defines a function of the module's table, `$name`, in two functions; `$slow` is written beside them. All three have
/// the same arguments in the same order, and each of the two calls the next in one place only, so that the compiler
/// makes it a jump (a tail call):
/// - `$name` serves peers whose requests of this class go by the provider, by `$quick` with `$is_far` true;
/// - `$near` serves others, by `$quick` with `$is_far` false;
/// - `$slow` serves everything else, after `$quick` returned `None`, before any side effect.
///
/// The constant `T` means that calls may overlap. A module's table has the functions of its case.
macro_rules! quick_entry {
    (
        $name:ident, $near:ident, $slow:ident,
        ($module:ident: $module_type:ty, $endpoint:ident: $endpoint_type:ty, $($arg:ident: $type:ty),* $(,)?),
        $is_far:ident, $quick:block
    ) => {
        pub(super) unsafe extern "C" fn $name<const T: bool>(
            $module: $module_type,
            $endpoint: $endpoint_type,
            $($arg: $type),*
        ) -> Status {
            let fast = (|| {
                const $is_far: bool = true;
                $quick
            })();
            if let Some(status) = fast {
                return status;
            }
            // SAFETY: the arguments are the host's own, unchanged, and the quick path did nothing.
            unsafe { $near::<T>($module, $endpoint, $($arg),*) }
        }

        #[inline(never)]
        unsafe extern "C" fn $near<const T: bool>(
            $module: $module_type,
            $endpoint: $endpoint_type,
            $($arg: $type),*
        ) -> Status {
            let fast = (|| {
                const $is_far: bool = false;
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
pub(super) use quick_entry;
