//! The rights of a region, and the operations that they allow. The origin checks the handle before it starts an
//! operation. The target checks its own registration when the target executes the operation.

use plugin_api::{Access, AtomicKind, AtomicOp};

/// The rights that concern peers. [`Access::LOCAL_WRITE`] is not one of these rights.
pub(crate) const REMOTE: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// The rights of peers under a registration, including implied rights: peers may also atomically update memory
/// that they may read and write.
pub(crate) fn of(access: Access) -> Access {
    let remote = access & REMOTE;
    if remote.contains(Access::REMOTE_READ | Access::REMOTE_WRITE) {
        return REMOTE;
    }
    remote
}

/// Whether a region with this access allows the atomic. libfabric's providers use the same rule.
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

/// Whether a region with this access allows puts (`put`) or gets.
#[inline]
pub(crate) fn allow_transfer(access: Access, put: bool) -> bool {
    access.contains(if put {
        Access::REMOTE_WRITE
    } else {
        Access::REMOTE_READ
    })
}
