//! The parameters that Open MPI registers for every BTL from the fields of a module.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use btl_ofi::Options;
use mca_params::{Declaration, Kind, Value};
use plugin_api::{AtomicFlags, Status};

use crate::bindings as ffi;
use crate::btl::flags::{FLAGS, NOT_DECLARED};
use crate::identity;
use crate::params::{PREFIX, usual};
use crate::storage::Name;

type Module = ffi::mca_btl_base_module_t;
type Field = fn(&mut Module) -> &mut usize;

/// Room for a header of pml/ob1, bytes.
pub(crate) const HEADER: usize = 256;
/// Largest send of the transport, bytes.
const LONGEST_SEND: usize = 128 * 1024 + HEADER;
/// Largest fragment of a transfer that pml/ob1 divides, bytes.
const PIECE: usize = 1 << 20;

/// The declared latency, microseconds: less than the 1 of Open MPI's own shared memory and of the C component, because
/// osc/rdma takes the BTL with the lowest latency. With equal latencies the ranks of 4.1 choose differently, and the
/// job fails.
const LATENCY: u32 = 0;

/// The limits among these parameters, each with its field. A component named `ofi_rs` takes these by their usual names too.
/// The latency is no such limit: the C component would get the same value, and of two BTLs with equal latencies the ranks of
/// 4.1 choose differently.
const LIMITS: [(&CStr, Field); 8] = [
    (c"put_limit", |module| &mut module.btl_put_limit),
    (c"get_limit", |module| &mut module.btl_get_limit),
    (c"eager_limit", |module| &mut module.btl_eager_limit),
    (c"rndv_eager_limit", |module| {
        &mut module.btl_rndv_eager_limit
    }),
    (c"max_send_size", |module| &mut module.btl_max_send_size),
    (c"rdma_pipeline_send_length", |module| {
        &mut module.btl_rdma_pipeline_send_length
    }),
    (c"rdma_pipeline_frag_size", |module| {
        &mut module.btl_rdma_pipeline_frag_size
    }),
    (c"min_rdma_pipeline_size", |module| {
        &mut module.btl_min_rdma_pipeline_size
    }),
];

/// The module structure whose fields hold these parameters; NULL before `register`.
static TEMPLATE: AtomicPtr<ffi::mca_btl_base_module_t> = AtomicPtr::new(null_mut());

/// Registers the parameters for `template`, with the transport's defaults.
pub(super) fn register(mut template: ffi::mca_btl_base_module_t) -> Result<(), String> {
    let component = template.btl_component;
    template.btl_flags = FLAGS;
    set_sends(&mut template);
    // Informational until a provider is known. With zero Open MPI would remove the atomics from the flags.
    template.btl_atomic_flags = (AtomicFlags::all() - NOT_DECLARED).bits();
    for declared in Options::declarations() {
        let number = declared
            .default
            .as_unsigned()
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0);
        match declared.name.as_ref() {
            "btl_ofi_exclusivity" => template.btl_exclusivity = number,
            "btl_ofi_bandwidth" => template.btl_bandwidth = number,
            _ => {}
        }
    }
    template.btl_latency = LATENCY;
    // Leaked: the variable system keeps pointers to the fields.
    let template: *mut Module = Box::leak(Box::new(template));
    // SAFETY: `component` is the exported structure, and the leaked template never moves.
    let mut rc = unsafe { ffi::mca_btl_base_param_register(component.cast(), template) };
    if rc == Status::SUCCESS.0 {
        take_usual_names(template);
        // SAFETY: the template lives; the function makes the fields that were just written agree, as registration does.
        rc = unsafe { ffi::mca_btl_base_param_verify(template) };
    }
    if rc != Status::SUCCESS.0 {
        return Err(format!(
            "the parameters of every BTL could not be registered: {}",
            Status(rc)
        ));
    }
    // Release: pairs with the Acquire load in `value`.
    TEMPLATE.store(template, Ordering::Release);
    Ok(())
}

/// Gives the limits their usual names, or takes the values of the C component's variables with
/// these names.
fn take_usual_names(template: *mut Module) {
    for (own, field) in LIMITS {
        let name = Name {
            framework: c"btl",
            component: identity::NAME,
            variable: own,
        };
        let Some(variable) = name.find() else {
            continue;
        };
        usual::give(variable, own);
        if variable.is_default()
            && let Some(Value::Unsigned(set)) = usual::set_beside(own, Kind::SizeT)
            && let Ok(set) = usize::try_from(set)
        {
            // SAFETY: the template lives, and no other code uses it during registration.
            *field(unsafe { &mut *template }) = set;
        }
    }
}

/// The defaults of the sizes by which pml/ob1 divides messages: up to the eager limit at once; longer ones, if they need no
/// packing, by the receiver's gets; the others in fragments.
fn set_sends(template: &mut ffi::mca_btl_base_module_t) {
    template.btl_eager_limit = LONGEST_SEND;
    template.btl_rndv_eager_limit = LONGEST_SEND;
    template.btl_max_send_size = LONGEST_SEND;
    template.btl_rdma_pipeline_send_length = LONGEST_SEND;
    template.btl_rdma_pipeline_frag_size = PIECE;
    template.btl_min_rdma_pipeline_size = LONGEST_SEND + PIECE;
}

/// Copies the sizes that the user may have set to a module whose transport sends at most `limit` bytes at once.
pub(crate) fn limit_sends(btl: &mut ffi::mca_btl_base_module_t, limit: usize) {
    // Acquire: pairs with the Release store in `register`.
    let template = TEMPLATE.load(Ordering::Acquire);
    // SAFETY: the pointer is NULL or leaked; the variable system writes to the fields only during registration.
    if let Some(set) = unsafe { template.as_ref() } {
        btl.btl_eager_limit = set.btl_eager_limit.min(limit);
        btl.btl_rndv_eager_limit = set.btl_rndv_eager_limit.min(limit);
        btl.btl_max_send_size = set.btl_max_send_size.min(limit);
        btl.btl_rdma_pipeline_send_length = set.btl_rdma_pipeline_send_length;
        // pml/ob1 puts each fragment at once, whatever the limit of puts.
        btl.btl_rdma_pipeline_frag_size = set.btl_rdma_pipeline_frag_size.min(btl.btl_put_limit);
        btl.btl_min_rdma_pipeline_size = set.btl_min_rdma_pipeline_size;
    }
}

/// The value of a parameter that Open MPI keeps in a field of the template.
pub(super) fn value(declared: &Declaration) -> Value {
    // Acquire: pairs with the Release store in `register`.
    let template = TEMPLATE.load(Ordering::Acquire);
    // SAFETY: the pointer is NULL or leaked; the variable system writes to the fields only during registration.
    unsafe { template.as_ref() }.map_or(declared.default.clone(), |template| {
        field(template, declared)
    })
}

/// The declared parameter's value in `module`.
fn field(module: &ffi::mca_btl_base_module_t, declared: &Declaration) -> Value {
    let unsigned = |n: u32| Value::Unsigned(u64::from(n));
    // Open MPI turns a limit of 0 into the largest number; for the transport 0 means that the user set no limit.
    let limit = |n: usize| Value::Unsigned(if n == usize::MAX { 0 } else { n as u64 });
    match declared.name.strip_prefix(PREFIX) {
        Some("exclusivity") => unsigned(module.btl_exclusivity),
        Some("flags") => unsigned(module.btl_flags),
        Some("latency") => unsigned(module.btl_latency),
        Some("bandwidth") => unsigned(module.btl_bandwidth),
        Some("put_limit") => limit(module.btl_put_limit),
        Some("get_limit") => limit(module.btl_get_limit),
        _ => declared.default.clone(),
    }
}
