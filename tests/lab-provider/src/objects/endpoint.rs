//! Endpoints: plain endpoints, scalable endpoints, and their contexts.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use libfabric_sys as ffi;

use crate::base::missing::Missing;
use crate::base::report::{COUNTS, count, violation};
use crate::objects::domain::{self, DomainObject};
use crate::objects::object::{Object, closed_by, fid, or_return};
use crate::objects::queue::QueueObject;
use crate::objects::vector::{VectorObject, give};
use crate::objects::{atomics, message, rma};
use crate::reach::mailbox::{self, Mailbox};
use crate::reach::name::Name;
use crate::reach::own_name;

pub(crate) struct Endpoint {
    pub(crate) domain: &'static DomainObject,
    class: u32,
    /// The scalable endpoint of a context.
    parent: Option<&'static EndpointObject>,
    /// The number of transmit contexts of a scalable endpoint.
    contexts: usize,
    /// The mailbox from which the endpoint receives, if it was opened with FI_MSG; the receive context
    /// of a scalable endpoint shares its mailbox.
    mailbox: Option<&'static Mailbox>,
    bound: Mutex<Bound>,
}

#[derive(Default)]
pub(crate) struct Bound {
    vector: Option<&'static VectorObject>,
    /// The queue for operations that the endpoint initiates.
    pub(crate) queue: Option<&'static QueueObject>,
    /// The queue for receives.
    pub(crate) received: Option<&'static QueueObject>,
    /// Queues bound in any role.
    queues: Vec<&'static QueueObject>,
    pub(crate) enabled: bool,
}

// SAFETY: objects are never freed, and lock their own state.
unsafe impl Send for Bound {}

pub(crate) type EndpointObject = Object<ffi::fid_ep, Endpoint>;

static FID: ffi::fi_ops = ffi::fi_ops {
    bind: Some(bind),
    control: Some(control),
    ..closed_by(close)
};

static OPS: ffi::fi_ops_ep = ffi::fi_ops_ep {
    size: size_of::<ffi::fi_ops_ep>(),
    cancel: Missing::MISSING,
    getopt: Missing::MISSING,
    setopt: Missing::MISSING,
    tx_ctx: Some(open_transmit),
    rx_ctx: Some(open_receive),
    rx_size_left: Missing::MISSING,
    tx_size_left: Missing::MISSING,
};

static CM: ffi::fi_ops_cm = ffi::fi_ops_cm {
    size: size_of::<ffi::fi_ops_cm>(),
    setname: Missing::MISSING,
    getname: Some(getname),
    getpeer: Missing::MISSING,
    connect: Missing::MISSING,
    listen: Missing::MISSING,
    accept: Missing::MISSING,
    reject: Missing::MISSING,
    shutdown: Missing::MISSING,
    join: Missing::MISSING,
};

fn place(
    domain: &'static DomainObject,
    class: u32,
    parent: Option<&'static EndpointObject>,
    contexts: usize,
    messages: bool,
) -> *mut ffi::fid_ep {
    let kind = match class {
        ffi::FI_CLASS_SEP => "scalable endpoint",
        ffi::FI_CLASS_TX_CTX => "transmit context",
        ffi::FI_CLASS_RX_CTX => "receive context",
        _ => "endpoint",
    };
    match parent {
        Some(parent) => parent.depend(),
        None => domain.depend(),
    }
    let messages_ops = if messages {
        &message::OPS
    } else {
        &message::MISSING
    };
    let atomic_ops = if domain.inner.config.atomics {
        &atomics::OPS
    } else {
        &atomics::MISSING
    };
    let mailbox = match parent {
        Some(parent) => parent.inner.mailbox,
        None => messages.then(mailbox::open),
    };
    let object: &EndpointObject = Object::place(
        kind,
        ffi::fid_ep {
            fid: fid(class, &FID),
            ops: ptr::from_ref(&OPS).cast_mut(),
            cm: ptr::from_ref(&CM).cast_mut(),
            msg: ptr::from_ref(messages_ops).cast_mut(),
            rma: ptr::from_ref(&rma::OPS).cast_mut(),
            tagged: ptr::null_mut(),
            atomic: ptr::from_ref(atomic_ops).cast_mut(),
            collective: ptr::null_mut(),
        },
        Endpoint {
            domain,
            class,
            parent,
            contexts,
            mailbox,
            bound: Mutex::new(Bound::default()),
        },
    );
    object.pointer()
}

/// Whether an endpoint is opened with messages.
fn has_messages(domain: &DomainObject, info: &ffi::fi_info) -> bool {
    domain.inner.config.messages && info.caps & u64::from(ffi::FI_MSG) != 0
}

pub(crate) unsafe extern "C" fn open(
    domain: *mut ffi::fid_domain,
    info: *mut ffi::fi_info,
    ep: *mut *mut ffi::fid_ep,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by libfabric's contract, this is a domain of this provider.
    let domain: &DomainObject = or_return!(unsafe { Object::of(domain, "fi_endpoint") });
    or_return!(domain::step(domain, "ep"));
    // SAFETY: the caller passes an info.
    let messages = has_messages(domain, unsafe { &*info });
    // SAFETY: the caller passes a writable pointer.
    unsafe { *ep = place(domain, ffi::FI_CLASS_EP, None, 0, messages) };
    0
}

pub(crate) unsafe extern "C" fn open_scalable(
    domain: *mut ffi::fid_domain,
    info: *mut ffi::fi_info,
    ep: *mut *mut ffi::fid_ep,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: by libfabric's contract, this is a domain of this provider.
    let domain: &DomainObject = or_return!(unsafe { Object::of(domain, "fi_scalable_ep") });
    or_return!(domain::step(domain, "sep"));
    // SAFETY: the caller passes an info with its attributes.
    let contexts = unsafe { (*(*info).ep_attr).tx_ctx_cnt };
    let most = domain.inner.config.tx_contexts;
    if contexts > most || most < 2 {
        violation(&format!(
            "a scalable endpoint of {contexts} contexts, the provider has {most}"
        ));
        return -(ffi::FI_EINVAL as c_int);
    }
    // SAFETY: the caller passes an info.
    let messages = has_messages(domain, unsafe { &*info });
    // SAFETY: the caller passes a writable pointer.
    unsafe { *ep = place(domain, ffi::FI_CLASS_SEP, None, contexts, messages) };
    0
}

unsafe extern "C" fn open_transmit(
    sep: *mut ffi::fid_ep,
    index: c_int,
    _attr: *mut ffi::fi_tx_attr,
    ep: *mut *mut ffi::fid_ep,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the table belongs to endpoints only.
    let sep: &EndpointObject = or_return!(unsafe { Object::of(sep, "fi_tx_context") });
    or_return!(domain::step(sep.inner.domain, "tx"));
    let fits = usize::try_from(index).is_ok_and(|i| i < sep.inner.contexts);
    if sep.inner.class != ffi::FI_CLASS_SEP || !fits {
        violation(&format!(
            "transmit context {index} of {}",
            sep.inner.contexts
        ));
        return -(ffi::FI_EINVAL as c_int);
    }
    // SAFETY: the caller passes a writable pointer.
    unsafe { *ep = sep.inner.context(ffi::FI_CLASS_TX_CTX, sep) };
    0
}

unsafe extern "C" fn open_receive(
    sep: *mut ffi::fid_ep,
    index: c_int,
    _attr: *mut ffi::fi_rx_attr,
    ep: *mut *mut ffi::fid_ep,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the table belongs to endpoints only.
    let sep: &EndpointObject = or_return!(unsafe { Object::of(sep, "fi_rx_context") });
    or_return!(domain::step(sep.inner.domain, "rx"));
    if sep.inner.class != ffi::FI_CLASS_SEP || index != 0 {
        violation(&format!("receive context {index} of 1"));
        return -(ffi::FI_EINVAL as c_int);
    }
    // SAFETY: the caller passes a writable pointer.
    unsafe { *ep = sep.inner.context(ffi::FI_CLASS_RX_CTX, sep) };
    0
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    // SAFETY: the table belongs to endpoints only.
    let ep: &EndpointObject = or_return!(unsafe { Object::of(fid, "fi_close") });
    let rc = ep.close();
    if rc != 0 {
        return rc;
    }
    let bound = std::mem::take(&mut *ep.inner.lock());
    if let Some(vector) = bound.vector {
        vector.release();
    }
    for queue in bound.queues {
        queue.inner.unbind(ep.pointer() as usize);
        queue.release();
    }
    match ep.inner.parent {
        Some(parent) => parent.release(),
        None => {
            if let Some(mailbox) = ep.inner.mailbox {
                mailbox.close();
            }
            ep.inner.domain.release();
        }
    }
    0
}

unsafe extern "C" fn bind(fid: *mut ffi::fid, to: *mut ffi::fid, flags: u64) -> c_int {
    // SAFETY: the table belongs to endpoints only.
    let ep: &EndpointObject = or_return!(unsafe { Object::of(fid, "fi_ep_bind") });
    or_return!(domain::step(ep.inner.domain, "bind"));
    let mut bound = ep.inner.lock();
    if bound.enabled {
        violation("binding an endpoint that is enabled");
        return -(ffi::FI_EINVAL as c_int);
    }
    // SAFETY: the caller passes a live fid.
    match unsafe { (*to).fclass } as u32 {
        ffi::FI_CLASS_AV => {
            // SAFETY: the class says that it is a vector.
            let vector: &VectorObject = or_return!(unsafe { Object::of(to, "fi_ep_bind") });
            vector.depend();
            bound.vector = Some(vector);
            0
        }
        ffi::FI_CLASS_CQ => {
            // SAFETY: the class says that it is a queue.
            let queue: &QueueObject = or_return!(unsafe { Object::of(to, "fi_ep_bind") });
            queue.depend();
            queue.inner.bind();
            bound.queues.push(queue);
            if flags & u64::from(ffi::FI_TRANSMIT) != 0 {
                bound.queue = Some(queue);
            }
            if flags & u64::from(ffi::FI_RECV) != 0 {
                bound.received = Some(queue);
            }
            0
        }
        _ => -(ffi::FI_ENOSYS as c_int),
    }
}

unsafe extern "C" fn control(fid: *mut ffi::fid, command: c_int, _arg: *mut c_void) -> c_int {
    // SAFETY: the table belongs to endpoints only.
    let ep: &EndpointObject = or_return!(unsafe { Object::of(fid, "fi_control") });
    if command != ffi::FI_ENABLE as c_int {
        return -(ffi::FI_ENOSYS as c_int);
    }
    or_return!(domain::step(ep.inner.domain, "enable"));
    let vector = ep.inner.vector().is_some();
    let mut bound = ep.inner.lock();
    let queue = bound.queue.is_some()
        || [ffi::FI_CLASS_SEP, ffi::FI_CLASS_RX_CTX].contains(&ep.inner.class);
    if !vector || !queue {
        violation("enabling an endpoint without address vector or queue");
        return -(ffi::FI_EOPBADSTATE as c_int);
    }
    bound.enabled = true;
    let receives = [ffi::FI_CLASS_EP, ffi::FI_CLASS_RX_CTX].contains(&ep.inner.class);
    if let (Some(queue), Some(mailbox), true) = (bound.received, ep.inner.mailbox, receives) {
        queue.inner.receive(ep.pointer() as usize, mailbox);
    }
    0
}

unsafe extern "C" fn getname(fid: *mut ffi::fid, out: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: the table belongs to endpoints only.
    let ep: &EndpointObject = or_return!(unsafe { Object::of(fid, "fi_getname") });
    or_return!(domain::step(ep.inner.domain, "getname"));
    count(&COUNTS.named);
    // SAFETY: the caller passes a buffer with its length.
    unsafe {
        give(
            own_name(ep.inner.domain.inner.number, ep.inner.mailbox),
            out,
            length,
        )
    }
}

impl Endpoint {
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A context of this scalable endpoint.
    fn context(&self, class: u32, object: &'static EndpointObject) -> *mut ffi::fid_ep {
        place(self.domain, class, Some(object), 0, self.mailbox.is_some())
    }

    fn vector(&self) -> Option<&'static VectorObject> {
        let own = self.lock().vector;
        own.or_else(|| self.parent.and_then(|p| p.inner.lock().vector))
    }

    /// The peer at a position of the endpoint's address vector.
    pub(crate) fn peer(&self, position: ffi::fi_addr_t) -> Option<Name> {
        self.vector()?.inner.name(position)
    }
}
