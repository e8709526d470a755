//! The libfabric objects of one module: fabric, domain, address vector, completion queues and endpoints.

use std::collections::HashMap;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use libfabric_sys as ffi;

use crate::base::error::{CallError, Doing, Error, check};
use crate::base::params::Options;
use crate::fabric::addresses::Addresses;
use crate::fabric::fids::{Info, InfoRef, Owned};
use crate::fabric::memory;
use crate::fabric::offer::Offer;
use crate::fabric::policy;
use crate::fabric::query::takes_messages;
use crate::fabric::shm_files;
use crate::peer::liveness::{self, ProcessId};

/// Minimum entries of a completion queue; it has more if the provider takes more operations.
const MIN_CQ_SIZE: usize = 1024;
/// Longest endpoint address for which fi_getname is called again.
const MAX_NAME: usize = 1024;

/// The objects that stay open while the module or one of its registrations lives. Fields drop in order: contexts and
/// endpoint first, then the queues and the vector that they are bound to, then the domain.
pub(crate) struct Device {
    ends: Mutex<Ends>,
    /// One per transmit context.
    queues: Vec<Owned<ffi::fid_cq>>,
    /// Whether messages may be received. Received messages complete in the first queue, and its entries then contain
    /// the lengths of messages.
    may_receive: bool,
    av: Owned<ffi::fid_av>,
    addresses: Arc<Addresses>,
    domain: Owned<ffi::fid_domain>,
    fabric: Owned<ffi::fid_fabric>,
    info: Info,
    /// The user's copy functions; the domain uses them until it is closed.
    pub(crate) offer: Mutex<Offer>,
    /// The endpoint's address after the first request for it; every connect compares it with the peer's address.
    name: OnceLock<Vec<u8>>,
}

/// The objects that operations are posted to. Closed before all others; [`Device::close_endpoints`] closes only these.
#[derive(Default)]
struct Ends {
    /// Regions that are bound to the endpoint. The first field, because the endpoint cannot be closed before these
    /// regions.
    regions: HashMap<NonNull<ffi::fid_mr>, Owned<ffi::fid_mr>>,
    /// The transmit contexts of a scalable endpoint; empty for a plain endpoint.
    contexts: Vec<Owned<ffi::fid_ep>>,
    rx: Option<Owned<ffi::fid_ep>>,
    endpoint: Option<Owned<ffi::fid_ep>>,
    /// The provider's first refusal to close one of the objects. The provider may then still access
    /// buffers.
    refused: Option<CallError>,
}

// SAFETY: the keys are pointers to objects that the values own, and these objects are not tied to a
// thread.
unsafe impl Send for Ends {}

impl Ends {
    /// Closes the objects in order, and passes each result to `note`.
    fn close(self, mut note: impl FnMut(&str, Result<(), CallError>)) {
        for region in self.regions.into_values() {
            note("a bound region", region.close());
        }
        for context in self.contexts {
            note("a transmit context", context.close());
        }
        if let Some(rx) = self.rx {
            note("the receive context", rx.close());
        }
        if let Some(endpoint) = self.endpoint {
            note("the endpoint", endpoint.close());
        }
    }
}

// SAFETY: libfabric objects are not tied to a thread. The lock of a context serialises data calls on its endpoint and
// queue. Registration and address-vector calls are safe from any thread under FI_THREAD_COMPLETION; under
// FI_THREAD_DOMAIN the host guarantees one call at a time.
unsafe impl Send for Device {}
// SAFETY: shared calls into the objects are serialised per context or allowed by the threading model of the domain,
// and the other fields are read-only or behind a mutex.
unsafe impl Sync for Device {}

impl Device {
    /// Opens all objects for one provider. On an error, closes the objects that are already open.
    pub(crate) fn open(mut info: Info, options: &Options) -> Result<Device, Error> {
        let name = info.get().provider();
        let doing = |what: &str| format!("opening {what} of provider {name}");
        let node = liveness::node();
        if policy::keeps_files(&name)
            && let Some(own) = shm_files::name(node, ProcessId::own())
        {
            shm_files::remove_all(node);
            info.set_source(&format!("fi_shm://{own}"))
                .doing(|| doing("the endpoint (source address)"))?;
        }
        let raw = info.as_ptr();

        // SAFETY: fi_getinfo filled the attribute, and `info` keeps it alive.
        let fabric = Owned::open("fi_fabric", |out| unsafe {
            match name == memory::NAME {
                true => memory::open_fabric(out),
                false => ffi::fi_fabric((*raw).fabric_attr, out, ptr::null_mut()),
            }
        })
        .doing(|| doing("the fabric"))?;
        // SAFETY: the fabric is live and was opened from the same info.
        let domain = Owned::open("fi_domain", |out| unsafe {
            ffi::fi_domain(fabric.ptr(), raw, out)
        })
        .doing(|| doing("the domain"))?;
        let mut av_attr = ffi::fi_av_attr {
            type_: match info.get().domain_attr().av_type {
                ffi::FI_AV_UNSPEC => ffi::FI_AV_MAP,
                known => known,
            },
            ..Default::default()
        };
        // SAFETY: the domain is live; the attribute is complete and lives through the call.
        let av = Owned::open("fi_av_open", |out| unsafe {
            ffi::fi_av_open(domain.ptr(), &mut av_attr, out)
        })
        .doing(|| doing("the address vector"))?;

        let most = info.get().domain_attr().max_ep_tx_ctx;
        let scalable = !options.contexts.disable_sep && options.contexts.number > 1 && most > 1;
        let mut device = Device {
            ends: Mutex::default(),
            queues: Vec::new(),
            may_receive: takes_messages(info.get(), options) && !options.provider.is_rail,
            // SAFETY: the transport and its messages insert addresses; the transport holds the device, and its messages
            // end before the device is closed.
            addresses: Arc::new(unsafe { Addresses::new(av.ptr()) }),
            av,
            domain,
            fabric,
            info,
            offer: Mutex::default(),
            name: OnceLock::new(),
        };
        // Each operation requests delivery-complete itself, so that gets need not wait for it. The entry keeps the
        // offered flags. SAFETY: `device` owns the info, and its tx_attr was allocated with it.
        let offered = unsafe { std::mem::take(&mut (*(*raw).tx_attr).op_flags) };
        if scalable {
            device.open_scalable(options.contexts.number.min(most), &doing)?;
        } else {
            device.open_single(&doing)?;
        }
        // SAFETY: `device` owns the info, and its tx_attr was allocated with it.
        unsafe { (*(*raw).tx_attr).op_flags = offered };
        Ok(device)
    }

    /// Whether the queue entries of a transmit context contain the lengths of messages.
    pub(crate) fn tells_lengths(&self, number: usize) -> bool {
        self.may_receive && number == 0
    }

    /// Opens the queue of the next transmit context.
    fn open_cq(&self, doing: &impl Fn(&str) -> String) -> Result<Owned<ffi::fid_cq>, Error> {
        let mut attr = ffi::fi_cq_attr {
            size: self.info.get().tx_attr().size.max(MIN_CQ_SIZE),
            format: match self.tells_lengths(self.queues.len()) {
                true => ffi::FI_CQ_FORMAT_MSG,
                false => ffi::FI_CQ_FORMAT_CONTEXT,
            },
            wait_obj: ffi::FI_WAIT_NONE,
            ..Default::default()
        };
        // SAFETY: the domain is live; the attribute is complete and lives through the call.
        Owned::open("fi_cq_open", |out| unsafe {
            ffi::fi_cq_open(self.domain.ptr(), &mut attr, out)
        })
        .doing(|| doing("a completion queue"))
    }

    /// Opens a plain endpoint, which is its own transmit and receive context.
    fn open_single(&mut self, doing: &impl Fn(&str) -> String) -> Result<(), Error> {
        let raw = self.info.as_ptr();
        let cq = self.open_cq(doing)?;
        // SAFETY: the domain is live and was opened from the same info.
        let endpoint = Owned::open("fi_endpoint", |out| unsafe {
            ffi::fi_endpoint(self.domain.ptr(), raw, out)
        })
        .doing(|| doing("the endpoint"))?;
        bind(&endpoint, self.av.fid(), 0, doing)?;
        bind(
            &endpoint,
            cq.fid(),
            u64::from(ffi::FI_TRANSMIT | ffi::FI_RECV),
            doing,
        )?;
        enable(&endpoint, doing)?;
        self.queues.push(cq);
        self.ends_mut().endpoint = Some(endpoint);
        Ok(())
    }

    /// Opens a scalable endpoint with `n` transmit contexts, each with its own queue, and one receive context. The
    /// provider serves requests of peers in the receive context.
    fn open_scalable(&mut self, n: usize, doing: &impl Fn(&str) -> String) -> Result<(), Error> {
        let raw = self.info.as_ptr();
        // SAFETY: `self` owns the info, and its attributes were allocated with it.
        unsafe {
            (*(*raw).ep_attr).tx_ctx_cnt = n;
            (*(*raw).ep_attr).rx_ctx_cnt = 1;
        }
        // SAFETY: the domain is live and was opened from the same info.
        let sep = Owned::open("fi_scalable_ep", |out| unsafe {
            ffi::fi_scalable_ep(self.domain.ptr(), raw, out)
        })
        .doing(|| doing("the scalable endpoint"))?;
        bind(&sep, self.av.fid(), 0, doing)?;
        // The endpoint is stored here now, so that an error closes the contexts before this
        // endpoint.
        let of = sep.ptr();
        self.ends_mut().endpoint = Some(sep);
        for index in 0..n {
            let cq = self.open_cq(doing)?;
            // SAFETY: the scalable endpoint is live; the attribute belongs to its info.
            let tx = Owned::open("fi_tx_context", |out| unsafe {
                ffi::fi_tx_context(of, index as i32, (*raw).tx_attr, out)
            })
            .doing(|| doing("a transmit context"))?;
            bind(&tx, cq.fid(), u64::from(ffi::FI_TRANSMIT), doing)?;
            enable(&tx, doing)?;
            self.queues.push(cq);
            self.ends_mut().contexts.push(tx);
        }
        // SAFETY: the scalable endpoint is live; the attribute belongs to its info.
        let rx = Owned::open("fi_rx_context", |out| unsafe {
            ffi::fi_rx_context(of, 0, (*raw).rx_attr, out)
        })
        .doing(|| doing("the receive context"))?;
        bind(&rx, self.queues[0].fid(), u64::from(ffi::FI_RECV), doing)?;
        enable(&rx, doing)?;
        let ends = self.ends_mut();
        ends.rx = Some(rx);
        match &ends.endpoint {
            Some(sep) => enable(sep, doing),
            None => Ok(()),
        }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends_mut(&mut self) -> &mut Ends {
        self.ends.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint and completion queue of each transmit context.
    pub(crate) fn lanes(&self) -> Vec<(*mut ffi::fid_ep, *mut ffi::fid_cq)> {
        let ends = self.ends();
        let alone = if ends.contexts.is_empty() {
            ends.endpoint.as_ref()
        } else {
            None
        };
        let posts = ends.contexts.iter().chain(alone);
        let pairs = posts.zip(&self.queues);
        pairs.map(|(tx, cq)| (tx.ptr(), cq.ptr())).collect()
    }

    /// The endpoint that receives messages.
    pub(crate) fn receiver(&self) -> Option<*mut ffi::fid_ep> {
        let ends = self.ends();
        ends.rx.as_ref().or(ends.endpoint.as_ref()).map(Owned::ptr)
    }

    /// Closes only the endpoints, and the regions that are bound to them; the provider then no longer accesses any
    /// buffer. Post nothing during or after this call.
    ///
    /// # Errors
    /// The provider's first refusal, now or in an earlier call. The provider may then still access buffers.
    pub(crate) fn close_endpoints(&self) -> Result<(), Error> {
        // The lock is held until the objects are closed, because a second caller also relies on the
        // close.
        let mut ends = self.ends();
        let Ends { refused, .. } = &mut *ends;
        let mut refused = refused.take();
        std::mem::take(&mut *ends).close(|what, closed| {
            if let Err(e) = closed {
                tracing::error!("closing {what}: {e}; the provider may still access buffers");
                refused.get_or_insert(e);
            }
        });
        ends.refused = refused;
        let name = || {
            format!(
                "closing the endpoints of provider {}",
                self.info().provider()
            )
        };
        refused.map_or(Ok(()), Err).doing(name)
    }

    /// Binds a region to the endpoint, enables it, and keeps it. Returns the pointer that names the region in
    /// [`close_bound`](Self::close_bound), and the result of `read`.
    pub(super) fn bind<T>(
        &self,
        region: Owned<ffi::fid_mr>,
        read: impl FnOnce(&Owned<ffi::fid_mr>) -> T,
    ) -> Result<(NonNull<ffi::fid_mr>, T), CallError> {
        let mut ends = self.ends();
        let (Some(endpoint), Some(at)) = (&ends.endpoint, NonNull::new(region.ptr())) else {
            return Err(CallError {
                call: "fi_mr_bind",
                code: ffi::FI_ESHUTDOWN as i32,
            });
        };
        // SAFETY: region and endpoint are live and belong to one domain. On an error `region` is closed by its owner.
        check("fi_mr_bind", unsafe {
            ffi::fi_bind(region.fid(), endpoint.fid(), 0)
        })?;
        // SAFETY: `region` is live, and bound to its endpoint.
        check("fi_mr_enable", unsafe { ffi::fi_enable(region.fid()) })?;
        // Under the lock: after the insertion, another thread may close the region together with the endpoint.
        let found = read(&region);
        ends.regions.insert(at, region);
        Ok((at, found))
    }

    /// Closes a region that [`bind`](Self::bind) kept, unless it was already closed with the
    /// endpoint.
    pub(super) fn close_bound(&self, region: NonNull<ffi::fid_mr>) -> Result<(), CallError> {
        let kept = self.ends().regions.remove(&region);
        kept.map_or(Ok(()), Owned::close)
    }

    pub(crate) fn info(&self) -> InfoRef<'_> {
        self.info.get()
    }

    pub(crate) fn domain(&self) -> *mut ffi::fid_domain {
        self.domain.ptr()
    }

    pub(crate) fn av(&self) -> *mut ffi::fid_av {
        self.av.ptr()
    }

    /// The entries of the address vector.
    pub(crate) fn addresses(&self) -> &Arc<Addresses> {
        &self.addresses
    }

    pub(crate) fn is_scalable(&self) -> bool {
        !self.ends().contexts.is_empty()
    }

    /// This endpoint's address; peers connect to it.
    pub(crate) fn name(&self) -> Result<&[u8], Error> {
        match self.name.get() {
            Some(name) => Ok(name),
            None => {
                let name = self.ask_for_name()?;
                Ok(self.name.get_or_init(|| name))
            }
        }
    }

    fn ask_for_name(&self) -> Result<Vec<u8>, Error> {
        let doing = || String::from("asking for this endpoint's address");
        let ends = self.ends();
        let Some(endpoint) = &ends.endpoint else {
            return Err(Error::Invalid {
                what: "endpoint",
                reason: String::from("not open"),
            });
        };
        let mut name = vec![0u8; 128];
        for _ in 0..2 {
            let mut len = name.len();
            // SAFETY: the endpoint is live, and the buffer has `len` bytes.
            let rc = unsafe { ffi::fi_getname(endpoint.ptr(), name.as_mut_ptr().cast(), &mut len) };
            if rc == -(ffi::FI_ETOOSMALL as i32) && len <= MAX_NAME {
                name.resize(len, 0);
                continue;
            }
            check("fi_getname", rc).doing(doing)?;
            name.truncate(len);
            return Ok(name);
        }
        Err(Error::Invalid {
            what: "endpoint",
            reason: String::from("fi_getname asks for a larger buffer again"),
        })
    }

    /// Closes all objects, children first. Returns the first error, and logs the others.
    pub(crate) fn close(self) -> Result<(), Error> {
        let Device {
            ends,
            queues,
            av,
            domain,
            fabric,
            info,
            offer,
            addresses: _,
            name: _,
            may_receive: _,
        } = self;
        let name = info.get().provider();
        let mut first = Ok(());
        let mut note = |what: &str, result: Result<(), CallError>| {
            let result = result.doing(|| format!("closing {what} of provider {name}"));
            if first.is_ok() {
                first = result;
            } else if let Err(e) = result {
                tracing::warn!("{e}");
            }
        };
        let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
        ends.close(&mut note);
        for cq in queues {
            note("a completion queue", cq.close());
        }
        note("the address vector", av.close());
        note("the domain", domain.close());
        note("the fabric", fabric.close());
        drop(offer);
        first
    }
}

fn bind(
    endpoint: &Owned<ffi::fid_ep>,
    to: *mut ffi::fid,
    flags: u64,
    doing: &impl Fn(&str) -> String,
) -> Result<(), Error> {
    // SAFETY: both fids are live and belong to the same domain.
    check("fi_ep_bind", unsafe {
        ffi::fi_bind(endpoint.fid(), to, flags)
    })
    .doing(|| doing("the endpoint (bind)"))
}

fn enable(endpoint: &Owned<ffi::fid_ep>, doing: &impl Fn(&str) -> String) -> Result<(), Error> {
    // SAFETY: the endpoint is live and bound to all objects that it needs.
    check("fi_enable", unsafe { ffi::fi_enable(endpoint.fid()) })
        .doing(|| doing("the endpoint (enable)"))
}
