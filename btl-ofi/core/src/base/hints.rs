//! For the doors: helpers that keep their fast paths short. Nothing here changes the results of a program.
//!
//! The functions of the plugin's table (`btl-ofi/plugin/src/module/rma.rs`) are an example.

use plugin_api::Status;

#[doc(inline)]
pub use crate::quick_entry;

/// Keeps two branches apart. Without this function, the compiler merges their conditions, and code that sets and
/// combines flags takes more instructions than branches that are never taken.
#[inline(always)]
pub fn branch() {
    #[cfg(not(miri))]
    // SAFETY: the assembly is empty, so it changes no state.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Returns the same status. The compiler then loads the value of `SUCCESS` only at the return. Without this
/// function, the compiler loads the value before the provider's call, into a register that it must then save.
#[inline(always)]
pub fn late_success(status: Status) -> Status {
    #[cfg(not(miri))]
    if status == Status::SUCCESS {
        let success: u64;
        // SAFETY: the assembly is empty, so it changes no state.
        unsafe {
            std::arch::asm!("/* {0} */", inlateout(reg) 0u64 => success, options(pure, nomem, nostack, preserves_flags));
        }
        return Status(success as i32);
    }
    status
}

/// The peers and requests that the fast path of a request is for.
pub type Way = u8;
/// Peers that the provider serves.
pub const PROVIDER: Way = 0;
/// Requests that join the peer's current batch of messages.
pub const MESSAGE: Way = 1;
/// Other peers, and requests that begin a batch.
pub const OTHER: Way = 2;
/// Peers that the provider serves, for requests without callback.
pub const NO_CALLBACK: Way = 3;

/// Whether the provider serves the peers of this way.
pub(crate) const fn is_by_provider(way: Way) -> bool {
    way == PROVIDER || way == NO_CALLBACK
}

/// Defines an entry `$name` of a door's table, in four or five functions. All functions have the same arguments in the same
/// order, so that the compiler turns a call of the next function into a jump (a tail call):
/// - `$name` with `$way` [`PROVIDER`] only calls `$route`, a method of [`Endpoint`](crate::Endpoint), and then jumps to
///   `$direct` or `$other`. `$route` says whether the provider serves the endpoint. `$name` does nothing else, so it saves
///   no register. `$name` calls a function pointer, because the compiler turns only one call of a function
///   into a jump. With `$way` [`MESSAGE`], for transports that use messages, `$name` is `$quick`, and jumps to `$other`
///   if `$quick` returned `None`;
/// - `$direct` is `$quick` with `$way` [`PROVIDER`], and `$other` is `$quick` with [`OTHER`];
/// - `$no_callback` is optional. This function takes the place of `$direct` for requests whose `$callback` is NULL. The
///   function is `$quick` with [`NO_CALLBACK`], and jumps to `$direct` if `$quick` returned `None`. Such a request has
///   fewer registers to save;
/// - `$slow` is `$general`, which serves everything else, after `$quick` returned `None` before any side effect.
///
/// The constant `T` says whether calls may overlap. A door's table has the functions for its threading.
#[doc(hidden)]
#[macro_export]
macro_rules! quick_entry {
    (
        $name:ident, $direct:ident, $other:ident, $slow:ident, $route:ident, $($no_callback:ident for no $callback:ident,)?
        ($module:ident: $module_type:ty, $endpoint:ident: $endpoint_type:ty, $($arg:ident: $type:ty),* $(,)?),
        $way:ident, $quick:block else $general:block -> $result:ty
    ) => {
        pub(super) unsafe extern "C" fn $name<const T: bool, const $way: $crate::hints::Way>(
            $module: $module_type,
            $endpoint: $endpoint_type,
            $($arg: $type),*
        ) -> $result {
            if $way != $crate::hints::PROVIDER
                && let Some(status) = (|| $quick)()
            {
                return status;
            }
            let next: unsafe extern "C" fn($module_type, $endpoint_type, $($type),*) -> $result =
                if $endpoint.is_null() {
                    $slow
                } else if $way == $crate::hints::PROVIDER
                    // SAFETY: the host passes NULL or a live endpoint; `T` is the threading of the module's
                    // table.
                    && unsafe { (*$endpoint.cast::<$crate::Endpoint>()).$route::<T>() }
                {
                    // Without this branch, the compiler selects the address by the condition, which takes one
                    // instruction more.
                    $crate::hints::branch();
                    'chosen: {
                        $(
                            if $callback.is_none() {
                                $crate::hints::branch();
                                break 'chosen $no_callback::<T>;
                            }
                        )?
                        $direct::<T>
                    }
                } else {
                    $other::<T>
                };
            // SAFETY: the arguments are the host's own and unchanged, and the fast path did
            // nothing.
            unsafe { next($module, $endpoint, $($arg),*) }
        }

        #[inline(never)]
        unsafe extern "C" fn $slow($module: $module_type, $endpoint: $endpoint_type, $($arg: $type),*) -> $result $general

        $crate::quick_entry! {
            @no_callback ($($no_callback)?), $endpoint, $crate::hints::NO_CALLBACK, $direct::<T>,
            ($module: $module_type, $endpoint: $endpoint_type, $($arg: $type),*), $way, $quick -> $result
        }

        $crate::quick_entry! {
            @path $direct, $endpoint, $crate::hints::PROVIDER, $slow,
            ($module: $module_type, $endpoint: $endpoint_type, $($arg: $type),*), $way, $quick -> $result
        }

        $crate::quick_entry! {
            @path $other, $endpoint, $crate::hints::OTHER, $slow,
            ($module: $module_type, $endpoint: $endpoint_type, $($arg: $type),*), $way, $quick -> $result
        }
    };
    (@no_callback (), $($rest:tt)*) => {};
    (@no_callback ($name:ident), $($rest:tt)*) => { $crate::quick_entry! { @path $name, $($rest)* } };
    (
        @path $name:ident, $endpoint:ident, $served:expr, $next:expr,
        ($($arg:ident: $type:ty),*), $way:ident, $quick:block -> $result:ty
    ) => {
        #[inline(never)]
        unsafe extern "C" fn $name<const T: bool>($($arg: $type),*) -> $result {
            // SAFETY: the first function of the entry passes no NULL here.
            unsafe { std::hint::assert_unchecked(!$endpoint.is_null()) };
            let fast = (|| {
                const $way: $crate::hints::Way = $served;
                $quick
            })();
            if let Some(status) = fast {
                return status;
            }
            // SAFETY: the arguments are the host's own and unchanged, and the fast path did
            // nothing.
            unsafe { $next($($arg),*) }
        }
    };
}
