//! Unsupported entries of function tables: each is a function of the entry's type that returns
//! `-FI_ENOSYS`, like libfabric's own stubs.

use std::ffi::{c_char, c_int};

use libfabric_sys as ffi;

/// The function of an unsupported entry.
pub(crate) trait Refusal {
    const REFUSAL: Self;
}

impl Refusal for c_int {
    const REFUSAL: c_int = -(ffi::FI_ENOSYS as c_int);
}

impl Refusal for isize {
    const REFUSAL: isize = -(ffi::FI_ENOSYS as isize);
}

impl Refusal for *const c_char {
    const REFUSAL: *const c_char = std::ptr::null();
}

/// A table entry that refuses every call.
pub(crate) trait Missing {
    const MISSING: Self;
}

macro_rules! missing {
    ($($argument:ident)*) => {
        impl<R: Refusal, $($argument),*> Missing
            for Option<unsafe extern "C" fn($($argument),*) -> R>
        {
            const MISSING: Self = {
                #[allow(non_snake_case, reason = "types serve as names")]
                unsafe extern "C" fn refuse<R: Refusal, $($argument),*>($(_: $argument),*) -> R {
                    R::REFUSAL
                }
                Some(refuse::<R, $($argument),*>)
            };
        }
    };
}

missing!();
missing!(A);
missing!(A B);
missing!(A B C);
missing!(A B C D);
missing!(A B C D E);
missing!(A B C D E F);
missing!(A B C D E F G);
missing!(A B C D E F G H);
missing!(A B C D E F G H I);
missing!(A B C D E F G H I J);
missing!(A B C D E F G H I J K);
missing!(A B C D E F G H I J K L);
missing!(A B C D E F G H I J K L M);
missing!(A B C D E F G H I J K L M N);
missing!(A B C D E F G H I J K L M N O);
missing!(A B C D E F G H I J K L M N O P);
