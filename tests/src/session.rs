//! A plugin that is called through its raw tables, as a C host would call it.

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

/// A loaded plugin. The plugin is never unloaded, because providers may leave threads in its
/// libraries.
pub struct Loaded {
    /// The exported function.
    pub entry: EntryFn,
    /// The component's functions.
    pub component: &'static ComponentVtable,
}

impl Loaded {
    /// Loads a plugin and passes this host to its entry.
    pub fn open(path: &Path, host: &TestHost) -> Loaded {
        // SAFETY: loading runs the plugin's initialisers, as the test intends.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // SAFETY: the symbol of this name is an EntryFn.
        let entry = *unsafe { library.get::<EntryFn>(ENTRY_SYMBOL.to_bytes_with_nul()) }.unwrap();
        let mut table = ptr::null();
        // SAFETY: the host is valid, `table` is writable.
        assert_eq!(unsafe { entry(host.table(), &mut table) }, Status::SUCCESS);
        // SAFETY: a successful entry wrote a table, which is static in a library never unloaded.
        let component = unsafe { ComponentVtable::check(table) }.unwrap();
        std::mem::forget(library);
        Loaded { entry, component }
    }

    /// Declares the parameters and opens the component. The host must outlive the component.
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

    /// Makes the modules and returns the first.
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
        // SAFETY: the caller guarantees the component; the array has room for `count` modules.
        unsafe {
            self.component.init.unwrap()(component, level as u32, modules.as_mut_ptr(), &mut count)
                .ok()?;
        }
        assert!(count >= 1 && !modules[0].is_null());
        Ok(modules[0])
    }
}

/// A plugin with an open component, a module, an endpoint to itself and registered memory. The drop
/// closes all objects.
pub struct Session<'host> {
    /// The host whose table the component uses.
    _host: &'host TestHost,
    /// The component's functions.
    pub component_table: &'static ComponentVtable,
    /// The component.
    pub component: *mut Component,
    /// The module's functions.
    pub table: ModuleVtable,
    /// The module.
    pub module: *mut Module,
    /// This process's endpoint to itself.
    pub endpoint: *mut Endpoint,
    /// Registered memory, for both sides of an operation.
    pub memory: Vec<u64>,
    /// The handle of the memory.
    pub handle: *mut Handle,
}

/// The number of words of a session's memory.
pub const WORDS: usize = 512;

/// Every kind of access.
pub const ALL_ACCESS: u32 = 0xf;

impl<'host> Session<'host> {
    /// Opens the plugin, up to memory that operations of this process can access.
    pub fn new(plugin: &Path, host: &'host TestHost) -> Self {
        let loaded = Loaded::open(plugin, host);
        let component = loaded.open_component(host).unwrap();
        // SAFETY: the component was just opened.
        let module = unsafe { loaded.init(component, ThreadLevel::Single) }
            .unwrap_or_else(|status| panic!("init: {status}"));
        // SAFETY: a module starts with its two tables, which are valid as long as the module.
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

    /// The address of a word of the memory, for the local side.
    pub fn local(&mut self, word: usize) -> *mut c_void {
        (&raw mut self.memory[word]).cast()
    }

    /// The address of a word of the memory, for the remote side.
    pub fn remote(&self, word: usize) -> u64 {
        (&raw const self.memory[word]) as u64
    }

    /// A copy of the handle's bytes in 8-byte words, as a peer would hold it.
    pub fn handle_copy(&self) -> Vec<u64> {
        // SAFETY: the module lives, and so do its attributes.
        let size = unsafe { (*(*self.module).attributes).handle_size } as usize;
        let mut copy = vec![0u64; size / 8];
        // SAFETY: a live handle has `handle_size` readable bytes.
        unsafe {
            ptr::copy_nonoverlapping(self.handle.cast::<u8>(), copy.as_mut_ptr().cast(), size);
        }
        copy
    }

    /// A put from and to memory of this session, without a callback.
    ///
    /// # Safety
    /// The bytes at `local` and of the peer's handle are valid until the next flush.
    pub unsafe fn put(
        &self,
        (local, remote): (*mut c_void, u64),
        peer: *const Handle,
        size: usize,
        (flags, order): (u32, i32),
    ) -> Status {
        let (module, endpoint, handle) = (self.module, self.endpoint, self.handle);
        let (put, none) = (self.table.put.unwrap(), ptr::null_mut());
        // SAFETY: the objects live, and the caller guarantees the rest.
        unsafe {
            put(
                module, endpoint, local, remote, handle, peer, size, flags, order, None, none, none,
            )
        }
    }

    /// Makes progress once; a negative result is an error.
    pub fn progress(&self) -> i32 {
        // SAFETY: the component is open.
        unsafe { self.component_table.progress.unwrap()(self.component) }
    }

    /// Waits for all issued operations.
    pub fn flush(&self) -> Status {
        // SAFETY: the module lives.
        unsafe { self.table.flush.unwrap()(self.module, ptr::null_mut()) }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: all objects are live and used for the last time; children are closed before
        // parents.
        unsafe {
            self.table.flush.unwrap()(self.module, ptr::null_mut());
            self.table.deregister_mem.unwrap()(self.module, self.handle);
            self.table.del_procs.unwrap()(self.module, 1, &self.endpoint);
            self.table.finalize.unwrap()(self.module);
            self.component_table.close.unwrap()(self.component);
        }
    }
}

/// A callback that counts its calls in the [`AtomicUsize`] at `context`, if `context` is not NULL.
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
    // SAFETY: the caller guarantees that `context` is valid.
    if let Some(calls) = unsafe { context.cast::<AtomicUsize>().as_ref() } {
        // The count is read after the flush that ran this callback on the same thread.
        calls.fetch_add(1, Ordering::Relaxed);
    }
}
