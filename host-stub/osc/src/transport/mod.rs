//! The client of the vtable: one module of a plugin ready for use ([`Transport`]), and memory that peers may reach
//! ([`Registration`]). Each keeps the objects that it needs alive, so they may be dropped in any order. No module above this
//! one handles a raw table. The user of this module finds, loads and opens a plugin.

mod atomics;
mod attributes;
mod error;
mod failure;
mod handle;
mod hmem;
mod module;
mod modules;
mod registration;

pub use attributes::Attributes;
pub use error::{Subject, TransportError};
pub use failure::{Failure, Failures};
pub use handle::HandleCopy;
pub use hmem::Blocks;
pub use module::{EndpointRef, Report, Transport, UNREPORTED};
pub use modules::{
    AdoptError, ApplyFunctions, Functions, HmemFunctions, ProgressFn, StridedFunctions,
};
pub use registration::Registration;

/// A string of a plugin; empty if there is none.
///
/// # Safety
/// The pointer is NULL or names a string that ends with NUL.
pub unsafe fn text(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the terminator.
    unsafe { std::ffi::CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}
