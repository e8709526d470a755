//! Status codes, with the values of Open MPI's `OPAL_*` (`opal/include/opal/constants.h`).

use std::fmt;

/// The result of a call: 0 success, 1 completed inline, negative an error.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($code);)*

            /// The name of a known code, without prefix.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// The call succeeded; an operation is in flight and its callback will run.
    SUCCESS = 0;
    /// The operation completed before the call returned; no callback runs.
    COMPLETED = 1;
    /// An error without a better code.
    ERROR = -1;
    /// Memory, descriptors or registrations are exhausted.
    OUT_OF_RESOURCE = -2;
    /// Back-pressure: call `progress` and try again.
    TEMP_OUT_OF_RESOURCE = -3;
    /// The object is in use.
    RESOURCE_BUSY = -4;
    /// An argument is wrong; the call had no effect.
    BAD_PARAM = -5;
    /// The module can no longer be used.
    FATAL = -6;
    /// The function is known but not implemented.
    NOT_IMPLEMENTED = -7;
    /// This module or provider does not support the operation.
    NOT_SUPPORTED = -8;
    /// The call was interrupted.
    INTERRUPTED = -9;
    /// The peer cannot be reached, or is gone.
    UNREACH = -12;
    /// No object has that name.
    NOT_FOUND = -13;
    /// An object has that name already.
    EXISTS = -14;
    /// The time limit expired.
    TIMEOUT = -15;
    /// No usable object is available now.
    NOT_AVAILABLE = -16;
    /// Not permitted.
    PERM = -17;
    /// An address or length lies outside its object.
    VALUE_OUT_OF_BOUNDS = -18;
    /// The other side's ABI cannot be used.
    TYPE_MISMATCH = -27;
    /// The call came before the object was initialised, or after it was finalised.
    NOT_INITIALIZED = -44;
}

impl Status {
    /// Whether the call succeeded (success or completed).
    #[inline]
    pub const fn is_ok(self) -> bool {
        self.0 >= 0
    }

    /// Whether the caller should make progress and try again.
    #[inline]
    pub const fn is_again(self) -> bool {
        self.0 == Self::TEMP_OUT_OF_RESOURCE.0 || self.0 == Self::OUT_OF_RESOURCE.0
    }

    /// `Ok` for success and completed, the status itself otherwise.
    #[inline]
    pub const fn ok(self) -> Result<Status, Status> {
        if self.is_ok() { Ok(self) } else { Err(self) }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl std::error::Error for Status {}
