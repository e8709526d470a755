/* Made by rust-bindgen 0.72.1 */

// From libfabric's headers by examples/regenerate.rs, which says how. Do not edit.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{align_of, size_of};

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
};
const _: () = {
    ["Size of fi_rx_attr"][size_of::<fi_rx_attr>() - 64usize];
    ["Alignment of fi_rx_attr"][align_of::<fi_rx_attr>() - 8usize];
};
const _: () = {
    ["Size of fi_ep_attr"][size_of::<fi_ep_attr>() - 96usize];
    ["Alignment of fi_ep_attr"][align_of::<fi_ep_attr>() - 8usize];
};
const _: () = {
    ["Size of fi_fabric_attr"][size_of::<fi_fabric_attr>() - 32usize];
    ["Alignment of fi_fabric_attr"][align_of::<fi_fabric_attr>() - 8usize];
};
const _: () = {
    ["Size of fi_info"][size_of::<fi_info>() - 120usize];
    ["Alignment of fi_info"][align_of::<fi_info>() - 8usize];
};
const _: () = {
    ["Size of fi_link_attr"][size_of::<fi_link_attr>() - 40usize];
    ["Alignment of fi_link_attr"][align_of::<fi_link_attr>() - 8usize];
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
};
const _: () = {
    ["Size of fid"][size_of::<fid>() - 24usize];
    ["Alignment of fid"][align_of::<fid>() - 8usize];
};
const _: () = {
    ["Size of fid_fabric"][size_of::<fid_fabric>() - 40usize];
    ["Alignment of fid_fabric"][align_of::<fid_fabric>() - 8usize];
};
const _: () = {
    ["Size of fid_nic"][size_of::<fid_nic>() - 56usize];
    ["Alignment of fid_nic"][align_of::<fid_nic>() - 8usize];
};
pub const FI_ENABLE: _bindgen_ty_7 = 6;
const _: () = {
    ["Size of fi_context"][size_of::<fi_context>() - 32usize];
    ["Alignment of fi_context"][align_of::<fi_context>() - 8usize];
};
const _: () = {
    ["Size of fi_context2"][size_of::<fi_context2>() - 64usize];
    ["Alignment of fi_context2"][align_of::<fi_context2>() - 8usize];
};
pub const FI_WAIT_NONE: fi_wait_obj = 0;
pub const FI_CQ_FORMAT_CONTEXT: fi_cq_format = 1;
pub const FI_CQ_FORMAT_MSG: fi_cq_format = 2;
const _: () = {
    ["Size of fi_cq_entry"][size_of::<fi_cq_entry>() - 8usize];
    ["Alignment of fi_cq_entry"][align_of::<fi_cq_entry>() - 8usize];
};
const _: () = {
    ["Size of fi_cq_msg_entry"][size_of::<fi_cq_msg_entry>() - 24usize];
    ["Alignment of fi_cq_msg_entry"][align_of::<fi_cq_msg_entry>() - 8usize];
};
const _: () = {
    ["Size of fi_cq_attr"][size_of::<fi_cq_attr>() - 40usize];
    ["Alignment of fi_cq_attr"][align_of::<fi_cq_attr>() - 8usize];
};
const _: () = {
    ["Size of fi_ops_cq"][size_of::<fi_ops_cq>() - 64usize];
    ["Alignment of fi_ops_cq"][align_of::<fi_ops_cq>() - 8usize];
};
const _: () = {
    ["Size of fid_cq"][size_of::<fid_cq>() - 32usize];
    ["Alignment of fid_cq"][align_of::<fid_cq>() - 8usize];
};
const _: () = {
    ["Size of fi_av_attr"][size_of::<fi_av_attr>() - 48usize];
    ["Alignment of fi_av_attr"][align_of::<fi_av_attr>() - 8usize];
};
const _: () = {
    ["Size of fid_av"][size_of::<fid_av>() - 32usize];
    ["Alignment of fid_av"][align_of::<fid_av>() - 8usize];
};
const _: () = {
    ["Size of fid_mr"][size_of::<fid_mr>() - 40usize];
    ["Alignment of fid_mr"][align_of::<fid_mr>() - 8usize];
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
};
const _: () = {
    ["Size of fid_domain"][size_of::<fid_domain>() - 40usize];
    ["Alignment of fid_domain"][align_of::<fid_domain>() - 8usize];
};
const _: () = {
    ["Size of fi_msg"][size_of::<fi_msg>() - 48usize];
    ["Alignment of fi_msg"][align_of::<fi_msg>() - 8usize];
};
const _: () = {
    ["Size of fi_ops_ep"][size_of::<fi_ops_ep>() - 64usize];
    ["Alignment of fi_ops_ep"][align_of::<fi_ops_ep>() - 8usize];
};
const _: () = {
    ["Size of fi_ops_msg"][size_of::<fi_ops_msg>() - 80usize];
    ["Alignment of fi_ops_msg"][align_of::<fi_ops_msg>() - 8usize];
};
const _: () = {
    ["Size of fid_ep"][size_of::<fid_ep>() - 80usize];
    ["Alignment of fid_ep"][align_of::<fid_ep>() - 8usize];
};
const _: () = {
    ["Size of fi_rma_iov"][size_of::<fi_rma_iov>() - 24usize];
    ["Alignment of fi_rma_iov"][align_of::<fi_rma_iov>() - 8usize];
};
const _: () = {
    ["Size of fi_rma_ioc"][size_of::<fi_rma_ioc>() - 24usize];
    ["Alignment of fi_rma_ioc"][align_of::<fi_rma_ioc>() - 8usize];
};
const _: () = {
    ["Size of fi_msg_rma"][size_of::<fi_msg_rma>() - 64usize];
    ["Alignment of fi_msg_rma"][align_of::<fi_msg_rma>() - 8usize];
};
const _: () = {
    ["Size of fi_ops_rma"][size_of::<fi_ops_rma>() - 80usize];
    ["Alignment of fi_ops_rma"][align_of::<fi_ops_rma>() - 8usize];
};
const _: () = {
    ["Size of fi_atomic_attr"][size_of::<fi_atomic_attr>() - 16usize];
    ["Alignment of fi_atomic_attr"][align_of::<fi_atomic_attr>() - 8usize];
};
const _: () = {
    ["Size of fi_msg_atomic"][size_of::<fi_msg_atomic>() - 72usize];
    ["Alignment of fi_msg_atomic"][align_of::<fi_msg_atomic>() - 8usize];
};
const _: () = {
    ["Size of fi_ops_atomic"][size_of::<fi_ops_atomic>() - 112usize];
    ["Alignment of fi_ops_atomic"][align_of::<fi_ops_atomic>() - 8usize];
};
const _: () = {
    ["Size of fi_ops_cm"][size_of::<fi_ops_cm>() - 80usize];
    ["Alignment of fi_ops_cm"][align_of::<fi_ops_cm>() - 8usize];
};
const _: () = {
    ["Size of fi_provider"][size_of::<fi_provider>() - 72usize];
    ["Alignment of fi_provider"][align_of::<fi_provider>() - 8usize];
};
