//! An endpoint of the provider with itself as its peer, in a process in which libfabric finds the
//! provider.

pub(crate) mod messages;

use std::any::type_name;
use std::ffi::c_void;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, ptr};

use lab_fi as _;
use libfabric_sys as ffi;

/// The variable that names the file for violations; set in the process that has the provider.
pub(crate) const REPORT: &str = "LAB_REPORT";

/// An endpoint with all its objects, and itself as its peer.
pub(crate) struct Bench {
    pub(crate) info: *mut ffi::fi_info,
    pub(crate) fabric: *mut ffi::fid_fabric,
    pub(crate) domain: *mut ffi::fid_domain,
    pub(crate) av: *mut ffi::fid_av,
    pub(crate) cq: *mut ffi::fid_cq,
    pub(crate) ep: *mut ffi::fid_ep,
    pub(crate) peer: ffi::fi_addr_t,
}

pub(crate) fn good(rc: i32) {
    assert_eq!(rc, 0);
}

impl Bench {
    /// Opens the provider in a shape.
    pub(crate) fn open(shape: &[(&str, &str)]) -> Bench {
        Bench::open_bound(shape, 0)
    }

    /// The same as [`open`](Self::open), with flags for binding the queue.
    pub(crate) fn open_bound(shape: &[(&str, &str)], queue_flags: u64) -> Bench {
        let stale = env::vars().map(|(name, _)| name);
        let stale = stale.filter(|n| n.starts_with("LAB_") && n != REPORT && n != "LAB_STATS");
        for name in stale.collect::<Vec<_>>() {
            // SAFETY: this process runs one test, and no other code reads the environment.
            unsafe { env::remove_var(name) };
        }
        for (name, value) in shape {
            // SAFETY: this process runs one test, and no other code reads the environment.
            unsafe { env::set_var(name, value) };
        }
        let (mut info, mut fabric, mut domain) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let (mut av, mut cq, mut ep) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut peer = 0;
        // SAFETY: every call gets live objects and complete attributes, in the order that the man
        // pages require.
        unsafe {
            let hints = ffi::fi_dupinfo(ptr::null());
            (*(*hints).fabric_attr).prov_name = libc::strdup(c"lab".as_ptr());
            (*hints).mode = u64::MAX;
            (*hints).caps = 0;
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
                u64::from(ffi::FI_TRANSMIT) | queue_flags,
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

    /// Registers memory for writes.
    pub(crate) fn register(&self, memory: &[u64], key: u64) -> *mut ffi::fid_mr {
        self.register_for(ffi::FI_REMOTE_WRITE, memory, key)
    }

    pub(crate) fn register_for(&self, access: u32, memory: &[u64], key: u64) -> *mut ffi::fid_mr {
        let iov = ffi::iovec {
            iov_base: memory.as_ptr().cast_mut().cast(),
            iov_len: size_of_val(memory),
        };
        let attr = ffi::fi_mr_attr {
            mr_iov: &iov,
            iov_count: 1,
            access: u64::from(access),
            requested_key: key,
            ..Default::default()
        };
        self.register_as(attr, 0).unwrap_or(ptr::null_mut())
    }

    /// Registers by an attribute.
    pub(crate) fn register_as(
        &self,
        attr: ffi::fi_mr_attr,
        flags: u64,
    ) -> Result<*mut ffi::fid_mr, i32> {
        let mut mr = ptr::null_mut();
        // SAFETY: the domain is live and the attribute complete.
        match unsafe { ffi::fi_mr_regattr(self.domain, &attr, flags, &mut mr) } {
            0 => Ok(mr),
            code => Err(-code),
        }
    }

    /// Writes one word to an offset, with delivery.
    pub(crate) fn write(&self, source: &u64, offset: u64, key: u64, context: *mut c_void) -> isize {
        self.write_with(
            source,
            ptr::null_mut(),
            offset,
            key,
            context,
            u64::from(ffi::FI_DELIVERY_COMPLETE),
        )
    }

    /// The same as [`write`](Self::write), with a descriptor and flags.
    pub(crate) fn write_with(
        &self,
        source: *const u64,
        mut desc: *mut c_void,
        offset: u64,
        key: u64,
        context: *mut c_void,
        flags: u64,
    ) -> isize {
        let iov = ffi::iovec {
            iov_base: source.cast_mut().cast(),
            iov_len: 8,
        };
        let rma = ffi::fi_rma_iov {
            addr: offset,
            len: 8,
            key,
        };
        let message = ffi::fi_msg_rma {
            msg_iov: &iov,
            desc: &mut desc,
            iov_count: 1,
            addr: self.peer,
            rma_iov: &rma,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is live and the message complete.
        unsafe { (*(*self.ep).rma).writemsg.unwrap()(self.ep, &message, flags) }
    }

    /// Reads the queue until an operation ends; returns whether it succeeded.
    pub(crate) fn ends(&self) -> bool {
        let mut entry = ffi::fi_cq_entry::default();
        for _ in 0..1000 {
            // SAFETY: the queue is live, and the buffer has room for one entry.
            let n = unsafe { (*(*self.cq).ops).read.unwrap()(self.cq, (&raw mut entry).cast(), 1) };
            if n == 1 {
                return true;
            }
            if n == -(ffi::FI_EAVAIL as isize) {
                let mut error = ffi::fi_cq_err_entry::default();
                // SAFETY: the queue is live, and the buffer has room for one entry.
                assert_eq!(unsafe { ffi::fi_cq_readerr(self.cq, &mut error) }, 1);
                return false;
            }
        }
        panic!("nothing ends");
    }

    /// Reads into a word, or atomically adds to the target and fetches the old value into the word.
    pub(crate) fn fetch(
        &self,
        to: *mut u64,
        add: Option<&u64>,
        desc: *mut c_void,
        offset: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the endpoint is live; the buffers belong to the test, valid or not.
        unsafe {
            match add {
                None => (*(*self.ep).rma).read.unwrap()(
                    self.ep,
                    to.cast(),
                    8,
                    desc,
                    self.peer,
                    offset,
                    key,
                    context,
                ),
                Some(add) => (*(*self.ep).atomic).readwrite.unwrap()(
                    self.ep,
                    ptr::from_ref(add).cast(),
                    1,
                    ptr::null_mut(),
                    to.cast(),
                    desc,
                    self.peer,
                    offset,
                    key,
                    ffi::FI_UINT64,
                    ffi::FI_SUM,
                    context,
                ),
            }
        }
    }

    /// Whether a read of the queue returns no completion.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut entry = ffi::fi_cq_entry::default();
        (0..100).all(|_| {
            // SAFETY: the queue is live, and the buffer has room for one entry.
            let n = unsafe { (*(*self.cq).ops).read.unwrap()(self.cq, (&raw mut entry).cast(), 1) };
            n == -(ffi::FI_EAGAIN as isize)
        })
    }

    pub(crate) fn close(self) {
        // SAFETY: each object is closed once, children first.
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

/// Closes a region.
pub(crate) fn close_region(mr: *mut ffi::fid_mr) {
    // SAFETY: the region is live and closed once.
    good(unsafe { ffi::fi_close(mr.cast()) });
}

/// Runs `run` in a separate process that has the provider; that process runs the calling test, whose name is that of the
/// closure `run`. Returns the provider's report and its final counts, or `None` in that process.
pub(crate) fn in_process<F: FnOnce()>(run: F) -> Option<(String, String)> {
    if env::var_os(REPORT).is_some() {
        run();
        return None;
    }
    let (_, test) = type_name::<F>().split_once("::").unwrap();
    let test = test.trim_end_matches("::{{closure}}");
    // A colon would begin another folder of FI_PROVIDER_PATH.
    let name = test.replace(':', "");
    let folder: PathBuf =
        env::temp_dir().join(format!("lab-provider-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let built = env::current_exe().unwrap().with_file_name("liblab_fi.so");
    std::os::unix::fs::symlink(&built, folder.join("liblab-fi.so")).unwrap();
    let report = folder.join("report");
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads", "1"])
        .env("FI_PROVIDER_PATH", &folder)
        .env(REPORT, &report)
        .env("LAB_STATS", folder.join("stats"))
        .output()
        .unwrap();
    let text = fs::read_to_string(&report).unwrap_or_default();
    let counts = fs::read_to_string(folder.join("stats")).unwrap_or_default();
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{output:?}\n{text}");
    assert_ne!(counts, "", "{test} did not run");
    Some((text, counts))
}

/// Runs `run` in such a process; the provider must report no violation.
pub(crate) fn quiet<F: FnOnce()>(run: F) {
    if let Some((report, _)) = in_process(run) {
        assert_eq!(report, "");
    }
}
