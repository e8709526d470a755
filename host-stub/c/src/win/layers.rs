//! The layers of one window, and the path of a call through them.
//!
//! All hooks of C programs are one hook of the job. For each window this hook keeps the layers that replaced
//! an entry, and the functions before them. A call goes to the highest layer that has the entry;
//! that layer continues to the next one through `host_rma_previous`.

use std::ffi::{c_int, c_void};

use host::win::{RmaTable, WinError, WinResult, Window};

use crate::base::error::{Error, guarded, last_text};
use crate::base::handles::place;
use crate::win::table::{
    HOST_RMA_ENTRIES, HOST_RMA_ROOM, HOST_RMA_TABLE_MAGIC, host_new_win_t, host_rma_call_t,
    host_rma_layer_t, host_rma_table_t, host_win_ended_fn,
};

/// A registered hook of the program.
#[derive(Clone, Copy)]
pub(crate) struct Hook {
    pub(crate) id: c_int,
    pub(crate) created:
        unsafe extern "C" fn(*const host_new_win_t, *mut host_rma_table_t, *mut c_void) -> c_int,
    pub(crate) ended: host_win_ended_fn,
    pub(crate) param: *mut c_void,
}

// SAFETY: the program that registers the hook guarantees that any thread may call its functions with `param`.
unsafe impl Send for Hook {}
// SAFETY: as for Send.
unsafe impl Sync for Hook {}

/// The layers of a window, the lowest first.
pub(crate) struct Layers {
    pub(crate) below: RmaTable,
    pub(crate) tables: Vec<host_rma_table_t>,
    /// The hooks that ran, whose `ended` is called at the end.
    pub(crate) ran: Vec<Hook>,
}

/// Calls the function before all layers, and writes its result to the call.
pub(crate) type Base<'f> = &'f dyn Fn(&RmaTable, &mut host_rma_call_t) -> WinResult<()>;

/// One call through the layers, behind `host_rma_layer_t`. The structure lies on the caller's stack and travels
/// with the call, so tasks that share a thread have one each.
struct Frame<'f> {
    layers: &'f Layers,
    entry: usize,
    /// Layers below the one that is being called.
    left: usize,
    base: Base<'f>,
}

impl Frame<'_> {
    /// Continues with the next layer.
    fn previous(&self, call: &mut host_rma_call_t) -> WinResult<()> {
        down(self.layers, self.left, self.entry, self.base, call)
    }
}

/// Whether a layer has its own entry at a place.
pub(crate) fn is_set(table: &host_rma_table_t, entry: usize) -> bool {
    let inherited = host_rma_previous as *const () as usize;
    table.entries[entry].is_some_and(|entry| entry as usize != inherited)
}

/// Calls the highest of the lowest `left` layers that has the entry, or the base.
fn down(
    layers: &Layers,
    left: usize,
    entry: usize,
    base: Base<'_>,
    call: &mut host_rma_call_t,
) -> WinResult<()> {
    let mut tables = layers.tables.iter().enumerate().take(left).rev();
    let found = tables.find(|(_, table)| is_set(table, entry));
    let Some((left, table)) = found else {
        return base(&layers.below, call);
    };
    let Some(function) = table.entries[entry] else {
        return Ok(());
    };
    let frame = Frame {
        layers,
        entry,
        left,
        base,
    };
    // SAFETY: the layer that set the table guarantees that the function is callable; frame and call live until it returns.
    let code = unsafe { function(table.data, (&raw const frame).cast(), call) };
    if code == 0 {
        return Ok(());
    }
    Err(Box::new(WinError::Layer {
        call: "a window's entry",
        code: code.min(-1),
        reason: last_text(),
    }))
}

/// Makes a call that came through the window's table. `call` has the arguments; afterwards it has the
/// results that entries wrote.
pub(crate) fn enter(
    window: &Window,
    mut call: host_rma_call_t,
    base: Base<'_>,
) -> WinResult<host_rma_call_t> {
    let Some(layers) = window.kept::<Layers>() else {
        return Err(Box::new(WinError::BadArgument {
            call: "a window's entry",
            reason: "the window keeps no layers".to_owned(),
        }));
    };
    let entry = call.entry;
    down(layers, layers.tables.len(), entry, base, &mut call)?;
    Ok(call)
}

/// The table that a hook gets.
pub(crate) fn inherited() -> host_rma_table_t {
    let mut entries = [None; HOST_RMA_ROOM];
    entries[..HOST_RMA_ENTRIES].fill(Some(host_rma_previous as _));
    host_rma_table_t {
        magic: HOST_RMA_TABLE_MAGIC,
        size: size_of::<host_rma_table_t>(),
        data: std::ptr::null_mut::<c_void>(),
        entries,
    }
}

/// Calls the function that an entry has replaced, with the arguments of the call. Only the fields of
/// the call that the entry must set are written.
///
/// # Safety
/// `layer` and `call` are NULL, or the arguments of an entry that has not returned. One thread at a
/// time calls with these arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rma_previous(
    _data: *mut c_void,
    layer: *const host_rma_layer_t,
    call: *mut host_rma_call_t,
) -> c_int {
    guarded(|| {
        let name = "host_rma_previous";
        // SAFETY: the caller guarantees the layer argument of an entry, which is a frame and lives
        // until the entry returns.
        let frame = unsafe { layer.cast::<Frame<'_>>().as_ref() };
        let frame = frame.ok_or_else(|| Error::argument(name, "the layer is NULL"))?;
        // SAFETY: passed on.
        let call = unsafe { place(name, call) }?;
        frame.previous(call)?;
        Ok(())
    })
}
