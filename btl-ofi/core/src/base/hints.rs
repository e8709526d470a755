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

/// What the quick path of a request is for.
pub type Way = u8;
/// Peers that the provider serves.
pub const PROVIDER: Way = 0;
/// Requests that join a message which gathers for the peer.
pub const MESSAGE: Way = 1;
/// Other peers, and requests that begin a message.
pub const OTHER: Way = 2;

/// Defines a function of a door's table, `$name`, in two functions; `$slow` is written beside them. All three have
/// the same arguments in the same order, and each of the two calls the next in one place only, so that the compiler
/// makes it a jump (a tail call):
/// - `$name` is `$quick` with `$way` [`PROVIDER`], or [`MESSAGE`] if the transport uses messages;
/// - `$other` is `$quick` with `$way` [`OTHER`];
/// - `$slow` serves everything else, after `$quick` returned `None`, before any side effect.
///
/// The constant `T` means that calls may overlap. A door's table has the functions of its case.
#[doc(hidden)]
#[macro_export]
macro_rules! quick_entry {
    (
        $name:ident, $other:ident, $slow:ident,
        ($module:ident: $module_type:ty, $endpoint:ident: $endpoint_type:ty, $($arg:ident: $type:ty),* $(,)?),
        $way:ident, $quick:block -> $result:ty
    ) => {
        pub(super) unsafe extern "C" fn $name<const T: bool, const $way: $crate::hints::Way>(
            $module: $module_type,
            $endpoint: $endpoint_type,
            $($arg: $type),*
        ) -> $result {
            let fast = (|| $quick)();
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
                const $way: $crate::hints::Way = $crate::hints::OTHER;
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
