//! The provider's endpoint as the carrier uses it: sends and receives of messages.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;

use libfabric_sys as ffi;

use crate::base::error::CallError;
use crate::fabric::msg::claims::Claims;
use crate::fabric::own::OwnMemory;
use crate::op::marked::Message;

type Send = unsafe extern "C" fn(
    *mut ffi::fid_ep,
    *const c_void,
    usize,
    *mut c_void,
    ffi::fi_addr_t,
    *mut c_void,
) -> isize;
type Receive = unsafe extern "C" fn(
    *mut ffi::fid_ep,
    *mut c_void,
    usize,
    *mut c_void,
    ffi::fi_addr_t,
    *mut c_void,
) -> isize;

/// The provider has no room at the moment.
pub(super) const EAGAIN: isize = -(ffi::FI_EAGAIN as isize);

#[cfg(test)]
thread_local! {
    /// Number of sends that a [`Port::that_takes`] accepted or refused on this thread.
    pub(super) static SENDS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The endpoints of the first context.
pub(super) struct Port {
    tx: *mut ffi::fid_ep,
    rx: *mut ffi::fid_ep,
    send: Send,
    receive: Receive,
    /// The contexts of messages, if the provider claims them.
    claims: Option<Box<RefCell<Claims>>>,
    /// Whether the endpoints were closed. After that, nothing is posted.
    pub(super) closed: bool,
}

impl Port {
    /// `claims`: whether the provider claims the contexts of messages.
    ///
    /// # Safety
    /// The endpoints are live and enabled until `closed` is set, or outlive the port.
    pub(super) unsafe fn new(
        tx: *mut ffi::fid_ep,
        rx: *mut ffi::fid_ep,
        claims: bool,
    ) -> Result<Port, CallError> {
        let missing = || CallError {
            call: "fi_send",
            code: ffi::FI_ENOSYS as i32,
        };
        // SAFETY: the caller guarantees live endpoints, which keep their tables valid.
        let (of_tx, of_rx) = unsafe { ((*tx).msg.as_ref(), (*rx).msg.as_ref()) };
        Ok(Port {
            tx,
            rx,
            send: of_tx.and_then(|table| table.send).ok_or_else(missing)?,
            receive: of_rx.and_then(|table| table.recv).ok_or_else(missing)?,
            claims: claims.then(Box::default),
            closed: false,
        })
    }

    /// A port whose sends leave at once.
    #[cfg(test)]
    pub(super) fn that_takes_all() -> Port {
        Port::that_takes(true)
    }

    /// A port whose provider accepts all sends, or none.
    #[cfg(test)]
    pub(super) fn that_takes(all: bool) -> Port {
        unsafe extern "C" fn returns<const CODE: isize>(
            _: *mut ffi::fid_ep,
            _: *const c_void,
            _: usize,
            _: *mut c_void,
            _: ffi::fi_addr_t,
            _: *mut c_void,
        ) -> isize {
            SENDS.set(SENDS.get() + 1);
            CODE
        }
        unsafe extern "C" fn posts(
            _: *mut ffi::fid_ep,
            _: *mut c_void,
            _: usize,
            _: *mut c_void,
            _: ffi::fi_addr_t,
            _: *mut c_void,
        ) -> isize {
            0
        }
        Port {
            tx: ptr::null_mut(),
            rx: ptr::null_mut(),
            send: if all { returns::<0> } else { returns::<EAGAIN> },
            receive: posts,
            claims: None,
            closed: false,
        }
    }

    /// Posts a receive. The buffer must live until the receive completes or the endpoint is closed.
    pub(super) fn receive(&self, buffer: &OwnMemory, number: u32) -> isize {
        if self.closed {
            return EAGAIN;
        }
        let (at, size) = (buffer.pointer(), buffer.words().len() * size_of::<u64>());
        let context = self.context(Message::Receive(number));
        let (from, none) = (ffi::FI_ADDR_UNSPEC, ptr::null_mut());
        // SAFETY: the endpoint is live, because it was not closed, and the callers keep the buffer.
        unsafe { (self.receive)(self.rx, at, size, none, from, context) }
    }

    /// Sends words. The words must not change until the send completes.
    pub(super) fn send(&self, words: &[u64], to: ffi::fi_addr_t, message: Message) -> isize {
        if self.closed {
            return EAGAIN;
        }
        let (at, size) = (words.as_ptr().cast(), size_of_val(words));
        let (context, none) = (self.context(message), ptr::null_mut());
        // SAFETY: the endpoint is live, because it was not closed; the callers keep the words until the completion.
        unsafe { (self.send)(self.tx, at, size, none, to, context) }
    }

    /// The provider's context pointer of a message.
    #[inline(always)]
    fn context(&self, message: Message) -> *mut c_void {
        match &self.claims {
            None => message.context(),
            Some(claims) => claims.borrow_mut().context(message),
        }
    }
}
