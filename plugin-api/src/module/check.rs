//! Checks the table of a module that another side provides.

use crate::header::require_entries;
use crate::{AbiError, ModuleVtable, TableHeader, magic};

impl ModuleVtable {
    /// The table's size in ABI 1.0.
    pub const MIN_SIZE: usize = std::mem::offset_of!(ModuleVtable, set_overrides);

    /// Checks a module's table and copies the part that both sides know.
    ///
    /// # Safety
    /// `table` is NULL or points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check(table: *const ModuleVtable) -> Result<ModuleVtable, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable { table: "module" });
        }
        // SAFETY: the caller guarantees a readable header, and `table` is not NULL.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("module", magic::MODULE, Self::MIN_SIZE)?;
        let mut copy = std::mem::MaybeUninit::<ModuleVtable>::zeroed();
        let size = (header.size as usize).min(size_of::<ModuleVtable>());
        // SAFETY: the caller guarantees the bytes that the header declares, and `size` is at most that and at most the
        // size of the copy. A zeroed entry is an absent entry, so that the copy is a valid table at any length.
        let table = unsafe {
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), size);
            copy.assume_init()
        };
        require_entries!(
            table,
            "module",
            add_procs,
            del_procs,
            register_mem,
            deregister_mem,
            put,
            get,
            atomic_op,
            atomic_fop,
            atomic_cswap,
            flush,
            register_error,
            atomic_query,
            atomic_opv,
            atomic_fopv,
            atomic_cswapv,
            stats,
            finalize,
        );
        Ok(table)
    }
}
