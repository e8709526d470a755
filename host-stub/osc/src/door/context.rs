//! One process's use of a transport, shared by its windows.

use std::ffi::c_void;
use std::sync::Arc;

use plugin_api::ThreadLevel;

use super::devices::Devices;
use super::waiter::Waiter;
use super::watch::Watch;
use crate::base::{CombineFn, combine_elements};
use crate::transport::{Failures, Transport};
use crate::win::{Arena, Dropped, Spare, TableChoice, TypeTable, WindowHooks};

/// The defaults of windows, where their info says nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults {
    /// The choice of functions.
    pub table: TableChoice,
    /// Whether their segments have huge pages.
    pub huge_pages: bool,
}

/// The state that the windows of a process share. The state is made once for a transport, and kept as long as the
/// program may have windows.
pub struct Context {
    pub(crate) transport: Transport,
    pub(crate) types: TypeTable,
    pub(crate) failures: Arc<Failures>,
    pub(crate) waiter: Box<dyn Waiter>,
    pub(crate) watch: Option<Box<dyn Watch>>,
    pub(crate) devices: Option<Box<dyn Devices>>,
    /// The door's arithmetic.
    pub(crate) combine: Option<CombineFn>,
    pub(crate) threads: ThreadLevel,
    pub(crate) defaults: Defaults,
    pub(crate) hooks: WindowHooks,
    pub(crate) arena: Arc<Arena>,
    pub(crate) spare: Spare,
    pub(crate) dropped: Dropped,
}

impl Context {
    /// A context for windows over a transport, with the thread level that the transport was opened with. `failures`
    /// records the transport's failures.
    pub fn new(
        transport: Transport,
        failures: Arc<Failures>,
        threads: ThreadLevel,
        waiter: Box<dyn Waiter>,
    ) -> Context {
        // Registered before any rank can accumulate here.
        transport.register_apply(combine_elements, std::ptr::null_mut());
        Context {
            types: TypeTable::of(&transport),
            transport,
            failures,
            waiter,
            watch: None,
            devices: None,
            combine: None,
            threads,
            defaults: Defaults::default(),
            hooks: WindowHooks::default(),
            arena: Arc::default(),
            spare: Spare::default(),
            dropped: Dropped::default(),
        }
    }

    /// The same, with a watch on its calls.
    pub fn watched(mut self, watch: Box<dyn Watch>) -> Context {
        self.watch = Some(watch);
        self
    }

    /// The same, with devices.
    pub fn with_devices(mut self, devices: Box<dyn Devices>) -> Context {
        self.devices = Some(devices);
        self
    }

    /// The same, with arithmetic on elements of types that the engine does not know
    /// ([`accumulate_custom`](crate::win::Window::accumulate_custom)). All ranks have the same codes.
    pub fn with_arithmetic(mut self, combine: CombineFn) -> Context {
        self.transport
            .register_apply(combine_elements, combine as *mut c_void);
        self.combine = Some(combine);
        self
    }

    /// The same, with other defaults of new windows.
    pub fn with_defaults(mut self, defaults: Defaults) -> Context {
        self.defaults = defaults;
        self
    }

    /// The transport.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The hooks of windows that are made from now on.
    pub fn hooks(&self) -> &WindowHooks {
        &self.hooks
    }
}
