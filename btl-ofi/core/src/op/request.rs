//! One description of a request, which a door makes and passes by reference to the code that
//! executes it.

use std::ffi::c_void;
use std::ptr;

use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags, TransferFlags};

use crate::mem::handle::Handle;
use crate::op::completion::Completion;
use crate::op::completion::Finished;
use crate::op::responder::{Command, GET, PUT};
use crate::op::tag::Tag;

/// The action of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Writes to the peer.
    Put,
    /// Reads from the peer.
    Get,
    /// Changes elements of the peer's memory, each atomically.
    Atomic {
        /// Update, fetch or compare.
        kind: AtomicKind,
        /// Type of the elements.
        datatype: Datatype,
        /// The operation on each element.
        op: AtomicOp,
        /// The value to compare with, in the low bytes.
        compare: u64,
    },
}

impl Action {
    /// Whether an atomic returns the old values.
    pub(crate) fn fetches(self) -> bool {
        matches!(self, Action::Atomic { kind, .. } if kind != AtomicKind::Update)
    }
}

/// Operands of an operation: one word, or a buffer.
#[derive(Clone, Copy)]
pub(crate) enum Operands {
    /// One element, in the low bytes.
    Value(u64),
    /// The caller's buffer; NULL for an operation that has no operands.
    Buffer(*const c_void),
}

/// A request for the target's processor, checked against its handle. Any carrier may take the request to the target.
/// Each carrier encodes the request in its own form.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) operands: Operands,
    /// Size in bytes of the operands and of the result.
    pub(crate) size: usize,
    /// Receives the bytes of a get or the old values of an atomic; NULL if no data comes back.
    pub(crate) result: *mut c_void,
}

impl Request {
    /// A put of `size` bytes from `local` if `put`, otherwise a get to `local`.
    #[inline(always)]
    pub(crate) fn transfer(
        put: bool,
        local: *mut c_void,
        remote: &Handle,
        address: u64,
        size: usize,
    ) -> Request {
        let none = ptr::null_mut();
        let (what, operands, result) = match put {
            true => (PUT, local, none),
            false => (GET, none, local),
        };
        Request {
            command: Command::on(remote, address, what, size),
            operands: Operands::Buffer(operands),
            size,
            result,
        }
    }
}

/// An atomic that was checked against its handle, for the target's processor or for the provider.
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    pub(crate) request: Request,
    /// The provider's address of the first element.
    pub(crate) target: u64,
}

impl Atomic {
    /// Whether the atomic is a compare-and-swap.
    pub(crate) fn compares(&self) -> bool {
        self.request.command.what >> 16 == AtomicKind::Compare as u32
    }

    /// The codes of the atomic's type and operation.
    pub(crate) fn codes(&self) -> (u32, u32) {
        let what = self.request.command.what;
        (what >> 8 & 0xff, what & 0xff)
    }
}

impl Command {
    /// A command on `count` elements or bytes of a region.
    #[inline(always)]
    pub(crate) fn on(remote: &Handle, address: u64, what: u32, count: usize) -> Command {
        Command {
            what,
            count: count as u32,
            address,
            key: remote.key(),
            cookie: remote.cookie(),
            compare: 0,
        }
    }
}

/// A buffer of this process, and its handle if the buffer was registered; NULL without a handle.
pub(crate) type Buffer = (*mut c_void, *mut plugin_api::Handle);

/// No buffer.
pub(crate) const NOWHERE: Buffer = (ptr::null_mut(), ptr::null_mut());

/// The notification of a put: an addition to a counter at the target, once the put's bytes are
/// visible there.
#[derive(Clone, Copy)]
pub struct Notice<'a> {
    /// The region of the counter, which is host memory.
    pub counter: &'a Handle,
    /// The counter's address in the region. The counter has 64 bits and is aligned.
    pub address: u64,
    /// The value that is added to the counter.
    pub add: u64,
}

/// A request of one operation. [`Transport::submit`](crate::Transport::submit) executes it.
#[derive(Clone, Copy)]
pub struct Op<'a> {
    pub(crate) action: Action,
    /// The peer's region, and the address of the first byte in the peer's address space.
    pub(crate) remote: &'a Handle,
    pub(crate) address: u64,
    /// Size in bytes of the transfer, or of the elements.
    pub(crate) size: usize,
    /// Source of a put, destination of a get, operands of an atomic; NULL if the operand is passed
    /// by value.
    pub(crate) local: *mut c_void,
    pub(crate) local_handle: *mut plugin_api::Handle,
    /// The operand, if the caller passes it by value.
    pub(crate) value: Option<u64>,
    /// Destination of the old values of an atomic.
    pub(crate) result: *mut c_void,
    pub(crate) result_handle: *mut plugin_api::Handle,
    pub(crate) completion: Option<Completion>,
    /// Flags of a put or get.
    pub(crate) flags: TransferFlags,
    /// Whether an atomic must follow all earlier operations to the peer ([`OpFlags::FENCE`]), and whether none of these may
    /// use a local buffer ([`OpFlags::COPIED`]).
    pub(crate) is_fenced: bool,
    pub(crate) are_copied: bool,
    /// Whether nobody waits for an atomic and for the operations before it ([`OpFlags::UNAWAITED`]).
    pub(crate) is_unawaited: bool,
}

impl<'a> Op<'a> {
    /// A put of `size` bytes from `local`, which is readable until completion.
    pub fn put(remote: &'a Handle, address: u64, local: Buffer, size: usize) -> Op<'a> {
        Op::new(Action::Put, (remote, address), size, local, NOWHERE)
    }

    /// A get of `size` bytes to `local`, which is writable until completion.
    pub fn get(remote: &'a Handle, address: u64, local: Buffer, size: usize) -> Op<'a> {
        Op::new(Action::Get, (remote, address), size, local, NOWHERE)
    }

    /// An atomic on `count` elements at `address`. `operands` must stay readable and `results` writable until
    /// completion. For an update, `results` is `None`; for a read, `operands` is NULL.
    pub fn atomic(
        (kind, datatype, op): (AtomicKind, Datatype, AtomicOp),
        (remote, address): (&'a Handle, u64),
        count: usize,
        operands: Buffer,
        results: Option<Buffer>,
    ) -> Op<'a> {
        let action = Action::Atomic {
            kind,
            datatype,
            op,
            compare: 0,
        };
        let size = count.saturating_mul(datatype.size());
        let results = results.unwrap_or(NOWHERE);
        Op::new(action, (remote, address), size, operands, results)
    }

    /// A compare-and-swap of one element: writes `value` if it equals `compare`. Both values are in the low bytes,
    /// and are copied.
    pub fn swap(
        datatype: Datatype,
        (remote, address): (&'a Handle, u64),
        (compare, value): (u64, u64),
        result: Buffer,
    ) -> Op<'a> {
        let action = Action::Atomic {
            kind: AtomicKind::Compare,
            datatype,
            op: AtomicOp::Cswap,
            compare,
        };
        Op::new(action, (remote, address), datatype.size(), NOWHERE, result).with_value(value)
    }

    /// The BTL's atomic on one word: an update or, with a `result`, a fetch. The operand is copied.
    pub fn word(
        (op, flags): (BtlAtomicOp, OpFlags),
        target: (&'a Handle, u64),
        operand: u64,
        result: Option<Buffer>,
    ) -> Op<'a> {
        let (datatype, op) = typed(op, flags);
        let kind = match result {
            Some(_) => AtomicKind::Fetch,
            None => AtomicKind::Update,
        };
        Op {
            is_fenced: flags.intersects(OpFlags::FENCE | OpFlags::COPIED),
            are_copied: flags.contains(OpFlags::COPIED),
            is_unawaited: flags.contains(OpFlags::UNAWAITED),
            ..Op::atomic((kind, datatype, op), target, 1, NOWHERE, result).with_value(operand)
        }
    }

    /// The BTL's compare-and-swap of one word.
    pub fn swap_word(
        flags: OpFlags,
        target: (&'a Handle, u64),
        values: (u64, u64),
        result: Buffer,
    ) -> Op<'a> {
        Op {
            is_fenced: flags.contains(OpFlags::FENCE),
            ..Op::swap(swapped(flags), target, values, result)
        }
    }

    /// The same request with a callback that reports its completion; `None` for no callback.
    #[must_use]
    pub fn with_completion(self, completion: Option<Completion>) -> Op<'a> {
        Op { completion, ..self }
    }

    /// The same put or get, with flags.
    #[must_use]
    pub fn with_flags(self, flags: TransferFlags) -> Op<'a> {
        Op { flags, ..self }
    }

    /// Whether the target's processor must check the remote handle, because its registration may have ended.
    #[inline(always)]
    pub(crate) fn is_checked(&self) -> bool {
        self.flags.contains(TransferFlags::CHECKED)
    }

    fn with_value(self, value: u64) -> Op<'a> {
        Op {
            value: Some(value),
            ..self
        }
    }

    fn new(
        action: Action,
        (remote, address): (&'a Handle, u64),
        size: usize,
        (local, local_handle): Buffer,
        (result, result_handle): Buffer,
    ) -> Op<'a> {
        Op {
            action,
            remote,
            address,
            size,
            local,
            local_handle,
            value: None,
            result,
            result_handle,
            completion: None,
            flags: TransferFlags::empty(),
            is_fenced: false,
            are_copied: false,
            is_unawaited: false,
        }
    }
}

/// The type and operation of a BTL atomic. The BTL passes no signedness; minimum and maximum treat words as
/// signed.
#[inline]
pub(crate) fn typed(op: BtlAtomicOp, flags: OpFlags) -> (Datatype, AtomicOp) {
    let typed = match op {
        BtlAtomicOp::Add => AtomicOp::Sum,
        BtlAtomicOp::And => AtomicOp::Band,
        BtlAtomicOp::Or => AtomicOp::Bor,
        BtlAtomicOp::Xor => AtomicOp::Bxor,
        BtlAtomicOp::Land => AtomicOp::Land,
        BtlAtomicOp::Lor => AtomicOp::Lor,
        BtlAtomicOp::Lxor => AtomicOp::Lxor,
        BtlAtomicOp::Swap => AtomicOp::Write,
        BtlAtomicOp::Min => AtomicOp::Min,
        BtlAtomicOp::Max => AtomicOp::Max,
    };
    let signed = matches!(op, BtlAtomicOp::Min | BtlAtomicOp::Max);
    let (narrow, float) = (
        flags.contains(OpFlags::WORD_32),
        flags.contains(OpFlags::FLOAT),
    );
    let datatype = match (float, narrow, signed) {
        (true, true, _) => Datatype::Float,
        (true, false, _) => Datatype::Double,
        (false, true, true) => Datatype::Int32,
        (false, true, false) => Datatype::Uint32,
        (false, false, true) => Datatype::Int64,
        (false, false, false) => Datatype::Uint64,
    };
    (datatype, typed)
}

/// The type of a BTL compare-and-swap.
#[inline]
pub(crate) fn swapped(flags: OpFlags) -> Datatype {
    if flags.contains(OpFlags::WORD_32) {
        Datatype::Uint32
    } else {
        Datatype::Uint64
    }
}

/// The caller's data of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) completion: Option<Completion>,
    pub(crate) local_address: *mut c_void,
    pub(crate) local_handle: *mut plugin_api::Handle,
}

impl Caller {
    /// The caller's data of an operation whose local buffer has no handle.
    #[inline(always)]
    pub(crate) fn plain(completion: Option<Completion>, local_address: *mut c_void) -> Caller {
        Caller {
            completion,
            local_address,
            local_handle: ptr::null_mut(),
        }
    }

    /// The caller's data of a request. A completion names the buffer that receives data or, without one, the local
    /// buffer.
    pub(crate) fn of(op: &Op<'_>) -> Caller {
        let (local_address, local_handle) = match op.result.is_null() {
            true => (op.local, op.local_handle),
            false => (op.result, op.result_handle),
        };
        Caller {
            completion: op.completion,
            local_address,
            local_handle,
        }
    }

    /// The data with which the operation's completion is reported.
    #[inline]
    pub(crate) fn finished(&self, tag: Tag) -> Finished {
        Finished {
            tag,
            function: self.completion.map(|c| c.function),
            context: self.completion.map_or(ptr::null_mut(), |c| c.context),
            data: self.completion.map_or(ptr::null_mut(), |c| c.data),
            local_address: self.local_address,
            local_handle: self.local_handle,
        }
    }
}
