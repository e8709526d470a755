//! The functions that Open MPI calls through a module. Each converts its arguments, calls the module or the transport,
//! and converts the result.

mod amo;
mod call;
mod kept;
mod life;
mod locks;
mod memory;
mod procs;
mod receive;
mod rma;
mod send;

use std::mem::zeroed;

use btl_ofi::hints::{MESSAGE, PROVIDER, Way};
use btl_ofi::{Handle, Transport};

use crate::bindings as ffi;
use crate::btl::module::Functions;

pub(crate) use kept::resume;

/// The functions of a module of the component.
pub(crate) fn of_module(component: *mut ffi::mca_btl_base_component_3_0_0_t) -> Functions {
    Functions {
        table: functions(component),
        choose: set_operations,
        receive: receive::receive,
    }
}

/// A module structure with the functions set and every other field zero. Once the transport is open,
/// [`set_operations`] chooses those of operations.
pub(crate) fn functions(
    component: *mut ffi::mca_btl_base_component_3_0_0_t,
) -> ffi::mca_btl_base_module_t {
    // SAFETY: the structure holds numbers, pointers and optional functions; zero is a valid value of each.
    let mut btl = unsafe { zeroed::<ffi::mca_btl_base_module_t>() };
    btl.btl_component = component;
    btl.btl_add_procs = Some(procs::add_procs);
    btl.btl_del_procs = Some(procs::del_procs);
    btl.btl_finalize = Some(life::finalize);
    operations::<true, PROVIDER>(&mut btl);
    btl.btl_alloc = Some(send::alloc);
    btl.btl_free = Some(send::free);
    btl.btl_prepare_src = Some(send::prepare_src);
    btl.btl_send = Some(send::send);
    btl.btl_sendi = Some(send::sendi);
    btl.btl_flush = Some(rma::flush);
    btl.btl_register_mem = Some(memory::register_mem);
    btl.btl_deregister_mem = Some(memory::deregister_mem);
    btl.btl_register_error = Some(life::register_error);
    btl.btl_dump = Some(life::dump);
    btl.btl_registration_handle_size = Handle::SIZE;
    btl
}

/// Sets the functions of operations for a transport.
fn set_operations(btl: &mut ffi::mca_btl_base_module_t, transport: &Transport) {
    match (transport.is_threaded(), transport.uses_messages()) {
        (false, false) => operations::<false, PROVIDER>(btl),
        (false, true) => operations::<false, MESSAGE>(btl),
        (true, false) => operations::<true, PROVIDER>(btl),
        (true, true) => operations::<true, MESSAGE>(btl),
    }
}

fn operations<const T: bool, const WAY: Way>(btl: &mut ffi::mca_btl_base_module_t) {
    btl.btl_put = Some(rma::put::<T, WAY>);
    btl.btl_get = Some(rma::get::<T, WAY>);
    btl.btl_atomic_op = Some(amo::atomic_op::<T, WAY>);
    btl.btl_atomic_fop = Some(amo::atomic_fop::<T, WAY>);
    btl.btl_atomic_cswap = Some(amo::atomic_cswap::<T, WAY>);
}
