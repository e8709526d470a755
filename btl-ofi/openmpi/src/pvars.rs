//! The transport's counters as performance variables of MPI_T, summed over all peers: `btl_ofi_<carrier>_operations` and so on
//! for the transport of the component btl, `osc_ofi_rs_<carrier>_operations` for the transports of windows. A handle shows the
//! counts since its allocation.

use std::ffi::{CString, c_int, c_ulonglong, c_void};
use std::ptr::null_mut;

use plugin_api::counters::{CARRIERS, Carrier};
use plugin_api::{Stats, Status};

use crate::bindings as ffi;
use crate::guard::guarded;

/// Variables that are not divided by carrier; they follow the others in this order.
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

pub(crate) type GetValue =
    unsafe extern "C" fn(*const ffi::mca_base_pvar_t, *mut c_void, *mut c_void) -> c_int;

/// A component that shows its counters.
pub(crate) trait Counted: 'static {
    /// A sum over the component's transports.
    fn sum(number: impl Fn(&Stats) -> u64) -> u64;
}

/// A variable of 64 bits.
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) class: Class,
    pub(crate) get: GetValue,
}

/// The meaning of a value.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    /// A number that only grows.
    Counter,
    /// A count of nanoseconds.
    Timer,
    /// A present value.
    Level,
}

/// Registers variables of `component`. A variable that Open MPI refuses is missing in its lists, without
/// another effect.
pub(crate) fn register(
    component: *const ffi::mca_base_component_t,
    variables: impl IntoIterator<Item = Variable>,
) {
    for variable in variables {
        let (name, description) = (variable.name, variable.description);
        let (Ok(name), Ok(description)) = (CString::new(name), CString::new(description)) else {
            continue;
        };
        let class = match variable.class {
            Class::Counter => ffi::MCA_BASE_PVAR_CLASS_COUNTER,
            Class::Timer => ffi::MCA_BASE_PVAR_CLASS_TIMER,
            Class::Level => ffi::MCA_BASE_PVAR_CLASS_LEVEL,
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
                Some(variable.get),
                None,
                None,
                null_mut(),
            );
        }
    }
}

/// The counters of a component's transports.
pub(crate) fn counters<C: Counted>() -> impl Iterator<Item = Variable> {
    let functions = getters::<C>().into_iter().enumerate();
    functions.map(|(number, get)| {
        let (name, description) = describe(number);
        let class = match name.as_str() {
            "waited" => Class::Timer,
            _ => Class::Counter,
        };
        Variable {
            name,
            description,
            class,
            get,
        }
    })
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

/// The value of a variable. MPI_T may call this function at any time, from any thread.
unsafe extern "C" fn get<C: Counted, const NUMBER: usize>(
    _: *const ffi::mca_base_pvar_t,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    guarded("get_value", Status::ERROR.0, || {
        let read = C::sum(|stats| value_of(NUMBER, stats));
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
fn getters<C: Counted>() -> [GetValue; VARIABLES] {
    macro_rules! of {
        ($($number:literal)*) => { [$(get::<C, $number>),*] };
    }
    of!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}
