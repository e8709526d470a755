//! A plugin's component, opened.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plugin_api::{Provider, ThreadLevel};
use serde::Serialize;

use super::{LoadError, Plugin};
use osc_engine::transport::{AdoptError, Transport, text};

/// The maximum number of modules that `init` may make.
const MODULES: usize = 32;

/// A provider that the component's survey found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderReport {
    /// The provider's name, as `fi_info` prints it.
    pub name: String,
    /// The domain (device).
    pub domain: String,
    /// The reason for the refusal; `None` if the provider is usable.
    pub refusal: Option<String>,
    /// Whether `init` would use the provider.
    pub chosen: bool,
}

/// An open component. The component is closed when the last object that was made from it is dropped.
pub struct Component {
    raw: NonNull<plugin_api::Component>,
    plugin: Arc<Plugin>,
    initialised: AtomicBool,
}

// SAFETY: the contract lets any thread call the component, within the limits that `init` states.
unsafe impl Send for Component {}
// SAFETY: the contract lets any thread call the component; `close` runs in Drop, when no other
// reference exists.
unsafe impl Sync for Component {}

impl Component {
    /// Declares the parameters, resolves them, and opens the component.
    pub fn open(plugin: Arc<Plugin>) -> Result<Arc<Component>, LoadError> {
        plugin.register_params()?;
        let Some(open) = plugin.table().open else {
            return Err(plugin.null_entry("open"));
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the host table lives as long as the Plugin, which the Component keeps.
        let status = unsafe { open(plugin.services().table(), &mut raw) };
        plugin.expect_ok("open", status)?;
        let Some(raw) = NonNull::new(raw) else {
            return Err(plugin.contract(format!(
                "open: wanted a component with {status}, found NULL"
            )));
        };
        Ok(Arc::new(Component {
            raw,
            plugin,
            initialised: AtomicBool::new(false),
        }))
    }

    /// The plugin.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Lists every provider, with the reason for its refusal if it was refused.
    pub fn survey(&self) -> Result<Vec<ProviderReport>, LoadError> {
        let Some(survey) = self.plugin.table().survey else {
            return Err(self.plugin.null_entry("survey"));
        };
        let mut reports: Vec<ProviderReport> = Vec::new();
        let context: *mut Vec<ProviderReport> = &mut reports;
        // SAFETY: the component is open, and `visit` expects this context.
        let status = unsafe { survey(self.raw.as_ptr(), Some(visit), context.cast::<c_void>()) };
        self.plugin.expect_ok("survey", status)?;
        Ok(reports)
    }

    /// Makes the modules and publishes their addresses with the host's modex. Called once per
    /// component.
    ///
    /// # Safety
    /// Below [`ThreadLevel::Multiple`], the caller prevents overlapping calls into the component,
    /// its transports and their registrations. For [`ThreadLevel::Funneled`] and
    /// [`ThreadLevel::Single`], all calls come from the calling thread.
    pub unsafe fn init(self: &Arc<Self>, level: ThreadLevel) -> Result<Vec<Transport>, LoadError> {
        let Some(init) = self.plugin.table().init else {
            return Err(self.plugin.null_entry("init"));
        };
        if self.initialised.swap(true, Ordering::AcqRel) {
            return Err(self.plugin.contract(
                "init: wanted the first call on this component, found another".to_owned(),
            ));
        }
        let mut raw = [std::ptr::null_mut(); MODULES];
        let mut count = MODULES;
        // SAFETY: the component is open; `raw` has room for `count` pointers.
        let status = unsafe {
            init(
                self.raw.as_ptr(),
                level as u32,
                raw.as_mut_ptr(),
                &mut count,
            )
        };
        self.plugin.expect_ok("init", status)?;
        let Some(raw) = raw.get(..count).filter(|raw| !raw.is_empty()) else {
            return Err(self.plugin.contract(format!(
                "init: wanted 1 to {MODULES} modules with {status}, found {count}"
            )));
        };
        let Some(progress) = self.plugin.table().progress else {
            return Err(self.plugin.null_entry("progress"));
        };
        // SAFETY: `init` made these modules of this component, which lives as long as its owner. The plugin is
        // trusted to respect the contract.
        let adopted = unsafe { Transport::adopt(self.raw, progress, raw, Arc::clone(self) as _) };
        adopted.map_err(|error| match error {
            AdoptError::Abi(source) => LoadError::Abi {
                path: self.plugin.path().to_owned(),
                source,
            },
            AdoptError::Contract(detail) => self.plugin.contract(detail),
        })
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        let Some(close) = self.plugin.table().close else {
            return;
        };
        // SAFETY: every transport holds an Arc of this component, so no transport is left, and the
        // component is not used again.
        let status = unsafe { close(self.raw.as_ptr()) };
        if let Err(error) = self.plugin.expect_ok("close", status) {
            tracing::warn!("{error}");
        }
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Component({})", self.plugin.name())
    }
}

unsafe extern "C" fn visit(context: *mut c_void, provider: *const Provider) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if provider.is_null() {
            return;
        }
        // SAFETY: the context is the vector of the current survey, which no other code accesses.
        let reports = unsafe { &mut *context.cast::<Vec<ProviderReport>>() };
        // SAFETY: the provider is borrowed for this call; its strings are NULL or NUL-terminated.
        let report = unsafe {
            let provider = &*provider;
            ProviderReport {
                name: text(provider.name),
                domain: text(provider.domain),
                refusal: (!provider.refusal.is_null()).then(|| text(provider.refusal)),
                chosen: provider.chosen != 0,
            }
        };
        reports.push(report);
    }));
    if outcome.is_err() {
        tracing::error!("a provider of the survey was lost to a panic");
    }
}
