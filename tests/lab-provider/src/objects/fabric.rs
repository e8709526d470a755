//! The fabric, whose opening fixes the shape.

use std::ffi::{c_int, c_void};
use std::ptr;

use libfabric_sys as ffi;

use crate::base::config::Config;
use crate::base::missing::Missing;
use crate::base::report;
use crate::objects::bare;
use crate::objects::domain;
use crate::objects::object::{Object, closed_by, fid, or_return};
use crate::reach::memory;

pub(crate) struct Fabric {
    pub(crate) config: &'static Config,
}

pub(crate) type FabricObject = Object<ffi::fid_fabric, Fabric>;

static FID: ffi::fi_ops = closed_by(close);

static OPS: ffi::fi_ops_fabric = ffi::fi_ops_fabric {
    size: size_of::<ffi::fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: Missing::MISSING,
    eq_open: Missing::MISSING,
    wait_open: Missing::MISSING,
    trywait: Missing::MISSING,
};

/// `fi_provider.fabric`.
pub(crate) unsafe extern "C" fn open(
    attr: *mut ffi::fi_fabric_attr,
    fabric: *mut *mut ffi::fid_fabric,
    context: *mut c_void,
) -> c_int {
    let config: &'static Config = Box::leak(Box::new(Config::from_environment()));
    bare::opened(config);
    let rc = config.faults.at_open("fabric");
    if rc != 0 {
        return rc;
    }
    let mut fid = fid(ffi::FI_CLASS_FABRIC, &FID);
    fid.context = context;
    let object: &FabricObject = Object::place(
        "fabric",
        ffi::fid_fabric {
            fid,
            ops: ptr::from_ref(&OPS).cast_mut(),
            // SAFETY: libfabric passes the attribute.
            api_version: unsafe { (*attr).api_version },
        },
        Fabric { config },
    );
    // SAFETY: the caller passes a writable pointer.
    unsafe { *fabric = object.pointer() };
    0
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    // SAFETY: the table belongs to fabrics only.
    let fabric: &FabricObject = or_return!(unsafe { Object::of(fid, "fi_close") });
    let rc = fabric.close();
    if rc == 0 {
        memory::close_file();
        report::write_counts("closed");
    }
    rc
}
