//! The provider's offers for its user's hints. As the man page requires, an offer never needs more
//! of its user than the hints permit, and lacks nothing that they request.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use libfabric_sys as ffi;

use crate::base::config::Config;

const CAPS: u64 =
    (ffi::FI_RMA | ffi::FI_READ | ffi::FI_WRITE | ffi::FI_REMOTE_READ | ffi::FI_REMOTE_WRITE)
        as u64;
const MESSAGE_SIDES: u64 = (ffi::FI_SEND | ffi::FI_RECV) as u64;
const OP_FLAGS: u64 = ffi::FI_COMPLETION as u64;
const ATOMIC_ORDER: u64 =
    ffi::FI_ORDER_ATOMIC_RAW | ffi::FI_ORDER_ATOMIC_WAR | ffi::FI_ORDER_ATOMIC_WAW;
/// The suffix of the names of domains whose reads come behind no operation.
pub(crate) const RELAXED: &str = "-ro";
/// The old words, which cannot be combined with any other.
const OLD: u32 = ffi::FI_MR_BASIC | ffi::FI_MR_SCALABLE;

const NO_DATA: c_int = -(ffi::FI_ENODATA as c_int);

/// `fi_provider.getinfo`.
pub(crate) unsafe extern "C" fn getinfo(
    _version: u32,
    _node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    hints: *const ffi::fi_info,
    info: *mut *mut ffi::fi_info,
) -> c_int {
    let config = Config::from_environment();
    let mut list: *mut ffi::fi_info = ptr::null_mut();
    let offers = (0..config.domains)
        .flat_map(|number| config.endpoints.iter().map(move |kind| (number, *kind)));
    for (number, kind) in offers.collect::<Vec<_>>().into_iter().rev() {
        // SAFETY: libfabric passes hints or NULL; `suits` reads the hints as the man page permits.
        if !hints.is_null() && !unsafe { suits(&*hints, &config, kind) } {
            continue;
        }
        // SAFETY: a NULL argument allocates an entry with all attributes; duplicating an entry copies them. This
        // function owns the list.
        unsafe {
            let entry = ffi::fi_dupinfo(ptr::null());
            if entry.is_null() {
                ffi::fi_freeinfo(list);
                return -(ffi::FI_ENOMEM as c_int);
            }
            fill(&mut *entry, hints.as_ref(), &config);
            (*(*entry).ep_attr).type_ = kind;
            let asked = hints.as_ref().and_then(|h| h.tx_attr.as_ref());
            let relaxed = config.relaxed && asked.is_none_or(|tx| tx.msg_order == 0);
            let suffix = if relaxed { RELAXED } else { "" };
            let name = CString::new(format!("lab{number}{suffix}")).unwrap_or_default();
            (*(*entry).domain_attr).name = libc::strdup(name.as_ptr());
            (*entry).next = list;
            list = entry;
        }
    }
    if list.is_null() {
        return NO_DATA;
    }
    // SAFETY: the caller passes a writable pointer for the list.
    unsafe { *info = list };
    0
}

/// The capabilities of a shape.
fn caps(config: &Config) -> u64 {
    let when = |offered: bool, caps: u64| if offered { caps } else { 0 };
    CAPS | when(config.atomics, u64::from(ffi::FI_ATOMIC))
        | when(config.messages, u64::from(ffi::FI_MSG) | MESSAGE_SIDES)
        | when(config.hmem, u64::from(ffi::FI_HMEM))
}

/// The flags of operations of a shape.
fn op_flags(config: &Config) -> u64 {
    if config.confirms {
        OP_FLAGS | u64::from(ffi::FI_DELIVERY_COMPLETE)
    } else {
        OP_FLAGS
    }
}

/// The orders of RMA and atomics that the user may request in a shape.
fn orders(config: &Config) -> u64 {
    let when = |offered: bool, order: u64| if offered { order } else { 0 };
    when(config.ordered, ATOMIC_ORDER) | when(config.read_order, ffi::FI_ORDER_RMA_RAW)
}

/// The order of sends of a shape.
fn send_order(config: &Config) -> u64 {
    if config.messages && config.send_order {
        u64::from(ffi::FI_ORDER_SAS)
    } else {
        0
    }
}

/// Whether the provider may offer itself with endpoints of this kind.
///
/// # Safety
/// Attribute pointers of the hints are valid or NULL.
unsafe fn suits(hints: &ffi::fi_info, config: &Config, kind: u32) -> bool {
    if hints.caps & !caps(config) != 0 || config.mode & !hints.mode != 0 {
        return false;
    }
    // SAFETY: the caller guarantees that the attributes are valid.
    let (domain, ep, tx, rx) = unsafe {
        (
            hints.domain_attr.as_ref(),
            hints.ep_attr.as_ref(),
            hints.tx_attr.as_ref(),
            hints.rx_attr.as_ref(),
        )
    };
    let orders = orders(config) | send_order(config);
    let domain_suits = domain.is_none_or(|d| {
        let automatic = [d.control_progress, d.data_progress].contains(&ffi::FI_PROGRESS_AUTO);
        let allowed = d.mr_mode as u32;
        let by_old = config.old_mode != 0 && config.old_mode == allowed;
        (by_old || serves_mode(config.mr_mode, allowed)) && (config.auto_progress || !automatic)
    });
    let ep_suits = ep.is_none_or(|e| {
        [ffi::FI_EP_UNSPEC, kind].contains(&e.type_) && e.max_msg_size <= config.max_message
    });
    let tx_suits = tx.is_none_or(|t| {
        t.op_flags & !op_flags(config) == 0
            && t.msg_order & !orders == 0
            && t.inject_size <= config.inject
            && t.size <= config.tx_size
            && t.iov_limit <= 1
            && t.rma_iov_limit <= 1
    });
    let rx_suits = rx
        .is_none_or(|r| r.msg_order & !orders == 0 && r.size <= config.rx_size && r.iov_limit <= 1);
    domain_suits && ep_suits && tx_suits && rx_suits
}

/// Whether a user that supports the modes `allowed` may get a provider that requires `required`. A
/// provider with one of the two old modes is offered only to a user that names exactly that mode.
fn serves_mode(required: u32, allowed: u32) -> bool {
    if required & OLD != 0 || allowed & OLD != 0 {
        return required == allowed;
    }
    required & !allowed == 0
}

/// The capabilities of an offer.
fn granted(hints: Option<&ffi::fi_info>, config: &Config) -> u64 {
    let asked = hints.map_or(0, |h| h.caps);
    if asked == 0 {
        caps(config)
    } else if asked & u64::from(ffi::FI_MSG) != 0 && asked & MESSAGE_SIDES == 0 {
        // If the user named neither side, both are granted.
        asked | MESSAGE_SIDES
    } else {
        asked
    }
}

unsafe fn fill(entry: &mut ffi::fi_info, hints: Option<&ffi::fi_info>, config: &Config) {
    // SAFETY: fi_allocinfo allocated each attribute; the attributes of hints are valid or NULL.
    let (fabric, domain, ep, tx, rx) = unsafe {
        (
            &mut *entry.fabric_attr,
            &mut *entry.domain_attr,
            &mut *entry.ep_attr,
            &mut *entry.tx_attr,
            &mut *entry.rx_attr,
        )
    };
    entry.caps = granted(hints, config);
    let messages = entry.caps & u64::from(ffi::FI_MSG) != 0;
    entry.mode = config.mode;
    // The address format is unlike every other provider's; libfabric has no number for such
    // formats.
    entry.addr_format = ffi::FI_FORMAT_UNSPEC;
    // SAFETY: strdup copies; fi_freeinfo frees.
    unsafe { fabric.name = libc::strdup(c"lab".as_ptr()) };
    // SAFETY: the attributes of hints are valid or NULL.
    let (asked_domain, asked_tx) = unsafe {
        (
            hints.and_then(|h| h.domain_attr.as_ref()),
            hints.and_then(|h| h.tx_attr.as_ref()),
        )
    };
    domain.threading = match asked_domain.map_or(ffi::FI_THREAD_UNSPEC, |d| d.threading) {
        ffi::FI_THREAD_UNSPEC => ffi::FI_THREAD_SAFE,
        asked => asked,
    };
    let progress = if config.auto_progress {
        ffi::FI_PROGRESS_AUTO
    } else {
        ffi::FI_PROGRESS_MANUAL
    };
    domain.control_progress = progress;
    domain.data_progress = progress;
    domain.resource_mgmt = ffi::FI_RM_ENABLED;
    domain.av_type = ffi::FI_AV_MAP;
    let old_mode = config.old_mode as c_int;
    domain.mr_mode = match asked_domain {
        Some(asked) if old_mode != 0 && asked.mr_mode == old_mode => old_mode,
        _ => config.mr_mode as c_int,
    };
    domain.mr_key_size = config.key_size;
    domain.cq_cnt = 1024;
    domain.ep_cnt = 1024;
    domain.tx_ctx_cnt = 1024;
    domain.rx_ctx_cnt = 1024;
    domain.max_ep_tx_ctx = config.tx_contexts;
    domain.max_ep_rx_ctx = 1;
    domain.mr_iov_limit = 1;
    domain.mr_cnt = 4096;
    domain.mode = config.mode;
    domain.caps = caps(config);
    ep.protocol_version = 1;
    ep.max_msg_size = config.max_message;
    ep.max_order_raw_size = if config.read_order {
        config.max_message
    } else {
        0
    };
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
    tx.caps = entry.caps;
    tx.mode = config.mode;
    tx.op_flags = asked_tx.map_or(0, |t| t.op_flags);
    // Atomics and reads have only the requested order; `suits` has checked that the provider
    // supports this order.
    tx.msg_order = asked_tx.map_or(0, |t| t.msg_order);
    if messages {
        tx.msg_order |= send_order(config);
    }
    tx.inject_size = config.inject;
    tx.size = config.tx_size;
    tx.iov_limit = 1;
    tx.rma_iov_limit = 1;
    rx.caps = entry.caps;
    rx.mode = config.mode;
    rx.msg_order = tx.msg_order;
    rx.size = config.rx_size;
    rx.iov_limit = 1;
}
