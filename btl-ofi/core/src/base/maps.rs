//! The mappings of a process, as the kernel tells them.
//!
//! Since Linux 6.11 the kernel answers questions about single mappings (PROCMAP_QUERY). Before, `/proc/PID/maps` is read
//! and looked through, which takes longer the more mappings the process has. Both give a [`Vma`], and what follows from
//! it does not depend on where it came from.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

use crate::base::error::CallError;
use crate::base::sys::{self, MappingAt};

/// The list of this process.
const OWN: &str = "/proc/self/maps";

/// The place of memory in the file or other object that a process maps there, shared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    device: u64,
    inode: u64,
    /// Where in the object the memory begins, in bytes.
    pub(crate) offset: u64,
    /// The mapping that holds the beginning, as the kernel names it in `/proc/PID/map_files`.
    pub(crate) range: String,
    /// What the kernel calls the object: the path of a file, unless that was deleted.
    pub(crate) name: String,
}

impl Object {
    /// Whether an open file is this object.
    pub(crate) fn is(&self, file: &std::fs::Metadata) -> bool {
        file.is_file() && (file.dev(), file.ino()) == (self.device, self.inode)
    }

    /// Whether another one is the same place of the same object.
    pub(crate) fn is_same(&self, other: &Object) -> bool {
        (self.device, self.inode, self.offset) == (other.device, other.inode, other.offset)
    }
}

/// The object that `process` (a process id, or `self`) maps at all `length` bytes at `base`, shared, and to be read and
/// written. `None` if there is none, or more than one.
pub(crate) fn shared_object(process: &str, base: u64, length: u64) -> Option<Object> {
    let path = format!("/proc/{process}/maps");
    let maps = File::open(&path).ok()?;
    // Also if a name is longer than the kernel's answer can be, which is rare.
    asked(&maps, base, length).unwrap_or_else(|_| listed(&path, base, length))
}

/// Where a byte of this process lies in an object that it maps shared, and to be read and written: what the kernel calls the
/// object, and the offset there in bytes. `None` for other memory.
pub fn own_object(address: u64) -> Option<(String, u64)> {
    shared_object("self", address, 1).map(|object| (object.name, object.offset))
}

/// Where this process itself maps the `length` bytes of an object from its offset on, shared, and to be read and written.
/// The object is a file without a name any more: one number may name different memory of a device in two processes, and of
/// System V segments in two namespaces.
pub(crate) fn own_mapping(object: &Object, length: u64) -> Option<u64> {
    if !object.name.ends_with(" (deleted)") || object.name.starts_with("/SYSV") {
        return None;
    }
    let text = sys::read(OWN).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (from, to) = (object.offset, object.offset.checked_add(length)?);
    let holds = |vma: &Vma<'_>| {
        let end = vma.offset.saturating_add(vma.to - vma.from);
        vma.is_shared && vma.is(object) && vma.offset <= from && to <= end
    };
    let vma = Vma::list(&text).find(holds)?;
    Some(vma.from + (from - vma.offset))
}

/// A mapping.
struct Vma<'a> {
    from: u64,
    to: u64,
    /// It is one of an object, shared, and to be read and written.
    is_shared: bool,
    offset: u64,
    device: u64,
    inode: u64,
    /// As in `/proc/PID/maps`.
    name: Cow<'a, str>,
}

impl<'a> Vma<'a> {
    /// The mappings of a text, which are in the order of their addresses. The kernel writes a line end within a name as
    /// `\012`, and other bytes as they are.
    fn list(text: &'a str) -> impl Iterator<Item = Vma<'a>> {
        text.split('\n').filter_map(Vma::parse)
    }

    fn parse(line: &'a str) -> Option<Vma<'a>> {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let (rights, offset) = (fields.next()?, hexadecimal(fields.next()?)?);
        let (major, minor) = fields.next()?.split_once(':')?;
        let (major, minor) = (hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
        let inode = fields.next()?.parse().ok()?;
        let (is_writable, is_shared) = (rights.starts_with("rw"), rights.ends_with('s'));
        Some(Vma {
            from: hexadecimal(from)?,
            to: hexadecimal(to)?,
            is_shared: is_writable && is_shared && inode != 0,
            offset,
            device: sys::device_number(major, minor),
            inode,
            name: fields.next().unwrap_or_default().trim_start().into(),
        })
    }

    /// The kernel's answer, with the buffer that begins with the name.
    fn answered(vma: MappingAt, name: &[u8]) -> Vma<'static> {
        let name = name.get(..vma.name).unwrap_or_default();
        Vma {
            from: vma.from,
            to: vma.to,
            is_shared: vma.is_writable && vma.is_shared && vma.inode != 0,
            offset: vma.offset,
            device: vma.device,
            inode: vma.inode,
            name: String::from_utf8_lossy(name).replace('\n', "\\012").into(),
        }
    }

    fn is(&self, object: &Object) -> bool {
        (self.device, self.inode) == (object.device, object.inode) && self.name == object.name
    }
}

/// [`shared_object`], from the answers to questions about single mappings. Fails if the kernel cannot answer one.
fn asked(maps: &File, base: u64, length: u64) -> Result<Option<Object>, CallError> {
    // The kernel writes no longer names.
    let mut name = [0; libc::PATH_MAX as usize];
    find(base, length, |address| ask(maps, address, &mut name))
}

/// The mapping that holds an address, without its name if the buffer is empty.
fn ask(maps: &File, address: u64, name: &mut [u8]) -> Result<Option<Vma<'static>>, CallError> {
    match sys::mapping_at(maps, address, name) {
        Ok(vma) => Ok(Some(Vma::answered(vma, name))),
        Err(error) if error.code == libc::ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

/// [`shared_object`], from the list of all mappings.
fn listed(path: &str, base: u64, length: u64) -> Option<Object> {
    in_text(
        &String::from_utf8_lossy(&sys::read(path).ok()?),
        base,
        length,
    )
}

fn in_text(text: &str, base: u64, length: u64) -> Option<Object> {
    find(base, length, in_order(text)).ok()?
}

/// Gives the mapping that holds an address, or one behind it, for addresses that increase.
fn in_order<'a>(text: &'a str) -> impl FnMut(u64) -> Result<Option<Vma<'a>>, CallError> {
    let mut all = Vma::list(text);
    // Each address lies behind the mapping that was found before.
    move |address| Ok(all.find(|vma| vma.to > address))
}

/// Finds the object by the mappings that hold the memory.
fn find<'a>(
    base: u64,
    length: u64,
    next: impl FnMut(u64) -> Result<Option<Vma<'a>>, CallError>,
) -> Result<Option<Object>, CallError> {
    let mut found: Option<Object> = None;
    let all = walk(base, length, next, |vma, at| {
        if !vma.is_shared {
            return false;
        }
        let offset = vma.offset + (at - vma.from);
        // The kernel has two mappings of one object side by side if they differ in anything else.
        let first = found.get_or_insert_with(|| Object {
            device: vma.device,
            inode: vma.inode,
            offset,
            range: format!("{:x}-{:x}", vma.from, vma.to),
            name: vma.name.clone().into_owned(),
        });
        vma.is(first) && offset == first.offset + (at - base)
    })?;
    Ok(found.filter(|_| all))
}

/// Whether mappings hold all of the memory, one behind the other, and each suits, by it and the first address of the memory in
/// it. `next` gives the mapping that holds an address, or one behind it if there is none.
fn walk<'a>(
    base: u64,
    length: u64,
    mut next: impl FnMut(u64) -> Result<Option<Vma<'a>>, CallError>,
    mut suits: impl FnMut(&Vma<'a>, u64) -> bool,
) -> Result<bool, CallError> {
    let Some(end) = base.checked_add(length).filter(|end| *end > base) else {
        return Ok(false);
    };
    let mut at = base;
    while at < end {
        match next(at)? {
            Some(vma) if (vma.from..vma.to).contains(&at) && suits(&vma, at) => at = vma.to,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn hexadecimal(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

/// Tells what memory of this process others may map.
pub(crate) struct Own {
    /// `/proc/self/maps`, open so that a question is one call.
    maps: Option<File>,
}

impl Own {
    pub(crate) fn new() -> Own {
        Own {
            maps: File::open(OWN).ok(),
        }
    }

    /// Whether an address lies in a shared mapping that may be read and written.
    pub(crate) fn is_shared(&self, address: u64) -> bool {
        let vma = self.maps.as_ref().map(|maps| ask(maps, address, &mut []));
        let holds = |vma: &Vma<'_>| (vma.from..vma.to).contains(&address);
        match vma {
            Some(Ok(vma)) => vma.map(|vma| vma.is_shared),
            _ => sys::read(OWN).ok().and_then(|text| {
                let text = String::from_utf8_lossy(&text);
                Vma::list(&text).find(holds).map(|vma| vma.is_shared)
            }),
        }
        .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
