//! Reads the hints of a window's creation from Open MPI's info.

use std::ffi::CStr;
use std::fmt::Write as _;

use osc_engine::win::Info;

use crate::bindings as ffi;
use crate::osc::log;

/// The longest value that is read, bytes.
const LONGEST: usize = 256;

/// The device of a rank's memory. Ranks may name different devices.
pub(crate) const DEVICE: &str = "device_num";

/// The keys that have an effect, with the engine's name of each. Open MPI itself reads `accumulate_order`.
const KEYS: [(&CStr, &str); 6] = [
    (c"device_num", DEVICE),
    (c"no_locks", "no_locks"),
    (c"accumulate_ordering", "accumulate_ordering"),
    (c"accumulate_order", "accumulate_ordering"),
    (c"accumulate_ops", "accumulate_ops"),
    (c"mpi_accumulate_granularity", "mpi_accumulate_granularity"),
];

/// The requests of a rank for its window.
pub(crate) struct Hints {
    pub(crate) info: Info,
    /// Equal if all hints except the device are equal.
    pub(crate) number: u64,
}

impl Hints {
    /// Whether a device is named.
    pub(crate) fn wants_device(&self) -> bool {
        self.info.get(DEVICE).is_some_and(|number| number != "-1")
    }
}

/// Reads the requests of this rank.
pub(crate) fn of(info: *mut ffi::opal_info_t) -> Hints {
    let mut asked = Info::new();
    let mut text = String::new();
    for (key, name) in KEYS {
        let Some(value) = get(info, key) else {
            continue;
        };
        let before = asked.clone();
        match asked.set(name, &value) {
            Ok(()) if name == DEVICE => {}
            Ok(()) => {
                let _ = write!(text, "{name}={};", asked.get(name).unwrap_or_default());
            }
            Err(error) => {
                asked = before;
                log::line(&format!("a hint is ignored: {error}"));
            }
        }
    }
    Hints {
        info: asked,
        number: number(&text),
    }
}

/// A number for a text: FNV-1a.
fn number(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn get(info: *mut ffi::opal_info_t, key: &CStr) -> Option<String> {
    let mut value = [0; LONGEST + 1];
    // SAFETY: Open MPI passes an info that lives through the call, or NULL; there is room for the value and its end.
    let found = unsafe {
        ffi::mca_osc_ofi_host_info(info, key.as_ptr(), value.as_mut_ptr(), LONGEST as i32)
    };
    if !found {
        return None;
    }
    // SAFETY: the function wrote a string that ends with NUL.
    let value = unsafe { CStr::from_ptr(value.as_ptr()) };
    Some(value.to_string_lossy().into_owned())
}
