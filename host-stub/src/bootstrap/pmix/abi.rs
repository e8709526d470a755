//! The part of PMIx's binary interface that a client needs, mirrored.
//!
//! This file relies on the client functions of the PMIx standard, unchanged since its version 2, as
//! OpenPMIx 3, 4 and 5 export them under the soname `libpmix.so.2`. From version 4 the client relies
//! on gets that can bypass cached values. A test below compares layouts and numbers with the installed
//! `pmix_common.h`; those of 4.2.2 and 5.0.7 agree with this file. Values that the library returns are
//! made with `malloc`: the headers' own release macros call `free`.

use std::ffi::{c_char, c_int, c_void};

/// `PMIX_SUCCESS`, or an error below 0.
pub(super) type Status = c_int;

/// `PMIX_SUCCESS`.
pub(super) const SUCCESS: Status = 0;
/// `PMIX_ERR_NOT_FOUND`.
pub(super) const ERR_NOT_FOUND: Status = -46;
/// `PMIX_OPERATION_SUCCEEDED`: a non-blocking call is complete, and its callback will not be called.
pub(super) const OPERATION_SUCCEEDED: Status = -157;

/// `PMIX_RANK_WILDCARD`: the job as a whole.
pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`: visible to ranks on this node and on other nodes.
pub(super) const SCOPE_GLOBAL: u8 = 3;

/// `PMIX_BOOL`.
pub(super) const BOOL: u16 = 1;
/// `PMIX_STRING`.
pub(super) const STRING: u16 = 3;
/// `PMIX_UINT32`.
pub(super) const UINT32: u16 = 14;
/// `PMIX_BYTE_OBJECT`.
pub(super) const BYTE_OBJECT: u16 = 27;

/// Attribute of the job: its number of ranks, 32 bits.
pub(super) const JOB_SIZE: &str = "pmix.job.size";
/// Attribute of the job: the ranks on this node, as a list in text.
pub(super) const LOCAL_PEERS: &str = "pmix.lpeers";
/// Attribute of a rank: the name of its host.
pub(super) const HOSTNAME: &str = "pmix.hname";
/// Attribute of a rank: the number of its node, 32 bits.
pub(super) const NODEID: &str = "pmix.nodeid";
/// Makes a get ask the owner's server instead of returning values that were read before. This directive exists
/// since 4.0.
pub(super) const GET_REFRESH_CACHE: &str = "pmix.get.refresh";
/// Makes a fence bring published values to every node.
pub(super) const COLLECT_DATA: &str = "pmix.collect";

const KEY_BYTES: usize = 512;
const NSPACE_BYTES: usize = 256;

/// `pmix_proc_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Proc {
    pub(super) nspace: [c_char; NSPACE_BYTES],
    pub(super) rank: u32,
}

impl Proc {
    /// An empty structure, which the library fills.
    pub(super) fn empty() -> Self {
        Proc {
            nspace: [0; NSPACE_BYTES],
            rank: 0,
        }
    }
}

/// `pmix_byte_object_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ByteObject {
    pub(super) bytes: *mut c_char,
    pub(super) size: usize,
}

/// The members of the union in `pmix_value_t` that this crate uses.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) uint32: u32,
    pub(super) string: *mut c_char,
    pub(super) bo: ByteObject,
    /// The longest member (`pmix_envar_t`) has the length of three pointers.
    pub(super) whole: [usize; 3],
}

/// `pmix_value_t`.
#[repr(C)]
pub(super) struct Value {
    pub(super) kind: u16,
    pub(super) data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
pub(super) struct Info {
    pub(super) key: [c_char; KEY_BYTES],
    pub(super) flags: u32,
    pub(super) value: Value,
}

impl Info {
    /// A directive that is set to true.
    pub(super) fn on(name: &str) -> Self {
        let mut key = [0; KEY_BYTES];
        // The last byte stays zero.
        for (to, from) in key.iter_mut().zip(name.bytes().take(KEY_BYTES - 1)) {
            *to = from as c_char;
        }
        let mut data = Data { whole: [0; 3] };
        data.flag = true;
        Info {
            key,
            flags: 0,
            value: Value { kind: BOOL, data },
        }
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Proc>() == 260 && offset_of!(Proc, rank) == 256);
    assert!(size_of::<ByteObject>() == 16 && offset_of!(ByteObject, size) == 8);
    assert!(size_of::<Value>() == 32 && offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552);
    assert!(offset_of!(Info, flags) == 512 && offset_of!(Info, value) == 520);
};

/// `pmix_op_cbfunc_t`.
pub(super) type Done = unsafe extern "C" fn(Status, *mut c_void);

/// `PMIx_Init`.
pub(super) type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status;
/// `PMIx_Finalize`.
pub(super) type Finalize = unsafe extern "C" fn(*const Info, usize) -> Status;
/// `PMIx_Put`.
pub(super) type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;
/// `PMIx_Commit`.
pub(super) type Commit = unsafe extern "C" fn() -> Status;
/// `PMIx_Fence_nb`.
pub(super) type FenceNb = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    Option<Done>,
    *mut c_void,
) -> Status;
/// `PMIx_Get`.
pub(super) type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status;
/// `PMIx_Abort`.
pub(super) type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> Status;
/// `PMIx_Get_version`. The function returns a constant text.
pub(super) type GetVersion = unsafe extern "C" fn() -> *const c_char;
/// `PMIx_Error_string`.
pub(super) type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::process::Command;

    use super::*;

    /// The mirrored value of each expression of the header.
    fn mirrored() -> Vec<(&'static str, i64)> {
        let size = |bytes: usize| bytes as i64;
        vec![
            ("sizeof(pmix_proc_t)", size(size_of::<Proc>())),
            ("offsetof(pmix_proc_t, rank)", size(offset_of!(Proc, rank))),
            ("sizeof(pmix_byte_object_t)", size(size_of::<ByteObject>())),
            (
                "offsetof(pmix_byte_object_t, size)",
                size(offset_of!(ByteObject, size)),
            ),
            ("sizeof(pmix_value_t)", size(size_of::<Value>())),
            ("sizeof(((pmix_value_t *)0)->type)", 2),
            (
                "offsetof(pmix_value_t, data)",
                size(offset_of!(Value, data)),
            ),
            ("sizeof(pmix_info_t)", size(size_of::<Info>())),
            (
                "offsetof(pmix_info_t, flags)",
                size(offset_of!(Info, flags)),
            ),
            ("sizeof(((pmix_info_t *)0)->flags)", 4),
            (
                "offsetof(pmix_info_t, value)",
                size(offset_of!(Info, value)),
            ),
            ("sizeof(pmix_scope_t)", 1),
            ("sizeof(pmix_status_t)", size(size_of::<Status>())),
            ("PMIX_SUCCESS", SUCCESS.into()),
            ("PMIX_ERR_NOT_FOUND", ERR_NOT_FOUND.into()),
            ("PMIX_OPERATION_SUCCEEDED", OPERATION_SUCCEEDED.into()),
            ("(PMIX_RANK_WILDCARD)", RANK_WILDCARD.into()),
            ("PMIX_GLOBAL", SCOPE_GLOBAL.into()),
            ("PMIX_BOOL", BOOL.into()),
            ("PMIX_STRING", STRING.into()),
            ("PMIX_UINT32", UINT32.into()),
            ("PMIX_BYTE_OBJECT", BYTE_OBJECT.into()),
        ]
    }

    #[test]
    fn layouts_and_numbers_are_the_header_s() {
        let flags = Command::new("pkg-config")
            .args(["--cflags", "pmix"])
            .output();
        let Ok(flags) = flags.map_err(drop).and_then(|output| {
            let good = output.status.success();
            good.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
                .ok_or(())
        }) else {
            test_skips::skipped(
                test_skips::Lacking::Package,
                "pkg-config finds no pmix (Debian: libpmix-dev)",
            );
            return;
        };
        let mut source = "#include <stddef.h>\n#include <pmix.h>\n".to_owned();
        for (expression, value) in mirrored() {
            source += &format!(
                "_Static_assert((long long){expression} == {value}LL, \"{expression}\");\n"
            );
        }
        let texts = [
            ("PMIX_JOB_SIZE", JOB_SIZE),
            ("PMIX_LOCAL_PEERS", LOCAL_PEERS),
            ("PMIX_HOSTNAME", HOSTNAME),
            ("PMIX_NODEID", NODEID),
            ("PMIX_GET_REFRESH_CACHE", GET_REFRESH_CACHE),
            ("PMIX_COLLECT_DATA", COLLECT_DATA),
        ];
        for (name, text) in texts {
            source += &format!(
                "_Static_assert(__builtin_strcmp({name}, \"{text}\") == 0, \"{name}\");\n"
            );
        }
        let place = std::env::temp_dir().join(format!("hs-pmix-abi-{}.c", std::process::id()));
        std::fs::write(&place, source).expect("write");
        let output = Command::new("cc")
            .args(flags.split_whitespace())
            .args(["-std=gnu11", "-fsyntax-only"])
            .arg(&place)
            .output()
            .expect("a C compiler");
        let _ = std::fs::remove_file(&place);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
}
