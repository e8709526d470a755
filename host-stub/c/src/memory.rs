//! Memory that belongs to no window.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use host::win;

use crate::base::error::{Error, guarded};
use crate::base::handles::place;

/// Sizes of the allocations that programs hold, by address.
static GIVEN: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Allocates `size` zeroed bytes on pages of their own, suitable for windows and for transfer
/// buffers. They belong to no window and need no job.
///
/// # Safety
/// `base` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_alloc_mem(size: usize, base: *mut *mut c_void) -> c_int {
    guarded(|| {
        let call = "host_alloc_mem";
        // SAFETY: passed on.
        let base = unsafe { place(call, base) }?;
        *base = std::ptr::null_mut();
        let memory = win::alloc_mem(size)
            .map_err(|_| Error::argument(call, &format!("there is no memory of {size} B")))?;
        GIVEN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(memory.addr().get(), size);
        *base = memory.as_ptr().cast();
        Ok(())
    })
}

/// Frees memory of host_alloc_mem. HOST_ERR_ARG: the memory is not from host_alloc_mem, or is
/// already freed.
///
/// # Safety
/// Nothing uses the memory: no window is made of it and no operation is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_free_mem(base: *mut c_void) -> c_int {
    guarded(|| {
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        let found = NonNull::new(base.cast()).zip(given.remove(&base.addr()));
        drop(given);
        let Some((memory, size)) = found else {
            let text = format!("{base:p} is not what host_alloc_mem gave");
            return Err(Error::argument("host_free_mem", &text));
        };
        // SAFETY: given with this size, once; the caller has no use of it.
        unsafe { win::free_mem(memory, size) };
        Ok(())
    })
}
