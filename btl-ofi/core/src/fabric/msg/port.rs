//! The provider's endpoint as the carrier uses it: sends and receives of messages.
//!
//! Where the provider requires local buffers to be registered (`FI_MR_LOCAL`), messages are copied into registered
//! [slots](Slots) to be sent.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use libfabric_sys as ffi;

use crate::base::error::{CallError, Error};
use crate::fabric::msg::line::WINDOW;
use crate::fabric::own::OwnMemory;
use crate::fabric::registration::Registrar;
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

/// Messages that are copied into slots at a time; more are refused for the moment.
const SLOTS: usize = 32;

/// Batches of a line that may be unanswered where messages take slots: a peer that answers nothing leaves half of them to others.
const SLOTS_OF_A_LINE: usize = SLOTS / 2;

/// Registered memory for messages that are being sent. Used under the lock of the context.
struct Slots {
    memory: OwnMemory,
    /// Words of a slot.
    words: usize,
    /// The message in each slot.
    held: RefCell<[Option<Message>; SLOTS]>,
}

impl Slots {
    fn new(registrar: &Arc<Registrar>, words: usize) -> Result<Slots, Error> {
        Ok(Slots {
            memory: OwnMemory::new(registrar, SLOTS * words)?,
            words,
            held: RefCell::new([None; SLOTS]),
        })
    }

    /// Copies a message into a free slot, until [`release`](Self::release). An error is what a provider would say.
    fn hold(&self, words: &[u64], message: Message) -> Result<*const c_void, isize> {
        if words.len() > self.words {
            return Err(-(ffi::FI_EMSGSIZE as isize));
        }
        let mut held = self.held.borrow_mut();
        let slot = held.iter().position(Option::is_none).ok_or(EAGAIN)?;
        let at = self.memory.pointer().cast::<u64>();
        let at = at.wrapping_add(slot * self.words);
        // SAFETY: the slot has room for the message, and nothing else uses it.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr(), at, words.len()) };
        held[slot] = Some(message);
        Ok(at.cast_const().cast())
    }

    fn release(&self, message: Message) {
        let mut held = self.held.borrow_mut();
        if let Some(slot) = held.iter_mut().find(|slot| **slot == Some(message)) {
            *slot = None;
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Sends that [`Port::that_takes`] took or refused on this thread.
    pub(super) static SENDS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The endpoints of the first context.
pub(super) struct Port {
    tx: *mut ffi::fid_ep,
    rx: *mut ffi::fid_ep,
    send: Send,
    receive: Receive,
    /// Present where local buffers must be registered.
    slots: Option<Slots>,
    /// Whether the endpoints were closed. Nothing is posted then.
    pub(super) closed: bool,
}

impl Port {
    /// # Safety
    /// The endpoints are live and enabled until `closed` is set, or outlive the port.
    pub(super) unsafe fn new(
        tx: *mut ffi::fid_ep,
        rx: *mut ffi::fid_ep,
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
            slots: None,
            closed: false,
        })
    }

    /// One whose sends leave at once.
    #[cfg(test)]
    pub(super) fn that_takes_all() -> Port {
        Port::that_takes(true)
    }

    /// One whose provider takes all sends, or none.
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
            slots: None,
            closed: false,
        }
    }

    /// Has messages of up to so many words sent from registered memory, if the provider requires that.
    pub(super) fn register(
        &mut self,
        registrar: &Arc<Registrar>,
        words: usize,
    ) -> Result<(), Error> {
        if registrar.local {
            self.slots = Some(Slots::new(registrar, words)?);
        }
        Ok(())
    }

    /// Posts a receive. The buffer must live until the receive completes or the endpoint is closed.
    pub(super) fn receive(&self, buffer: &OwnMemory, number: u32) -> isize {
        if self.closed {
            return EAGAIN;
        }
        let (at, size) = (buffer.pointer(), buffer.words().len() * size_of::<u64>());
        let context = Message::Receive(number).context();
        let (from, descriptor) = (ffi::FI_ADDR_UNSPEC, buffer.descriptor());
        // SAFETY: the endpoint is live, because it was not closed, and the callers keep the buffer.
        unsafe { (self.receive)(self.rx, at, size, descriptor, from, context) }
    }

    /// Sends words that stay as they are until the send completes.
    pub(super) fn send(&self, words: &[u64], to: ffi::fi_addr_t, message: Message) -> isize {
        if self.closed {
            return EAGAIN;
        }
        let (mut at, size) = (words.as_ptr().cast(), size_of_val(words));
        let mut descriptor = ptr::null_mut();
        if let Some(slots) = &self.slots {
            at = match slots.hold(words, message) {
                Ok(held) => held,
                Err(rc) => return rc,
            };
            descriptor = slots.memory.descriptor();
        }
        // SAFETY: the endpoint is live, because it was not closed; the callers keep the words, and the slots a copy, until
        // the completion.
        let rc = unsafe { (self.send)(self.tx, at, size, descriptor, to, message.context()) };
        if rc != 0 {
            self.ended(message);
        }
        rc
    }

    /// Batches of a line that may be unanswered.
    pub(super) fn window(&self) -> u8 {
        match self.slots {
            None => WINDOW as u8,
            Some(_) => SLOTS_OF_A_LINE as u8,
        }
    }

    /// The provider no longer reads a message.
    #[inline]
    pub(super) fn ended(&self, message: Message) {
        if let Some(slots) = &self.slots {
            slots.release(message);
        }
    }
}
