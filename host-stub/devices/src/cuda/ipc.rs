//! Memory of CUDA devices that processes of one node open (CUDA IPC). NVIDIA's manual of the driver interface has the
//! rules, at cuIpcGetMemHandle and cuIpcOpenMemHandle.
//!
//! The driver gives handles for memory of cuMemAlloc, and refuses other memory: memory of pools, managed memory, and host
//! memory. Memory is opened in a primary context that the process uses already, because a context takes much memory of its
//! device. If this context belongs to another device, both devices must reach each other.

use std::ffi::c_char;

use cudarc::driver::sys::{self, CUcontext, CUipcMemHandle, CUpointer_attribute, CUresult};
use osc_engine::door::{OpenedMemory, Run};

use super::driver::{Primary, ask, done, within};
use super::stream::Stream;
use crate::table::Share;

const UUID: usize = 16;
const OFFSET: usize = size_of::<u64>();
const HANDLE: usize = size_of::<CUipcMemHandle>();

/// Bytes of the exported data: the device, the offset of the memory in its allocation, and the driver's handle of the
/// allocation.
const EXPORTED: usize = UUID + OFFSET + HANDLE;

/// A device whose memory other processes can open.
pub(super) struct Ipc {
    ordinal: i32,
    device: i32,
    uuid: [u8; UUID],
}

impl Ipc {
    /// `None` if the driver has no unique id of the device.
    pub(super) fn new(ordinal: i32, device: i32) -> Option<Ipc> {
        let mut uuid = sys::CUuuid { bytes: [0; UUID] };
        // SAFETY: receives an answer.
        let asked = unsafe { sys::cuDeviceGetUuid(&mut uuid, device) };
        let uuid = uuid.bytes.map(|byte| byte as u8);
        (asked == CUresult::CUDA_SUCCESS).then_some(Ipc {
            ordinal,
            device,
            uuid,
        })
    }

    /// Whether this process uses the primary context of the device.
    fn is_used(&self) -> Result<bool, String> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: both pointers receive an answer.
        let asked =
            unsafe { sys::cuDevicePrimaryCtxGetState(self.device, &mut flags, &mut active) };
        done("cuDevicePrimaryCtxGetState", asked).map(|()| active != 0)
    }
}

impl Share for Ipc {
    fn export(&self, base: u64, len: usize) -> Result<Vec<u8>, String> {
        let (mut start, mut size) = (0, 0);
        // SAFETY: both pointers receive an answer.
        let asked = unsafe { sys::cuMemGetAddressRange_v2(&mut start, &mut size, base) };
        done("cuMemGetAddressRange", asked)?;
        let offset = base.wrapping_sub(start);
        if offset > size as u64 || len as u64 > size as u64 - offset {
            return Err(format!("the allocation at {start:#x} has {size} B"));
        }
        let owner: Option<CUcontext> = ask(
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
            base,
            std::ptr::null_mut(),
        );
        let owner = owner.filter(|context| !context.is_null());
        let owner = owner.ok_or("it belongs to no context, like memory of a pool")?;
        let mut handle = CUipcMemHandle {
            reserved: [0; HANDLE],
        };
        within(owner, || {
            // SAFETY: receives the handle.
            let got = unsafe { sys::cuIpcGetMemHandle(&mut handle, start) };
            done("cuIpcGetMemHandle", got)
        })?;
        let handle = handle.reserved.map(|byte| byte as u8);
        Ok([&self.uuid[..], &offset.to_ne_bytes(), &handle].concat())
    }

    fn is_home_of(&self, exported: &[u8]) -> bool {
        exported.starts_with(&self.uuid)
    }

    fn open(&self, exported: &[u8]) -> Result<Option<Box<dyn OpenedMemory>>, String> {
        let exported: &[u8; EXPORTED] = exported
            .try_into()
            .map_err(|_| format!("{} B are no handle of CUDA", exported.len()))?;
        if !self.is_used()? {
            return Ok(None);
        }
        let mut offset = [0; OFFSET];
        offset.copy_from_slice(&exported[UUID..UUID + OFFSET]);
        let mut handle = [0; HANDLE];
        handle.copy_from_slice(&exported[UUID + OFFSET..]);
        let handle = CUipcMemHandle {
            reserved: handle.map(|byte| byte as c_char),
        };
        let opened = Opened::new(
            Primary::retain(self.ordinal)?,
            handle,
            u64::from_ne_bytes(offset),
        )?;
        Ok(Some(Box::new(opened)))
    }
}

/// Memory of another process.
struct Opened {
    /// The address to which the driver mapped its allocation.
    at: u64,
    /// Bytes from the beginning of the mapping to the memory.
    offset: u64,
    stream: Stream,
    primary: Primary,
}

impl Opened {
    fn new(primary: Primary, handle: CUipcMemHandle, offset: u64) -> Result<Opened, String> {
        let flags = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let (at, stream) = primary.within(|| {
            let stream = Stream::new()?;
            let mut at = 0;
            // SAFETY: receives the address; the driver checks the handle.
            let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&mut at, handle, flags) };
            match done("cuIpcOpenMemHandle", opened) {
                Ok(()) => Ok((at, stream)),
                Err(why) => {
                    let _ = stream.destroy();
                    Err(why)
                }
            }
        })?;
        Ok(Opened {
            at,
            offset,
            stream,
            primary,
        })
    }
}

impl OpenedMemory for Opened {
    fn base(&self) -> u64 {
        self.at.wrapping_add(self.offset)
    }

    unsafe fn copy(&self, runs: &mut dyn Iterator<Item = Run>) -> Result<(), String> {
        self.primary.within(|| {
            // SAFETY: the caller vouches for the runs.
            let started = unsafe { self.stream.copy(runs) };
            // This call waits also after a failure, because no copy may use the memory after its
            // return.
            started.and(self.stream.synchronise())
        })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let closed = self.primary.within(|| {
            // SAFETY: opened when made, and closed once; no copy is under way.
            let closed = done("cuIpcCloseMemHandle", unsafe {
                sys::cuIpcCloseMemHandle(self.at)
            });
            closed.and(self.stream.destroy())
        });
        if let Err(why) = closed {
            tracing::warn!("memory of another process at {:#x}: {why}", self.at);
        }
    }
}
