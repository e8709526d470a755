//! The responder: executes the commands of peers on the memory of this process.
//!
//! A *command* is what the target's processor does for an origin: a put, a get or an atomic. Carriers bring commands and
//! take the answers back: rings in shared memory (`sm`) between processes of one node, messages (`fabric::msg`) between
//! nodes. Each has a responder. Both run under the lock of the transport's first context, so one thread executes at a
//! time. The provider may execute atomics of other peers at the same time, with other contexts or
//! threads of its own (`peer::route` says why that is sound).
//!
//! The responder trusts no field of a command. A command names its region by the key and cookie of its handle. It is
//! refused unless that region is registered here, contains all elements, and allows the operation. The region table is
//! locked during execution, so memory of a deregistered region is not accessed. An access to unmapped memory of a region
//! is an error (`base::guard`).

use plugin_api::{AtomicKind, AtomicOp, Datatype, Status};

use crate::base::guard::Reach;
use crate::mem::regions::{Known, Regions};
use crate::mem::rights;
use crate::op::element::{self, Elements};

/// Codes of transfers.
pub(crate) const PUT: u32 = 3 << 16;
pub(crate) const GET: u32 = 4 << 16;

/// The code of a send: bytes for the target's host, with a tag in the place of the address. Carriers hand it to the host
/// and not to the responder, because it concerns no memory.
pub(crate) const SEND: u32 = 5 << 16;

/// The code of an atomic, from the codes of its type and operation.
#[inline]
pub(crate) fn what(kind: AtomicKind, datatype: u32, op: u32) -> u32 {
    (kind as u32) << 16 | datatype << 8 | op
}

/// The kind, type and operation of an atomic's code, if it can be executed.
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

/// A command, without its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// [`PUT`], [`GET`], or the code of an atomic ([`what`]).
    pub(crate) what: u32,
    /// Number of elements; of a transfer, number of bytes.
    pub(crate) count: u32,
    /// Address of the first element in this process.
    pub(crate) address: u64,
    /// Key and cookie of the region's handle.
    pub(crate) key: u64,
    pub(crate) cookie: u64,
    /// The value to compare with.
    pub(crate) compare: u64,
}

/// Executes commands. Remembers the region of the last command; the next command nearly always names the
/// same one.
#[derive(Default)]
pub(crate) struct Responder(Option<(Known, u64)>);

impl Responder {
    /// The region that a command names, if it is registered.
    #[inline]
    fn find(&mut self, regions: &Regions, key: u64, cookie: u64) -> Option<Known> {
        if let Some((known, removals)) = &self.0
            && *removals == regions.removals()
            && known.handle.is_named(key, cookie)
        {
            return Some(*known);
        }
        let known = *regions
            .find(key)
            .filter(|k| k.handle.is_named(key, cookie))?;
        self.0 = Some((known, regions.removals()));
        Some(known)
    }

    /// Executes an atomic. `operands` returns the place of this many bytes: the operands, which the old values replace if
    /// the atomic fetches; `None` if there is no such place.
    ///
    /// # Safety
    /// What `operands` returns is valid for reads and writes, and aligned for the elements.
    #[inline]
    pub(crate) unsafe fn atomic(
        &mut self,
        regions: &Regions,
        c: &Command,
        operands: impl FnOnce(usize) -> Option<*mut u8>,
    ) -> Result<(), Status> {
        let (kind, datatype, op) = decode(c.what).ok_or(Status::BAD_PARAM)?;
        let known = self.find(regions, c.key, c.cookie).ok_or(Status::PERM)?;
        let count = c.count as usize;
        // No overflow: a count has 32 bits, an element at most 8 bytes.
        let operands = operands(count * datatype.size()).ok_or(Status::BAD_PARAM)?;
        let elements = Elements {
            datatype,
            op,
            count,
            at: std::ptr::with_exposed_provenance_mut(c.address as usize),
            operands,
            compare: c.compare,
            results: match kind {
                AtomicKind::Update => std::ptr::null_mut(),
                AtomicKind::Fetch | AtomicKind::Compare => operands,
            },
        };
        // SAFETY: the caller guarantees the operands and has locked the region table, whose content it passes.
        unsafe { perform(&known, regions.reach(), kind, &elements) }
    }

    /// Executes a put, or a get if not `put`. `here` returns the place of this many bytes: the data to write, or where the
    /// data read goes; `None` if there is no such place.
    ///
    /// # Safety
    /// What `here` returns is valid for reads and writes, and is no memory that peers reach.
    #[inline]
    pub(crate) unsafe fn transfer(
        &mut self,
        regions: &Regions,
        c: &Command,
        put: bool,
        here: impl FnOnce(usize) -> Option<*mut u8>,
    ) -> Result<(), Status> {
        let known = self.find(regions, c.key, c.cookie).ok_or(Status::PERM)?;
        if !rights::allow_transfer(known.access, put) {
            return Err(Status::PERM);
        }
        let size = c.count as usize;
        known.handle.covers(c.address, size as u64)?;
        let here = here(size).ok_or(Status::BAD_PARAM)?;
        let there: *mut u8 = std::ptr::with_exposed_provenance_mut(c.address as usize);
        let reach = regions.reach();
        // SAFETY: `there` lies in a registered region, and the caller holds the lock of the region table, so the memory,
        // if mapped, belongs to that region's owner. The caller guarantees `here`.
        unsafe {
            if put {
                reach.put(here, there, size)
            } else {
                reach.get(there, here, size)
            }
        }
    }
}

/// Executes an atomic on a region of this process, if the region allows it.
///
/// # Safety
/// `operands` and `results` are valid for the sizes that [`Elements`] states. The caller holds the lock of the region
/// table.
#[inline]
pub(crate) unsafe fn perform(
    known: &Known,
    reach: Reach,
    kind: AtomicKind,
    e: &Elements,
) -> Result<(), Status> {
    let address = e.at as u64;
    let size = e.count * e.datatype.size();
    known.handle.covers(address, size as u64)?;
    if !address.is_multiple_of(e.datatype.size() as u64) {
        return Err(Status::BAD_PARAM);
    }
    if !rights::allow_atomic(known.access, kind, e.op) {
        return Err(Status::PERM);
    }
    reach.expect(e.at, size, e.op != AtomicOp::Read)?;
    // SAFETY: the elements lie in a registered region and the lock of the region table is held, so the memory, if
    // mapped, belongs to that region's owner. The elements are aligned. `decode` or the transport's table let
    // only combinations through that `serves` accepts. The caller guarantees that `operands` and `results` are valid.
    Ok(unsafe { element::apply(e) }?)
}
