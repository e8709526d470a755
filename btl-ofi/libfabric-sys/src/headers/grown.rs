// Bindings that examples/regenerate.rs does not generate: structures that grew after release 1.14, with the fields of
// 1.14 only, so that no code reads a newer field from a library that does not have it.
//
// - Structures of the caller that libfabric reads or writes: `calls` adds space for the fields of newer releases.
// - Structures that libfabric allocates (`fi_domain_attr`): only `fi_dupinfo` copies them.
// - Tables: code reads them up to their own `size`.
//
// tests/layout.rs compares this file with the installed headers.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{align_of, size_of};

use super::Unused;
use super::generated::*;

// Macros that bindgen does not convert, and values that belong to an enumeration up to 1.20, which is otherwise
// unused here.
pub const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;
pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
pub const FI_MR_BASIC: u32 = 1;
pub const FI_MR_SCALABLE: u32 = 2;

#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_mr_attr {
    pub mr_iov: *const iovec,
    pub iov_count: usize,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut c_void,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    pub iface: fi_hmem_iface,
    pub device: fi_mr_attr_device,
}
const _: () = {
    ["Size of fi_mr_attr"][size_of::<fi_mr_attr>() - 80usize];
    ["Alignment of fi_mr_attr"][align_of::<fi_mr_attr>() - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union fi_mr_attr_device {
    pub reserved: u64,
    pub cuda: c_int,
    pub ze: c_int,
}
const _: () = {
    ["Size of fi_mr_attr_device"][size_of::<fi_mr_attr_device>() - 8usize];
    ["Alignment of fi_mr_attr_device"][align_of::<fi_mr_attr_device>() - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: fi_threading,
    pub control_progress: fi_progress,
    pub data_progress: fi_progress,
    pub resource_mgmt: fi_resource_mgmt,
    pub av_type: fi_av_type,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}
const _: () = {
    ["Size of fi_domain_attr"][size_of::<fi_domain_attr>() - 192usize];
    ["Alignment of fi_domain_attr"][align_of::<fi_domain_attr>() - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}
const _: () = {
    ["Size of fi_cq_err_entry"][size_of::<fi_cq_err_entry>() - 80usize];
    ["Alignment of fi_cq_err_entry"][align_of::<fi_cq_err_entry>() - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_av_attr,
            av: *mut *mut fid_av,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cq_open: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_cq_attr,
            cq: *mut *mut fid_cq,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub endpoint: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub scalable_ep: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            sep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cntr_open: Option<Unused>,
    pub poll_open: Option<Unused>,
    pub stx_ctx: Option<Unused>,
    pub srx_ctx: Option<Unused>,
    pub query_atomic: Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            datatype: fi_datatype,
            op: fi_op,
            attr: *mut fi_atomic_attr,
            flags: u64,
        ) -> c_int,
    >,
    pub query_collective: Option<Unused>,
}
const _: () = {
    ["Size of fi_ops_domain"][size_of::<fi_ops_domain>() - 88usize];
    ["Alignment of fi_ops_domain"][align_of::<fi_ops_domain>() - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub passive_ep: Option<Unused>,
    pub eq_open: Option<Unused>,
    pub wait_open: Option<Unused>,
    pub trywait: Option<Unused>,
}
const _: () = {
    ["Size of fi_ops_fabric"][size_of::<fi_ops_fabric>() - 48usize];
    ["Alignment of fi_ops_fabric"][align_of::<fi_ops_fabric>() - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            addr: *const c_void,
            count: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub insertsvc: Option<Unused>,
    pub insertsym: Option<Unused>,
    pub remove: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: *mut fi_addr_t,
            count: usize,
            flags: u64,
        ) -> c_int,
    >,
    pub lookup: Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            addr: *mut c_void,
            addrlen: *mut usize,
        ) -> c_int,
    >,
    pub straddr: Option<Unused>,
    pub av_set: Option<Unused>,
}
const _: () = {
    ["Size of fi_ops_av"][size_of::<fi_ops_av>() - 64usize];
    ["Alignment of fi_ops_av"][align_of::<fi_ops_av>() - 8usize];
};
