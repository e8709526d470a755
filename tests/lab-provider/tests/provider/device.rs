//! Device memory: registration, overrides, and misuse that is reported.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use libfabric_sys as ffi;

use crate::bench::{Bench, close_region as close, good, in_process, quiet};

/// Device memory for tests: pages that the processor cannot access at the device's address, and the
/// same pages at the address where the device's driver would map them.
struct Device {
    address: *mut u64,
    mapped: *mut u64,
}

const PAGE: usize = 4096;

impl Device {
    fn new() -> Device {
        // SAFETY: the mappings belong to a new memfd that no other code uses.
        unsafe {
            let file = libc::memfd_create(c"device".as_ptr(), 0);
            assert!(file >= 0);
            good(libc::ftruncate(file, PAGE as i64));
            let map = |access| {
                libc::mmap(ptr::null_mut(), PAGE, access, libc::MAP_SHARED, file, 0).cast::<u64>()
            };
            let device = Device {
                address: map(libc::PROT_NONE),
                mapped: map(libc::PROT_READ | libc::PROT_WRITE),
            };
            libc::close(file);
            device
        }
    }

    fn shift(&self) -> i64 {
        self.mapped as i64 - self.address as i64
    }

    fn get(&self, word: usize) -> u64 {
        // SAFETY: the word is inside the page; the provider writes the page only while its queue is
        // read.
        unsafe { self.mapped.add(word).read_volatile() }
    }

    fn set(&self, word: usize, value: u64) {
        // SAFETY: the word is inside the page; the provider writes the page only while its queue is
        // read.
        unsafe { self.mapped.add(word).write_volatile(value) }
    }

    fn register(
        &self,
        b: &Bench,
        key: u64,
        iface: u32,
        flags: u64,
    ) -> Result<*mut ffi::fid_mr, i32> {
        let iov = ffi::iovec {
            iov_base: self.address.cast(),
            iov_len: PAGE,
        };
        let remote = ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE;
        let attr = ffi::fi_mr_attr {
            mr_iov: &iov,
            iov_count: 1,
            access: u64::from(remote),
            requested_key: key,
            iface,
            ..Default::default()
        };
        b.register_as(attr, flags)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, which is unmapped once.
        unsafe {
            libc::munmap(self.address.cast(), PAGE);
            libc::munmap(self.mapped.cast(), PAGE);
        }
    }
}

/// The distance that the test's override functions add to a device address, and the number of their
/// calls.
static SHIFT: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn copy_from(
    to: *mut c_void,
    size: usize,
    iface: ffi::fi_hmem_iface,
    _device: u64,
    iov: *const ffi::iovec,
    count: usize,
    offset: u64,
) -> isize {
    assert_eq!((iface, count), (ffi::FI_HMEM_CUDA, 1));
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the provider passes registered device memory; the shift leads to its mapping.
    unsafe {
        let base = (*iov).iov_base.cast::<u8>();
        let from = base
            .wrapping_add(offset as usize)
            .wrapping_add(SHIFT.load(Ordering::Relaxed) as usize);
        ptr::copy_nonoverlapping(from, to.cast(), size);
    }
    size as isize
}

unsafe extern "C" fn copy_to(
    iface: ffi::fi_hmem_iface,
    _device: u64,
    iov: *const ffi::iovec,
    count: usize,
    offset: u64,
    from: *const c_void,
    size: usize,
) -> isize {
    assert_eq!((iface, count), (ffi::FI_HMEM_CUDA, 1));
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the provider passes registered device memory; the shift leads to its mapping.
    unsafe {
        let base = (*iov).iov_base.cast::<u8>();
        let to = base
            .wrapping_add(offset as usize)
            .wrapping_add(SHIFT.load(Ordering::Relaxed) as usize);
        ptr::copy_nonoverlapping(from.cast(), to, size);
    }
    size as isize
}

type From = unsafe extern "C" fn(
    *mut c_void,
    usize,
    ffi::fi_hmem_iface,
    u64,
    *const ffi::iovec,
    usize,
    u64,
) -> isize;
type To = unsafe extern "C" fn(
    ffi::fi_hmem_iface,
    u64,
    *const ffi::iovec,
    usize,
    u64,
    *const c_void,
    usize,
) -> isize;

#[repr(C)]
struct Overrides {
    size: usize,
    from: Option<From>,
    to: Option<To>,
}

fn override_with(b: &Bench, from: Option<From>, to: Option<To>) -> i32 {
    let mut ops = Overrides {
        size: size_of::<Overrides>(),
        from,
        to,
    };
    // SAFETY: the domain is live; the structure belongs to the name.
    unsafe {
        let set = (*(*b.domain).fid.ops).ops_set.unwrap();
        let fid = b.domain.cast();
        set(
            fid,
            c"hmem_override_ops".as_ptr(),
            0,
            (&raw mut ops).cast(),
            ptr::null_mut(),
        )
    }
}

/// Makes every kind of operation on device memory, at the origin and at the target.
fn exercise(b: &Bench, device: &Device, mr: *mut ffi::fid_mr, key: u64) {
    // SAFETY: the region is live.
    let desc = unsafe { (*mr).mem_desc };
    let none = ptr::null_mut();
    let source = 77u64;
    assert_eq!(b.write(&source, 0, key, none), 0);
    assert!(b.ends());
    assert_eq!(device.get(0), 77);
    let mut word = 0u64;
    assert_eq!(b.fetch(&mut word, None, none, 0, key, none), 0);
    assert!(b.ends());
    assert_eq!(word, 77);
    assert_eq!(b.fetch(&mut word, Some(&3), none, 0, key, none), 0);
    assert!(b.ends());
    assert_eq!((word, device.get(0)), (77, 80));
    // A write from device memory to device memory.
    device.set(1, 5);
    let delivered = u64::from(ffi::FI_DELIVERY_COMPLETE);
    let from = device.address.wrapping_add(1);
    assert_eq!(b.write_with(from, desc, 16, key, none, delivered), 0);
    assert!(b.ends());
    assert_eq!(device.get(2), 5);
    let to = device.address.wrapping_add(3);
    assert_eq!(b.fetch(to, Some(&1), desc, 16, key, none), 0);
    assert!(b.ends());
    assert_eq!((device.get(3), device.get(2)), (5, 6));
}

#[test]
fn device_memory() {
    quiet(|| {
        let device = Device::new();
        let shift = device.shift().to_string();
        let nosys = ffi::FI_ENOSYS as i32;
        for progress in ["manual", "auto"] {
            let kind = ("LAB_PROGRESS", progress);
            // The registration fails for missing memory, memory without an access path, an
            // unsupported kind, and an unsupported flag.
            let b = Bench::open(&[kind]);
            assert_eq!(device.register(&b, 1, ffi::FI_HMEM_CUDA, 0), Err(nosys));
            b.close();
            let b = Bench::open(&[
                kind,
                ("LAB_HMEM", "1"),
                ("LAB_HMEM_DEVICE_ONLY", "0"),
                ("LAB_HMEM_SHIFT", &shift),
            ]);
            // SAFETY: the entry lives as long as the bench.
            assert_ne!(unsafe { (*b.info).caps } & u64::from(ffi::FI_HMEM), 0);
            assert_eq!(device.register(&b, 1, ffi::FI_HMEM_ZE, 0), Err(nosys));
            let only = u64::from(ffi::FI_HMEM_DEVICE_ONLY);
            assert_eq!(
                device.register(&b, 1, ffi::FI_HMEM_CUDA, only),
                Err(ffi::FI_EINVAL as i32)
            );
            assert_eq!(override_with(&b, Some(copy_from), Some(copy_to)), -nosys);
            let mr = device.register(&b, 1, ffi::FI_HMEM_CUDA, 0).unwrap();
            exercise(&b, &device, mr, 1);
            close(mr);
            b.close();
            // The provider uses only the user's functions.
            let b = Bench::open(&[
                kind,
                ("LAB_HMEM", "1"),
                ("LAB_HMEM_OVERRIDE", "1"),
                ("LAB_MR_MODE", "HMEM"),
            ]);
            assert_eq!(device.register(&b, 1, ffi::FI_HMEM_CUDA, 0), Err(nosys));
            SHIFT.store(device.shift() as u64, Ordering::Relaxed);
            good(override_with(&b, Some(copy_from), Some(copy_to)));
            let before = CALLS.load(Ordering::Relaxed);
            let mr = device.register(&b, 1, ffi::FI_HMEM_CUDA, only).unwrap();
            exercise(&b, &device, mr, 1);
            assert!(CALLS.load(Ordering::Relaxed) > before);
            close(mr);
            b.close();
        }
    });
}

/// The user does not fulfil the requirements of FI_MR_HMEM and of overrides.
#[test]
fn misuse_of_device_memory_is_reported() {
    let Some((text, _)) = in_process(|| {
        let device = Device::new();
        let shift = device.shift().to_string();
        let shape = [
            ("LAB_HMEM", "1"),
            ("LAB_HMEM_OVERRIDE", "1"),
            ("LAB_HMEM_SHIFT", &shift),
            ("LAB_MR_MODE", "HMEM"),
        ];
        let b = Bench::open(&shape);
        assert_eq!(
            override_with(&b, Some(copy_from), None),
            -(ffi::FI_EINVAL as i32)
        );
        let mr = device.register(&b, 1, ffi::FI_HMEM_CUDA, 0).unwrap();
        let none = ptr::null_mut();
        let flags = u64::from(ffi::FI_DELIVERY_COMPLETE);
        assert_ne!(b.write_with(device.address, none, 8, 1, none, flags), 0);
        // SAFETY: the region is live.
        let desc = unsafe { (*mr).mem_desc };
        let elsewhere = 1u64;
        assert_ne!(b.write_with(&elsewhere, desc, 8, 1, none, flags), 0);
        close(mr);
        b.close();
    }) else {
        return;
    };
    let wanted = [
        "without both functions",
        "without the descriptor",
        "does not describe the buffer",
    ];
    assert_eq!(text.lines().count(), wanted.len(), "{text}");
    for (line, words) in text.lines().zip(wanted) {
        assert!(line.contains(words), "{line}");
    }
}
