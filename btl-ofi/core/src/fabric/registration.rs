//! Memory registration in every mode that the transport supports. Assigns keys if the provider assigns none
//! (no `FI_MR_PROV_KEY`).

use std::ffi::c_void;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libfabric_sys as ffi;
use plugin_api::Access;

use crate::base::error::{CallError, Doing, Error};
use crate::base::fork::Birth;
use crate::base::lock::{Guard, Lock};
use crate::fabric::device::Device;
use crate::fabric::fids::Owned;
use crate::fabric::keys::Keys;
use crate::fabric::region::Region;
use crate::fabric::registered::{Fields, Registered};
use crate::mem::device_regions::{DeviceRegion, DeviceRegions};
use crate::mem::handle::{Handle, NO_KEY, NO_RAILS, RailKeys};
use crate::mem::regions::{Known, Regions};
use crate::mem::shared::Announced;

/// Registers memory with one provider.
pub(crate) struct Registrar {
    pub(super) birth: Birth,
    pub(super) device: Arc<Device>,
    /// Peers address memory by virtual address, not by offset (`FI_MR_VIRT_ADDR`).
    pub(crate) virtual_addresses: bool,
    provider_keys: bool,
    /// Regions are bound to the endpoint and enabled before use (`FI_MR_ENDPOINT`).
    bound: bool,
    pub(super) keys: Keys,
    generation: AtomicU32,
    pub(super) live: AtomicU64,
    /// Registered device memory.
    pub(super) devices: Arc<DeviceRegions>,
    regions: Lock<Regions>,
    /// The list in which peers find the regions that they may map; `None` if no peer may map regions.
    pub(super) shared: Option<Announced>,
}

impl Registrar {
    /// `threaded` allows calls from several threads. Regions that peers may map are announced in `shared`, if present.
    pub(crate) fn new(device: Arc<Device>, threaded: bool, shared: Option<Announced>) -> Registrar {
        let attr = device.info().domain_attr();
        let mode = attr.mr_mode as u32;
        // FI_MR_BASIC stands for three of the present mode bits, FI_MR_SCALABLE for none.
        let basic = mode & ffi::FI_MR_BASIC != 0;
        let keys = Keys::of(attr.mr_key_size);
        let regions = Regions::default();
        Registrar {
            birth: Birth::now(),
            virtual_addresses: basic || mode & ffi::FI_MR_VIRT_ADDR != 0,
            provider_keys: basic || mode & ffi::FI_MR_PROV_KEY != 0,
            bound: mode & ffi::FI_MR_ENDPOINT != 0,
            device,
            keys,
            generation: AtomicU32::new(0),
            live: AtomicU64::new(0),
            devices: Arc::clone(&regions.devices),
            regions: Lock::new(regions, threaded),
            shared,
        }
    }

    /// Number of regions registered now.
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Registers `length` bytes at `base`. The caller passes existing memory, as `FI_MR_ALLOCATED` requires; its pages need
    /// not be touched before. With `by_commands`, only commands change elements in the memory. `rails` is the same memory
    /// on further rails. Local peers may map the memory through `file`, beginning at the file's offset.
    pub(crate) fn register(
        self: &Arc<Self>,
        (base, length): (*mut c_void, usize),
        (access, by_commands): (Access, bool),
        rails: Vec<Region>,
        file: Option<(File, u64)>,
    ) -> Result<Region, Error> {
        let address = in_memory(base, length)?;
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let key = if self.provider_keys {
            None
        } else {
            Some(self.keys.take()?)
        };
        let registered = if length == 0 {
            // An empty region has no bytes to access, and many providers refuse to register it.
            Ok(None)
        } else {
            self.register_with_provider(base, length, access, key.unwrap_or(0), None)
                .doing(|| format!("registering {length} bytes at {address:#x}"))
                .map(Some)
        };
        match registered {
            Ok(registered) => {
                let (mr, fields) = registered.unzip();
                let provider_key = fields.as_ref().map_or(0, |fields| fields.key);
                self.live.fetch_add(1, Ordering::Relaxed);
                let handle = Handle::new(address, length as u64, provider_key, access, generation)
                    .with_rails(keys_of(&rails));
                let shared = file.and_then(|(file, offset)| {
                    let shared = self.shared.as_ref()?.announce(handle, &file, offset)?;
                    Some((shared, file))
                });
                let (announced, file) = shared.unzip();
                let handle = announced.unwrap_or(handle);
                // An empty region has no key at the provider.
                if fields.is_some() {
                    self.regions.lock().insert(Known {
                        handle,
                        access,
                        by_commands,
                    });
                }
                Ok(Region {
                    mr,
                    handle,
                    key,
                    device: None,
                    registrar: Arc::clone(self),
                    rails,
                    _file: file,
                })
            }
            Err(e) => {
                self.keys.give_back(key);
                Err(e)
            }
        }
    }

    /// [`register`](Self::register) for memory of the transport itself.
    pub(crate) fn register_own(
        self: &Arc<Self>,
        base: *mut c_void,
        length: usize,
        access: Access,
    ) -> Result<Region, Error> {
        self.register((base, length), (access, false), Vec::new(), None)
    }

    /// Registers device memory with a provider that accesses the memory itself. Passes FI_HMEM_DEVICE_ONLY,
    /// unless the provider refuses the flag (opx returns -FI_EINVAL).
    pub(crate) fn register_direct(
        self: &Arc<Self>,
        base: *mut c_void,
        length: usize,
        access: Access,
        iface: u32,
        device: u64,
    ) -> Result<Region, Error> {
        let address = in_memory(base, length)?;
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let key = match self.provider_keys {
            true => None,
            false => Some(self.keys.take()?),
        };
        let register = |flags| {
            let kind = Some((iface, device, flags));
            self.register_with_provider(base, length, access, key.unwrap_or(0), kind)
        };
        let registered = match register(ffi::FI_HMEM_DEVICE_ONLY) {
            Err(e) if e.code == ffi::FI_EINVAL as i32 => register(0),
            other => other,
        };
        let registered = registered.doing(|| {
            format!(
                "registering {length} bytes of interface {iface}, device {device}, at {address:#x}"
            )
        });
        let (
            mr,
            Fields {
                key: provider_key,
                descriptor,
            },
        ) = match registered {
            Ok(registered) => registered,
            Err(e) => {
                self.keys.give_back(key);
                return Err(e);
            }
        };
        let length = length as u64;
        let handle = Handle::new(address, length, provider_key, access, generation).direct();
        let descriptor = Some(descriptor);
        self.devices.insert(DeviceRegion::new(
            handle,
            (address, length),
            (iface, access),
            descriptor,
        ));
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(Region {
            mr: Some(mr),
            handle,
            key,
            device: Some(generation),
            registrar: Arc::clone(self),
            rails: Vec::new(),
            _file: None,
        })
    }

    /// Records device memory that is accessed by copies. Peers reach the memory through `mailbox`.
    pub(crate) fn register_staged(
        self: &Arc<Self>,
        base: *mut c_void,
        length: usize,
        access: Access,
        iface: u32,
        mailbox: &Handle,
    ) -> Result<Region, Error> {
        let address = in_memory(base, length)?;
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let handle = Handle::staged(mailbox, access, generation);
        let length = length as u64;
        self.devices.insert(DeviceRegion::new(
            handle,
            (address, length),
            (iface, access),
            None,
        ));
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(Region {
            mr: None,
            handle,
            key: None,
            device: Some(generation),
            registrar: Arc::clone(self),
            rails: Vec::new(),
            _file: None,
        })
    }

    /// The registered device memory.
    pub(crate) fn device_regions(&self) -> Arc<DeviceRegions> {
        Arc::clone(&self.devices)
    }

    /// The table of regions behind its lock.
    #[inline]
    pub(crate) fn table(&self) -> &Lock<Regions> {
        &self.regions
    }

    /// The table of regions, locked.
    pub(crate) fn regions(&self) -> Guard<'_, Regions> {
        self.regions.lock()
    }

    fn register_with_provider(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
        requested_key: u64,
        kind: Option<(u32, u64, u64)>,
    ) -> Result<(Registered, Fields), CallError> {
        let iov = ffi::iovec {
            iov_base: base,
            iov_len: length,
        };
        let mut attr = ffi::fi_mr_attr {
            mr_iov: &iov,
            iov_count: 1,
            access: access_flags(access),
            requested_key,
            ..Default::default()
        };
        let mut flags = 0;
        if let Some((iface, device, device_flags)) = kind {
            // SAFETY: fi_version takes no argument and only returns a number.
            if iface > ffi::newest_hmem_iface(unsafe { ffi::fi_version() }) {
                return Err(CallError {
                    call: "fi_mr_regattr with a memory interface newer than the installed libfabric",
                    code: ffi::FI_ENOSYS as i32,
                });
            }
            attr.iface = iface;
            // Every member of the union lies in these 64 bits.
            attr.device.reserved = device;
            flags = device_flags;
        }
        // SAFETY: `device` keeps the domain open; `attr` and its vector live through the call.
        let mr = Owned::open("fi_mr_regattr", |out| unsafe {
            ffi::fi_mr_regattr(self.device.domain(), &attr, flags, out)
        })?;
        let (mr, fields) = match self.bound {
            true => Registered::bound(mr, &self.device)?,
            false => Registered::free(mr),
        };
        if fields.key == ffi::FI_KEY_NOTAVAIL {
            return Err(CallError {
                call: "fi_mr_key",
                code: ffi::FI_ENOKEY as i32,
            });
        }
        Ok((mr, fields))
    }
}

/// The keys of regions on further rails. An empty region has none.
fn keys_of(rails: &[Region]) -> RailKeys {
    let mut keys = NO_RAILS;
    for (key, region) in keys.iter_mut().zip(rails) {
        *key = region.mr.as_ref().map_or(NO_KEY, |_| region.handle.key());
    }
    keys
}

/// Returns `base` as an address. Refuses memory that extends beyond the address space.
fn in_memory(base: *mut c_void, length: usize) -> Result<u64, Error> {
    let address = base as u64;
    if address.checked_add(length as u64).is_none() {
        return Err(Error::Invalid {
            what: "memory to register",
            reason: format!("{length} bytes at {address:#x} extend beyond the address space"),
        });
    }
    Ok(address)
}

fn access_flags(access: Access) -> u64 {
    // Every region is also the origin of puts.
    let mut flags = ffi::FI_WRITE;
    // Requested only if the provider writes the region. A provider that pins pages then requires write access, and
    // refuses read-only memory such as constants and files.
    if access.intersects(Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC) {
        flags |= ffi::FI_READ;
    }
    if access.intersects(Access::REMOTE_READ | Access::REMOTE_ATOMIC) {
        flags |= ffi::FI_REMOTE_READ;
    }
    if access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC) {
        flags |= ffi::FI_REMOTE_WRITE;
    }
    u64::from(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_writes_is_not_asked_to_be_writable() {
        let read = u64::from(ffi::FI_READ);
        for access in [Access::empty(), Access::REMOTE_READ] {
            assert_eq!(access_flags(access) & read, 0, "{access:?}");
        }
        for access in [
            Access::LOCAL_WRITE,
            Access::LOCAL_WRITE | Access::REMOTE_READ,
            Access::REMOTE_WRITE,
            Access::REMOTE_ATOMIC,
        ] {
            assert_eq!(access_flags(access) & read, read, "{access:?}");
        }
    }
}
