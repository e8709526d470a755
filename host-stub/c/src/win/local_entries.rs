//! Functions like those in [`entries`](super::entries), for calls that neither move elements nor
//! synchronise: attach, detach, shared_query, set_info and get_info.

use host::win::{Info, RmaTable, SharedPart, WinError, WinResult, Window};

use crate::win::info::{INFOS, host_info_t};
use crate::win::layers::enter;
use crate::win::table::{self as at, host_rma_call_t};

/// Sets the entries of a window's table that some layer has.
pub(crate) fn set(table: &mut RmaTable, has: impl Fn(usize) -> bool) {
    if has(at::HOST_RMA_ATTACH) {
        table.attach = attach;
    }
    if has(at::HOST_RMA_DETACH) {
        table.detach = detach;
    }
    if has(at::HOST_RMA_SHARED_QUERY) {
        table.shared_query = shared_query;
    }
    if has(at::HOST_RMA_SET_INFO) {
        table.set_info = set_info;
    }
    if has(at::HOST_RMA_GET_INFO) {
        table.get_info = get_info;
    }
}

unsafe fn attach(window: &Window, base: *mut u8, len: usize) -> WinResult<()> {
    let call = host_rma_call_t {
        base: base.cast(),
        bytes: len,
        ..host_rma_call_t::none(at::HOST_RMA_ATTACH)
    };
    // SAFETY: the caller guarantees the memory.
    let below = |table: &RmaTable, _: &mut _| unsafe { (table.attach)(window, base, len) };
    enter(window, call, &below).map(drop)
}

fn detach(window: &Window, base: *const u8) -> WinResult<()> {
    let call = host_rma_call_t {
        base: base.cast_mut().cast(),
        ..host_rma_call_t::none(at::HOST_RMA_DETACH)
    };
    let below = |table: &RmaTable, _: &mut _| (table.detach)(window, base);
    enter(window, call, &below).map(drop)
}

fn shared_query(window: &Window, rank: Option<usize>) -> WinResult<SharedPart> {
    let call = host_rma_call_t {
        target: rank.map_or(-1, |rank| rank as i32),
        ..host_rma_call_t::none(at::HOST_RMA_SHARED_QUERY)
    };
    let below = |table: &RmaTable, call: &mut host_rma_call_t| {
        let part = (table.shared_query)(window, rank)?;
        (call.base, call.bytes, call.unit) = (part.base.cast(), part.len, part.unit);
        Ok(())
    };
    let found = enter(window, call, &below)?;
    Ok(SharedPart {
        base: found.base.cast(),
        len: found.bytes,
        unit: found.unit,
    })
}

/// Ends a handle of hints and returns the hints.
fn taken(handle: *mut host_info_t) -> WinResult<Info> {
    let taken = INFOS.take("get_info", handle);
    taken.map_err(|error| {
        Box::new(WinError::BadArgument {
            call: "get_info",
            reason: format!("a layer's entry gave no hints: {}", error.text),
        })
    })
}

fn set_info(window: &Window, info: &Info) -> WinResult<()> {
    let handle = INFOS.add(info.clone());
    let call = host_rma_call_t {
        info: handle,
        ..host_rma_call_t::none(at::HOST_RMA_SET_INFO)
    };
    let below = |table: &RmaTable, _: &mut _| (table.set_info)(window, info);
    let set = enter(window, call, &below).map(drop);
    // The handle is gone if a layer has ended it.
    let _ = INFOS.take("set_info", handle);
    set
}

fn get_info(window: &Window) -> WinResult<Info> {
    let below = |table: &RmaTable, call: &mut host_rma_call_t| {
        let info = (table.get_info)(window)?;
        // If a layer continues twice, the hints are made twice: the first ones end here.
        let _ = INFOS.take("get_info", call.info);
        call.info = INFOS.add(info);
        Ok(())
    };
    taken(enter(window, host_rma_call_t::none(at::HOST_RMA_GET_INFO), &below)?.info)
}
