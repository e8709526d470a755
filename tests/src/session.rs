//! A plugin used through its raw tables, as a host in C would.

use std::ffi::c_void;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use plugin_api::{
    Attributes, Component, ComponentVtable, ENTRY_SYMBOL, Endpoint, EntryFn, Handle, Module,
    ModuleVtable, Status, ThreadLevel,
};

use crate::host::TestHost;

/// A loaded plugin. Never unloaded: providers may leave threads in its libraries.
pub struct Loaded {
    /// The component's functions.
    pub component: &'static ComponentVtable,
}

impl Loaded {
    /// Loads a plugin and gives its entry this host.
    pub fn open(path: &Path, host: &TestHost) -> Loaded {
        // SAFETY: loading runs the plugin's initialisers, which is what the test wants.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // SAFETY: the symbol of this name is an EntryFn.
        let entry = unsafe { library.get::<EntryFn>(ENTRY_SYMBOL.to_bytes_with_nul()) }.unwrap();
        let mut table = ptr::null();
        // SAFETY: the host is valid, `table` is writable.
        assert_eq!(unsafe { entry(host.table(), &mut table) }, Status::SUCCESS);
        // SAFETY: a successful entry wrote a table, which is static in a library never unloaded.
        let component = unsafe { ComponentVtable::check(table) }.unwrap();
        std::mem::forget(library);
        Loaded { component }
    }

    /// Declares the parameters and opens the component. The host must outlive it.
    pub fn open_component(&self, host: &TestHost) -> Result<*mut Component, Status> {
        let mut component = ptr::null_mut();
        // SAFETY: the host outlives the component, `component` is writable.
        unsafe {
            self.component.register_params.unwrap()(host.table()).ok()?;
            self.component.open.unwrap()(host.table(), &mut component).ok()?;
        }
        assert!(!component.is_null());
        Ok(component)
    }

    /// Makes the modules and gives the first.
    ///
    /// # Safety
    /// `component` is open and was not initialised.
    pub unsafe fn init(
        &self,
        component: *mut Component,
        level: ThreadLevel,
    ) -> Result<*mut Module, Status> {
        let mut modules = [ptr::null_mut(); 8];
        let mut count = modules.len();
        // SAFETY: the caller vouches for the component; there is room for `count` modules.
        unsafe {
            self.component.init.unwrap()(component, level as u32, modules.as_mut_ptr(), &mut count)
                .ok()?;
        }
        assert!(count >= 1 && !modules[0].is_null());
        Ok(modules[0])
    }
}

/// A plugin with an open component, a module, an endpoint to itself and registered memory. Closed
/// when dropped.
pub struct Session<'host> {
    /// Whose table the component uses.
    _host: &'host TestHost,
    /// The component's functions.
    pub component_table: &'static ComponentVtable,
    /// The component.
    pub component: *mut Component,
    /// The module's functions.
    pub table: ModuleVtable,
    /// The module.
    pub module: *mut Module,
    /// This process as a peer.
    pub endpoint: *mut Endpoint,
    /// Registered memory, for both sides of an operation.
    pub memory: Vec<u64>,
    /// Its handle.
    pub handle: *mut Handle,
}

/// Words of a session's memory.
pub const WORDS: usize = 512;

/// Every kind of access.
pub const ALL_ACCESS: u32 = 0xf;

impl<'host> Session<'host> {
    /// Opens the plugin up to memory that it can reach in this process.
    pub fn new(plugin: &Path, host: &'host TestHost) -> Self {
        let loaded = Loaded::open(plugin, host);
        let component = loaded.open_component(host).unwrap();
        // SAFETY: the component was just opened.
        let module = unsafe { loaded.init(component, ThreadLevel::Single) }
            .unwrap_or_else(|status| panic!("init: {status}"));
        // SAFETY: a module starts with its two tables, valid as long as it.
        let (table, attributes) = unsafe {
            (
                ModuleVtable::check((*module).vtable).unwrap(),
                Attributes::check((*module).attributes).unwrap(),
            )
        };
        assert!(attributes.handle_size % 8 == 0);
        let mut memory = vec![0u64; WORDS];
        let mut endpoint = ptr::null_mut();
        let mut handle = ptr::null_mut();
        // SAFETY: the module lives; the memory outlives its registration (see Drop).
        unsafe {
            let status = table.add_procs.unwrap()(module, 1, &0, &mut endpoint);
            assert_eq!(status, Status::SUCCESS);
            let status = table.register_mem.unwrap()(
                module,
                ptr::null_mut(),
                memory.as_mut_ptr().cast(),
                size_of_val(memory.as_slice()),
                ALL_ACCESS,
                &mut handle,
            );
            assert_eq!(status, Status::SUCCESS);
        }
        assert!(!endpoint.is_null() && !handle.is_null());
        Session {
            _host: host,
            component_table: loaded.component,
            component,
            table,
            module,
            endpoint,
            memory,
            handle,
        }
    }

    /// Address of a word of the memory, as a local one.
    pub fn local(&mut self, word: usize) -> *mut c_void {
        (&raw mut self.memory[word]).cast()
    }

    /// Address of a word of the memory, as a remote one.
    pub fn remote(&self, word: usize) -> u64 {
        (&raw const self.memory[word]) as u64
    }

    /// A copy of the handle's bytes in 8-byte words, as a peer would hold it.
    pub fn handle_copy(&self) -> Vec<u64> {
        // SAFETY: the module lives, and so do its attributes.
        let size = unsafe { (*(*self.module).attributes).handle_size } as usize;
        let mut copy = vec![0u64; size / 8];
        // SAFETY: a live handle is `handle_size` readable bytes.
        unsafe {
            ptr::copy_nonoverlapping(self.handle.cast::<u8>(), copy.as_mut_ptr().cast(), size);
        }
        copy
    }

    /// Progresses once; negative is an error.
    pub fn progress(&self) -> i32 {
        // SAFETY: the component is open.
        unsafe { self.component_table.progress.unwrap()(self.component) }
    }

    /// Waits for everything that was issued.
    pub fn flush(&self) -> Status {
        // SAFETY: the module lives.
        unsafe { self.table.flush.unwrap()(self.module, ptr::null_mut()) }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: everything is live and used for the last time; children before parents.
        unsafe {
            self.table.flush.unwrap()(self.module, ptr::null_mut());
            self.table.deregister_mem.unwrap()(self.module, self.handle);
            self.table.del_procs.unwrap()(self.module, 1, &self.endpoint);
            self.table.finalize.unwrap()(self.module);
            self.component_table.close.unwrap()(self.component);
        }
    }
}

/// A callback that counts its calls in the [`AtomicUsize`] at `context`, if there is one.
///
/// # Safety
/// `context` is NULL or points to an [`AtomicUsize`].
pub unsafe extern "C" fn count_calls(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    _status: i32,
) {
    // SAFETY: the caller vouches for it.
    if let Some(calls) = unsafe { context.cast::<AtomicUsize>().as_ref() } {
        // Read after the flush that ran this callback on the same thread.
        calls.fetch_add(1, Ordering::Relaxed);
    }
}
