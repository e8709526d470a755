//! Epochs, and other calls on a whole window.

use std::ffi::{c_int, c_void};
use std::sync::{MutexGuard, PoisonError};

use osc_engine::win::{Assertion, LockKind, WinResult};

use super::Module;
use crate::bindings as ffi;
use crate::osc::error::{self, Code};
use crate::osc::{request, transport};
use crate::series::Unit;

/// The assertions that have a meaning for a call; The engine uses MPI's numbers.
fn assertion(given: c_int, meant: Assertion) -> Assertion {
    let known = [
        (ffi::MPI_MODE_NOCHECK, Assertion::NOCHECK),
        (ffi::MPI_MODE_NOSTORE, Assertion::NOSTORE),
        (ffi::MPI_MODE_NOPUT, Assertion::NOPUT),
        (ffi::MPI_MODE_NOPRECEDE, Assertion::NOPRECEDE),
        (ffi::MPI_MODE_NOSUCCEED, Assertion::NOSUCCEED),
    ];
    known
        .into_iter()
        .filter(|(bit, _)| given & *bit as c_int != 0)
        .fold(Assertion::empty(), |all, (_, one)| all | one)
        & meant
}

fn done<T>(outcome: WinResult<T>) -> Result<T, c_int> {
    outcome.map_err(|error| error::code(&error))
}

/// A rank that MPI has checked; MPI_PROC_NULL and other negative numbers are no rank.
fn rank(target: c_int) -> Result<usize, c_int> {
    usize::try_from(target).map_err(|_| ffi::MPI_ERR_RANK as c_int)
}

impl Module {
    pub(super) fn fence(&self, given: c_int) -> Code {
        let meant =
            Assertion::NOSTORE | Assertion::NOPUT | Assertion::NOPRECEDE | Assertion::NOSUCCEED;
        done(self.window()?.fence(assertion(given, meant)))
    }

    pub(super) fn lock(&self, kind: c_int, target: c_int, given: c_int) -> Code {
        let kind = match kind == ffi::MPI_LOCK_EXCLUSIVE as c_int {
            true => LockKind::Exclusive,
            false => LockKind::Shared,
        };
        let given = assertion(given, Assertion::NOCHECK);
        done(self.window()?.lock(kind, rank(target)?, given))
    }

    pub(super) fn unlock(&self, target: c_int) -> Code {
        done(self.window()?.unlock(rank(target)?))
    }

    pub(super) fn lock_all(&self, given: c_int) -> Code {
        let given = assertion(given, Assertion::NOCHECK);
        done(self.window()?.lock_all(given))
    }

    pub(super) fn unlock_all(&self) -> Code {
        done(self.window()?.unlock_all())
    }

    pub(super) fn flush(&self, target: c_int) -> Code {
        done(self.window()?.flush(rank(target)?))
    }

    pub(super) fn flush_all(&self) -> Code {
        done(self.window()?.flush_all())
    }

    pub(super) fn flush_local(&self, target: c_int) -> Code {
        done(self.window()?.flush_local(rank(target)?))
    }

    pub(super) fn flush_local_all(&self) -> Code {
        done(self.window()?.flush_local_all())
    }

    pub(super) fn sync(&self) -> Code {
        done(self.window()?.sync())
    }

    /// The window's ranks of a group.
    fn ranks(
        &self,
        group: *mut ffi::ompi_group_t,
        win: *mut ffi::ompi_win_t,
    ) -> Result<Vec<usize>, c_int> {
        // SAFETY: Open MPI passes a group and a window that live through the call; there is room for the group's members.
        let (found, ranks) = unsafe {
            let size = usize::try_from(ffi::mca_osc_ofi_host_group_size(group)).unwrap_or(0);
            let mut ranks = vec![0; size];
            let found = ffi::mca_osc_ofi_host_group_ranks(group, win, ranks.as_mut_ptr());
            (found, ranks)
        };
        if !found {
            return Err(ffi::MPI_ERR_GROUP as c_int);
        }
        Ok(ranks.into_iter().map(|rank| rank as usize).collect())
    }

    pub(super) fn start(
        &self,
        group: *mut ffi::ompi_group_t,
        given: c_int,
        win: *mut ffi::ompi_win_t,
    ) -> Code {
        let ranks = self.ranks(group, win)?;
        let given = assertion(given, Assertion::NOCHECK);
        done(self.window()?.start(&ranks, given))
    }

    pub(super) fn complete(&self) -> Code {
        done(self.window()?.complete())
    }

    pub(super) fn post(
        &self,
        group: *mut ffi::ompi_group_t,
        given: c_int,
        win: *mut ffi::ompi_win_t,
    ) -> Code {
        let ranks = self.ranks(group, win)?;
        let meant = Assertion::NOCHECK | Assertion::NOSTORE | Assertion::NOPUT;
        done(self.window()?.post(&ranks, assertion(given, meant)))
    }

    pub(super) fn wait(&self) -> Code {
        done(self.window()?.wait())
    }

    pub(super) fn test(&self) -> Result<bool, c_int> {
        done(self.window()?.test())
    }

    pub(super) fn attach(&self, base: *mut c_void, size: usize) -> Code {
        if !self.is_dynamic {
            return Err(ffi::OMPI_ERR_RMA_FLAVOR);
        }
        if size == 0 {
            self.empty().push(base.addr());
            return Ok(());
        }
        transport::look_for_devices();
        // SAFETY: MPI binds the program's memory until it is detached.
        let attached = unsafe { self.window()?.attach(base.cast(), size) };
        attached.map_err(|error| {
            error::code(&error);
            ffi::OMPI_ERR_RMA_ATTACH
        })
    }

    pub(super) fn detach(&self, base: *const c_void) -> Code {
        if !self.is_dynamic {
            return Err(ffi::OMPI_ERR_RMA_FLAVOR);
        }
        let Err(error) = self.window()?.detach(base.cast()) else {
            return Ok(());
        };
        let mut empty = self.empty();
        if let Some(at) = empty.iter().position(|empty| *empty == base.addr()) {
            empty.swap_remove(at);
            return Ok(());
        }
        error::code(&error);
        Err(ffi::OMPI_ERR_RMA_ATTACH)
    }

    fn empty(&self) -> MutexGuard<'_, Vec<usize>> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank's memory in this process; with MPI_PROC_NULL, the memory of the first rank that has any. No bytes if the memory
    /// is not mapped here, as MPI specifies for windows that need not be shared.
    pub(super) fn shared(&self, target: c_int) -> Result<(usize, Unit, *mut c_void), c_int> {
        if self.is_dynamic {
            return Err(ffi::OMPI_ERR_RMA_FLAVOR);
        }
        let target = match target == ffi::MPI_PROC_NULL {
            true => self.first,
            false => rank(target)?,
        };
        let window = self.window()?;
        if target >= window.size() {
            return Err(ffi::MPI_ERR_RANK as c_int);
        }
        let unit = self.units.of(target) as Unit;
        if let Ok(part) = window.shared_query(Some(target)) {
            return Ok((part.len, unit, part.base.cast()));
        }
        if target == window.rank() && !window.is_empty() {
            return Ok((window.len(), unit, window.base().cast()));
        }
        Ok((0, unit, std::ptr::null_mut()))
    }

    /// Ends the window; collective. The call is refused while an epoch is open.
    pub(super) fn free(&mut self) -> Code {
        request::drain(std::ptr::from_ref(self).addr());
        let Some(window) = self.window.take() else {
            return Err(ffi::OMPI_ERR_WIN);
        };
        window.free().map_err(|failed| {
            let code = error::code(&failed.error);
            self.window = Some(*failed.window);
            code
        })
    }
}
