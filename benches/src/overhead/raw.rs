//! The raw side of the comparison: direct calls of libfabric, as few as possible, with the
//! completion that the transport requests of the provider.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use libfabric_sys as ffi;

/// A raw endpoint with its queue. Lives to the end of the process: a measurement closes nothing.
pub(crate) struct Raw {
    domain: *mut ffi::fid_domain,
    av: *mut ffi::fid_av,
    ep: *mut ffi::fid_ep,
    cq: *mut ffi::fid_cq,
    /// Whether puts are plain writes (shm's direct path), without a confirmation by the target.
    plain: bool,
    virtual_addresses: bool,
    /// Reads the queue, without the library's checks.
    read: unsafe extern "C" fn(*mut ffi::fid_cq, *mut c_void, usize) -> isize,
    pub(crate) outstanding: u64,
}

/// The result of a call.
pub(crate) type Posted = Result<(), String>;

/// A peer's region for the raw side.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) peer: ffi::fi_addr_t,
    pub(crate) address: u64,
    pub(crate) key: u64,
}

fn check(call: &str, rc: i32) -> Result<(), String> {
    if rc < 0 {
        Err(format!("{call} returned {rc}"))
    } else {
        Ok(())
    }
}

impl Raw {
    pub(crate) fn open(provider: &str) -> Result<Raw, String> {
        let name = CString::new(provider).map_err(|e| e.to_string())?;
        let delivery = u64::from(ffi::FI_DELIVERY_COMPLETE);
        // SAFETY: the calls follow their man pages in order: hints allocated by fi_dupinfo(NULL) with
        // all attributes, objects opened parent first, everything bound before it is enabled.
        unsafe {
            let hints = ffi::fi_dupinfo(ptr::null());
            (*hints).caps = u64::from(ffi::FI_RMA | ffi::FI_ATOMIC);
            (*hints).mode = ffi::FI_CONTEXT | ffi::FI_CONTEXT2;
            (*(*hints).ep_attr).type_ = ffi::FI_EP_RDM;
            (*(*hints).domain_attr).mr_mode =
                (ffi::FI_MR_VIRT_ADDR | ffi::FI_MR_ALLOCATED | ffi::FI_MR_PROV_KEY) as i32;
            (*(*hints).domain_attr).threading = ffi::FI_THREAD_DOMAIN;
            (*(*hints).tx_attr).op_flags = delivery;
            (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            let mut info = ptr::null_mut();
            let api = ffi::fi_version().min(ffi::version(1, 17));
            check(
                "fi_getinfo",
                ffi::fi_getinfo(api, ptr::null(), ptr::null(), 0, hints, &mut info),
            )?;
            ffi::fi_freeinfo(hints);
            if CStr::from_ptr((*(*info).fabric_attr).prov_name) != name.as_c_str() {
                return Err(format!("fi_getinfo gave another provider than {provider}"));
            }
            (*(*info).tx_attr).op_flags = 0;
            let virtual_addresses =
                (*(*info).domain_attr).mr_mode as u32 & ffi::FI_MR_VIRT_ADDR != 0;
            let (mut fabric, mut domain, mut av) =
                (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            let (mut ep, mut cq) = (ptr::null_mut(), ptr::null_mut());
            check(
                "fi_fabric",
                ffi::fi_fabric((*info).fabric_attr, &mut fabric, ptr::null_mut()),
            )?;
            check("fi_domain", ffi::fi_domain(fabric, info, &mut domain))?;
            let mut av_attr = ffi::fi_av_attr {
                type_: ffi::FI_AV_MAP,
                ..Default::default()
            };
            check("fi_av_open", ffi::fi_av_open(domain, &mut av_attr, &mut av))?;
            let mut cq_attr = ffi::fi_cq_attr {
                size: (*(*info).tx_attr).size.max(1024),
                format: ffi::FI_CQ_FORMAT_CONTEXT,
                ..Default::default()
            };
            check("fi_cq_open", ffi::fi_cq_open(domain, &mut cq_attr, &mut cq))?;
            check("fi_endpoint", ffi::fi_endpoint(domain, info, &mut ep))?;
            check("fi_ep_bind", ffi::fi_bind(ep.cast(), av.cast(), 0))?;
            let both = u64::from(ffi::FI_TRANSMIT | ffi::FI_RECV);
            check("fi_ep_bind", ffi::fi_bind(ep.cast(), cq.cast(), both))?;
            check("fi_enable", ffi::fi_enable(ep.cast()))?;
            let read = (*(*cq).ops).read.ok_or("the provider has no fi_cq_read")?;
            Ok(Raw {
                domain,
                av,
                ep,
                cq,
                plain: provider == "shm" && virtual_addresses,
                virtual_addresses,
                read,
                outstanding: 0,
            })
        }
    }

    pub(crate) fn name(&self) -> Result<Vec<u8>, String> {
        let mut name = vec![0u8; 256];
        let mut len = name.len();
        // SAFETY: the endpoint is live, and the buffer has `len` bytes.
        check("fi_getname", unsafe {
            ffi::fi_getname(self.ep, name.as_mut_ptr().cast(), &mut len)
        })?;
        name.truncate(len);
        Ok(name)
    }

    pub(crate) fn connect(&self, name: &[u8]) -> Result<ffi::fi_addr_t, String> {
        let mut address = 0;
        // SAFETY: the address vector is live; a peer's fi_getname gave the name.
        let n = unsafe { ffi::fi_av_insert(self.av, name.as_ptr().cast(), 1, &mut address, 0) };
        if n == 1 {
            Ok(address)
        } else {
            Err(format!("fi_av_insert returned {n}"))
        }
    }

    /// Registers memory for the life of the process: its address or offset, and its key.
    pub(crate) fn register(&self, base: *mut u8, len: usize) -> Result<(u64, u64), String> {
        let iov = ffi::iovec {
            iov_base: base.cast(),
            iov_len: len,
        };
        let access = ffi::FI_READ | ffi::FI_WRITE | ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE;
        let attr = ffi::fi_mr_attr {
            mr_iov: &iov,
            iov_count: 1,
            access: u64::from(access),
            requested_key: 1,
            ..Default::default()
        };
        let mut mr = ptr::null_mut();
        // SAFETY: the domain is live; the caller keeps the memory to the end of the process.
        check("fi_mr_regattr", unsafe {
            ffi::fi_mr_regattr(self.domain, &attr, 0, &mut mr)
        })?;
        // SAFETY: a live region.
        let key = unsafe { (*mr).key };
        Ok((
            if self.virtual_addresses {
                base as u64
            } else {
                0
            },
            key,
        ))
    }

    /// The maximum number of 64-bit words of one atomic sum, in the form that the transport uses.
    pub(crate) fn most_words(&self) -> Result<usize, String> {
        let flags = if self.plain { ffi::FI_FETCH_ATOMIC } else { 0 };
        let mut attr = ffi::fi_atomic_attr::default();
        // SAFETY: the domain is live; the attribute receives the answer.
        check("fi_query_atomic", unsafe {
            ffi::fi_query_atomic(self.domain, ffi::FI_UINT64, ffi::FI_SUM, &mut attr, flags)
        })?;
        Ok(attr.count.max(1))
    }

    /// Makes a call until the provider takes it, reading completions while it has no room.
    #[inline(always)]
    fn post(&mut self, what: &str, call: impl Fn(*mut ffi::fid_ep) -> Option<isize>) -> Posted {
        loop {
            let rc = call(self.ep);
            if rc == Some(0) {
                self.outstanding += 1;
                return Ok(());
            }
            if rc != Some(-(ffi::FI_EAGAIN as isize)) {
                return Err(refused(what, rc));
            }
            self.poll()?;
        }
    }

    /// Posts one put.
    #[inline]
    pub(crate) fn put(&mut self, target: Target, local: *const u8, size: usize) -> Posted {
        if self.plain {
            // SAFETY: the endpoint is live, and libfabric keeps its tables; the caller owns the
            // buffers.
            return self.post("fi_write", |ep| unsafe {
                (*(*ep).rma).write.map(|write| {
                    write(
                        ep,
                        local.cast(),
                        size,
                        ptr::null_mut(),
                        target.peer,
                        target.address,
                        target.key,
                        ptr::null_mut(),
                    )
                })
            });
        }
        let iov = ffi::iovec {
            iov_base: local.cast_mut().cast(),
            iov_len: size,
        };
        let rma_iov = ffi::fi_rma_iov {
            addr: target.address,
            len: size,
            key: target.key,
        };
        let message = ffi::fi_msg_rma {
            msg_iov: &iov,
            desc: ptr::null_mut(),
            iov_count: 1,
            addr: target.peer,
            rma_iov: &rma_iov,
            rma_iov_count: 1,
            context: ptr::null_mut(),
            data: 0,
        };
        let flags = u64::from(ffi::FI_COMPLETION | ffi::FI_DELIVERY_COMPLETE);
        // SAFETY: the endpoint is live, and libfabric keeps its tables; the caller owns the
        // buffers.
        self.post("fi_writemsg", |ep| unsafe {
            (*(*ep).rma)
                .writemsg
                .map(|writemsg| writemsg(ep, &message, flags))
        })
    }

    /// Posts one get.
    #[inline]
    pub(crate) fn get(&mut self, target: Target, local: *mut u8, size: usize) -> Posted {
        // SAFETY: as for put.
        self.post("fi_read", |ep| unsafe {
            (*(*ep).rma).read.map(|read| {
                read(
                    ep,
                    local.cast(),
                    size,
                    ptr::null_mut(),
                    target.peer,
                    target.address,
                    target.key,
                    ptr::null_mut(),
                )
            })
        })
    }

    /// Posts one fetching sum of 64-bit words.
    #[inline]
    pub(crate) fn fetch_add(
        &mut self,
        target: Target,
        operands: *const u64,
        result: *mut u8,
        count: usize,
    ) -> Posted {
        // SAFETY: as for put.
        self.post("fi_fetch_atomic", |ep| unsafe {
            (*(*ep).atomic).readwrite.map(|readwrite| {
                readwrite(
                    ep,
                    operands.cast(),
                    count,
                    ptr::null_mut(),
                    result.cast(),
                    ptr::null_mut(),
                    target.peer,
                    target.address,
                    target.key,
                    ffi::FI_UINT64,
                    ffi::FI_SUM,
                    ptr::null_mut(),
                )
            })
        })
    }

    /// Posts one compare-and-swap of a 64-bit word.
    #[inline]
    pub(crate) fn compare_swap(&mut self, target: Target, result: *mut u8) -> Posted {
        static WORDS: [u64; 2] = [0, 1];
        // SAFETY: the conditions are those of put; the operands live for ever.
        self.post("fi_compare_atomic", |ep| unsafe {
            (*(*ep).atomic).compwrite.map(|compwrite| {
                compwrite(
                    ep,
                    (&raw const WORDS[1]).cast(),
                    1,
                    ptr::null_mut(),
                    (&raw const WORDS[0]).cast(),
                    ptr::null_mut(),
                    result.cast(),
                    ptr::null_mut(),
                    target.peer,
                    target.address,
                    target.key,
                    ffi::FI_UINT64,
                    ffi::FI_CSWAP,
                    ptr::null_mut(),
                )
            })
        })
    }

    /// Posts one sum of 64-bit words without result. Over shm the sum is fetching, because only the
    /// completion of a fetch means that the target has executed it.
    #[inline]
    pub(crate) fn add(
        &mut self,
        target: Target,
        operands: *const u64,
        result: *mut u8,
        count: usize,
    ) -> Posted {
        if self.plain {
            return self.fetch_add(target, operands, result, count);
        }
        let operand = ffi::fi_ioc {
            addr: operands.cast_mut().cast(),
            count,
        };
        let words = ffi::fi_rma_ioc {
            addr: target.address,
            count,
            key: target.key,
        };
        let message = ffi::fi_msg_atomic {
            msg_iov: &operand,
            desc: ptr::null_mut(),
            iov_count: 1,
            addr: target.peer,
            rma_iov: &words,
            rma_iov_count: 1,
            datatype: ffi::FI_UINT64,
            op: ffi::FI_SUM,
            context: ptr::null_mut(),
            data: 0,
        };
        let flags = u64::from(ffi::FI_COMPLETION | ffi::FI_DELIVERY_COMPLETE);
        // SAFETY: as for put.
        self.post("fi_atomicmsg", |ep| unsafe {
            (*(*ep).atomic)
                .writemsg
                .map(|writemsg| writemsg(ep, &message, flags))
        })
    }

    /// Reads completions once.
    #[inline]
    pub(crate) fn poll(&mut self) -> Posted {
        let mut entries = [ffi::fi_cq_entry::default(); 64];
        // SAFETY: the queue is live and was opened with this format; there is room for 64 entries.
        let n = unsafe { (self.read)(self.cq, entries.as_mut_ptr().cast(), 64) };
        if n > 0 {
            self.outstanding -= n as u64;
        } else if n < 0 && n != -(ffi::FI_EAGAIN as isize) {
            return Err(refused("fi_cq_read", Some(n)));
        }
        Ok(())
    }

    /// Reads completions until none is outstanding.
    #[inline]
    pub(crate) fn drain(&mut self) -> Posted {
        while self.outstanding > 0 {
            self.poll()?;
        }
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn refused(what: &str, rc: Option<isize>) -> String {
    match rc {
        Some(rc) => format!("{what} returned {rc}"),
        None => format!("the provider has no {what}"),
    }
}
