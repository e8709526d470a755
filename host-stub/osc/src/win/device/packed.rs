//! A call's buffers on a device, or in several places, packed in host memory. The packed memory belongs to the operation: the
//! call returns while the operation is outstanding, and the fetched bytes are unpacked when all its pieces have ended.

use plugin_api::Status;

use crate::transport::Transport;
use crate::win::bounce::{Bounce, Counted};
use crate::win::device::device_copy::{Elements, Way, copy};
use crate::win::error::{WinError, WinResult};
use crate::win::layout::Layout;
use crate::win::op::{Kind, RmaOp};
use crate::win::window::Window;

/// Maximum packed bytes of a window's operations under way: a call beyond this waits for earlier
/// operations.
const MOST: usize = 64 << 20;

/// The elements of a device buffer in host memory, one after the other.
struct Packed {
    bounce: Bounce,
    elements: Elements,
    _counted: Counted,
}

impl Packed {
    /// Host memory with room for a buffer's elements; with the elements, if the call reads them.
    ///
    /// # Safety
    /// The buffer is valid for its layout.
    unsafe fn new(
        window: &Window,
        call: &'static str,
        elements: Elements,
        filled: bool,
    ) -> WinResult<Packed> {
        let layout = elements.layout();
        let counted = window.parts.packed.count(layout.bytes());
        let mut bounce = Bounce::new(layout.bytes());
        if filled {
            let bytes = &mut bounce.bytes_mut()[..layout.bytes()];
            let transport = &window.link.transport;
            // SAFETY: the caller guarantees the buffer.
            unsafe { copy(transport, call, &elements, Way::From(bytes)) }?;
        }
        Ok(Packed {
            bounce,
            elements,
            _counted: counted,
        })
    }
}

/// The packed buffers of one call.
pub(in crate::win) struct PackedBuffers {
    transport: Transport,
    call: &'static str,
    kind: Kind,
    origin: Option<Packed>,
    compare: Option<Packed>,
    result: Option<Packed>,
}

/// The layouts of packed buffers, which lie on the stack of the call.
pub(in crate::win) struct Rows {
    origin: Layout,
    result: Option<Layout>,
}

impl Rows {
    pub(in crate::win) fn of(op: &RmaOp<'_>) -> Rows {
        let row = |layout: &Layout| Layout::contiguous(layout.datatype(), layout.count());
        Rows {
            origin: row(op.layout),
            result: op.result_layout.map(row),
        }
    }
}

impl PackedBuffers {
    /// Packs the given buffers of a call. Waits for earlier operations if too many bytes are packed.
    ///
    /// # Safety
    /// The buffers are valid for their layouts until the operation is complete.
    pub(in crate::win) unsafe fn new(
        window: &Window,
        op: &RmaOp<'_>,
        [origin, compare, result]: [Option<Elements>; 3],
    ) -> WinResult<PackedBuffers> {
        window.bound_packed(op.call)?;
        let pack = |elements: Option<Elements>, filled| {
            // SAFETY: the caller guarantees the buffers.
            let pack = |elements| unsafe { Packed::new(window, op.call, elements, filled) };
            elements.map(pack).transpose()
        };
        Ok(PackedBuffers {
            transport: window.link.transport.clone(),
            call: op.call,
            kind: op.kind,
            origin: pack(origin, op.kind != Kind::Get)?,
            compare: pack(compare, true)?,
            result: pack(result, false)?,
        })
    }

    /// The call with packed memory in place of its buffers.
    pub(in crate::win) fn stand_in<'a>(&mut self, mut op: RmaOp<'a>, rows: &'a Rows) -> RmaOp<'a> {
        if let Some(origin) = &mut self.origin {
            (op.origin, op.layout) = (origin.bounce.as_mut_ptr(), &rows.origin);
        }
        if let Some(compare) = &mut self.compare {
            op.compare = compare.bounce.as_mut_ptr();
        }
        if let Some(result) = &mut self.result {
            op.result = result.bounce.as_mut_ptr();
            op.result_layout = rows.result.as_ref();
        }
        if op.layout.is_absolute() {
            // For a call that reads nothing from its origin.
            op.layout = &rows.origin;
        }
        op
    }

    /// Unpacks the fetched bytes after nothing uses the packed memory. Takes the status of the operation, and returns the
    /// status of operation and copy together.
    ///
    /// # Safety
    /// The buffers are valid for their layouts.
    pub(in crate::win) unsafe fn end(self, status: i32) -> i32 {
        let fetched = match self.kind {
            Kind::Get => self.origin,
            _ => self.result,
        };
        let Some(mut packed) = fetched.filter(|_| status >= 0) else {
            return status;
        };
        let elements = &packed.elements;
        let bytes = &packed.bounce.bytes_mut()[..elements.layout().bytes()];
        // SAFETY: the caller guarantees the buffer.
        match unsafe { copy(&self.transport, self.call, elements, Way::To(bytes)) } {
            Ok(()) => status,
            Err(error) => {
                tracing::error!("{error}");
                status_of(&error).0
            }
        }
    }
}

/// The status that a request or a flush reports for a copy that failed after its call had returned.
fn status_of(error: &WinError) -> Status {
    let unknown = -i64::from(libc::ENOSYS);
    match error {
        WinError::DeviceCopy { answer, .. } if *answer == unknown => Status::NOT_SUPPORTED,
        _ => Status::ERROR,
    }
}

impl Window {
    /// Waits for the operations under way if they have too many bytes packed.
    fn bound_packed(&self, call: &'static str) -> WinResult<()> {
        if self.parts.packed.now() < MOST {
            return Ok(());
        }
        self.each_busy(|peer| {
            self.wait_transfers(call, peer)?;
            self.wait_accumulates(call, peer)
        })
    }
}
