//! libfabric, and the provider that the transport would choose on this machine.

use std::ffi::c_void;

use host_stub::loader::{Component, ProviderReport};

use super::Finding;
use crate::{CommandError, Common};

const LIBRARY: &str = "libfabric";
const PROVIDERS: &str = "providers";

const INSTALL: &str =
    "sudo apt-get install libfabric1   # or put the folder of libfabric.so.1 into LD_LIBRARY_PATH";

pub(super) fn look(common: &Common) -> Vec<Finding> {
    let library = match version() {
        None => {
            return vec![
                Finding::problem(
                    LIBRARY,
                    "libfabric.so.1 is not found by the dynamic loader; 1.14 or newer is needed",
                )
                .set(INSTALL),
            ];
        }
        Some((major, minor)) if (major, minor) < (1, 14) => {
            return vec![
                Finding::problem(
                    LIBRARY,
                    format!("{major}.{minor}, and 1.14 or newer is needed"),
                )
                .set(INSTALL),
            ];
        }
        Some((major, minor)) => Finding::ok(LIBRARY, format!("{major}.{minor}")),
    };
    let providers = match survey(common) {
        Ok(reports) => judge(&reports),
        Err(error) => Finding::problem(PROVIDERS, error.to_string()),
    };
    vec![library, providers]
}

/// The release of the library that the dynamic loader finds.
fn version() -> Option<(u32, u32)> {
    // SAFETY: the name is NUL-terminated. Loading runs the library's initialisers, as the transport does.
    let library = unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return None;
    }
    // The library is not closed: its providers may have started threads.
    // SAFETY: `library` is a live handle, and the name is NUL-terminated.
    let symbol = unsafe { libc::dlsym(library, c"fi_version".as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: every release exports `uint32_t fi_version(void)` under this name.
    let function = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(symbol) };
    let packed = function();
    Some((packed >> 16, packed & 0xffff))
}

fn survey(common: &Common) -> Result<Vec<ProviderReport>, CommandError> {
    let params = common.params()?;
    let component = Component::open(common.open(&params)?)?;
    Ok(component.survey()?)
}

fn judge(reports: &[ProviderReport]) -> Finding {
    if let Some(chosen) = reports.iter().find(|report| report.chosen) {
        return Finding::ok(
            PROVIDERS,
            format!("{} on {} is chosen", chosen.name, chosen.domain),
        );
    }
    if reports.is_empty() {
        return Finding::problem(
            PROVIDERS,
            "libfabric offers none that makes transfers of memory (`fi_info` lists all that it has)",
        );
    }
    let excluded = |report: &&ProviderReport| {
        report
            .refusal
            .as_deref()
            .is_some_and(|reason| reason.contains("_provider_exclude"))
    };
    let names: Vec<_> = reports.iter().map(|report| report.name.as_str()).collect();
    match reports.iter().find(excluded) {
        Some(first) => Finding::note(
            PROVIDERS,
            format!(
                "no fabric: Open MPI's windows take TCP; host-stub takes none of {} without a name",
                names.join(", ")
            ),
        )
        .set(format!(
            "export OMPI_MCA_btl_ofi_provider_include='{}'   # or another of these",
            first.name
        )),
        None => {
            let reasons: Vec<_> = reports
                .iter()
                .filter_map(|report| Some(format!("{}: {}", report.name, report.refusal.as_ref()?)))
                .collect();
            Finding::problem(
                PROVIDERS,
                format!("none can be used: {}", reasons.join("; ")),
            )
        }
    }
}
