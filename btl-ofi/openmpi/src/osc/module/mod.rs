//! A window: the structure that Open MPI calls, and the engine's window behind it.

mod accumulate;
mod entries;
mod requests;
mod rma;
mod rows;
mod sync;

use std::ffi::c_int;
use std::sync::Mutex;

use osc_engine::win::Window;

use crate::bindings as ffi;
use crate::osc::select::Asked;

/// A window. Open MPI sees the first field only.
#[repr(C)]
pub(crate) struct Module {
    table: ffi::ompi_osc_base_module_t,
    /// `None` after it was freed.
    window: Option<Window>,
    units: Units,
    /// The lowest rank that has memory; 0 if no rank has.
    first: usize,
    is_dynamic: bool,
    /// Addresses at which the program attached no bytes. The program may detach these addresses,
    /// too.
    empty: Mutex<Vec<usize>>,
}

/// Displacement units of the ranks, bytes.
pub(crate) enum Units {
    Equal(u64),
    Each(Box<[u64]>),
}

impl Units {
    pub(crate) fn new(units: impl Iterator<Item = u64> + Clone) -> Units {
        let first = units.clone().next().unwrap_or(1);
        if units.clone().all(|unit| unit == first) {
            return Units::Equal(first);
        }
        Units::Each(units.collect())
    }

    #[inline]
    fn of(&self, rank: usize) -> u64 {
        match self {
            Units::Equal(unit) => *unit,
            Units::Each(units) => units.get(rank).copied().unwrap_or(1),
        }
    }
}

/// Open MPI's structure for a window, which lives until the module's `free`.
pub(crate) fn leak(
    window: Window,
    units: Units,
    first: usize,
    asked: &Asked,
) -> *mut ffi::ompi_osc_base_module_t {
    let module = Box::new(Module {
        table: entries::TABLE,
        window: Some(window),
        units,
        first,
        is_dynamic: asked.flavor as u32 == ffi::MPI_WIN_FLAVOR_DYNAMIC,
        empty: Mutex::default(),
    });
    Box::into_raw(module).cast()
}

impl Module {
    /// The module of a window.
    ///
    /// # Safety
    /// The window is of this component and was not freed.
    #[inline]
    unsafe fn of<'a>(win: *mut ffi::ompi_win_t) -> &'a Module {
        // SAFETY: the caller guarantees the window; `leak` made its module, whose first field is Open MPI's
        // structure.
        unsafe { &*ffi::mca_osc_ofi_host_module(win).cast::<Module>() }
    }

    /// The engine's window.
    #[inline]
    fn window(&self) -> Result<&Window, c_int> {
        self.window.as_ref().ok_or(ffi::OMPI_ERR_WIN)
    }

    /// Converts a displacement in units of the target, plus bytes, to bytes; in a dynamic window, to an
    /// address.
    #[inline]
    fn displacement(&self, rank: usize, units: isize, bytes: isize) -> Result<u64, c_int> {
        if self.is_dynamic {
            return Ok((units as u64).wrapping_add_signed(bytes as i64));
        }
        let unit = self.units.of(rank) as isize;
        units
            .checked_mul(unit)
            .and_then(|at| at.checked_add(bytes))
            .and_then(|at| u64::try_from(at).ok())
            .ok_or(ffi::OMPI_ERR_RMA_RANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_kept_for_each_rank_only_where_they_differ() {
        let equal = Units::new([8, 8, 8].into_iter());
        assert!(matches!(equal, Units::Equal(8)));
        let differ = Units::new([8, 1, 8].into_iter());
        assert_eq!([differ.of(0), differ.of(1)], [8, 1]);
    }
}
