//! Counts the program's calls on windows by kind, as performance variables of MPI_T. Windows whose ranks share memory make many
//! calls without the transport; the transport's counters do not show these calls.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bindings as ffi;
use crate::pvars::{Class, Variable};

/// Kinds of calls; request forms are counted with the others.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Put,
    Get,
    /// Accumulates, including get_accumulate, fetch_and_op and compare_and_swap.
    Accumulate,
}

static MADE: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Counts a call. Threads that call at the same moment may be counted as one: exactness would cost each call a locked
/// instruction.
#[inline]
pub(crate) fn count(call: Call) {
    let made = &MADE[call as usize];
    made.store(made.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The variables.
pub(crate) fn variables() -> [Variable; 3] {
    let variable = |name: &str, what: &str, get| Variable {
        name: name.into(),
        description: format!("{what} that the program called on windows, whoever carried them"),
        class: Class::Counter,
        get,
    };
    [
        variable("puts", "Puts", get::<{ Call::Put as usize }>),
        variable("gets", "Gets", get::<{ Call::Get as usize }>),
        variable(
            "accumulates",
            "Accumulates, fetching ones and compare-and-swaps included,",
            get::<{ Call::Accumulate as usize }>,
        ),
    ]
}

unsafe extern "C" fn get<const CALL: usize>(
    _: *const ffi::mca_base_pvar_t,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    let made = MADE[CALL].load(Ordering::Relaxed);
    // SAFETY: the variable has this type, and Open MPI passes memory for one value.
    unsafe { value.cast::<c_ulonglong>().write(made) };
    ffi::OMPI_SUCCESS
}
