//! Transfers and atomic updates, by the number of the call and its arguments. `host_calls.h` has a
//! function for each.

use std::ffi::{c_int, c_void};

use host::device::HOST;
use host::win::{Datatype, Layout, Op, Request, Target, Window};

use crate::base::codes::{HOST_NO_OP, HOST_PROC_NULL, marked, op, rank};
use crate::base::error::{Error, Result, guarded};
use crate::base::handles::place;
use crate::base::tables::{self, layout};
use crate::job::job;
use crate::win::layout::{self, host_layout_t};
use crate::win::notified::number;
use crate::win::request::{give, give_complete, host_request_t};
use crate::win::table::{
    HOST_RMA_ACCUMULATE, HOST_RMA_COMPARE_AND_SWAP, HOST_RMA_FETCH_AND_OP, HOST_RMA_GET,
    HOST_RMA_GET_ACCUMULATE, HOST_RMA_PUT,
};
use crate::win::window::{host_win_t, window};

/// A put that adds one to a counter of the target. A window's table has no entry for it: the host calls the
/// table's put.
pub const HOST_RMA_PUT_NOTIFY: usize = 64;

/// The magic number of a host_rma_args_t.
pub const HOST_RMA_ARGS_MAGIC: u64 = 0x314752414d525348;

/// The arguments of a transfer or an atomic update; arguments that the call does not use are zero. The structure grows at
/// its end only, and `size` tells its length.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_rma_args_t {
    /// HOST_RMA_ARGS_MAGIC.
    pub magic: u64,
    /// sizeof(host_rma_args_t).
    pub size: usize,
    /// The origin's buffer; for a get, the buffer that is written. The buffer may be NULL with
    /// HOST_NO_OP.
    pub origin: *mut c_void,
    /// The buffer for the old values of fetching calls.
    pub result: *mut c_void,
    /// The value that compare_and_swap compares with.
    pub compare: *const c_void,
    /// The number of elements of a side without a layout; 1 for fetch_and_op and compare_and_swap.
    pub count: usize,
    /// The displacement of the target's first element, in the target's units.
    pub displacement: u64,
    /// The element type. With HOST_ON_DEVICE, host memory is refused.
    pub datatype: c_int,
    /// The operation of accumulates.
    pub op: c_int,
    /// The target's rank, or HOST_PROC_NULL.
    pub target: c_int,
    /// The counter of a HOST_RMA_PUT_NOTIFY, 0 to HOST_WIN_COUNTERS - 1.
    pub counter: c_int,
    /// The layout of the origin's elements; NULL: contiguous. Both layouts are for put, get and accumulate only. Both sides
    /// have the same type and number of elements.
    pub origin_layout: *const host_layout_t,
    /// The layout of the target's elements from `displacement` on; NULL: contiguous.
    pub target_layout: *const host_layout_t,
}

layout!(host_rma_args_t: 88 bytes {
    magic at 0,
    size at 8,
    origin at 16,
    result at 24,
    compare at 32,
    count at 40,
    displacement at 48,
    datatype at 56,
    op at 60,
    target at 64,
    counter at 68,
    origin_layout at 72,
    target_layout at 80,
} magic HOST_RMA_ARGS_MAGIC = b"HSRMARG1", least 88, by 8);

/// The calls, without those that return a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put,
    PutNotify,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
}

impl Kind {
    fn new(call: &str, code: usize) -> Result<Kind> {
        Ok(match code {
            HOST_RMA_PUT => Kind::Put,
            HOST_RMA_PUT_NOTIFY => Kind::PutNotify,
            HOST_RMA_GET => Kind::Get,
            HOST_RMA_ACCUMULATE => Kind::Accumulate,
            HOST_RMA_GET_ACCUMULATE => Kind::GetAccumulate,
            HOST_RMA_FETCH_AND_OP => Kind::FetchAndOp,
            HOST_RMA_COMPARE_AND_SWAP => Kind::CompareAndSwap,
            _ => return Err(Error::argument(call, &format!("no transfer {code}"))),
        })
    }

    /// The name of the call in errors: the function of host_calls.h.
    fn name(self) -> &'static str {
        match self {
            Kind::Put => "host_put",
            Kind::PutNotify => "host_put_notify",
            Kind::Get => "host_get",
            Kind::Accumulate => "host_accumulate",
            Kind::GetAccumulate => "host_get_accumulate",
            Kind::FetchAndOp => "host_fetch_and_op",
            Kind::CompareAndSwap => "host_compare_and_swap",
        }
    }

    fn takes_layouts(self) -> bool {
        matches!(self, Kind::Put | Kind::Get | Kind::Accumulate)
    }

    /// Whether the call takes one element.
    fn is_single(self) -> bool {
        matches!(self, Kind::FetchAndOp | Kind::CompareAndSwap)
    }

    /// The buffers of the call, each with a flag whether it may be NULL.
    fn buffers(self, args: &host_rma_args_t) -> impl Iterator<Item = (*const c_void, bool)> {
        let fetches = matches!(
            self,
            Kind::GetAccumulate | Kind::FetchAndOp | Kind::CompareAndSwap
        );
        let may_lack = fetches && self != Kind::CompareAndSwap && args.op == HOST_NO_OP;
        let compares = self == Kind::CompareAndSwap;
        [
            Some((args.origin.cast_const(), may_lack)),
            fetches.then_some((args.result.cast_const(), false)),
            compares.then_some((args.compare, false)),
        ]
        .into_iter()
        .flatten()
    }
}

/// The arguments of a call, checked.
struct Transfer {
    win: &'static host_win_t,
    origin: *mut u8,
    result: *mut u8,
    compare: *const u8,
    origin_layout: Layout,
    target_layout: Layout,
    datatype: Datatype,
    op: Op,
    rank: usize,
    displacement: u64,
    counter: c_int,
}

impl Transfer {
    /// `None` for the target HOST_PROC_NULL: the call has no effect.
    ///
    /// # Safety
    /// As for [`window`]; layouts are tables.
    unsafe fn new(
        call: &str,
        kind: Kind,
        args: &host_rma_args_t,
        win: *mut host_win_t,
    ) -> Result<Option<Transfer>> {
        // SAFETY: passed on.
        let win = unsafe { window(call, win) }?;
        if args.target == HOST_PROC_NULL {
            return Ok(None);
        }
        let (given, to) = (!args.origin_layout.is_null(), !args.target_layout.is_null());
        if (given || to) && !kind.takes_layouts() {
            let text = "it has a layout, and takes elements that lie together";
            return Err(Error::argument(call, text));
        }
        let (datatype, on_device) = marked(call, args.datatype)?;
        let count = if kind.is_single() { 1 } else { args.count };
        let bytes = count.checked_mul(datatype.size());
        let too_many = bytes.is_none_or(|bytes| isize::try_from(bytes).is_err());
        if too_many && !(given && to) {
            return Err(Error::argument(call, "no memory has so many elements"));
        }
        let read = |given: *const host_layout_t| match given.is_null() {
            true => Ok(Layout::contiguous(datatype, count)),
            // SAFETY: passed on.
            false => unsafe { layout::read(call, given) },
        };
        let (origin_layout, target_layout) = (read(args.origin_layout)?, read(args.target_layout)?);
        if origin_layout.bytes() > 0 && !origin_layout.is_absolute() {
            let null = |(buffer, may): (*const c_void, bool)| buffer.is_null() && !may;
            if kind.buffers(args).any(null) {
                return Err(Error::argument(call, "a buffer is NULL"));
            }
            // A layout has its own mark for a buffer on a device.
            if on_device && !given {
                let buffers = kind.buffers(args).map(|(buffer, _)| buffer);
                on_a_device(call, buffers.filter(|buffer| !buffer.is_null()))?;
            }
        }
        Ok(Some(Transfer {
            win,
            origin: args.origin.cast(),
            result: args.result.cast(),
            compare: args.compare.cast(),
            origin_layout,
            target_layout,
            datatype,
            op: op(call, args.op)?,
            rank: rank(call, args.target)?,
            displacement: args.displacement,
            counter: args.counter,
        }))
    }

    fn target(&self) -> Target<'_> {
        Target {
            rank: self.rank,
            displacement: self.displacement,
            layout: &self.target_layout,
        }
    }

    /// # Safety
    /// The buffers are valid for the call until it is complete.
    unsafe fn run(&self, call: &str, kind: Kind) -> Result {
        let (win, row, to) = (&self.win.window, &self.origin_layout, self.target());
        let (origin, result) = (self.origin, self.result);
        // SAFETY: passed on.
        unsafe {
            match kind {
                Kind::Put => win.put(origin, row, to),
                Kind::PutNotify => win.put_notify(origin, row, to, number(call, self.counter)?),
                Kind::Get => win.get(origin, row, to),
                Kind::Accumulate => win.accumulate(origin, row, to, self.op),
                Kind::GetAccumulate => win.get_accumulate(origin, row, result, row, to, self.op),
                Kind::FetchAndOp => {
                    let (datatype, at) = (self.datatype, self.displacement);
                    win.fetch_and_op(origin, result, datatype, self.rank, at, self.op)
                }
                Kind::CompareAndSwap => {
                    let (compare, datatype) = (self.compare, self.datatype);
                    let at = self.displacement;
                    win.compare_and_swap(origin, compare, result, datatype, self.rank, at)
                }
            }
        }?;
        Ok(())
    }

    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn start(&self, call: &str, kind: Kind) -> Result<Request<'static>> {
        let win: &'static Window = &self.win.window;
        let (row, to) = (&self.origin_layout, self.target());
        let (origin, result) = (self.origin, self.result);
        // SAFETY: passed on.
        let made = unsafe {
            match kind {
                Kind::Put => win.rput(origin, row, to),
                Kind::Get => win.rget(origin, row, to),
                Kind::Accumulate => win.raccumulate(origin, row, to, self.op),
                Kind::GetAccumulate => win.rget_accumulate(origin, row, result, row, to, self.op),
                Kind::PutNotify | Kind::FetchAndOp | Kind::CompareAndSwap => {
                    let text = "only put, get, accumulate and get_accumulate have requests";
                    return Err(Error::argument(call, text));
                }
            }
        }?;
        Ok(made)
    }
}

/// Refuses host memory if the type says that buffers are on a device.
#[cold]
fn on_a_device(call: &str, buffers: impl Iterator<Item = *const c_void>) -> Result {
    let job = job(call)?;
    for buffer in buffers {
        let location = job.devices().target_location(buffer.cast());
        if location.device == HOST {
            let text = format!("its type says device memory, and {buffer:p} is host memory");
            return Err(Error::argument(call, &text));
        }
    }
    Ok(())
}

/// Begins a transfer or an atomic update: HOST_RMA_PUT to HOST_RMA_COMPARE_AND_SWAP, or HOST_RMA_PUT_NOTIFY. host_calls.h has a
/// documented function for each.
///
/// # Safety
/// `win` is live, and layouts are tables. Until the operation is complete, its buffers follow the rules of its function in
/// host_calls.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rma(
    kind: usize,
    args: *const host_rma_args_t,
    win: *mut host_win_t,
) -> c_int {
    guarded(|| {
        let kind = Kind::new("host_rma", kind)?;
        let call = kind.name();
        // SAFETY: passed on.
        unsafe {
            let args = tables::read(call, args)?;
            match Transfer::new(call, kind, &args, win)? {
                Some(transfer) => transfer.run(call, kind),
                None => Ok(()),
            }
        }
    })
}

/// As host_rma, with a request: HOST_RMA_PUT to HOST_RMA_GET_ACCUMULATE, in lock and lock_all epochs only.
///
/// # Safety
/// As for host_rma; `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rma_start(
    kind: usize,
    args: *const host_rma_args_t,
    win: *mut host_win_t,
    request: *mut *mut host_request_t,
) -> c_int {
    guarded(|| {
        let kind = Kind::new("host_rma_start", kind)?;
        let call = kind.name();
        // SAFETY: passed on.
        unsafe {
            let request = place(call, request)?;
            let args = tables::read(call, args)?;
            match Transfer::new(call, kind, &args, win)? {
                Some(transfer) => give(request, transfer.start(call, kind)?, transfer.win),
                None => give_complete(call, request, win)?,
            }
        }
        Ok(())
    })
}
