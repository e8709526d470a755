//! Puts and gets of many small runs, as commands to the target. The origin uses such commands if messages carry small puts and
//! gets, because the target's processor executes messages anyway. If memory or a network card carries small transfers, each run
//! is a transfer of its own ([`rma`](super::rma)) that needs nothing of the target; the transport refuses commands then, before
//! it does anything.
//!
//! The data of a put is copied before the call returns. A get for several places at the origin fetches into memory of its own,
//! and its completion copies the data to the places.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::{ApplyRun, AtomicOp, Endpoint, Handle, Module, Status};

use super::callbacks::done;
use super::command::{apply, is_not_supported, issue};
use super::how::How;
use super::runs::Runs;
use crate::win::error::WinResult;
use crate::win::kind::WindowKind;
use crate::win::layout::Segment;
use crate::win::pieces::Pieces;
use crate::win::request::request_state::RequestState;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Maximum average bytes of a run that a command carries: for a put, whose data is copied once more, and for a get. `host-stub
/// bench --run` measures this limit.
const MOST_OF_A_PUT: usize = 128;
const MOST_OF_A_GET: usize = 256;

/// Whether to try a transfer as commands.
fn is_scattered<const PUT: bool>(window: &Window, transfer: &Transfer<'_>) -> bool {
    let most = if PUT { MOST_OF_A_PUT } else { MOST_OF_A_GET };
    let (origin, target) = (transfer.origin_layout, transfer.target_layout);
    let runs = origin.runs().max(target.runs());
    window.link.scatters
        && runs > 1
        && target.bytes() / runs <= most
        && transfer.local_handle.is_null()
        && !transfer.peer.takes_no_runs.load(Ordering::Relaxed)
}

/// Makes a put or get of many small runs by commands. Returns how many of its bytes the commands cover, in the order of its
/// layouts. The caller transfers the rest by one transfer for each run: that may be the whole transfer, or the part from the
/// first run too long for a message.
///
/// # Safety
/// The caller vouches for the transfer.
pub(super) unsafe fn transfer<const PUT: bool>(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
) -> WinResult<usize> {
    if !is_scattered::<PUT>(window, transfer) {
        return Ok(0);
    }
    let how = How::bytes(if PUT { AtomicOp::Write } else { AtomicOp::Read });
    let pending = &transfer.peer.transfers;
    // SAFETY: the caller vouches for the transfer.
    let made = unsafe {
        if PUT {
            issue(window, transfer, &how, request, pending)
        } else if transfer.origin_layout.is_contiguous() {
            let fetch = Transfer {
                result: transfer.origin,
                result_layout: Some(transfer.origin_layout),
                ..*transfer
            };
            issue(window, &fetch, &how, request, pending)
        } else {
            get_to_places(window, transfer, &how, request)
        }
    }?;
    // The regions of a dynamic window may be of different kinds.
    if made == 0 && window.kind() != WindowKind::Dynamic {
        transfer.peer.takes_no_runs.store(true, Ordering::Relaxed);
    }
    Ok(made)
}

/// The memory that receives a command's data for several places of the origin.
struct Landing {
    /// The context and the data of [`done`].
    context: *mut c_void,
    data: *mut c_void,
    /// The origin's buffer, and the places in the buffer.
    buffer: *mut u8,
    places: Box<[ApplyRun]>,
    packed: Box<[MaybeUninit<u8>]>,
}

impl Landing {
    /// Copies the received data to its places.
    ///
    /// # Safety
    /// All packed bytes have arrived. The places are writable.
    unsafe fn unpack(&self) {
        let mut from = self.packed.as_ptr().cast::<u8>();
        for run in &self.places {
            for block in 0..run.count {
                let offset = run.offset + block * run.stride;
                let to = self.buffer.wrapping_add(offset as usize);
                let len = run.length as usize;
                // SAFETY: the caller guarantees the place; the places together have as many bytes as were packed.
                unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
                from = from.wrapping_add(len);
            }
        }
    }
}

/// Ends a get to several places: `context` is its [`Landing`].
unsafe extern "C" fn landed(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    status: i32,
) {
    // SAFETY: `get_to_places` made the box and passed it to this call.
    let landing = unsafe { Box::from_raw(context.cast::<Landing>()) };
    if status >= 0 {
        // SAFETY: the transport wrote all results. The origin's buffer belongs to the operation until it is counted as ended.
        unsafe { landing.unpack() };
    }
    let Landing { context, data, .. } = *landing;
    // SAFETY: `tracked_to` gave this context and data for this callback.
    unsafe {
        done(
            module,
            endpoint,
            local_address,
            local_handle,
            context,
            data,
            status,
        )
    };
}

/// Makes a get whose elements go to several places. Returns how many of its bytes commands fetch.
///
/// # Safety
/// The caller vouches for the transfer.
unsafe fn get_to_places(
    window: &Window,
    transfer: &Transfer<'_>,
    how: &How,
    request: Option<&RequestState>,
) -> WinResult<usize> {
    let (origin, target) = (transfer.origin_layout, transfer.target_layout);
    let size = transfer.datatype().size();
    let mut pieces = Pieces::new(origin, None, target, usize::MAX);
    let mut made = 0;
    loop {
        let (mut here, mut there) = (Runs::new(how.most()), Runs::new(how.most()));
        while let Some(piece) = pieces.next_within(here.room().min(there.room()) / size * size) {
            let len = piece.len;
            here.push(Segment {
                offset: piece.origin,
                len,
            });
            there.push(Segment {
                offset: piece.target,
                len,
            });
        }
        if here.bytes() == 0 {
            return Ok(made);
        }
        // SAFETY: the caller vouches for the transfer, which includes these runs.
        match unsafe { land(window, transfer, request, how, (&here, &there)) } {
            Err(error) if is_not_supported(&error) => return Ok(made),
            posted => posted?,
        }
        made += here.bytes();
    }
}

/// Fetches the runs of one command to their places at the origin.
///
/// # Safety
/// The runs at the origin and at the target are parts of the transfer, with the same bytes. The caller vouches for the transfer.
unsafe fn land(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
    how: &How,
    (here, there): (&Runs, &Runs),
) -> WinResult<()> {
    let peer = transfer.peer;
    let mut packed = Box::new_uninit_slice(here.bytes());
    let mut values = how.request(there, std::ptr::null());
    values.results = packed.as_mut_ptr().cast();
    let landing = Box::new(Landing {
        context: std::ptr::null_mut(),
        data: std::ptr::null_mut(),
        buffer: transfer.origin,
        places: here.all().into(),
        packed,
    });
    let landing = NonNull::from(Box::leak(landing));
    let mut is_under_way = false;
    let posted = window.tracked_to(
        transfer.call,
        peer,
        &peer.transfers,
        request,
        |context, data| {
            // SAFETY: until the transport takes the operation, no other code has the landing. The results are writable until
            // completion, and `landed` takes this context; the rest as the caller vouches.
            unsafe {
                (*landing.as_ptr()).context = context;
                (*landing.as_ptr()).data = data;
                let context = landing.as_ptr().cast();
                let status = apply(
                    window,
                    transfer,
                    &values,
                    landed,
                    (context, std::ptr::null_mut()),
                );
                match status {
                    Status::SUCCESS => is_under_way = true,
                    // No callback will run.
                    Status::COMPLETED => landing.as_ref().unpack(),
                    _ => {}
                }
                status
            }
        },
    );
    if !is_under_way {
        // SAFETY: the transport did not take the operation, or the operation is complete.
        drop(unsafe { Box::from_raw(landing.as_ptr()) });
    }
    posted
}
