//! Registration handles. This module alone checks a remote address and translates it into the address that the
//! provider takes.

use std::ffi::c_void;

use plugin_api::{Access, Status};

use crate::base::hints::branch;
use crate::mem::rights;

/// Maximum rails of a process. A rail is an interface over which it makes large transfers.
pub(crate) const MAX_RAILS: usize = 4;
/// The provider's keys of a region on the rails beyond the first; [`NO_KEY`] on a rail without a registration.
pub(crate) type RailKeys = [u64; MAX_RAILS - 1];
/// No key: libfabric's FI_KEY_NOTAVAIL.
pub(crate) const NO_KEY: u64 = u64::MAX;
/// The keys of a region that is registered only on the first rail.
pub(crate) const NO_RAILS: RailKeys = [NO_KEY; MAX_RAILS - 1];

/// The data that a peer needs to reach a registered region: 56 plain bytes with the same meaning in every process.
/// Hosts copy handles anywhere, so their alignment is arbitrary, and every copy is checked before use.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// First byte of the region in the owner's address space.
    base: u64,
    /// Bytes of the region.
    length: u64,
    /// The provider's key.
    key: u64,
    /// Upper half: a cookie ([`LIVE`], [`SHARED`], [`DIRECT`] or [`STAGED`]) and the rights of peers. Lower half: the
    /// generation, a number that distinguishes registrations with the same key. The field is 0 after the region is
    /// deregistered.
    cookie: u64,
    rails: RailKeys,
}

const _: () = assert!(Handle::SIZE == 56 && Handle::SIZE.is_multiple_of(8) && Handle::SIZE <= 256);

/// The cookie of host memory. Cookies have no bit in common with [`RIGHTS`], and any two cookies differ in more than one
/// bit. No cookie equals one of the layout without rights (0x4f464948, 0x4f464944 and 0x4f464953).
const LIVE: u64 = 0x4f46_4c10 << 32;
/// The cookie of host memory that local peers may map (`mem::shared`).
const SHARED: u64 = 0x4f46_4e80 << 32;
/// The cookie of device memory that the provider accesses itself.
const DIRECT: u64 = 0x4f46_4421 << 32;
/// The cookie of device memory that its owner's responder accesses. Base, length and key are those of the owner's
/// mailbox. The upper half of the length holds the generation of the mailbox's handle.
const STAGED: u64 = 0x4f46_5340 << 32;
/// The half of the field that holds the cookie and the rights.
const UPPER: u64 = u64::MAX << 32;
/// The bits of peers' rights: the bits of [`Access`] that [`rights::of`] returns.
const RIGHTS: u64 = (rights::REMOTE.bits() as u64) << 32;
/// The bits of the cookie, which give the kind of handle.
const KIND: u64 = UPPER & !RIGHTS;
/// Cookie and rights of host memory that allows its peers every access.
const OPEN: u64 = LIVE | RIGHTS;

const _: () = assert!((LIVE | SHARED | DIRECT | STAGED) & !KIND == 0);

/// The provider's name of a byte in a peer's region: an address or offset, and the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: u64,
    pub(crate) key: u64,
}

impl Handle {
    /// Size of a handle in bytes.
    pub const SIZE: usize = size_of::<Handle>();

    /// The handle of a region of host memory.
    pub(crate) fn new(base: u64, length: u64, key: u64, access: Access, generation: u32) -> Handle {
        Handle {
            base,
            length,
            key,
            cookie: LIVE | rights_of(access) | u64::from(generation),
            rails: NO_RAILS,
        }
    }

    /// The same handle, with the keys of the region on further rails.
    pub(crate) fn with_rails(self, rails: RailKeys) -> Handle {
        Handle { rails, ..self }
    }

    /// The region's key on the rail with this number beyond the first; `None` if the region is not
    /// registered there.
    pub(crate) fn rail_key(&self, rail: usize) -> Option<u64> {
        let rails = self.rails;
        rails.get(rail).copied().filter(|key| *key != NO_KEY)
    }

    /// The handle of the same region, with a cookie that lets local peers map it.
    pub(crate) fn shared(self) -> Handle {
        Handle {
            cookie: self.cookie & !KIND | SHARED,
            ..self
        }
    }

    /// Whether this is host memory that local peers may map.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.cookie & KIND == SHARED
    }

    /// The handle of the same region, as device memory that the provider accesses itself.
    pub(crate) fn direct(self) -> Handle {
        Handle {
            cookie: self.cookie & !KIND | DIRECT,
            ..self
        }
    }

    /// The handle of device memory that peers reach through its owner's mailbox. `mailbox` allows every access;
    /// `access` applies to the device memory.
    pub(crate) fn staged(mailbox: &Handle, access: Access, generation: u32) -> Handle {
        Handle {
            // A mailbox is far shorter than 4 GiB. So the upper half of its length has room for its generation, which
            // its owner checks.
            length: mailbox.length & !UPPER | u64::from(mailbox.generation()) << 32,
            cookie: STAGED | rights_of(access) | u64::from(generation),
            ..*mailbox
        }
    }

    /// The equivalent handle of host memory: the handle of the same bytes, or of the mailbox of a staged handle.
    pub(crate) fn as_live(&self) -> Handle {
        if self.is_staged() {
            return Handle {
                length: self.length & !UPPER,
                cookie: OPEN | self.length >> 32,
                ..*self
            };
        }
        Handle {
            cookie: self.cookie & !KIND | LIVE,
            ..*self
        }
    }

    /// Whether this is device memory that the provider accesses itself.
    pub(crate) fn is_direct(&self) -> bool {
        self.cookie & KIND == DIRECT
    }

    /// Whether this is device memory that peers reach through its owner's mailbox.
    pub(crate) fn is_staged(&self) -> bool {
        self.cookie & KIND == STAGED
    }

    /// Whether this is device memory of either kind.
    pub(crate) fn is_device(&self) -> bool {
        self.is_direct() || self.is_staged()
    }

    /// The equivalent handle of host memory, for memory that the provider reaches.
    ///
    /// # Errors
    /// `BAD_PARAM` for a staged handle, and for bytes that are no live handle.
    pub(crate) fn as_host(&self) -> Result<Handle, Status> {
        if self.is_live() || self.is_direct() {
            Ok(self.as_live())
        } else {
            Err(Status::BAD_PARAM)
        }
    }

    /// The rights of peers. Meaningless if the bytes are no handle.
    #[inline]
    pub(crate) fn access(&self) -> Access {
        Access::from_bits_retain(((self.cookie & RIGHTS) >> 32) as u32)
    }

    /// The number that distinguishes registrations with the same key.
    pub(crate) fn generation(&self) -> u32 {
        self.cookie as u32
    }

    /// Zero bytes, which are no valid handle.
    pub const fn vacant() -> Handle {
        Handle {
            base: 0,
            length: 0,
            key: 0,
            cookie: 0,
            rails: NO_RAILS,
        }
    }

    /// Whether these bytes are a handle of host memory that was not deregistered as far as this copy shows.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.is_open() || self.cookie & KIND == LIVE || self.is_shared()
    }

    /// Whether these bytes are a live handle of host memory that allows its peers every access, and that no peer may map.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.cookie & UPPER == OPEN
    }

    /// Marks these bytes as deregistered.
    pub fn retire(&mut self) {
        self.cookie = 0;
    }

    /// First byte of the region in the owner's address space.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of the region.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The provider's key.
    #[inline]
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// The cookie field: cookie, rights and generation. The field distinguishes this registration from others with the
    /// same key.
    #[inline]
    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Whether this is a live handle with this key and cookie field.
    #[inline]
    pub(crate) fn is_named(&self, key: u64, cookie: u64) -> bool {
        self.key == key && self.cookie == cookie && self.is_live()
    }

    /// Checks that `size` bytes at the owner's virtual address `address` lie inside the region, and translates the
    /// address. The result is an address if the provider uses virtual addresses, otherwise an offset from the base.
    ///
    /// # Errors
    /// `BAD_PARAM` if this is no live handle of host memory, `VALUE_OUT_OF_BOUNDS` if the bytes do not lie inside
    /// the region.
    #[inline(always)]
    pub(crate) fn target(
        &self,
        address: u64,
        size: u64,
        virtual_addresses: bool,
    ) -> Result<Target, Status> {
        if !self.is_live() {
            return Err(Status::BAD_PARAM);
        }
        self.within(address, size, virtual_addresses)
    }

    /// [`target`](Self::target) for the fast path. One comparison recognizes a region that allows its peers every access.
    /// Returns `None` for any other region and for an access out of bounds; the slow path then checks rights and bounds.
    /// Also returns `None` for regions that peers may map.
    #[inline(always)]
    pub(crate) fn open_target(
        &self,
        address: u64,
        size: u64,
        virtual_addresses: bool,
    ) -> Option<Target> {
        if !self.is_open() {
            return None;
        }
        self.within(address, size, virtual_addresses).ok()
    }

    /// [`open_target`](Self::open_target) of a transfer from or to `local`. Also returns `None` if the transfer has no
    /// bytes, or more than `limit` bytes.
    #[inline(always)]
    pub(crate) fn open_transfer(
        &self,
        address: u64,
        (local, size): (*mut c_void, usize),
        limit: usize,
        virtual_addresses: bool,
    ) -> Option<Target> {
        branch();
        // The subtraction wraps, so that zero bytes also fail this check.
        if size.wrapping_sub(1) >= limit {
            return None;
        }
        branch();
        if local.is_null() {
            return None;
        }
        branch();
        if !self.is_open() {
            return None;
        }
        self.within(address, size as u64, virtual_addresses).ok()
    }

    /// [`target`](Self::target) of a handle that is known to be live.
    #[inline(always)]
    fn within(&self, address: u64, size: u64, virtual_addresses: bool) -> Result<Target, Status> {
        branch();
        let offset = address.wrapping_sub(self.base);
        let Some(rest) = self.length.checked_sub(offset) else {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        };
        branch();
        if size > rest {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        Ok(Target {
            address: if virtual_addresses { address } else { offset },
            key: self.key,
        })
    }

    /// Checks that `size` bytes at `address` of this process lie inside the region.
    #[inline]
    pub(crate) fn covers(&self, address: u64, size: u64) -> Result<(), Status> {
        self.target(address, size, true).map(|_| ())
    }

    /// [`covers`](Self::covers) of a handle that is known to be live.
    #[inline]
    pub(crate) fn spans(&self, address: u64, size: u64) -> Result<(), Status> {
        self.within(address, size, true).map(|_| ())
    }
}

/// The rights of peers under a registration, at their position in the cookie field.
fn rights_of(access: Access) -> u64 {
    u64::from(rights::of(access).bits()) << 32
}

#[cfg(test)]
mod tests;
