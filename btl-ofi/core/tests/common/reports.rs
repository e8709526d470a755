//! A transport's reports besides completions.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;

use btl_ofi::{ErrorReport, Transport};
use plugin_api::Module;

/// The reports of one transport: the process and the text of each report. The list outlives the
/// transport.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Vec<String>>);

impl Reports {
    /// Collects the reports of `t` from now on.
    pub(crate) fn of(t: &Transport) -> Box<Reports> {
        let reports: Box<Reports> = Box::default();
        t.on_error(Some(ErrorReport {
            function: reported,
            context: (&raw const *reports).cast_mut().cast(),
        }));
        reports
    }

    /// Whether a report contains `what`.
    pub(crate) fn say(&self, what: &str) -> bool {
        self.all().iter().any(|said| said.contains(what))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

unsafe extern "C" fn reported(
    _: *mut Module,
    _: u32,
    _: *mut plugin_api::Endpoint,
    proc: u64,
    status: i32,
    info: *const c_char,
    context: *mut c_void,
) {
    assert!(status < 0);
    // SAFETY: the context is the test's list, which outlives the transport; `info` is a C string.
    let (reports, info) = unsafe { (&*context.cast::<Reports>(), CStr::from_ptr(info)) };
    let text = format!("{proc}: {}", info.to_string_lossy());
    reports.0.lock().unwrap().push(text);
}
