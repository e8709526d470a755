/* Made by rust-bindgen 0.72.1 */

// From libfabric's headers by examples/regenerate.rs, which says how. Do not edit.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{align_of, offset_of, size_of};

use super::Unused;
use super::grown::*;
use super::opaque::*;

pub type _bindgen_ty_1 = c_uint;
pub type fid_t = *mut fid;
pub type _bindgen_ty_3 = c_uint;
pub type fi_addr_t = u64;
pub type fi_av_type = c_uint;
pub type fi_progress = c_uint;
pub type fi_threading = c_uint;
pub type fi_resource_mgmt = c_uint;
pub type fi_ep_type = c_uint;
pub type fi_link_state = c_uint;
pub type _bindgen_ty_6 = c_uint;
pub type _bindgen_ty_7 = c_uint;
pub type fi_wait_obj = c_uint;
pub type fi_cq_format = c_uint;
pub type fi_cq_wait_cond = c_uint;
pub type fi_hmem_iface = c_uint;
pub type fi_datatype = c_uint;
pub type fi_op = c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct iovec {
    pub iov_base: *mut c_void,
    pub iov_len: usize,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: usize,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ep_attr {
    pub type_: fi_ep_type,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: fid_t,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut fid_nic,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_link_attr {
    pub address: *mut c_char,
    pub mtu: usize,
    pub speed: usize,
    pub state: fi_link_state,
    pub network_type: *mut c_char,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(fid: *mut fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int>,
    pub control:
        Option<unsafe extern "C" fn(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int>,
    pub ops_open: Option<Unused>,
    pub tostr: Option<Unused>,
    pub ops_set: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut c_void,
            context: *mut c_void,
        ) -> c_int,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut fi_bus_attr,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut c_void,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_context {
    pub internal: [*mut c_void; 4usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_entry {
    pub op_context: *mut c_void,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: *mut fid_wait,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read:
        Option<unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize>,
    pub readfrom: Option<Unused>,
    pub readerr: Option<
        unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize,
    >,
    pub sread: Option<Unused>,
    pub sreadfrom: Option<Unused>,
    pub signal: Option<Unused>,
    pub strerror: Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            prov_errno: c_int,
            err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_av_attr {
    pub type_: fi_av_type,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: Option<Unused>,
    pub regv: Option<Unused>,
    pub regattr: Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            attr: *const fi_mr_attr,
            flags: u64,
            mr: *mut *mut fid_mr,
        ) -> c_int,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_msg {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub context: *mut c_void,
    pub data: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_ep {
    pub size: usize,
    pub cancel: Option<Unused>,
    pub getopt: Option<Unused>,
    pub setopt: Option<Unused>,
    pub tx_ctx: Option<
        unsafe extern "C" fn(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_tx_attr,
            tx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub rx_ctx: Option<
        unsafe extern "C" fn(
            sep: *mut fid_ep,
            index: c_int,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub rx_size_left: Option<Unused>,
    pub tx_size_left: Option<Unused>,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize,
    >,
    pub recvv: Option<Unused>,
    pub recvmsg:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize>,
    pub send: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize,
    >,
    pub sendv: Option<Unused>,
    pub sendmsg:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize>,
    pub inject: Option<Unused>,
    pub senddata: Option<Unused>,
    pub injectdata: Option<Unused>,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut fi_ops_tagged,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut fi_ops_collective,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_rma_ioc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_msg_rma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_rma {
    pub size: usize,
    pub read: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize,
    >,
    pub readv: Option<Unused>,
    pub readmsg:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize>,
    pub write: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize,
    >,
    pub writev: Option<Unused>,
    pub writemsg:
        Option<unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize>,
    pub inject: Option<Unused>,
    pub writedata: Option<Unused>,
    pub injectdata: Option<Unused>,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_atomic_attr {
    pub count: usize,
    pub size: usize,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_msg_atomic {
    pub msg_iov: *const fi_ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_ioc,
    pub rma_iov_count: usize,
    pub datatype: fi_datatype,
    pub op: fi_op,
    pub context: *mut c_void,
    pub data: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_atomic {
    pub size: usize,
    pub write: Option<Unused>,
    pub writev: Option<Unused>,
    pub writemsg: Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize,
    >,
    pub inject: Option<Unused>,
    pub readwrite: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut c_void,
        ) -> isize,
    >,
    pub readwritev: Option<Unused>,
    pub readwritemsg: Option<Unused>,
    pub compwrite: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            compare: *const c_void,
            compare_desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut c_void,
        ) -> isize,
    >,
    pub compwritev: Option<Unused>,
    pub compwritemsg: Option<Unused>,
    pub writevalid: Option<Unused>,
    pub readwritevalid: Option<Unused>,
    pub compwritevalid: Option<Unused>,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: Option<Unused>,
    pub getname:
        Option<unsafe extern "C" fn(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int>,
    pub getpeer: Option<Unused>,
    pub connect: Option<Unused>,
    pub listen: Option<Unused>,
    pub accept: Option<Unused>,
    pub reject: Option<Unused>,
    pub shutdown: Option<Unused>,
    pub join: Option<Unused>,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_provider {
    pub version: u32,
    pub fi_version: u32,
    pub context: fi_context,
    pub name: *const c_char,
    pub getinfo: Option<
        unsafe extern "C" fn(
            version: u32,
            node: *const c_char,
            service: *const c_char,
            flags: u64,
            hints: *const fi_info,
            info: *mut *mut fi_info,
        ) -> c_int,
    >,
    pub fabric: Option<
        unsafe extern "C" fn(
            attr: *mut fi_fabric_attr,
            fabric: *mut *mut fid_fabric,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub cleanup: Option<unsafe extern "C" fn()>,
}
pub const FI_EPERM: u32 = 1;
pub const FI_EIO: u32 = 5;
pub const FI_EAGAIN: u32 = 11;
pub const FI_ENOMEM: u32 = 12;
pub const FI_EACCES: u32 = 13;
pub const FI_EBUSY: u32 = 16;
pub const FI_EINVAL: u32 = 22;
pub const FI_EMFILE: u32 = 24;
pub const FI_ENOSPC: u32 = 28;
pub const FI_ENOSYS: u32 = 38;
pub const FI_ENODATA: u32 = 61;
pub const FI_EMSGSIZE: u32 = 90;
pub const FI_EOPNOTSUPP: u32 = 95;
pub const FI_ENETUNREACH: u32 = 101;
pub const FI_ECONNABORTED: u32 = 103;
pub const FI_ECONNRESET: u32 = 104;
pub const FI_ENOTCONN: u32 = 107;
pub const FI_ESHUTDOWN: u32 = 108;
pub const FI_ETIMEDOUT: u32 = 110;
pub const FI_ECONNREFUSED: u32 = 111;
pub const FI_EHOSTUNREACH: u32 = 113;
pub const FI_EKEYREJECTED: u32 = 129;
pub const FI_MSG: u32 = 2;
pub const FI_RMA: u32 = 4;
pub const FI_ATOMIC: u32 = 16;
pub const FI_READ: u32 = 256;
pub const FI_WRITE: u32 = 512;
pub const FI_RECV: u32 = 1024;
pub const FI_SEND: u32 = 2048;
pub const FI_TRANSMIT: u32 = 2048;
pub const FI_REMOTE_READ: u32 = 4096;
pub const FI_REMOTE_WRITE: u32 = 8192;
pub const FI_COMPLETION: u32 = 16777216;
pub const FI_INJECT: u32 = 33554432;
pub const FI_DELIVERY_COMPLETE: u32 = 268435456;
pub const FI_HMEM_DEVICE_ONLY: u64 = 70368744177664;
pub const FI_HMEM: u64 = 140737488355328;
pub const FI_MR_LOCAL: u32 = 4;
pub const FI_MR_RAW: u32 = 8;
pub const FI_MR_VIRT_ADDR: u32 = 16;
pub const FI_MR_ALLOCATED: u32 = 32;
pub const FI_MR_PROV_KEY: u32 = 64;
pub const FI_MR_MMU_NOTIFY: u32 = 128;
pub const FI_MR_RMA_EVENT: u32 = 256;
pub const FI_MR_ENDPOINT: u32 = 512;
pub const FI_MR_HMEM: u32 = 1024;
pub const FI_MR_COLLECTIVE: u32 = 2048;
pub const FI_ORDER_SAS: u32 = 256;
pub const FI_ORDER_RMA_RAW: u64 = 8589934592;
pub const FI_ORDER_ATOMIC_RAW: u64 = 137438953472;
pub const FI_ORDER_ATOMIC_WAR: u64 = 274877906944;
pub const FI_ORDER_ATOMIC_WAW: u64 = 549755813888;
pub const FI_CONTEXT: u64 = 576460752303423488;
pub const FI_CONTEXT2: u64 = 4503599627370496;
pub const FI_FETCH_ATOMIC: u64 = 288230376151711744;
pub const FI_COMPARE_ATOMIC: u64 = 576460752303423488;
const _: () = {
    ["Size of iovec"][size_of::<iovec>() - 16usize];
    ["Alignment of iovec"][align_of::<iovec>() - 8usize];
    ["Offset of field: iovec::iov_base"][offset_of!(iovec, iov_base) - 0usize];
    ["Offset of field: iovec::iov_len"][offset_of!(iovec, iov_len) - 8usize];
};
pub const FI_EOTHER: _bindgen_ty_1 = 256;
pub const FI_ETOOSMALL: _bindgen_ty_1 = 257;
pub const FI_EOPBADSTATE: _bindgen_ty_1 = 258;
pub const FI_EAVAIL: _bindgen_ty_1 = 259;
pub const FI_ETRUNC: _bindgen_ty_1 = 265;
pub const FI_ENOKEY: _bindgen_ty_1 = 266;
const _: () = {
    ["Size of fi_ioc"][size_of::<fi_ioc>() - 16usize];
    ["Alignment of fi_ioc"][align_of::<fi_ioc>() - 8usize];
    ["Offset of field: fi_ioc::addr"][offset_of!(fi_ioc, addr) - 0usize];
    ["Offset of field: fi_ioc::count"][offset_of!(fi_ioc, count) - 8usize];
};
pub const FI_FORMAT_UNSPEC: _bindgen_ty_3 = 0;
pub const FI_SOCKADDR: _bindgen_ty_3 = 1;
pub const FI_SOCKADDR_IN: _bindgen_ty_3 = 2;
pub const FI_SOCKADDR_IN6: _bindgen_ty_3 = 3;
pub const FI_SOCKADDR_IB: _bindgen_ty_3 = 4;
pub const FI_ADDR_STR: _bindgen_ty_3 = 9;
pub const FI_AV_UNSPEC: fi_av_type = 0;
pub const FI_AV_MAP: fi_av_type = 1;
pub const FI_PROGRESS_UNSPEC: fi_progress = 0;
pub const FI_PROGRESS_AUTO: fi_progress = 1;
pub const FI_PROGRESS_MANUAL: fi_progress = 2;
pub const FI_THREAD_UNSPEC: fi_threading = 0;
pub const FI_THREAD_SAFE: fi_threading = 1;
pub const FI_THREAD_DOMAIN: fi_threading = 3;
pub const FI_THREAD_COMPLETION: fi_threading = 4;
pub const FI_RM_ENABLED: fi_resource_mgmt = 2;
pub const FI_EP_UNSPEC: fi_ep_type = 0;
pub const FI_EP_MSG: fi_ep_type = 1;
pub const FI_EP_DGRAM: fi_ep_type = 2;
pub const FI_EP_RDM: fi_ep_type = 3;
const _: () = {
    ["Size of fi_tx_attr"][size_of::<fi_tx_attr>() - 80usize];
    ["Alignment of fi_tx_attr"][align_of::<fi_tx_attr>() - 8usize];
    ["Offset of field: fi_tx_attr::caps"][offset_of!(fi_tx_attr, caps) - 0usize];
    ["Offset of field: fi_tx_attr::mode"][offset_of!(fi_tx_attr, mode) - 8usize];
    ["Offset of field: fi_tx_attr::op_flags"][offset_of!(fi_tx_attr, op_flags) - 16usize];
    ["Offset of field: fi_tx_attr::msg_order"][offset_of!(fi_tx_attr, msg_order) - 24usize];
    ["Offset of field: fi_tx_attr::comp_order"][offset_of!(fi_tx_attr, comp_order) - 32usize];
    ["Offset of field: fi_tx_attr::inject_size"][offset_of!(fi_tx_attr, inject_size) - 40usize];
    ["Offset of field: fi_tx_attr::size"][offset_of!(fi_tx_attr, size) - 48usize];
    ["Offset of field: fi_tx_attr::iov_limit"][offset_of!(fi_tx_attr, iov_limit) - 56usize];
    ["Offset of field: fi_tx_attr::rma_iov_limit"][offset_of!(fi_tx_attr, rma_iov_limit) - 64usize];
    ["Offset of field: fi_tx_attr::tclass"][offset_of!(fi_tx_attr, tclass) - 72usize];
};
const _: () = {
    ["Size of fi_rx_attr"][size_of::<fi_rx_attr>() - 64usize];
    ["Alignment of fi_rx_attr"][align_of::<fi_rx_attr>() - 8usize];
    ["Offset of field: fi_rx_attr::caps"][offset_of!(fi_rx_attr, caps) - 0usize];
    ["Offset of field: fi_rx_attr::mode"][offset_of!(fi_rx_attr, mode) - 8usize];
    ["Offset of field: fi_rx_attr::op_flags"][offset_of!(fi_rx_attr, op_flags) - 16usize];
    ["Offset of field: fi_rx_attr::msg_order"][offset_of!(fi_rx_attr, msg_order) - 24usize];
    ["Offset of field: fi_rx_attr::comp_order"][offset_of!(fi_rx_attr, comp_order) - 32usize];
    ["Offset of field: fi_rx_attr::total_buffered_recv"]
        [offset_of!(fi_rx_attr, total_buffered_recv) - 40usize];
    ["Offset of field: fi_rx_attr::size"][offset_of!(fi_rx_attr, size) - 48usize];
    ["Offset of field: fi_rx_attr::iov_limit"][offset_of!(fi_rx_attr, iov_limit) - 56usize];
};
const _: () = {
    ["Size of fi_ep_attr"][size_of::<fi_ep_attr>() - 96usize];
    ["Alignment of fi_ep_attr"][align_of::<fi_ep_attr>() - 8usize];
    ["Offset of field: fi_ep_attr::type_"][offset_of!(fi_ep_attr, type_) - 0usize];
    ["Offset of field: fi_ep_attr::protocol"][offset_of!(fi_ep_attr, protocol) - 4usize];
    ["Offset of field: fi_ep_attr::protocol_version"]
        [offset_of!(fi_ep_attr, protocol_version) - 8usize];
    ["Offset of field: fi_ep_attr::max_msg_size"][offset_of!(fi_ep_attr, max_msg_size) - 16usize];
    ["Offset of field: fi_ep_attr::msg_prefix_size"]
        [offset_of!(fi_ep_attr, msg_prefix_size) - 24usize];
    ["Offset of field: fi_ep_attr::max_order_raw_size"]
        [offset_of!(fi_ep_attr, max_order_raw_size) - 32usize];
    ["Offset of field: fi_ep_attr::max_order_war_size"]
        [offset_of!(fi_ep_attr, max_order_war_size) - 40usize];
    ["Offset of field: fi_ep_attr::max_order_waw_size"]
        [offset_of!(fi_ep_attr, max_order_waw_size) - 48usize];
    ["Offset of field: fi_ep_attr::mem_tag_format"]
        [offset_of!(fi_ep_attr, mem_tag_format) - 56usize];
    ["Offset of field: fi_ep_attr::tx_ctx_cnt"][offset_of!(fi_ep_attr, tx_ctx_cnt) - 64usize];
    ["Offset of field: fi_ep_attr::rx_ctx_cnt"][offset_of!(fi_ep_attr, rx_ctx_cnt) - 72usize];
    ["Offset of field: fi_ep_attr::auth_key_size"][offset_of!(fi_ep_attr, auth_key_size) - 80usize];
    ["Offset of field: fi_ep_attr::auth_key"][offset_of!(fi_ep_attr, auth_key) - 88usize];
};
const _: () = {
    ["Size of fi_fabric_attr"][size_of::<fi_fabric_attr>() - 32usize];
    ["Alignment of fi_fabric_attr"][align_of::<fi_fabric_attr>() - 8usize];
    ["Offset of field: fi_fabric_attr::fabric"][offset_of!(fi_fabric_attr, fabric) - 0usize];
    ["Offset of field: fi_fabric_attr::name"][offset_of!(fi_fabric_attr, name) - 8usize];
    ["Offset of field: fi_fabric_attr::prov_name"][offset_of!(fi_fabric_attr, prov_name) - 16usize];
    ["Offset of field: fi_fabric_attr::prov_version"]
        [offset_of!(fi_fabric_attr, prov_version) - 24usize];
    ["Offset of field: fi_fabric_attr::api_version"]
        [offset_of!(fi_fabric_attr, api_version) - 28usize];
};
const _: () = {
    ["Size of fi_info"][size_of::<fi_info>() - 120usize];
    ["Alignment of fi_info"][align_of::<fi_info>() - 8usize];
    ["Offset of field: fi_info::next"][offset_of!(fi_info, next) - 0usize];
    ["Offset of field: fi_info::caps"][offset_of!(fi_info, caps) - 8usize];
    ["Offset of field: fi_info::mode"][offset_of!(fi_info, mode) - 16usize];
    ["Offset of field: fi_info::addr_format"][offset_of!(fi_info, addr_format) - 24usize];
    ["Offset of field: fi_info::src_addrlen"][offset_of!(fi_info, src_addrlen) - 32usize];
    ["Offset of field: fi_info::dest_addrlen"][offset_of!(fi_info, dest_addrlen) - 40usize];
    ["Offset of field: fi_info::src_addr"][offset_of!(fi_info, src_addr) - 48usize];
    ["Offset of field: fi_info::dest_addr"][offset_of!(fi_info, dest_addr) - 56usize];
    ["Offset of field: fi_info::handle"][offset_of!(fi_info, handle) - 64usize];
    ["Offset of field: fi_info::tx_attr"][offset_of!(fi_info, tx_attr) - 72usize];
    ["Offset of field: fi_info::rx_attr"][offset_of!(fi_info, rx_attr) - 80usize];
    ["Offset of field: fi_info::ep_attr"][offset_of!(fi_info, ep_attr) - 88usize];
    ["Offset of field: fi_info::domain_attr"][offset_of!(fi_info, domain_attr) - 96usize];
    ["Offset of field: fi_info::fabric_attr"][offset_of!(fi_info, fabric_attr) - 104usize];
    ["Offset of field: fi_info::nic"][offset_of!(fi_info, nic) - 112usize];
};
const _: () = {
    ["Size of fi_link_attr"][size_of::<fi_link_attr>() - 40usize];
    ["Alignment of fi_link_attr"][align_of::<fi_link_attr>() - 8usize];
    ["Offset of field: fi_link_attr::address"][offset_of!(fi_link_attr, address) - 0usize];
    ["Offset of field: fi_link_attr::mtu"][offset_of!(fi_link_attr, mtu) - 8usize];
    ["Offset of field: fi_link_attr::speed"][offset_of!(fi_link_attr, speed) - 16usize];
    ["Offset of field: fi_link_attr::state"][offset_of!(fi_link_attr, state) - 24usize];
    ["Offset of field: fi_link_attr::network_type"]
        [offset_of!(fi_link_attr, network_type) - 32usize];
};
pub const FI_CLASS_FABRIC: _bindgen_ty_6 = 1;
pub const FI_CLASS_DOMAIN: _bindgen_ty_6 = 2;
pub const FI_CLASS_EP: _bindgen_ty_6 = 3;
pub const FI_CLASS_SEP: _bindgen_ty_6 = 4;
pub const FI_CLASS_RX_CTX: _bindgen_ty_6 = 5;
pub const FI_CLASS_TX_CTX: _bindgen_ty_6 = 7;
pub const FI_CLASS_AV: _bindgen_ty_6 = 11;
pub const FI_CLASS_MR: _bindgen_ty_6 = 12;
pub const FI_CLASS_CQ: _bindgen_ty_6 = 14;
const _: () = {
    ["Size of fi_ops"][size_of::<fi_ops>() - 56usize];
    ["Alignment of fi_ops"][align_of::<fi_ops>() - 8usize];
    ["Offset of field: fi_ops::size"][offset_of!(fi_ops, size) - 0usize];
    ["Offset of field: fi_ops::close"][offset_of!(fi_ops, close) - 8usize];
    ["Offset of field: fi_ops::bind"][offset_of!(fi_ops, bind) - 16usize];
    ["Offset of field: fi_ops::control"][offset_of!(fi_ops, control) - 24usize];
    ["Offset of field: fi_ops::ops_open"][offset_of!(fi_ops, ops_open) - 32usize];
    ["Offset of field: fi_ops::tostr"][offset_of!(fi_ops, tostr) - 40usize];
    ["Offset of field: fi_ops::ops_set"][offset_of!(fi_ops, ops_set) - 48usize];
};
const _: () = {
    ["Size of fid"][size_of::<fid>() - 24usize];
    ["Alignment of fid"][align_of::<fid>() - 8usize];
    ["Offset of field: fid::fclass"][offset_of!(fid, fclass) - 0usize];
    ["Offset of field: fid::context"][offset_of!(fid, context) - 8usize];
    ["Offset of field: fid::ops"][offset_of!(fid, ops) - 16usize];
};
const _: () = {
    ["Size of fid_fabric"][size_of::<fid_fabric>() - 40usize];
    ["Alignment of fid_fabric"][align_of::<fid_fabric>() - 8usize];
    ["Offset of field: fid_fabric::fid"][offset_of!(fid_fabric, fid) - 0usize];
    ["Offset of field: fid_fabric::ops"][offset_of!(fid_fabric, ops) - 24usize];
    ["Offset of field: fid_fabric::api_version"][offset_of!(fid_fabric, api_version) - 32usize];
};
const _: () = {
    ["Size of fid_nic"][size_of::<fid_nic>() - 56usize];
    ["Alignment of fid_nic"][align_of::<fid_nic>() - 8usize];
    ["Offset of field: fid_nic::fid"][offset_of!(fid_nic, fid) - 0usize];
    ["Offset of field: fid_nic::device_attr"][offset_of!(fid_nic, device_attr) - 24usize];
    ["Offset of field: fid_nic::bus_attr"][offset_of!(fid_nic, bus_attr) - 32usize];
    ["Offset of field: fid_nic::link_attr"][offset_of!(fid_nic, link_attr) - 40usize];
    ["Offset of field: fid_nic::prov_attr"][offset_of!(fid_nic, prov_attr) - 48usize];
};
pub const FI_ENABLE: _bindgen_ty_7 = 6;
const _: () = {
    ["Size of fi_context"][size_of::<fi_context>() - 32usize];
    ["Alignment of fi_context"][align_of::<fi_context>() - 8usize];
    ["Offset of field: fi_context::internal"][offset_of!(fi_context, internal) - 0usize];
};
const _: () = {
    ["Size of fi_context2"][size_of::<fi_context2>() - 64usize];
    ["Alignment of fi_context2"][align_of::<fi_context2>() - 8usize];
    ["Offset of field: fi_context2::internal"][offset_of!(fi_context2, internal) - 0usize];
};
pub const FI_WAIT_NONE: fi_wait_obj = 0;
pub const FI_CQ_FORMAT_CONTEXT: fi_cq_format = 1;
pub const FI_CQ_FORMAT_MSG: fi_cq_format = 2;
const _: () = {
    ["Size of fi_cq_entry"][size_of::<fi_cq_entry>() - 8usize];
    ["Alignment of fi_cq_entry"][align_of::<fi_cq_entry>() - 8usize];
    ["Offset of field: fi_cq_entry::op_context"][offset_of!(fi_cq_entry, op_context) - 0usize];
};
const _: () = {
    ["Size of fi_cq_msg_entry"][size_of::<fi_cq_msg_entry>() - 24usize];
    ["Alignment of fi_cq_msg_entry"][align_of::<fi_cq_msg_entry>() - 8usize];
    ["Offset of field: fi_cq_msg_entry::op_context"]
        [offset_of!(fi_cq_msg_entry, op_context) - 0usize];
    ["Offset of field: fi_cq_msg_entry::flags"][offset_of!(fi_cq_msg_entry, flags) - 8usize];
    ["Offset of field: fi_cq_msg_entry::len"][offset_of!(fi_cq_msg_entry, len) - 16usize];
};
const _: () = {
    ["Size of fi_cq_attr"][size_of::<fi_cq_attr>() - 40usize];
    ["Alignment of fi_cq_attr"][align_of::<fi_cq_attr>() - 8usize];
    ["Offset of field: fi_cq_attr::size"][offset_of!(fi_cq_attr, size) - 0usize];
    ["Offset of field: fi_cq_attr::flags"][offset_of!(fi_cq_attr, flags) - 8usize];
    ["Offset of field: fi_cq_attr::format"][offset_of!(fi_cq_attr, format) - 16usize];
    ["Offset of field: fi_cq_attr::wait_obj"][offset_of!(fi_cq_attr, wait_obj) - 20usize];
    ["Offset of field: fi_cq_attr::signaling_vector"]
        [offset_of!(fi_cq_attr, signaling_vector) - 24usize];
    ["Offset of field: fi_cq_attr::wait_cond"][offset_of!(fi_cq_attr, wait_cond) - 28usize];
    ["Offset of field: fi_cq_attr::wait_set"][offset_of!(fi_cq_attr, wait_set) - 32usize];
};
const _: () = {
    ["Size of fi_ops_cq"][size_of::<fi_ops_cq>() - 64usize];
    ["Alignment of fi_ops_cq"][align_of::<fi_ops_cq>() - 8usize];
    ["Offset of field: fi_ops_cq::size"][offset_of!(fi_ops_cq, size) - 0usize];
    ["Offset of field: fi_ops_cq::read"][offset_of!(fi_ops_cq, read) - 8usize];
    ["Offset of field: fi_ops_cq::readfrom"][offset_of!(fi_ops_cq, readfrom) - 16usize];
    ["Offset of field: fi_ops_cq::readerr"][offset_of!(fi_ops_cq, readerr) - 24usize];
    ["Offset of field: fi_ops_cq::sread"][offset_of!(fi_ops_cq, sread) - 32usize];
    ["Offset of field: fi_ops_cq::sreadfrom"][offset_of!(fi_ops_cq, sreadfrom) - 40usize];
    ["Offset of field: fi_ops_cq::signal"][offset_of!(fi_ops_cq, signal) - 48usize];
    ["Offset of field: fi_ops_cq::strerror"][offset_of!(fi_ops_cq, strerror) - 56usize];
};
const _: () = {
    ["Size of fid_cq"][size_of::<fid_cq>() - 32usize];
    ["Alignment of fid_cq"][align_of::<fid_cq>() - 8usize];
    ["Offset of field: fid_cq::fid"][offset_of!(fid_cq, fid) - 0usize];
    ["Offset of field: fid_cq::ops"][offset_of!(fid_cq, ops) - 24usize];
};
const _: () = {
    ["Size of fi_av_attr"][size_of::<fi_av_attr>() - 48usize];
    ["Alignment of fi_av_attr"][align_of::<fi_av_attr>() - 8usize];
    ["Offset of field: fi_av_attr::type_"][offset_of!(fi_av_attr, type_) - 0usize];
    ["Offset of field: fi_av_attr::rx_ctx_bits"][offset_of!(fi_av_attr, rx_ctx_bits) - 4usize];
    ["Offset of field: fi_av_attr::count"][offset_of!(fi_av_attr, count) - 8usize];
    ["Offset of field: fi_av_attr::ep_per_node"][offset_of!(fi_av_attr, ep_per_node) - 16usize];
    ["Offset of field: fi_av_attr::name"][offset_of!(fi_av_attr, name) - 24usize];
    ["Offset of field: fi_av_attr::map_addr"][offset_of!(fi_av_attr, map_addr) - 32usize];
    ["Offset of field: fi_av_attr::flags"][offset_of!(fi_av_attr, flags) - 40usize];
};
const _: () = {
    ["Size of fid_av"][size_of::<fid_av>() - 32usize];
    ["Alignment of fid_av"][align_of::<fid_av>() - 8usize];
    ["Offset of field: fid_av::fid"][offset_of!(fid_av, fid) - 0usize];
    ["Offset of field: fid_av::ops"][offset_of!(fid_av, ops) - 24usize];
};
const _: () = {
    ["Size of fid_mr"][size_of::<fid_mr>() - 40usize];
    ["Alignment of fid_mr"][align_of::<fid_mr>() - 8usize];
    ["Offset of field: fid_mr::fid"][offset_of!(fid_mr, fid) - 0usize];
    ["Offset of field: fid_mr::mem_desc"][offset_of!(fid_mr, mem_desc) - 24usize];
    ["Offset of field: fid_mr::key"][offset_of!(fid_mr, key) - 32usize];
};
pub const FI_HMEM_SYSTEM: fi_hmem_iface = 0;
pub const FI_HMEM_CUDA: fi_hmem_iface = 1;
pub const FI_HMEM_ROCR: fi_hmem_iface = 2;
pub const FI_HMEM_ZE: fi_hmem_iface = 3;
pub const FI_HMEM_NEURON: fi_hmem_iface = 4;
pub const FI_HMEM_SYNAPSEAI: fi_hmem_iface = 5;
pub const FI_INT8: fi_datatype = 0;
pub const FI_UINT8: fi_datatype = 1;
pub const FI_INT16: fi_datatype = 2;
pub const FI_UINT16: fi_datatype = 3;
pub const FI_INT32: fi_datatype = 4;
pub const FI_UINT32: fi_datatype = 5;
pub const FI_INT64: fi_datatype = 6;
pub const FI_UINT64: fi_datatype = 7;
pub const FI_FLOAT: fi_datatype = 8;
pub const FI_DOUBLE: fi_datatype = 9;
pub const FI_MIN: fi_op = 0;
pub const FI_MAX: fi_op = 1;
pub const FI_SUM: fi_op = 2;
pub const FI_PROD: fi_op = 3;
pub const FI_LOR: fi_op = 4;
pub const FI_LAND: fi_op = 5;
pub const FI_BOR: fi_op = 6;
pub const FI_BAND: fi_op = 7;
pub const FI_LXOR: fi_op = 8;
pub const FI_BXOR: fi_op = 9;
pub const FI_ATOMIC_READ: fi_op = 10;
pub const FI_ATOMIC_WRITE: fi_op = 11;
pub const FI_CSWAP: fi_op = 12;
const _: () = {
    ["Size of fi_ops_mr"][size_of::<fi_ops_mr>() - 32usize];
    ["Alignment of fi_ops_mr"][align_of::<fi_ops_mr>() - 8usize];
    ["Offset of field: fi_ops_mr::size"][offset_of!(fi_ops_mr, size) - 0usize];
    ["Offset of field: fi_ops_mr::reg"][offset_of!(fi_ops_mr, reg) - 8usize];
    ["Offset of field: fi_ops_mr::regv"][offset_of!(fi_ops_mr, regv) - 16usize];
    ["Offset of field: fi_ops_mr::regattr"][offset_of!(fi_ops_mr, regattr) - 24usize];
};
const _: () = {
    ["Size of fid_domain"][size_of::<fid_domain>() - 40usize];
    ["Alignment of fid_domain"][align_of::<fid_domain>() - 8usize];
    ["Offset of field: fid_domain::fid"][offset_of!(fid_domain, fid) - 0usize];
    ["Offset of field: fid_domain::ops"][offset_of!(fid_domain, ops) - 24usize];
    ["Offset of field: fid_domain::mr"][offset_of!(fid_domain, mr) - 32usize];
};
const _: () = {
    ["Size of fi_msg"][size_of::<fi_msg>() - 48usize];
    ["Alignment of fi_msg"][align_of::<fi_msg>() - 8usize];
    ["Offset of field: fi_msg::msg_iov"][offset_of!(fi_msg, msg_iov) - 0usize];
    ["Offset of field: fi_msg::desc"][offset_of!(fi_msg, desc) - 8usize];
    ["Offset of field: fi_msg::iov_count"][offset_of!(fi_msg, iov_count) - 16usize];
    ["Offset of field: fi_msg::addr"][offset_of!(fi_msg, addr) - 24usize];
    ["Offset of field: fi_msg::context"][offset_of!(fi_msg, context) - 32usize];
    ["Offset of field: fi_msg::data"][offset_of!(fi_msg, data) - 40usize];
};
const _: () = {
    ["Size of fi_ops_ep"][size_of::<fi_ops_ep>() - 64usize];
    ["Alignment of fi_ops_ep"][align_of::<fi_ops_ep>() - 8usize];
    ["Offset of field: fi_ops_ep::size"][offset_of!(fi_ops_ep, size) - 0usize];
    ["Offset of field: fi_ops_ep::cancel"][offset_of!(fi_ops_ep, cancel) - 8usize];
    ["Offset of field: fi_ops_ep::getopt"][offset_of!(fi_ops_ep, getopt) - 16usize];
    ["Offset of field: fi_ops_ep::setopt"][offset_of!(fi_ops_ep, setopt) - 24usize];
    ["Offset of field: fi_ops_ep::tx_ctx"][offset_of!(fi_ops_ep, tx_ctx) - 32usize];
    ["Offset of field: fi_ops_ep::rx_ctx"][offset_of!(fi_ops_ep, rx_ctx) - 40usize];
    ["Offset of field: fi_ops_ep::rx_size_left"][offset_of!(fi_ops_ep, rx_size_left) - 48usize];
    ["Offset of field: fi_ops_ep::tx_size_left"][offset_of!(fi_ops_ep, tx_size_left) - 56usize];
};
const _: () = {
    ["Size of fi_ops_msg"][size_of::<fi_ops_msg>() - 80usize];
    ["Alignment of fi_ops_msg"][align_of::<fi_ops_msg>() - 8usize];
    ["Offset of field: fi_ops_msg::size"][offset_of!(fi_ops_msg, size) - 0usize];
    ["Offset of field: fi_ops_msg::recv"][offset_of!(fi_ops_msg, recv) - 8usize];
    ["Offset of field: fi_ops_msg::recvv"][offset_of!(fi_ops_msg, recvv) - 16usize];
    ["Offset of field: fi_ops_msg::recvmsg"][offset_of!(fi_ops_msg, recvmsg) - 24usize];
    ["Offset of field: fi_ops_msg::send"][offset_of!(fi_ops_msg, send) - 32usize];
    ["Offset of field: fi_ops_msg::sendv"][offset_of!(fi_ops_msg, sendv) - 40usize];
    ["Offset of field: fi_ops_msg::sendmsg"][offset_of!(fi_ops_msg, sendmsg) - 48usize];
    ["Offset of field: fi_ops_msg::inject"][offset_of!(fi_ops_msg, inject) - 56usize];
    ["Offset of field: fi_ops_msg::senddata"][offset_of!(fi_ops_msg, senddata) - 64usize];
    ["Offset of field: fi_ops_msg::injectdata"][offset_of!(fi_ops_msg, injectdata) - 72usize];
};
const _: () = {
    ["Size of fid_ep"][size_of::<fid_ep>() - 80usize];
    ["Alignment of fid_ep"][align_of::<fid_ep>() - 8usize];
    ["Offset of field: fid_ep::fid"][offset_of!(fid_ep, fid) - 0usize];
    ["Offset of field: fid_ep::ops"][offset_of!(fid_ep, ops) - 24usize];
    ["Offset of field: fid_ep::cm"][offset_of!(fid_ep, cm) - 32usize];
    ["Offset of field: fid_ep::msg"][offset_of!(fid_ep, msg) - 40usize];
    ["Offset of field: fid_ep::rma"][offset_of!(fid_ep, rma) - 48usize];
    ["Offset of field: fid_ep::tagged"][offset_of!(fid_ep, tagged) - 56usize];
    ["Offset of field: fid_ep::atomic"][offset_of!(fid_ep, atomic) - 64usize];
    ["Offset of field: fid_ep::collective"][offset_of!(fid_ep, collective) - 72usize];
};
const _: () = {
    ["Size of fi_rma_iov"][size_of::<fi_rma_iov>() - 24usize];
    ["Alignment of fi_rma_iov"][align_of::<fi_rma_iov>() - 8usize];
    ["Offset of field: fi_rma_iov::addr"][offset_of!(fi_rma_iov, addr) - 0usize];
    ["Offset of field: fi_rma_iov::len"][offset_of!(fi_rma_iov, len) - 8usize];
    ["Offset of field: fi_rma_iov::key"][offset_of!(fi_rma_iov, key) - 16usize];
};
const _: () = {
    ["Size of fi_rma_ioc"][size_of::<fi_rma_ioc>() - 24usize];
    ["Alignment of fi_rma_ioc"][align_of::<fi_rma_ioc>() - 8usize];
    ["Offset of field: fi_rma_ioc::addr"][offset_of!(fi_rma_ioc, addr) - 0usize];
    ["Offset of field: fi_rma_ioc::count"][offset_of!(fi_rma_ioc, count) - 8usize];
    ["Offset of field: fi_rma_ioc::key"][offset_of!(fi_rma_ioc, key) - 16usize];
};
const _: () = {
    ["Size of fi_msg_rma"][size_of::<fi_msg_rma>() - 64usize];
    ["Alignment of fi_msg_rma"][align_of::<fi_msg_rma>() - 8usize];
    ["Offset of field: fi_msg_rma::msg_iov"][offset_of!(fi_msg_rma, msg_iov) - 0usize];
    ["Offset of field: fi_msg_rma::desc"][offset_of!(fi_msg_rma, desc) - 8usize];
    ["Offset of field: fi_msg_rma::iov_count"][offset_of!(fi_msg_rma, iov_count) - 16usize];
    ["Offset of field: fi_msg_rma::addr"][offset_of!(fi_msg_rma, addr) - 24usize];
    ["Offset of field: fi_msg_rma::rma_iov"][offset_of!(fi_msg_rma, rma_iov) - 32usize];
    ["Offset of field: fi_msg_rma::rma_iov_count"][offset_of!(fi_msg_rma, rma_iov_count) - 40usize];
    ["Offset of field: fi_msg_rma::context"][offset_of!(fi_msg_rma, context) - 48usize];
    ["Offset of field: fi_msg_rma::data"][offset_of!(fi_msg_rma, data) - 56usize];
};
const _: () = {
    ["Size of fi_ops_rma"][size_of::<fi_ops_rma>() - 80usize];
    ["Alignment of fi_ops_rma"][align_of::<fi_ops_rma>() - 8usize];
    ["Offset of field: fi_ops_rma::size"][offset_of!(fi_ops_rma, size) - 0usize];
    ["Offset of field: fi_ops_rma::read"][offset_of!(fi_ops_rma, read) - 8usize];
    ["Offset of field: fi_ops_rma::readv"][offset_of!(fi_ops_rma, readv) - 16usize];
    ["Offset of field: fi_ops_rma::readmsg"][offset_of!(fi_ops_rma, readmsg) - 24usize];
    ["Offset of field: fi_ops_rma::write"][offset_of!(fi_ops_rma, write) - 32usize];
    ["Offset of field: fi_ops_rma::writev"][offset_of!(fi_ops_rma, writev) - 40usize];
    ["Offset of field: fi_ops_rma::writemsg"][offset_of!(fi_ops_rma, writemsg) - 48usize];
    ["Offset of field: fi_ops_rma::inject"][offset_of!(fi_ops_rma, inject) - 56usize];
    ["Offset of field: fi_ops_rma::writedata"][offset_of!(fi_ops_rma, writedata) - 64usize];
    ["Offset of field: fi_ops_rma::injectdata"][offset_of!(fi_ops_rma, injectdata) - 72usize];
};
const _: () = {
    ["Size of fi_atomic_attr"][size_of::<fi_atomic_attr>() - 16usize];
    ["Alignment of fi_atomic_attr"][align_of::<fi_atomic_attr>() - 8usize];
    ["Offset of field: fi_atomic_attr::count"][offset_of!(fi_atomic_attr, count) - 0usize];
    ["Offset of field: fi_atomic_attr::size"][offset_of!(fi_atomic_attr, size) - 8usize];
};
const _: () = {
    ["Size of fi_msg_atomic"][size_of::<fi_msg_atomic>() - 72usize];
    ["Alignment of fi_msg_atomic"][align_of::<fi_msg_atomic>() - 8usize];
    ["Offset of field: fi_msg_atomic::msg_iov"][offset_of!(fi_msg_atomic, msg_iov) - 0usize];
    ["Offset of field: fi_msg_atomic::desc"][offset_of!(fi_msg_atomic, desc) - 8usize];
    ["Offset of field: fi_msg_atomic::iov_count"][offset_of!(fi_msg_atomic, iov_count) - 16usize];
    ["Offset of field: fi_msg_atomic::addr"][offset_of!(fi_msg_atomic, addr) - 24usize];
    ["Offset of field: fi_msg_atomic::rma_iov"][offset_of!(fi_msg_atomic, rma_iov) - 32usize];
    ["Offset of field: fi_msg_atomic::rma_iov_count"]
        [offset_of!(fi_msg_atomic, rma_iov_count) - 40usize];
    ["Offset of field: fi_msg_atomic::datatype"][offset_of!(fi_msg_atomic, datatype) - 48usize];
    ["Offset of field: fi_msg_atomic::op"][offset_of!(fi_msg_atomic, op) - 52usize];
    ["Offset of field: fi_msg_atomic::context"][offset_of!(fi_msg_atomic, context) - 56usize];
    ["Offset of field: fi_msg_atomic::data"][offset_of!(fi_msg_atomic, data) - 64usize];
};
const _: () = {
    ["Size of fi_ops_atomic"][size_of::<fi_ops_atomic>() - 112usize];
    ["Alignment of fi_ops_atomic"][align_of::<fi_ops_atomic>() - 8usize];
    ["Offset of field: fi_ops_atomic::size"][offset_of!(fi_ops_atomic, size) - 0usize];
    ["Offset of field: fi_ops_atomic::write"][offset_of!(fi_ops_atomic, write) - 8usize];
    ["Offset of field: fi_ops_atomic::writev"][offset_of!(fi_ops_atomic, writev) - 16usize];
    ["Offset of field: fi_ops_atomic::writemsg"][offset_of!(fi_ops_atomic, writemsg) - 24usize];
    ["Offset of field: fi_ops_atomic::inject"][offset_of!(fi_ops_atomic, inject) - 32usize];
    ["Offset of field: fi_ops_atomic::readwrite"][offset_of!(fi_ops_atomic, readwrite) - 40usize];
    ["Offset of field: fi_ops_atomic::readwritev"][offset_of!(fi_ops_atomic, readwritev) - 48usize];
    ["Offset of field: fi_ops_atomic::readwritemsg"]
        [offset_of!(fi_ops_atomic, readwritemsg) - 56usize];
    ["Offset of field: fi_ops_atomic::compwrite"][offset_of!(fi_ops_atomic, compwrite) - 64usize];
    ["Offset of field: fi_ops_atomic::compwritev"][offset_of!(fi_ops_atomic, compwritev) - 72usize];
    ["Offset of field: fi_ops_atomic::compwritemsg"]
        [offset_of!(fi_ops_atomic, compwritemsg) - 80usize];
    ["Offset of field: fi_ops_atomic::writevalid"][offset_of!(fi_ops_atomic, writevalid) - 88usize];
    ["Offset of field: fi_ops_atomic::readwritevalid"]
        [offset_of!(fi_ops_atomic, readwritevalid) - 96usize];
    ["Offset of field: fi_ops_atomic::compwritevalid"]
        [offset_of!(fi_ops_atomic, compwritevalid) - 104usize];
};
const _: () = {
    ["Size of fi_ops_cm"][size_of::<fi_ops_cm>() - 80usize];
    ["Alignment of fi_ops_cm"][align_of::<fi_ops_cm>() - 8usize];
    ["Offset of field: fi_ops_cm::size"][offset_of!(fi_ops_cm, size) - 0usize];
    ["Offset of field: fi_ops_cm::setname"][offset_of!(fi_ops_cm, setname) - 8usize];
    ["Offset of field: fi_ops_cm::getname"][offset_of!(fi_ops_cm, getname) - 16usize];
    ["Offset of field: fi_ops_cm::getpeer"][offset_of!(fi_ops_cm, getpeer) - 24usize];
    ["Offset of field: fi_ops_cm::connect"][offset_of!(fi_ops_cm, connect) - 32usize];
    ["Offset of field: fi_ops_cm::listen"][offset_of!(fi_ops_cm, listen) - 40usize];
    ["Offset of field: fi_ops_cm::accept"][offset_of!(fi_ops_cm, accept) - 48usize];
    ["Offset of field: fi_ops_cm::reject"][offset_of!(fi_ops_cm, reject) - 56usize];
    ["Offset of field: fi_ops_cm::shutdown"][offset_of!(fi_ops_cm, shutdown) - 64usize];
    ["Offset of field: fi_ops_cm::join"][offset_of!(fi_ops_cm, join) - 72usize];
};
const _: () = {
    ["Size of fi_provider"][size_of::<fi_provider>() - 72usize];
    ["Alignment of fi_provider"][align_of::<fi_provider>() - 8usize];
    ["Offset of field: fi_provider::version"][offset_of!(fi_provider, version) - 0usize];
    ["Offset of field: fi_provider::fi_version"][offset_of!(fi_provider, fi_version) - 4usize];
    ["Offset of field: fi_provider::context"][offset_of!(fi_provider, context) - 8usize];
    ["Offset of field: fi_provider::name"][offset_of!(fi_provider, name) - 40usize];
    ["Offset of field: fi_provider::getinfo"][offset_of!(fi_provider, getinfo) - 48usize];
    ["Offset of field: fi_provider::fabric"][offset_of!(fi_provider, fabric) - 56usize];
    ["Offset of field: fi_provider::cleanup"][offset_of!(fi_provider, cleanup) - 64usize];
};
