//! Two-sided messages: descriptors, sending, and the functions that receive them by their tags.

use std::ffi::c_void;
use std::ptr::{self, NonNull, null_mut};
use std::sync::{PoisonError, RwLock};

use plugin_api::{Descriptor, Endpoint, Module, ReceiveFn, Status};
use transport::{Leaves, Receive, Transport};

use super::{OfiModule, module_ref, peer};
use crate::guard::called;

/// The host's functions for messages, by tag.
pub(super) struct Receivers(RwLock<[Option<Receive>; 256]>);

impl Default for Receivers {
    fn default() -> Self {
        Receivers(RwLock::new([None; 256]))
    }
}

impl Receivers {
    /// Has the transport hand its messages to these functions. The transport ends before the
    /// functions do.
    pub(super) fn attach(&self, transport: &Transport) {
        transport.on_receive(Some(Receive {
            function: receive,
            context: ptr::from_ref(self).cast_mut().cast(),
        }));
    }

    fn of(&self, tag: u8) -> Option<Receive> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)[usize::from(tag)]
    }

    fn set(&self, tag: u8, receive: Option<Receive>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner)[usize::from(tag)] = receive;
    }
}

/// Hands a message to the function of its tag, if there is one.
unsafe extern "C" fn receive(
    module: *mut Module,
    endpoint: *mut Endpoint,
    tag: u8,
    data: *const c_void,
    size: usize,
    context: *mut c_void,
) {
    // SAFETY: `attach` passed these receivers, which live as long as the transport.
    let receivers = unsafe { &*context.cast::<Receivers>() };
    // The lock is released before the call, which may set functions.
    if let Some(Receive { function, context }) = receivers.of(tag) {
        // SAFETY: the host set this function with its argument; the bytes are valid during the call.
        unsafe { function(module, endpoint, tag, data, size, context) };
    }
}

/// A descriptor with its memory. The host sees the first field only.
#[repr(C)]
struct Buffer {
    descriptor: Descriptor,
    /// In words, for its alignment.
    words: Vec<u64>,
}

/// Makes a descriptor with `size` bytes of memory.
fn buffer(size: usize, source: *const c_void, source_size: usize) -> *mut Descriptor {
    let mut words = Vec::new();
    if words.try_reserve_exact(size.div_ceil(8)).is_err() {
        return null_mut();
    }
    words.resize(size.div_ceil(8), 0u64);
    let data = words.as_mut_ptr().cast();
    let descriptor = Descriptor {
        data,
        size,
        source,
        source_size,
    };
    Box::into_raw(Box::new(Buffer { descriptor, words })).cast()
}

pub(super) unsafe extern "C" fn alloc(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    size: usize,
) -> *mut Descriptor {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    match unsafe { module_ref(module) } {
        Some(module) => buffer(size.min(limit(module)), ptr::null(), 0),
        None => null_mut(),
    }
}

pub(super) unsafe extern "C" fn free(module: *mut Module, descriptor: *mut Descriptor) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("free", unsafe { module_ref(module) }, |_| {
        let descriptor = NonNull::new(descriptor)?;
        // SAFETY: `buffer` made the descriptor, and the host ends each once.
        let buffer = unsafe { Box::from_raw(descriptor.as_ptr().cast::<Buffer>()) };
        drop(buffer.words);
        Some(Status::SUCCESS)
    })
}

pub(super) unsafe extern "C" fn prepare_src(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    source: *const c_void,
    reserve: usize,
    size: *mut usize,
) -> *mut Descriptor {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised, and NULL or a writable size.
    let (Some(module), Some(size)) = (unsafe { (module_ref(module), size.as_mut()) }) else {
        return null_mut();
    };
    let Some(room) = limit(module).checked_sub(reserve) else {
        return null_mut();
    };
    *size = (*size).min(room);
    buffer(reserve, source, *size)
}

pub(super) unsafe extern "C" fn send(
    module: *mut Module,
    endpoint: *mut Endpoint,
    descriptor: *mut Descriptor,
    tag: u8,
) -> Status {
    // SAFETY: the host passes NULL or live objects of this module.
    let (module, descriptor) = unsafe { (module_ref(module), descriptor.as_ref()) };
    called("send", module, |module| {
        let (to, d) = (peer(endpoint)?, descriptor?);
        // SAFETY: the host writes no more bytes than the descriptor has, and keeps the source.
        unsafe { send_both(module, to, (d.data, d.size), (d.source, d.source_size), tag) }
    })
}

pub(super) unsafe extern "C" fn sendi(
    module: *mut Module,
    endpoint: *mut Endpoint,
    header: *const c_void,
    header_size: usize,
    payload: *const c_void,
    payload_size: usize,
    tag: u8,
) -> Status {
    // SAFETY: the host passes NULL or live objects of this module.
    called("sendi", unsafe { module_ref(module) }, |module| {
        let (to, header, payload) = (
            peer(endpoint)?,
            (header, header_size),
            (payload, payload_size),
        );
        // SAFETY: the host passes readable memory of these sizes.
        unsafe { send_both(module, to, header, payload, tag) }
    })
}

/// Sends the bytes of two places in memory as one message; `None` for a place or a size that there is not.
///
/// # Safety
/// The endpoint is live, and both places are NULL or readable.
unsafe fn send_both(
    module: &OfiModule,
    to: NonNull<transport::Endpoint>,
    (first, first_size): (*const c_void, usize),
    (second, second_size): (*const c_void, usize),
    tag: u8,
) -> Option<Status> {
    if first.is_null() && first_size > 0 || second.is_null() && second_size > 0 {
        return None;
    }
    let size = first_size.checked_add(second_size)?;
    // SAFETY: the caller guarantees the endpoint and both places; `fill` copies those that have bytes.
    let sent = unsafe {
        module.transport.send(to, (tag, size, Leaves::Later), |at| {
            if first_size > 0 {
                ptr::copy_nonoverlapping(first.cast::<u8>(), at, first_size);
            }
            if second_size > 0 {
                ptr::copy_nonoverlapping(second.cast::<u8>(), at.add(first_size), second_size);
            }
        })
    };
    Some(sent.err().unwrap_or(Status::COMPLETED))
}

pub(super) unsafe extern "C" fn register_receive(
    module: *mut Module,
    tag: u8,
    receive: Option<ReceiveFn>,
    context: *mut c_void,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called(
        "register_receive",
        unsafe { module_ref(module) },
        |module| {
            let receive = receive.map(|function| Receive { function, context });
            module.receivers.set(tag, receive);
            Some(Status::SUCCESS)
        },
    )
}

fn limit(module: &OfiModule) -> usize {
    module.transport.capabilities().send_limit
}
