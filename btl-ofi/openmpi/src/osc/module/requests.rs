//! Puts, gets and accumulates with a request.

use std::ffi::c_int;

use osc_engine::win::{Request, WinResult};

use super::Module;
use super::rma::{Buffer, Place, converted};
use crate::bindings as ffi;
use crate::osc::{error, request};

/// The program's request.
pub(super) type Theirs = Result<*mut ffi::ompi_request_t, c_int>;

impl Module {
    /// Makes the program's request for a request of the engine.
    pub(super) fn request(
        &self,
        issued: WinResult<Request<'_>>,
        win: *mut ffi::ompi_win_t,
    ) -> Theirs {
        let issued = issued.map_err(|error| error::code(&error))?;
        // SAFETY: the window stays in its module until `free`, which drains its requests.
        unsafe { request::keep(std::ptr::from_ref(self).addr(), issued, win) }
    }

    pub(super) fn rput(&self, origin: Buffer, place: Place, win: *mut ffi::ompi_win_t) -> Theirs {
        self.request_move::<true>(origin, place, win)
    }

    pub(super) fn rget(&self, origin: Buffer, place: Place, win: *mut ffi::ompi_win_t) -> Theirs {
        self.request_move::<false>(origin, place, win)
    }

    fn request_move<const PUT: bool>(
        &self,
        origin: Buffer,
        place: Place,
        win: *mut ffi::ompi_win_t,
    ) -> Theirs {
        let Some((mine, theirs)) = converted(origin, place)? else {
            return Ok(request::over());
        };
        let at = origin.address.cast::<u8>().wrapping_offset(mine.begin);
        let target = self.target(place, &theirs)?;
        let window = self.window()?;
        // SAFETY: MPI binds the program's buffer until the operation is complete.
        let issued = unsafe {
            match PUT {
                true => window.rput(at, &mine.layout, target),
                false => window.rget(at, &mine.layout, target),
            }
        };
        if let Err(error) = &issued
            && self.may_span_regions(error)
        {
            self.move_rows::<PUT>(origin, place)?;
            return self.over_after_flush(place);
        }
        self.request(issued, win)
    }
}
