//! The provider's eye on its user: each rule is broken once, and the report must say so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::ffi::c_void;
use std::process::Command;
use std::{env, fs, ptr};

use lab_fi as _;
use libfabric_sys as ffi;

const REPORT: &str = "LAB_REPORT";

/// An endpoint with all that it needs, and itself as its peer.
struct Bench {
    info: *mut ffi::fi_info,
    fabric: *mut ffi::fid_fabric,
    domain: *mut ffi::fid_domain,
    av: *mut ffi::fid_av,
    cq: *mut ffi::fid_cq,
    ep: *mut ffi::fid_ep,
    peer: ffi::fi_addr_t,
}

fn good(rc: i32) {
    assert_eq!(rc, 0);
}

impl Bench {
    /// Opens the provider in a shape.
    fn open(shape: &[(&str, &str)]) -> Bench {
        for name in ["LAB_MR_MODE", "LAB_MODE", "LAB_FAULTS"] {
            // SAFETY: this process runs one test, and nothing else reads the environment.
            unsafe { env::remove_var(name) };
        }
        for (name, value) in shape {
            // SAFETY: as above.
            unsafe { env::set_var(name, value) };
        }
        let (mut info, mut fabric, mut domain) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let (mut av, mut cq, mut ep) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut peer = 0;
        // SAFETY: every call gets live objects and complete attributes, in the order that the man
        // pages ask for.
        unsafe {
            let hints = ffi::fi_dupinfo(ptr::null());
            (*(*hints).fabric_attr).prov_name = libc::strdup(c"lab".as_ptr());
            (*hints).mode = u64::MAX;
            (*(*hints).domain_attr).mr_mode = !3;
            good(ffi::fi_getinfo(
                ffi::version(1, 14),
                ptr::null(),
                ptr::null(),
                0,
                hints,
                &mut info,
            ));
            ffi::fi_freeinfo(hints);
            good(ffi::fi_fabric(
                (*info).fabric_attr,
                &mut fabric,
                ptr::null_mut(),
            ));
            good(ffi::fi_domain(fabric, info, &mut domain));
            good(ffi::fi_av_open(
                domain,
                &mut ffi::fi_av_attr::default(),
                &mut av,
            ));
            let mut attr = ffi::fi_cq_attr {
                format: ffi::FI_CQ_FORMAT_CONTEXT,
                wait_obj: ffi::FI_WAIT_NONE,
                ..Default::default()
            };
            good(ffi::fi_cq_open(domain, &mut attr, &mut cq));
            good(ffi::fi_endpoint(domain, info, &mut ep));
            good(ffi::fi_bind(ep.cast(), av.cast(), 0));
            good(ffi::fi_bind(
                ep.cast(),
                cq.cast(),
                u64::from(ffi::FI_TRANSMIT),
            ));
            good(ffi::fi_enable(ep.cast()));
            let (mut name, mut length) = ([0u8; 64], 64);
            good(ffi::fi_getname(ep, name.as_mut_ptr().cast(), &mut length));
            assert_eq!(
                ffi::fi_av_insert(av, name.as_ptr().cast(), 1, &mut peer, 0),
                1
            );
        }
        Bench {
            info,
            fabric,
            domain,
            av,
            cq,
            ep,
            peer,
        }
    }

    fn register(&self, memory: &[u64], key: u64) -> *mut ffi::fid_mr {
        let iov = ffi::iovec {
            iov_base: memory.as_ptr().cast_mut().cast(),
            iov_len: size_of_val(memory),
        };
        let attr = ffi::fi_mr_attr {
            mr_iov: &iov,
            iov_count: 1,
            access: u64::from(ffi::FI_REMOTE_WRITE),
            requested_key: key,
            ..Default::default()
        };
        let mut mr = ptr::null_mut();
        // SAFETY: a live domain and a complete attribute.
        unsafe { ffi::fi_mr_regattr(self.domain, &attr, 0, &mut mr) };
        mr
    }

    /// Writes one word to an offset, with delivery.
    fn write(&self, source: &u64, offset: u64, key: u64, context: *mut c_void) -> isize {
        let iov = ffi::iovec {
            iov_base: ptr::from_ref(source).cast_mut().cast(),
            iov_len: 8,
        };
        let rma = ffi::fi_rma_iov {
            addr: offset,
            len: 8,
            key,
        };
        let message = ffi::fi_msg_rma {
            msg_iov: &iov,
            desc: ptr::null_mut(),
            iov_count: 1,
            addr: self.peer,
            rma_iov: &rma,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        let flags = u64::from(ffi::FI_DELIVERY_COMPLETE);
        // SAFETY: a live endpoint and a complete message.
        unsafe { (*(*self.ep).rma).writemsg.unwrap()(self.ep, &message, flags) }
    }

    /// Reads the queue until an operation ends; whether it succeeded.
    fn ends(&self) -> bool {
        let mut entry = ffi::fi_cq_entry::default();
        for _ in 0..1000 {
            // SAFETY: a live queue, and room for one entry.
            let n = unsafe { (*(*self.cq).ops).read.unwrap()(self.cq, (&raw mut entry).cast(), 1) };
            if n == 1 {
                return true;
            }
            if n == -(ffi::FI_EAVAIL as isize) {
                let mut error = ffi::fi_cq_err_entry::default();
                // SAFETY: as above.
                assert_eq!(unsafe { ffi::fi_cq_readerr(self.cq, &mut error) }, 1);
                return false;
            }
        }
        panic!("nothing ends");
    }

    fn close(self) {
        // SAFETY: closed once each, children first.
        unsafe {
            good(ffi::fi_close(self.ep.cast()));
            good(ffi::fi_close(self.cq.cast()));
            good(ffi::fi_close(self.av.cast()));
            good(ffi::fi_close(self.domain.cast()));
            good(ffi::fi_close(self.fabric.cast()));
            ffi::fi_freeinfo(self.info);
        }
    }
}

fn close(mr: *mut ffi::fid_mr) -> i32 {
    // SAFETY: the provider keeps closed objects readable, so that this can be done wrongly.
    unsafe { ffi::fi_close(mr.cast()) }
}

/// The report must have grown by one line with these words.
fn reported(lines: &mut usize, words: &str) {
    let text = fs::read_to_string(env::var_os(REPORT).unwrap()).unwrap_or_default();
    let new: Vec<_> = text.lines().skip(*lines).collect();
    assert!(new.len() == 1 && new[0].contains(words), "{words}: {new:?}");
    *lines += 1;
}

/// Breaks the rules, in a process that has the provider.
#[test]
fn break_the_rules() {
    if env::var_os(REPORT).is_none() {
        return;
    }
    let mut n = 0;
    let (memory, source) = ([0u64; 8], 7u64);
    let mut context = ffi::fi_context2::default();
    let c = (&raw mut context).cast::<c_void>();

    let b = Bench::open(&[]);
    let mr = b.register(&memory, 5);
    assert_eq!(b.write(&source, 0, 5, c), 0);
    assert!(b.ends());
    // SAFETY: the write is over; another process could have made it.
    assert_eq!(unsafe { ptr::read_volatile(memory.as_ptr()) }, 7);
    assert_eq!(b.write(&source, 0, 6, c), 0);
    assert!(!b.ends());
    reported(&mut n, "key 0x6 names no region");
    assert_eq!(b.write(&source, 57, 5, c), 0);
    assert!(!b.ends());
    reported(&mut n, "outside the region");
    assert!(b.register(&memory, 5).is_null());
    reported(&mut n, "key 0x5 is in use");
    // SAFETY: a live domain, on which others depend.
    assert_ne!(unsafe { ffi::fi_close(b.domain.cast()) }, 0);
    reported(&mut n, "closing a domain on which 4 open object(s) depend");
    assert_eq!(close(mr), 0);
    assert_ne!(close(mr), 0);
    reported(&mut n, "on a closed memory region");
    assert_eq!(b.write(&source, 0, 5, c), 0);
    assert!(!b.ends());
    reported(&mut n, "key 0x5 names no region");
    b.close();

    let b = Bench::open(&[("LAB_MODE", "CONTEXT2"), ("LAB_FAULTS", "delay=3")]);
    let mr = b.register(&memory, 0);
    assert_ne!(b.write(&source, 0, 0, ptr::null_mut()), 0);
    reported(&mut n, "without the context");
    assert_eq!(b.write(&source, 0, 0, c), 0);
    assert_ne!(b.write(&source, 0, 0, c), 0);
    reported(&mut n, "used by two outstanding operations");
    // SAFETY: the context is ours again only after completion, which is the rule to break.
    unsafe { c.cast::<u64>().add(7).write_volatile(1) };
    assert!(b.ends());
    reported(&mut n, "its context changed");
    let mut changed = 1u64;
    assert_eq!(b.write(&changed, 0, 0, c), 0);
    // SAFETY: the word is ours; that it is the provider's until completion is the rule to break.
    unsafe { (&raw mut changed).write_volatile(2) };
    assert!(b.ends());
    reported(&mut n, "its source changed");
    assert_eq!(close(mr), 0);
    b.close();

    let b = Bench::open(&[("LAB_MR_MODE", "ENDPOINT")]);
    let mr = b.register(&memory, 0);
    assert_eq!(b.write(&source, 0, 0, c), 0);
    assert!(!b.ends());
    reported(&mut n, "is not enabled");
    // SAFETY: a live region.
    assert_ne!(unsafe { ffi::fi_enable(mr.cast()) }, 0);
    reported(&mut n, "enabling a region that is not bound");
    // SAFETY: a live region and a live endpoint.
    unsafe {
        good(ffi::fi_bind(mr.cast(), b.ep.cast(), 0));
        good(ffi::fi_enable(mr.cast()));
    }
    assert_eq!(b.write(&source, 0, 0, c), 0);
    assert!(b.ends());
    assert_eq!(close(mr), 0);
    b.close();
    // Five objects are left open for the end of the process.
    let _open = Bench::open(&[]);
}

#[test]
fn every_broken_rule_is_reported() {
    let folder = env::temp_dir().join(format!("lab-provider-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let built = env::current_exe().unwrap().with_file_name("liblab_fi.so");
    std::os::unix::fs::symlink(&built, folder.join("liblab-fi.so")).unwrap();
    let report = folder.join("report");
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "break_the_rules", "--test-threads", "1"])
        .env("FI_PROVIDER_PATH", &folder)
        .env(REPORT, &report)
        .output()
        .unwrap();
    let text = fs::read_to_string(&report).unwrap_or_default();
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{output:?}");
    let last = text.lines().last().unwrap();
    assert!(last.contains("5 object(s) were never closed"), "{last}");
}
