//! The module structure before a provider is known: its functions, and the parameters that Open MPI registers for
//! every BTL from a module's fields.

use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use btl_ofi::{HANDLE_SIZE, Options};
use mca_params::{Declaration, Value};
use plugin_api::{Access, AtomicFlags, ErrorFlags, ModuleFlags, OpFlags, Status};

use crate::bindings as ffi;
use crate::component;
use crate::memory;
use crate::module;
use crate::params;
use crate::procs;
use crate::rma;
use crate::series;

/// Open MPI keeps the parameters of every BTL in a module's fields; this one exists from registration on.
static TEMPLATE: AtomicPtr<ffi::mca_btl_base_module_t> = AtomicPtr::new(null_mut());

/// What is offered; a provider may offer less, and `btl_ofi_flags` may take away.
pub(crate) const FLAGS: u32 = ModuleFlags::PUT.bits()
    | ModuleFlags::GET.bits()
    | ModuleFlags::ATOMIC_OPS.bits()
    | ModuleFlags::ATOMIC_FOPS.bits()
    | ModuleFlags::RDMA_FLUSH.bits()
    | series::REMOTE_COMPLETION;

/// Asserts that a bit has one meaning on both sides.
macro_rules! same_bits {
    ($($ours:expr => $theirs:ident,)*) => {
        $(const _: () = assert!($ours.bits() == ffi::$theirs, stringify!($theirs));)*
    };
}

same_bits! {
    ModuleFlags::PUT => MCA_BTL_FLAGS_PUT,
    ModuleFlags::GET => MCA_BTL_FLAGS_GET,
    ModuleFlags::ATOMIC_OPS => MCA_BTL_FLAGS_ATOMIC_OPS,
    ModuleFlags::ATOMIC_FOPS => MCA_BTL_FLAGS_ATOMIC_FOPS,
    ModuleFlags::RDMA_FLUSH => MCA_BTL_FLAGS_RDMA_FLUSH,
    ErrorFlags::FATAL => MCA_BTL_ERROR_FLAGS_FATAL,
    AtomicFlags::ADD => MCA_BTL_ATOMIC_SUPPORTS_ADD,
    AtomicFlags::AND => MCA_BTL_ATOMIC_SUPPORTS_AND,
    AtomicFlags::OR => MCA_BTL_ATOMIC_SUPPORTS_OR,
    AtomicFlags::XOR => MCA_BTL_ATOMIC_SUPPORTS_XOR,
    AtomicFlags::LAND => MCA_BTL_ATOMIC_SUPPORTS_LAND,
    AtomicFlags::LOR => MCA_BTL_ATOMIC_SUPPORTS_LOR,
    AtomicFlags::LXOR => MCA_BTL_ATOMIC_SUPPORTS_LXOR,
    AtomicFlags::SWAP => MCA_BTL_ATOMIC_SUPPORTS_SWAP,
    AtomicFlags::MIN => MCA_BTL_ATOMIC_SUPPORTS_MIN,
    AtomicFlags::MAX => MCA_BTL_ATOMIC_SUPPORTS_MAX,
    AtomicFlags::WORD_32 => MCA_BTL_ATOMIC_SUPPORTS_32BIT,
    AtomicFlags::FLOAT => MCA_BTL_ATOMIC_SUPPORTS_FLOAT,
    AtomicFlags::CSWAP => MCA_BTL_ATOMIC_SUPPORTS_CSWAP,
    AtomicFlags::GLOB => MCA_BTL_ATOMIC_SUPPORTS_GLOB,
    OpFlags::WORD_32 => MCA_BTL_ATOMIC_FLAG_32BIT,
    OpFlags::FLOAT => MCA_BTL_ATOMIC_FLAG_FLOAT,
    Access::LOCAL_WRITE => MCA_BTL_REG_FLAG_LOCAL_WRITE,
    Access::REMOTE_READ => MCA_BTL_REG_FLAG_REMOTE_READ,
    Access::REMOTE_WRITE => MCA_BTL_REG_FLAG_REMOTE_WRITE,
    Access::REMOTE_ATOMIC => MCA_BTL_REG_FLAG_REMOTE_ATOMIC,
    Access::all() => MCA_BTL_REG_FLAG_ACCESS_ANY,
}

const _: () = assert!(
    series::REMOTE_COMPLETION == 0
        || series::REMOTE_COMPLETION == ModuleFlags::RDMA_REMOTE_COMPLETION.bits()
);

/// Atomics that are never declared: osc/rdma would send 8-byte complex numbers as floating point, and its words of
/// floating point through integer buffers. It does those under its lock instead.
pub(crate) const NOT_DECLARED: AtomicFlags = AtomicFlags::FLOAT;

/// A module structure with the functions, and everything else zero.
pub(crate) fn functions() -> ffi::mca_btl_base_module_t {
    // SAFETY: the structure holds numbers, pointers and optional functions, for all of which zero is a value.
    let mut btl = unsafe { zeroed::<ffi::mca_btl_base_module_t>() };
    btl.btl_component = component::exported();
    btl.btl_add_procs = Some(procs::add_procs);
    btl.btl_del_procs = Some(procs::del_procs);
    btl.btl_finalize = Some(module::finalize);
    btl.btl_put = Some(rma::put);
    btl.btl_get = Some(rma::get);
    btl.btl_atomic_op = Some(rma::atomic_op);
    btl.btl_atomic_fop = Some(rma::atomic_fop);
    btl.btl_atomic_cswap = Some(rma::atomic_cswap);
    btl.btl_flush = Some(rma::flush);
    btl.btl_register_mem = Some(memory::register_mem);
    btl.btl_deregister_mem = Some(memory::deregister_mem);
    btl.btl_register_error = Some(module::register_error);
    btl.btl_dump = Some(module::dump);
    btl.btl_registration_handle_size = HANDLE_SIZE;
    btl
}

/// Registers the parameters that Open MPI registers for every BTL, with our defaults.
pub(crate) fn register_common_parameters() -> Result<(), String> {
    let mut template = functions();
    template.btl_flags = FLAGS;
    // Informational until a provider is known; zero would make Open MPI take the atomics out of the flags.
    template.btl_atomic_flags = (AtomicFlags::all() - NOT_DECLARED).bits();
    for declared in Options::declarations() {
        let number = declared
            .default
            .as_unsigned()
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0);
        match declared.name.as_ref() {
            "btl_ofi_exclusivity" => template.btl_exclusivity = number,
            "btl_ofi_latency" => template.btl_latency = number,
            "btl_ofi_bandwidth" => template.btl_bandwidth = number,
            _ => {}
        }
    }
    // Leaked: the variable system keeps pointers to its fields.
    let template = Box::leak(Box::new(template));
    // SAFETY: our exported component, and a module structure that stays in place.
    let rc = unsafe { ffi::mca_btl_base_param_register(component::base().cast_mut(), template) };
    if rc != Status::SUCCESS.0 {
        return Err(format!(
            "the parameters of every BTL could not be registered: {}",
            Status(rc)
        ));
    }
    TEMPLATE.store(template, Ordering::Release);
    Ok(())
}

/// The value of a parameter that Open MPI keeps in a field of the template.
pub(crate) fn common_parameter(declared: &Declaration) -> Value {
    // Pairs with the store in `register_common_parameters`.
    let template = TEMPLATE.load(Ordering::Acquire);
    // SAFETY: NULL or leaked; the variable system writes to it only during registration.
    unsafe { template.as_ref() }.map_or(declared.default.clone(), |template| {
        params::field(template, declared)
    })
}
