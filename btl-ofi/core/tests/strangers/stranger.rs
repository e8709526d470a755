//! An endpoint of a process outside the job: the process uses libfabric alone, and knows the address of a target's
//! endpoint.

use std::ffi::{CString, c_void};
use std::ptr;

use libfabric_sys as ffi;

/// The number of posted receives, and the words of each.
const RECEIVES: usize = 8;
const WORDS: usize = 20_000;

pub(crate) struct Stranger {
    info: *mut ffi::fi_info,
    fabric: *mut ffi::fid_fabric,
    domain: *mut ffi::fid_domain,
    av: *mut ffi::fid_av,
    cq: *mut ffi::fid_cq,
    ep: *mut ffi::fid_ep,
    target: ffi::fi_addr_t,
    buffers: Vec<Box<[u64]>>,
    /// Messages that the provider still reads, by their number.
    sent: Vec<Option<Box<[u64]>>>,
    /// The number of sends that have ended, and the received messages.
    pub(crate) ended: usize,
    pub(crate) came: Vec<Vec<u64>>,
    /// The outcome of the last read or write.
    accessed: Option<Result<(), i32>>,
}

fn good(rc: i32) {
    assert_eq!(rc, 0);
}

const RECEIVE: usize = 1 << 60;
const SEND: usize = 2 << 60;
const ACCESS: usize = 3 << 60;

impl Stranger {
    /// Opens an endpoint of the provider on the loopback interface.
    pub(crate) fn open(provider: &str, target: &[u8]) -> Stranger {
        ffi::load().unwrap();
        let (mut info, mut fabric, mut domain) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let (mut av, mut cq, mut ep) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut address = 0;
        let name = CString::new(provider).unwrap();
        // SAFETY: every call gets live objects and complete attributes, in the order that the man pages require.
        unsafe {
            let hints = ffi::fi_dupinfo(ptr::null());
            (*(*hints).fabric_attr).prov_name = libc::strdup(name.as_ptr());
            (*hints).caps = u64::from(ffi::FI_MSG | ffi::FI_RMA);
            (*(*hints).ep_attr).type_ = ffi::FI_EP_RDM;
            (*hints).addr_format = ffi::FI_SOCKADDR_IN;
            let source = 0x0200_0000_0000_0000; // FI_SOURCE
            good(ffi::fi_getinfo(
                ffi::version(1, 14),
                c"127.0.0.1".as_ptr(),
                ptr::null(),
                source,
                hints,
                &mut info,
            ));
            ffi::fi_freeinfo(hints);
            let attr = (*info).fabric_attr;
            good(ffi::fi_fabric(attr, &mut fabric, ptr::null_mut()));
            good(ffi::fi_domain(fabric, info, &mut domain));
            let mut attr = ffi::fi_av_attr::default();
            good(ffi::fi_av_open(domain, &mut attr, &mut av));
            let mut attr = ffi::fi_cq_attr {
                size: 4096,
                format: ffi::FI_CQ_FORMAT_MSG,
                wait_obj: ffi::FI_WAIT_NONE,
                ..Default::default()
            };
            good(ffi::fi_cq_open(domain, &mut attr, &mut cq));
            good(ffi::fi_endpoint(domain, info, &mut ep));
            good(ffi::fi_bind(ep.cast(), av.cast(), 0));
            let flags = u64::from(ffi::FI_TRANSMIT | ffi::FI_RECV);
            good(ffi::fi_bind(ep.cast(), cq.cast(), flags));
            good(ffi::fi_enable(ep.cast()));
            let n = ffi::fi_av_insert(av, target.as_ptr().cast(), 1, &mut address, 0);
            assert_eq!(n, 1, "the target's address");
        }
        let mut stranger = Stranger {
            info,
            fabric,
            domain,
            av,
            cq,
            ep,
            target: address,
            buffers: (0..RECEIVES)
                .map(|_| vec![0; WORDS].into_boxed_slice())
                .collect(),
            sent: Vec::new(),
            ended: 0,
            came: Vec::new(),
            accessed: None,
        };
        (0..RECEIVES).for_each(|number| stranger.receive(number));
        stranger
    }

    /// The address of the stranger's endpoint.
    pub(crate) fn name(&self) -> Vec<u8> {
        let (mut name, mut length) = (vec![0u8; 64], 64);
        // SAFETY: the endpoint is live, and the buffer has room for `length` bytes.
        good(unsafe { ffi::fi_getname(self.ep, name.as_mut_ptr().cast(), &mut length) });
        name.truncate(length);
        name
    }

    fn receive(&mut self, number: usize) {
        let buffer = &mut self.buffers[number];
        let (at, size) = (buffer.as_mut_ptr().cast(), size_of_val(&**buffer));
        let context = ptr::without_provenance_mut(RECEIVE | number);
        // SAFETY: the endpoint is live; the buffer stays until the endpoint is closed.
        let rc = unsafe {
            let receive = (*(*self.ep).msg).recv.unwrap();
            let none = ptr::null_mut();
            receive(self.ep, at, size, none, ffi::FI_ADDR_UNSPEC, context)
        };
        assert_eq!(rc, 0, "fi_recv");
    }

    /// Sends words; false if the provider accepts no send at the moment.
    pub(crate) fn try_to_send(&mut self, words: &[u64]) -> bool {
        let words: Box<[u64]> = words.into();
        let context = ptr::without_provenance_mut(SEND | self.sent.len());
        let (at, size) = (words.as_ptr().cast(), size_of_val(&*words));
        // SAFETY: the endpoint is live; the words stay until the send ends, or the endpoint is
        // closed.
        let rc = unsafe {
            let send = (*(*self.ep).msg).send.unwrap();
            send(self.ep, at, size, ptr::null_mut(), self.target, context)
        };
        match rc {
            0 => self.sent.push(Some(words)),
            again => assert_eq!(again, -(ffi::FI_EAGAIN as isize), "fi_send"),
        }
        rc == 0
    }

    /// Whether the provider holds messages that it has not sent.
    pub(crate) fn is_sending(&self) -> bool {
        self.ended < self.sent.len()
    }

    /// Forgets all messages, which have left, and frees their memory.
    pub(crate) fn forget(&mut self) {
        assert!(!self.is_sending());
        (self.sent, self.ended) = (Vec::new(), 0);
    }

    /// Reads completions. Errors of sends are ignored.
    pub(crate) fn poll(&mut self) {
        let mut entry = ffi::fi_cq_msg_entry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
        };
        loop {
            // SAFETY: the queue is live, and the buffer has room for one entry.
            let n = unsafe { (*(*self.cq).ops).read.unwrap()(self.cq, (&raw mut entry).cast(), 1) };
            let (context, failed) = if n == 1 {
                (entry.op_context.addr(), None)
            } else if n == -(ffi::FI_EAVAIL as isize) {
                let mut error = ffi::fi_cq_err_entry::default();
                // SAFETY: the queue is live, and the entry is complete, without room for error
                // data.
                assert_eq!(unsafe { ffi::fi_cq_readerr(self.cq, &mut error) }, 1);
                (error.op_context.addr(), Some(error.err))
            } else {
                return;
            };
            let number = context & (RECEIVE - 1);
            match context & !(RECEIVE - 1) {
                SEND => {
                    self.sent[number] = None;
                    self.ended += 1;
                }
                RECEIVE => {
                    let words = &self.buffers[number][..entry.len / 8];
                    self.came.push(words.to_vec());
                    self.receive(number);
                }
                ACCESS => self.accessed = Some(failed.map_or(Ok(()), Err)),
                _ => {}
            }
        }
    }

    /// Reads a word of the target by a registration key, or writes the word, while `progress` runs. Returns whether the
    /// access succeeded.
    pub(crate) fn access(
        &mut self,
        (word, writes): (&mut u64, bool),
        (key, offset): (u64, u64),
        mut progress: impl FnMut(),
    ) -> bool {
        self.accessed = None;
        let (at, context) = (ptr::from_mut(word), ptr::without_provenance_mut(ACCESS));
        let (ep, to, none) = (self.ep, self.target, ptr::null_mut::<c_void>());
        loop {
            // SAFETY: the endpoint is live; the word stays, because this call waits for the
            // completion.
            let rc = unsafe {
                let rma = &*(*ep).rma;
                match writes {
                    true => {
                        let source = at.cast_const().cast();
                        rma.write.unwrap()(ep, source, 8, none, to, offset, key, context)
                    }
                    false => rma.read.unwrap()(ep, at.cast(), 8, none, to, offset, key, context),
                }
            };
            if rc == 0 {
                break;
            }
            assert_eq!(rc, -(ffi::FI_EAGAIN as isize));
            progress();
            self.poll();
        }
        loop {
            match self.accessed {
                Some(done) => return done.is_ok(),
                None => {
                    progress();
                    self.poll();
                }
            }
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // SAFETY: the objects are live and closed once; dependent objects are closed first.
        unsafe {
            ffi::fi_close(self.ep.cast());
            ffi::fi_close(self.cq.cast());
            ffi::fi_close(self.av.cast());
            ffi::fi_close(self.domain.cast());
            ffi::fi_close(self.fabric.cast());
            ffi::fi_freeinfo(self.info);
        }
    }
}
