//! What the rights of a region allow. Asked twice: by the origin, of the handle, before it does anything; and by the
//! target, of its registration, wherever the target makes the operation.

use plugin_api::{Access, AtomicKind, AtomicOp};

/// The rights that peers may have. [`Access::LOCAL_WRITE`] is none of theirs.
pub(crate) const REMOTE: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// The rights of peers that a registration gives, with what follows from them: memory that peers may read and write,
/// they may also update atomically.
pub(crate) fn of(access: Access) -> Access {
    let remote = access & REMOTE;
    if remote.contains(Access::REMOTE_READ | Access::REMOTE_WRITE) {
        return REMOTE;
    }
    remote
}

/// Whether peers may do this to a region; as libfabric's providers judge it.
#[inline]
pub(crate) fn allow_atomic(access: Access, kind: AtomicKind, op: AtomicOp) -> bool {
    if access.contains(Access::REMOTE_ATOMIC) {
        return true;
    }
    let needed = match (kind, op) {
        (_, AtomicOp::Read) => Access::REMOTE_READ,
        (AtomicKind::Update, _) => Access::REMOTE_WRITE,
        _ => Access::REMOTE_READ | Access::REMOTE_WRITE,
    };
    access.contains(needed)
}

/// Whether a region with this access takes puts, or gets.
#[inline]
pub(crate) fn allow_transfer(access: Access, put: bool) -> bool {
    access.contains(if put {
        Access::REMOTE_WRITE
    } else {
        Access::REMOTE_READ
    })
}

/// The kind of an atomic of which only its operation is known, and whether it fetches.
pub(crate) fn kind_of(op: AtomicOp, fetches: bool) -> AtomicKind {
    match (op, fetches) {
        (AtomicOp::Cswap, _) => AtomicKind::Compare,
        (_, true) => AtomicKind::Fetch,
        (_, false) => AtomicKind::Update,
    }
}
