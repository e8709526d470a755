//! The responder: executes the commands of peers on the memory of this process.
//!
//! A *command* is an operation that the target's processor executes for an origin: a put, a get or an atomic. Carriers
//! bring commands and take the answers back: rings in shared memory (`sm`) between processes of one node, messages
//! (`fabric::msg`) between nodes, and for staged device memory the mailbox (`hmem`). All three call [`Responder`], so the
//! checks and the arithmetic exist once, for every carrier and every memory.
//!
//! **One lock.** Commands on host memory run under the locks of the transport's first context and of the region table;
//! commands on device memory (`device`) run under the lock of the table of device regions, because they call the user's
//! copy functions, which may take long. A region is in one of the two tables, so one thread at a time executes commands on
//! it. The provider may execute atomics of other peers on host memory at the same time, with other contexts or its own
//! threads (`peer::route` gives the reason why this is sound).
//!
//! If the owner of a region says that only atomics of its transport change the region's elements, and all these atomics are
//! commands, one thread changes the elements at a time. The responder then needs no atomic instruction
//! ([`Known::by_commands`]).
//!
//! The responder trusts no field of a command. A command names its region by the key and cookie of its handle. A command is
//! refused unless that region is registered here, contains all elements, and allows the operation. The region table is
//! locked during execution, so memory of a deregistered region is not accessed. The owner keeps registered memory mapped.

mod apply;
mod device;

use std::ptr;

use plugin_api::{Access, AtomicKind, AtomicOp, Datatype, Status};

pub(crate) use self::apply::{change_by_instructions, is_by_instructions};
use crate::base::access;
use crate::mem::regions::{Known, Regions};
use crate::mem::rights;
use crate::op::element::{self, Elements};

/// Command codes of transfers.
pub(crate) const PUT: u32 = 3 << 16;
pub(crate) const GET: u32 = 4 << 16;

/// The command code of a send: bytes for the target's host, with a tag in the field of the address. Carriers pass a
/// send to the host instead of the responder, because a send accesses no registered memory.
pub(crate) const SEND: u32 = 5 << 16;

/// The command code of a notification, which adds its operand to a 64-bit counter unless the put before it failed.
/// Carriers check the put, and pass the notification to the responder as [`COUNT`].
pub(crate) const NOTIFY: u32 = 6 << 16;

/// The command code of an apply operation ([`op::apply`](crate::op::apply)). The command's count
/// field holds the number of bytes that it [carries](crate::op::apply::Carried).
pub(crate) const APPLY: u32 = 7 << 16;

/// The command code of a notification's update.
pub(crate) const COUNT: u32 =
    (AtomicKind::Update as u32) << 16 | (Datatype::Uint64 as u32) << 8 | AtomicOp::Sum as u32;

/// The command code of an atomic, made from its kind and the codes of its type and operation.
#[inline]
pub(crate) fn what(kind: AtomicKind, datatype: u32, op: u32) -> u32 {
    (kind as u32) << 16 | datatype << 8 | op
}

/// The kind, type and operation of an atomic's command code; `None` if it cannot be executed.
pub(crate) fn decode(what: u32) -> Option<(AtomicKind, Datatype, AtomicOp)> {
    let kind = match what >> 16 {
        0 => AtomicKind::Update,
        1 => AtomicKind::Fetch,
        2 => AtomicKind::Compare,
        _ => return None,
    };
    let datatype = Datatype::try_from(what >> 8 & 0xff).ok()?;
    let op = AtomicOp::try_from(what & 0xff).ok()?;
    element::serves(kind, datatype, op).then_some((kind, datatype, op))
}

/// Whether a command returns data or old values.
pub(crate) fn returns(what: u32) -> bool {
    matches!(what >> 16, 1 | 2) || what == GET
}

/// A command without its operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    /// [`PUT`], [`GET`], or the command code of an atomic ([`what`]).
    pub(crate) what: u32,
    /// Number of elements; for a transfer, number of bytes.
    pub(crate) count: u32,
    /// Address of the first element in this process.
    pub(crate) address: u64,
    /// Key and cookie of the region's handle.
    pub(crate) key: u64,
    pub(crate) cookie: u64,
    /// The value to compare with.
    pub(crate) compare: u64,
}

/// A region of this process that a command names.
trait Target {
    /// Whether atomics change elements that are aligned to their size.
    const HAS_ATOMICS: bool;

    /// Checks that the region has `size` bytes at `address`.
    fn covers(&self, address: u64, size: u64) -> Result<(), Status>;

    /// The rights of peers.
    fn access(&self) -> Access;

    /// Whether only commands change elements of the region, so that no element changes during a command.
    fn is_by_commands(&self) -> bool;

    /// Writes `size` bytes to `address`.
    ///
    /// # Safety
    /// `from` is readable for `size` bytes and overlaps no memory that a command may name. The region covers the bytes and
    /// stays registered.
    unsafe fn put(&self, from: *const u8, address: u64, size: usize) -> Result<(), Status>;

    /// Reads `size` bytes at `address`.
    ///
    /// # Safety
    /// `to` is writable for `size` bytes and overlaps no memory that a command may name. The region covers the bytes and
    /// stays registered.
    unsafe fn get(&self, address: u64, to: *mut u8, size: usize) -> Result<(), Status>;

    /// Executes an atomic.
    ///
    /// # Safety
    /// The operands and results of `e` are valid, and its combination is [supported](element::serves). The region covers
    /// the aligned elements and stays registered.
    unsafe fn apply(&mut self, e: &Elements) -> Result<(), Status>;
}

/// Executes commands. Keeps the region of the last command, because the next command nearly always names the same region.
#[derive(Default)]
pub(crate) struct Responder {
    last: Option<(Known, u64)>,
    /// Copies of elements of device memory while these are changed, and copies of their old values. The buffer consists of
    /// words, so that elements of every type are aligned.
    copies: Vec<u64>,
}

impl Responder {
    /// The region of host memory that a command names; `None` if it is not registered.
    #[inline]
    fn find(&mut self, regions: &Regions, key: u64, cookie: u64) -> Option<&Known> {
        let is_last = self.last.as_ref().is_some_and(|(known, removals)| {
            *removals == regions.removals() && known.handle.is_named(key, cookie)
        });
        if !is_last {
            self.last = Some((named(regions, key, cookie)?, regions.removals()));
        }
        self.last.as_ref().map(|(known, _)| known)
    }

    /// The region of host memory that several puts name, which is looked up once for all of them. Otherwise the status
    /// with which these puts fail.
    #[inline]
    pub(crate) fn window(
        &mut self,
        regions: &Regions,
        key: u64,
        cookie: u64,
    ) -> Result<Window<'_>, Status> {
        let known = self.find(regions, key, cookie).ok_or(Status::PERM)?;
        if !rights::allow_transfer(known.access, true) {
            return Err(Status::PERM);
        }
        Ok(Window(Host { known }))
    }

    /// Executes a command on host memory. `here` returns memory of this many bytes: the data to write, the operands, or
    /// room for the data read. Old values replace the operands. The function returns `None` if there is no such memory.
    ///
    /// # Safety
    /// The memory that `here` returns is valid for reads and writes, aligned for the elements, and overlaps no memory that
    /// a command may name.
    #[inline]
    pub(crate) unsafe fn execute(
        &mut self,
        regions: &Regions,
        c: &Command,
        here: impl FnOnce(usize) -> Option<*mut u8>,
    ) -> Result<(), Status> {
        let known = self.find(regions, c.key, c.cookie).ok_or(Status::PERM)?;
        // SAFETY: the caller guarantees the place and has locked the region table, whose content it passes.
        unsafe { execute(&mut Host { known }, c, here) }
    }
}

/// Executes a command on the region that it names.
///
/// # Safety
/// The memory that `here` returns is valid for reads and writes, aligned for the elements, and overlaps no memory that a
/// command may name. The region stays registered.
#[inline]
unsafe fn execute(
    target: &mut impl Target,
    c: &Command,
    here: impl FnOnce(usize) -> Option<*mut u8>,
) -> Result<(), Status> {
    // SAFETY: the caller guarantees the place and the region.
    unsafe {
        match c.what {
            PUT => transfer(target, c, true, here),
            GET => transfer(target, c, false, here),
            _ => atomic(target, c, here),
        }
    }
}

/// Executes a put if `put`, otherwise a get.
///
/// # Safety
/// The conditions of [`execute`].
#[inline]
unsafe fn transfer(
    target: &mut impl Target,
    c: &Command,
    put: bool,
    here: impl FnOnce(usize) -> Option<*mut u8>,
) -> Result<(), Status> {
    if !rights::allow_transfer(target.access(), put) {
        return Err(Status::PERM);
    }
    let size = c.count as usize;
    target.covers(c.address, size as u64)?;
    let here = here(size).ok_or(Status::BAD_PARAM)?;
    // SAFETY: the caller guarantees the place and the region, which covers the bytes.
    unsafe {
        match put {
            true => target.put(here, c.address, size),
            false => target.get(c.address, here, size),
        }
    }
}

/// Executes an atomic.
///
/// # Safety
/// The conditions of [`execute`].
#[inline]
unsafe fn atomic(
    target: &mut impl Target,
    c: &Command,
    here: impl FnOnce(usize) -> Option<*mut u8>,
) -> Result<(), Status> {
    let (kind, datatype, op) = decode(c.what).ok_or(Status::BAD_PARAM)?;
    let count = c.count as usize;
    // This cannot overflow: a count has 32 bits, and an element has at most 8 bytes.
    let operands = here(count * datatype.size()).ok_or(Status::BAD_PARAM)?;
    let elements = Elements {
        datatype,
        op,
        count,
        at: ptr::with_exposed_provenance_mut(c.address as usize),
        operands,
        compare: c.compare,
        results: match kind {
            AtomicKind::Update => ptr::null_mut(),
            AtomicKind::Fetch | AtomicKind::Compare => operands,
        },
        alone: target.is_by_commands(),
    };
    // SAFETY: the caller guarantees the operands and the region. `decode` accepts only supported combinations.
    unsafe { apply(target, kind, &elements) }
}

/// Checks an atomic against a region, and executes it.
///
/// # Safety
/// `operands` and `results` are valid for the sizes in [`Elements`], and the combination is
/// [supported](element::serves). The region stays registered.
#[inline]
unsafe fn apply(target: &mut impl Target, kind: AtomicKind, e: &Elements) -> Result<(), Status> {
    let address = e.at as u64;
    target.covers(address, (e.count * e.datatype.size()) as u64)?;
    if !address.is_multiple_of(e.datatype.size() as u64) {
        return Err(Status::BAD_PARAM);
    }
    if !rights::allow_atomic(target.access(), kind, e.op) {
        return Err(Status::PERM);
    }
    // SAFETY: the caller guarantees operands, results, the combination and the region; the elements were checked.
    unsafe { target.apply(e) }
}

/// Executes an atomic on a live region of this process, if the region allows it.
///
/// # Safety
/// `operands` and `results` are valid for the sizes in [`Elements`], and the combination is [supported](element::serves).
/// The caller holds the lock of the region table.
pub(crate) unsafe fn perform(known: &Known, kind: AtomicKind, e: &Elements) -> Result<(), Status> {
    let mut host = Host { known };
    // SAFETY: the caller guarantees operands, results and combination, and holds the lock that keeps the region registered.
    unsafe { apply(&mut host, kind, e) }
}

/// Returns a copy of the live region with this key and cookie.
#[inline(never)]
fn named(regions: &Regions, key: u64, cookie: u64) -> Option<Known> {
    regions.find(key, cookie).copied()
}

/// A region of host memory that allows puts.
pub(crate) struct Window<'a>(Host<'a>);

impl Window<'_> {
    /// Executes a put if the region covers the bytes.
    ///
    /// # Safety
    /// `from` is readable for `size` bytes and overlaps no memory that a command may name. The caller has held the lock of
    /// the region table since [`Responder::window`].
    #[inline(always)]
    pub(crate) unsafe fn put(
        &self,
        from: *const u8,
        address: u64,
        size: usize,
    ) -> Result<(), Status> {
        self.0.covers(address, size as u64)?;
        // SAFETY: the caller guarantees `from`, and the lock that keeps the region registered; the region covers
        // the bytes.
        unsafe { self.0.put(from, address, size) }
    }
}

/// A live region of host memory.
struct Host<'a> {
    known: &'a Known,
}

impl Target for Host<'_> {
    const HAS_ATOMICS: bool = true;

    #[inline]
    fn covers(&self, address: u64, size: u64) -> Result<(), Status> {
        self.known.handle.spans(address, size)
    }

    #[inline]
    fn access(&self) -> Access {
        self.known.access
    }

    #[inline]
    fn is_by_commands(&self) -> bool {
        self.known.by_commands
    }

    #[inline]
    unsafe fn put(&self, from: *const u8, address: u64, size: usize) -> Result<(), Status> {
        let there = ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the caller guarantees that `from` is readable, and that the range lies in a registered region, which
        // its owner keeps mapped. The ranges do not overlap, because no command may name `from`.
        unsafe { access::put(from, there, size) };
        Ok(())
    }

    #[inline]
    unsafe fn get(&self, address: u64, to: *mut u8, size: usize) -> Result<(), Status> {
        let there = ptr::with_exposed_provenance(address as usize);
        // SAFETY: the caller guarantees that `to` is writable and that the range lies in a registered region, which its
        // owner keeps mapped. The ranges do not overlap, because no command may name `to`.
        unsafe { access::get(there, to, size) };
        Ok(())
    }

    #[inline]
    unsafe fn apply(&mut self, e: &Elements) -> Result<(), Status> {
        // SAFETY: the caller guarantees operands, results and combination; the elements are aligned and lie in a registered
        // region, which its owner keeps mapped.
        unsafe { element::apply(e) };
        Ok(())
    }
}
