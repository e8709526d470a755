//! The transport's counters as performance variables of MPI_T: `btl_ofi_<carrier>_operations` and so on, summed over all peers.
//! A handle shows what was counted since it was allocated.

use std::ffi::{CString, c_int, c_ulonglong, c_void};
use std::ptr::null_mut;

use plugin_api::counters::{CARRIERS, Carrier};
use plugin_api::{Stats, Status};

use crate::bindings as ffi;
use crate::btl::live;
use crate::guard::guarded;

/// Variables that are not by carrier, in their order behind the others.
const OTHERS: [(&str, &str); 6] = [
    (
        "again",
        "Operations that were refused for lack of room, and that Open MPI repeats",
    ),
    (
        "revoked",
        "Transfers through a ring in shared memory that the target did not begin in time, and that the kernel made",
    ),
    (
        "messages",
        "Messages sent, each with one or more operations",
    ),
    (
        "waits",
        "Flushes that found nothing to do for a microsecond or so",
    ),
    ("waited", "Nanoseconds that these flushes waited"),
    ("polls", "Calls that made progress"),
];
const VARIABLES: usize = 2 * CARRIERS + OTHERS.len();

type GetValue =
    unsafe extern "C" fn(*const ffi::mca_base_pvar_t, *mut c_void, *mut c_void) -> c_int;

/// Registers the variables of `component`. Those that Open MPI does not take are missing in its lists, nothing else.
pub(crate) fn register(component: *const ffi::mca_base_component_t) {
    for (number, get) in GETTERS.into_iter().enumerate() {
        let (name, description) = describe(number);
        let (Ok(name), Ok(description)) = (CString::new(name), CString::new(description)) else {
            continue;
        };
        let class = match number == 2 * CARRIERS + 4 {
            true => ffi::MCA_BASE_PVAR_CLASS_TIMER,
            false => ffi::MCA_BASE_PVAR_CLASS_COUNTER,
        };
        let flags = ffi::MCA_BASE_PVAR_FLAG_READONLY | ffi::MCA_BASE_PVAR_FLAG_CONTINUOUS;
        // SAFETY: `component` is the exported structure; Open MPI copies the strings, and calls the function until it closes the
        // component.
        unsafe {
            ffi::mca_base_component_pvar_register(
                component,
                name.as_ptr(),
                description.as_ptr(),
                ffi::OPAL_INFO_LVL_4,
                class as c_int,
                ffi::MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG,
                null_mut(),
                ffi::MCA_BASE_VAR_BIND_NO_OBJECT as c_int,
                flags,
                Some(get),
                None,
                None,
                null_mut(),
            );
        }
    }
}

/// Name and description of a variable.
fn describe(number: usize) -> (String, String) {
    match Carrier::ALL.get(number / 2) {
        Some(carrier) => {
            let (what, of) = match number % 2 {
                0 => ("operations", "Puts, gets and atomics"),
                _ => ("bytes", "Bytes of puts, gets and atomics"),
            };
            let by = match carrier {
                Carrier::Provider => "the provider's RMA and atomics",
                Carrier::Message => "messages that the target's processor executes",
                Carrier::Ring => "rings in shared memory that the target's processor executes",
                Carrier::Cma => "cross-memory attach",
                Carrier::Copy => "instructions of this process",
            };
            (
                format!("{}_{what}", carrier.name()),
                format!("{of} carried by {by}"),
            )
        }
        None => {
            let (name, description) = OTHERS[number - 2 * CARRIERS];
            (name.into(), description.into())
        }
    }
}

/// The value of a variable. MPI_T may ask at any time, from any thread.
unsafe extern "C" fn get<const NUMBER: usize>(
    _: *const ffi::mca_base_pvar_t,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    guarded("get_value", Status::ERROR.0, || {
        let read = live::counter(|stats| value_of(NUMBER, stats));
        // SAFETY: the variable has this type, and Open MPI passes memory for one value.
        unsafe { value.cast::<c_ulonglong>().write(read) };
        Status::SUCCESS.0
    })
}

fn value_of(number: usize, stats: &Stats) -> u64 {
    if number < 2 * CARRIERS {
        return match number % 2 {
            0 => stats.operations[number / 2],
            _ => stats.bytes[number / 2],
        };
    }
    let others = [
        stats.again,
        stats.revoked,
        stats.messages,
        stats.waits,
        stats.waited,
        stats.polls,
    ];
    others[number - 2 * CARRIERS]
}

/// The functions of the variables, in their order.
const GETTERS: [GetValue; VARIABLES] = [
    get::<0>, get::<1>, get::<2>, get::<3>, get::<4>, get::<5>, get::<6>, get::<7>, get::<8>,
    get::<9>, get::<10>, get::<11>, get::<12>, get::<13>, get::<14>, get::<15>,
];
