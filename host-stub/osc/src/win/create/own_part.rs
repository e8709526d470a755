//! This rank's registered memory for a window that the transport serves.

use plugin_api::{Access, AtomicFlags, ModuleFlags, hmem_iface};

use crate::base::{Pages, Segment};
use crate::door::{HOST, Location, is_looked_for};
use crate::transport::Registration;
use crate::win::control::{Control, ControlPlan};
use crate::win::create::wanted::{Source, Wanted};
use crate::win::dynamic::regions::Shape;
use crate::win::info::Resolved;
use crate::win::kind::WindowKind;
use crate::win::link::Link;
use crate::win::parts::{Exposed, Memory};
use crate::win::peer::Offer;
use crate::win::shm::shared::Shared;
use crate::win::slots::SLOTS;

/// The accesses for which a window's memory is registered.
const FOR_ALL: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// Whether the transport can serve windows at all.
fn usable(link: &Link) -> Result<(), String> {
    let attributes = link.transport.attributes();
    let wanted = ModuleFlags::PUT | ModuleFlags::GET | ModuleFlags::RDMA_REMOTE_COMPLETION;
    if !attributes.flags.contains(wanted) {
        return Err(format!(
            "windows need put, get and remote completion of the transport; {} has {:?}",
            attributes.provider, attributes.flags
        ));
    }
    let atomics = AtomicFlags::ADD | AtomicFlags::CSWAP;
    if !attributes.atomic_flags.contains(atomics) {
        return Err(format!(
            "windows need 64-bit fetch-add and compare-swap of the transport; {} has {:?}",
            attributes.provider, attributes.atomic_flags
        ));
    }
    if attributes.put_alignment > 1 || attributes.get_alignment > 1 {
        return Err(format!(
            "windows move single bytes; {} wants puts aligned to {} and gets to {} B",
            attributes.provider, attributes.put_alignment, attributes.get_alignment
        ));
    }
    Ok(())
}

/// This rank's memory: memory of the caller, a part of a segment, or private memory.
fn memory(
    link: &Link,
    wanted: &Wanted<'_>,
    shared: Option<Shared>,
    own_class: &[usize],
) -> Result<(*mut u8, usize, Memory), String> {
    let len = wanted.source.len();
    let index = own_class.iter().position(|member| *member == link.rank);
    Ok(match (wanted.source, shared) {
        (Source::Caller(base, len), _) => {
            let base = match is_looked_for() {
                true => exposed(link, base, len, HOST)?,
                false => base,
            };
            (base, len, Memory::Elsewhere)
        }
        (Source::None, _) => (std::ptr::null_mut(), 0, Memory::Elsewhere),
        (Source::Own(_), Some(shared)) => {
            let part = index.and_then(|index| shared.plan.parts.get(index));
            let part = part.ok_or("it has no part of its node's segment")?;
            let base = shared.segment.at(part.offset);
            (base, len, Memory::Segment(shared.segment))
        }
        (Source::Own(_), None) => {
            let pages = Pages::new(len).ok_or_else(|| format!("there is no memory of {len} B"))?;
            (pages.base(), len, Memory::Pages(pages))
        }
    })
}

/// The address of the caller's memory for a window, if the memory is on the device that
/// `device_num` names.
fn exposed(link: &Link, base: *mut u8, len: usize, device: i32) -> Result<*mut u8, String> {
    let value = base as u64;
    let located = match device {
        // A host pointer that is mapped on a device is still host memory.
        HOST => link.locate_itself(value, len),
        _ => link.devices()?.locate_on(device, value, len),
    };
    match located {
        Ok(Location {
            device: on,
            address,
        }) if on == device => Ok(std::ptr::with_exposed_provenance_mut(address as usize)),
        Ok(Location { device: on, .. }) => Err(format!(
            "device_num is {device}, but {base:p} is memory of device {on}"
        )),
        Err(error) => Err(format!("device_num is {device}: {error}")),
    }
}

/// This rank's memory on a device, allocated on the device or passed by the caller. The segment, in which this
/// rank has no part, stays mapped for the other ranks' memory.
fn device_memory(
    link: &Link,
    wanted: &Wanted<'_>,
    shared: Option<Shared>,
    device: i32,
) -> Result<(*mut u8, usize, Memory), String> {
    let refused = |error| format!("device_num is {device}: {error}");
    let devices = link.devices().map_err(refused)?;
    devices.device(device).map_err(refused)?;
    match wanted.source {
        Source::Own(len) => {
            let memory = devices.allocate(device, len).map_err(refused)?;
            let base = std::ptr::with_exposed_provenance_mut(memory.base() as usize);
            let beside = shared.map(|shared| shared.segment);
            Ok((base, len, Memory::Device { memory, beside }))
        }
        Source::Caller(base, len) => {
            let base = exposed(link, base, len, device)?;
            Ok((base, len, Memory::Elsewhere))
        }
        Source::None => Ok((std::ptr::null_mut(), 0, Memory::Elsewhere)),
    }
}

/// Registers memory of the host or of a device, for peers.
///
/// # Safety
/// The memory stays until the registration ends, and bears that peers change it.
pub(in crate::win) unsafe fn register(
    link: &Link,
    base: *mut u8,
    len: usize,
    device: i32,
) -> Result<(Registration, u32), String> {
    // SAFETY: the caller vouches for the memory.
    let registered = unsafe {
        if device == HOST {
            // While accumulates change an element, MPI allows no store to it, and no other window (MPI 4.1, 12.7 and 12.2.1).
            let registered = link.transport.register_sole(base, len, FOR_ALL);
            registered.map(|registration| (registration, hmem_iface::SYSTEM))
        } else {
            let (iface, number) = link.devices()?.device(device)?;
            let registered = link
                .transport
                .register_hmem(base, len, FOR_ALL, iface, number);
            registered.map(|registration| (registration, iface))
        }
    };
    registered.map_err(|error| error.to_string())
}

/// Registers this rank's part of the segment of its node, which peers of this node may map.
fn register_part(
    link: &Link,
    (base, len): (*mut u8, usize),
    segment: &Segment,
) -> Result<Registration, String> {
    let offset = (base as usize).wrapping_sub(segment.at(0) as usize) as u64;
    // SAFETY: the window holds the segment until the registration ends, and bears that peers change it. The segment maps its
    // file from the first byte on.
    let registered = unsafe {
        match segment.file() {
            Some(file) => {
                let place = (file, offset);
                link.transport.register_shared(base, len, FOR_ALL, place)
            }
            None => link.transport.register(base, len, FOR_ALL),
        }
    };
    registered.map_err(|error| error.to_string())
}

/// The data that other processes of this node need to open memory of a device.
fn exported(link: &Link, base: u64, len: usize, device: i32) -> Vec<u8> {
    if device == HOST || len == 0 {
        return Vec::new();
    }
    let devices = link.devices();
    let exported = devices.and_then(|devices| devices.export(device, base, len));
    exported.unwrap_or_else(|why| {
        tracing::debug!("other processes cannot open this window's memory: {why}");
        Vec::new()
    })
}

/// Registers this rank's memory.
fn expose(
    link: &Link,
    (base, len, device): (*mut u8, usize, i32),
    memory: Memory,
) -> Result<Exposed, String> {
    let (registration, iface) = match &memory {
        _ if len == 0 => (None, hmem_iface::SYSTEM),
        Memory::Segment(segment) => {
            let registration = register_part(link, (base, len), segment)?;
            (Some(registration), hmem_iface::SYSTEM)
        }
        _ => {
            // SAFETY: `create`'s caller vouches for the memory until the window was freed, or `memory`
            // holds it; the registration ends before (field order of Exposed).
            let (registration, iface) = unsafe { register(link, base, len, device) }?;
            (Some(registration), iface)
        }
    };
    Ok(Exposed {
        base,
        len,
        iface,
        exported: exported(link, base as u64, len, device),
        registration,
        memory,
    })
}

/// This rank's memory and control block.
pub(in crate::win) type Part = (Exposed, Control);

/// The data about a part that the other ranks need.
pub(in crate::win) fn offer((exposed, control): &Part) -> Offer {
    let (control_base, control_handle) = control.card();
    Offer {
        base: exposed.base as u64,
        control_base,
        handle: exposed.handle_bytes(),
        control_handle,
        exported: exposed.exported.clone(),
    }
}

/// This rank's memory and control block, registered; or the reason why it has none.
pub(in crate::win) fn own_part(
    link: &Link,
    wanted: &Wanted<'_>,
    info: &Resolved,
    (shared, own_class): (Option<Shared>, &[usize]),
) -> Result<Part, String> {
    usable(link)?;
    let (base, len, memory) = match info.device {
        HOST => memory(link, wanted, shared, own_class)?,
        device => device_memory(link, wanted, shared, device)?,
    };
    let exposed = expose(link, (base, len, info.device), memory)?;
    let regions = match wanted.kind {
        WindowKind::Dynamic => Shape::of(link.transport.attributes().handle_size).control_words(),
        _ => 0,
    };
    let plan = ControlPlan::new(link.size, regions, SLOTS);
    let control = Control::new(&link.context.arena, &link.transport, plan)
        .map_err(|error| error.to_string())?;
    Ok((exposed, control))
}
