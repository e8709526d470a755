//! The mappings of a process, as `/proc/PID/maps` lists them.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use crate::base::sys;

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
    let text = sys::read(&format!("/proc/{process}/maps")).ok()?;
    find(&String::from_utf8_lossy(&text), base, length)
}

/// Where this process itself maps the `length` bytes of an object from its offset on, shared, and to be read and written.
/// The object is a file without a name any more: one number may name different memory of a device in two processes, and of
/// System V segments in two namespaces.
pub(crate) fn own_mapping(object: &Object, length: u64) -> Option<u64> {
    if !object.name.ends_with(" (deleted)") || object.name.starts_with("/SYSV") {
        return None;
    }
    let text = sys::read("/proc/self/maps").ok()?;
    let text = String::from_utf8_lossy(&text);
    let (from, to) = (object.offset, object.offset.checked_add(length)?);
    let holds = |line: &Line<'_>| {
        let end = line.offset.saturating_add(line.to - line.from);
        line.is_shared && line.is(object) && line.offset <= from && to <= end
    };
    let line = text.lines().filter_map(Line::parse).find(holds)?;
    Some(line.from + (from - line.offset))
}

/// A mapping in the list.
struct Line<'a> {
    range: &'a str,
    from: u64,
    to: u64,
    /// Shared, and to be read and written.
    is_shared: bool,
    offset: u64,
    device: u64,
    inode: u64,
    name: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Line<'a>> {
        let mut fields = line.splitn(6, ' ');
        let range = fields.next()?;
        let (from, to) = range.split_once('-')?;
        let (rights, offset) = (fields.next()?, hexadecimal(fields.next()?)?);
        let (major, minor) = fields.next()?.split_once(':')?;
        let (major, minor) = (hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
        Some(Line {
            range,
            from: hexadecimal(from)?,
            to: hexadecimal(to)?,
            is_shared: rights.starts_with("rw") && rights.ends_with('s'),
            offset,
            device: sys::device_number(major, minor),
            inode: fields.next()?.parse().ok()?,
            name: fields.next().unwrap_or_default().trim_start(),
        })
    }

    fn is(&self, object: &Object) -> bool {
        (self.device, self.inode) == (object.device, object.inode) && self.name == object.name
    }
}

fn find(text: &str, base: u64, length: u64) -> Option<Object> {
    let end = base.checked_add(length).filter(|end| *end > base)?;
    let mut found: Option<Object> = None;
    let mut at = base;
    for line in text.lines().filter_map(Line::parse) {
        if line.to <= at {
            continue;
        }
        if line.from > at || line.inode == 0 || !line.is_shared {
            return None;
        }
        let offset = line.offset + (at - line.from);
        // The kernel lists two mappings of one object side by side if they differ in anything else.
        let first = found.get_or_insert_with(|| Object {
            device: line.device,
            inode: line.inode,
            offset,
            range: line.range.to_owned(),
            name: line.name.to_owned(),
        });
        if !line.is(first) || offset != first.offset + (at - base) {
            return None;
        }
        at = line.to;
        if at >= end {
            return found;
        }
    }
    None
}

fn hexadecimal(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

/// Tells shared memory of this process from other memory.
pub(crate) struct Own {
    /// `/proc/self/maps`, where the kernel answers questions about single mappings (Linux 6.11).
    maps: Option<File>,
}

impl Own {
    pub(crate) fn new() -> Own {
        Own {
            maps: File::open("/proc/self/maps").ok(),
        }
    }

    /// Whether the memory at `address` lies in a shared mapping.
    pub(crate) fn is_shared(&self, address: u64) -> bool {
        let told = self.maps.as_ref().map(|maps| sys::is_shared(maps, address));
        match told {
            Some(Ok(shared)) => shared,
            // An address without a mapping.
            Some(Err(error)) if error.code == libc::ENOENT => false,
            _ => shared_object("self", address, 1).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sys::script::Script;

    const MAPS: &str = "\
55e0c8a00000-55e0c8a21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000002000 rw-s 00001000 00:1a 77                         /dev/shm/a b
7f0000002000-7f0000003000 rw-s 00003000 00:1a 77                         /dev/shm/a b
7f0000003000-7f0000004000 rw-s 00009000 00:1a 77                         /dev/shm/a b
7f0000004000-7f0000005000 r--s 00000000 00:1a 78                         /dev/shm/c
7f0000005000-7f0000006000 rw-p 00000000 00:1a 79                         /dev/shm/d
7f0000006000-7f0000007000 rw-s 00000000 00:01 80                         /memfd:e (deleted)
7f0000008000-7f0000009000 rw-s 00000000 fd:02 81                         /f
7f0000009000-7f000000a000 rw-s 00001000 fd:02 82                         /g
";

    #[test]
    fn memory_in_one_object() {
        let of = |base, length| find(MAPS, base, length);
        let object = of(0x7f00_0000_0010, 0x20).unwrap();
        assert_eq!((object.offset, object.inode), (0x1010, 77));
        assert_eq!(object.name, "/dev/shm/a b");
        assert_eq!(object.range, "7f0000000000-7f0000002000");
        assert_eq!(object.device, sys::device_number(0, 0x1a));
        let across = of(0x7f00_0000_1ff8, 0x1008).unwrap();
        assert_eq!(across.offset, 0x2ff8, "up to the end of the second mapping");
        assert_eq!(
            of(0x7f00_0000_1ff8, 0x1009),
            None,
            "another place of the object"
        );
        assert_eq!(of(0x7f00_0000_6ff8, 9), None, "a gap follows");
        assert_eq!(of(0x7f00_0000_8ff8, 9), None, "another object follows");
        assert_eq!(of(0x7f00_0000_6ff8, 8).unwrap().name, "/memfd:e (deleted)");
        for other in [0x7f00_0000_4000, 0x7f00_0000_5000, 0x55e0_c8a0_0000, 0x1000] {
            assert_eq!(of(other, 1), None, "{other:#x}");
        }
        for (base, length) in [(0x7f00_0000_0000, 0), (u64::MAX, 2), (u64::MAX, 1)] {
            assert_eq!(of(base, length), None);
        }
        assert_eq!(find("not a list of mappings\n", 0, 1), None);
    }

    #[test]
    fn memory_of_this_process() {
        let file = sys::memory_file(c"test").unwrap();
        sys::allocate(&file, 0, 8192).unwrap();
        let shared = sys::map_shared(&file, 0, 8192).unwrap();
        let word = 7u64;
        let old_kernel = || Script::new().fails("ioctl", libc::ENOTTY);
        for old in [false, true] {
            let own = Own::new();
            let ask = |address| {
                let _script = old.then(old_kernel);
                own.is_shared(address)
            };
            assert!(ask(shared.as_ptr() as u64 + 4096), "{old}");
            assert!(!ask(&raw const word as u64) && !ask(16), "{old}");
        }
        let pid = std::process::id().to_string();
        let object = shared_object(&pid, shared.as_ptr() as u64 + 4000, 200).unwrap();
        assert_eq!(object.offset, 4000);
        assert_eq!(
            own_mapping(&object, 200),
            Some(shared.as_ptr() as u64 + 4000)
        );
        assert_eq!(own_mapping(&object, 4193), None, "beyond the end");
        assert!(object.is(&File::from(file).metadata().unwrap()));
        // SAFETY: mapped above, and not used again.
        unsafe { sys::unmap(shared, 8192) }.unwrap();
        assert_eq!(shared_object(&pid, shared.as_ptr() as u64, 1), None);
    }
}
