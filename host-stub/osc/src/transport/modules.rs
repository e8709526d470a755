//! The modules of a component: checked, their functions copied out, and ended together.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use plugin_api::*;

use super::{Attributes, Transport};

/// Every function of a module's table without the `Option`, which the check of the table makes
/// unnecessary.
macro_rules! functions {
    ($($entry:ident: $function:ty,)*) => {
        /// The functions of a module's table; functions that every plugin has are not NULL.
        #[derive(Clone, Copy)]
        pub struct Functions {
            /// The functions for device memory, if the plugin has them.
            pub hmem: Option<HmemFunctions>,
            /// If the plugin has both functions.
            pub strided: Option<StridedFunctions>,
            /// If the plugin has this function.
            pub put_notify: Option<PutNotifyFn>,
            /// If the plugin has this function.
            pub register_shared: Option<RegisterSharedFn>,
            /// If the plugin has both functions.
            pub apply: Option<ApplyFunctions>,
             $(#[doc = concat!("`", stringify!($entry), "` of the table.")]
             pub $entry: $function,)* }

        impl Functions {
            /// Copies the functions; the error is the name of the first entry that is NULL.
            fn copy(table: &ModuleVtable) -> Result<Self, &'static str> {
                Ok(Functions { hmem: HmemFunctions::copy(table), strided: StridedFunctions::copy(table), put_notify: table.put_notify, register_shared: table.register_shared, apply: ApplyFunctions::copy(table), $($entry: table.$entry.ok_or(stringify!($entry))?,)* })
            }
        }
    };
}

/// The component's progress.
pub type ProgressFn = unsafe extern "C" fn(*mut plugin_api::Component) -> i32;

/// Functions that a plugin has all or none of, by the names of the table's entries.
macro_rules! group {
    ($(#[$doc:meta])* $group:ident { $($name:ident is $entry:ident: $function:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $group {
            $(#[doc = concat!("`", stringify!($entry), "` of the table.")]
            pub $name: $function,)*
        }

        impl $group {
            fn copy(table: &ModuleVtable) -> Option<Self> {
                Some($group { $($name: table.$entry?,)* })
            }
        }
    };
}

group! {
    /// The functions of ABI 1.5.
    ApplyFunctions {
        apply is apply: ApplyElementsFn,
        register is register_apply: RegisterApplyFn,
    }
}

group! {
    /// The functions of ABI 1.1, for memory of devices.
    HmemFunctions {
        set_overrides is set_overrides: SetOverridesFn,
        register_hmem is register_hmem: RegisterHmemFn,
        copy_from is copy_from_hmem_iov: CopyFromHmemFn,
        copy_to is copy_to_hmem_iov: CopyToHmemFn,
        query is query_hmem: QueryHmemFn,
    }
}

group! {
    /// The functions of ABI 1.4, for blocks of such memory at regular distances.
    StridedFunctions {
        copy_from is copy_from_hmem_strided: CopyFromHmemStridedFn,
        copy_to is copy_to_hmem_strided: CopyToHmemStridedFn,
    }
}

functions! {
    add_procs: AddProcsFn,
    del_procs: DelProcsFn,
    register_mem: RegisterMemFn,
    deregister_mem: DeregisterMemFn,
    put: TransferFn,
    get: TransferFn,
    atomic_op: AtomicOpFn,
    atomic_fop: AtomicFopFn,
    atomic_cswap: AtomicCswapFn,
    flush: FlushFn,
    register_error: RegisterErrorFn,
    atomic_query: AtomicQueryFn,
    atomic_opv: AtomicOpvFn,
    atomic_fopv: AtomicFopvFn,
    atomic_cswapv: AtomicCswapvFn,
    stats: StatsFn,
    finalize: FinalizeFn,
}

/// A module, and the function that ends it.
struct Owned {
    module: NonNull<Module>,
    finalize: FinalizeFn,
}

/// The modules of one component. The modules are finalised together after the last transport was
/// dropped: the component's progress visits every module, so no module may end while another is in
/// use.
pub(super) struct Modules {
    owned: Vec<Owned>,
    /// The objects that the module's callbacks use. A listener that was replaced may still be running on
    /// another thread.
    kept: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    progress: ProgressFn,
    component: NonNull<plugin_api::Component>,
    /// The objects that the component needs as long as a module lives, such as its library.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: modules belong to the component, whose contract says which threads may call.
unsafe impl Send for Modules {}
// SAFETY: as for Send; finalize runs in Drop, when no other reference exists.
unsafe impl Sync for Modules {}

/// The reason why a component's modules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// A table does not fit.
    #[error(transparent)]
    Abi(#[from] AbiError),
    /// The plugin broke the contract in another way: the text has the expected and the found value.
    #[error("{0}")]
    Contract(String),
}

impl Transport {
    /// Checks the modules that the `init` of a component made, and wraps each. If a module is refused, the
    /// component's `close` finalises the modules that still live. `owner` is dropped after every module
    /// was finalised.
    ///
    /// # Safety
    /// The modules are of this component, whose `progress` this is, and they keep to the contract of [`plugin_api`]
    /// at the thread level that `init` was given. Component and functions stay until `owner` is dropped.
    pub unsafe fn adopt(
        component: NonNull<plugin_api::Component>,
        progress: ProgressFn,
        raw: &[*mut Module],
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Vec<Transport>, AdoptError> {
        let mut owned = Vec::with_capacity(raw.len());
        let mut parts = Vec::with_capacity(raw.len());
        for (index, module) in raw.iter().enumerate() {
            let module = NonNull::new(*module).ok_or_else(|| {
                AdoptError::Contract(format!("init: wanted a module at {index}, found NULL"))
            })?;
            // SAFETY: a module that init returned starts with these two pointers.
            let Module { vtable, attributes } = unsafe { module.as_ptr().read() };
            // SAFETY: NULL or a table that starts with a header, by the contract.
            let table = unsafe { ModuleVtable::check(vtable) }?;
            // SAFETY: the contract makes the second pointer NULL or a table that starts with a
            // header.
            let attributes = unsafe { plugin_api::Attributes::check(attributes) }?;
            // SAFETY: the contract makes the attributes' strings NULL or NUL-terminated.
            let attributes =
                unsafe { Attributes::copy(attributes) }.map_err(AdoptError::Contract)?;
            let functions = Functions::copy(&table).map_err(|entry| AbiError::NullEntry {
                table: "module",
                entry,
            })?;
            owned.push(Owned {
                module,
                finalize: functions.finalize,
            });
            parts.push((module, functions, attributes));
        }
        let modules = Arc::new(Modules {
            owned,
            kept: Mutex::new(Vec::new()),
            progress,
            component,
            _owner: owner,
        });
        Ok(parts
            .into_iter()
            .map(|(module, functions, attributes)| {
                Transport::new(Arc::clone(&modules), module, functions, attributes)
            })
            .collect())
    }
}

impl Modules {
    pub(super) fn component(&self) -> NonNull<plugin_api::Component> {
        self.component
    }

    pub(super) fn progress(&self) -> ProgressFn {
        self.progress
    }

    /// Keeps an object that callbacks use until every module is finalised.
    pub(super) fn keep(&self, used: Arc<dyn Any + Send + Sync>) {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(used);
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        for Owned { module, finalize } in self.owned.drain(..) {
            // SAFETY: no transport is left, so nothing runs in the module or will use it again.
            let status = unsafe { finalize(module.as_ptr()) };
            if !status.is_ok() {
                tracing::warn!("a transport's finalize returned {status}");
            }
        }
    }
}
