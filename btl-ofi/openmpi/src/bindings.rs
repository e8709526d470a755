//! Open MPI's types and functions, generated from its headers, and the C functions of `c/host.h`.

#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    missing_docs,
    dead_code,
    unreachable_pub,
    improper_ctypes,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::allow_attributes_without_reason,
    reason = "generated code mirrors the C names, and not all of it is used"
)]

use std::ffi::{c_char, c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/openmpi.rs"));

unsafe extern "C" {
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_modex_send(
        component: *const mca_base_component_t,
        data: *const c_void,
        size: usize,
    ) -> c_int;
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_modex_recv(
        component: *const mca_base_component_t,
        proc: *const opal_proc_t,
        data: *mut *mut c_void,
        size: *mut usize,
    ) -> c_int;
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_abort(status: c_int, message: *const c_char);
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_keep_process(jobid: u32, vpid: u32) -> *mut opal_proc_t;
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_receive(
        btl: *mut mca_btl_base_module_t,
        endpoint: *mut mca_btl_base_endpoint_t,
        tag: u8,
        data: *const c_void,
        size: usize,
    ) -> bool;
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_other_structure() -> *const c_char;
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_construct(descriptor: *mut mca_btl_base_descriptor_t);
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_needs_packing(convertor: *const opal_convertor_t) -> bool;
    /// See `c/host.h`.
    pub(crate) fn mca_btl_ofi_host_pack(
        convertor: *mut opal_convertor_t,
        to: *mut c_void,
        size: *mut usize,
    ) -> *mut c_void;
}
