//! The C spelling of each Rust type that crosses the boundary, so that a C compiler can say whether
//! the header declares the same one.

use std::ffi::{c_char, c_void};

use plugin_api::{
    ApplyRequest, ApplyRun, Attributes, Component, ComponentVtable, Descriptor, Endpoint, Handle,
    HmemInfo, HostVtable, IoVec, Module, ModuleVtable, OverrideOps, ParamDecl, ParamValue,
    ParamValueBits, Provider, Stats, Status, TableHeader,
};

/// A type with a C spelling.
pub(crate) trait CType {
    /// The type as an abstract declarator of C, as in a cast.
    fn spelling() -> String;
}

macro_rules! spelled {
    ($($type:ty => $c:literal,)+) => {
        $(impl CType for $type {
            fn spelling() -> String {
                $c.into()
            }
        })+
    };
}

spelled! {
    u8 => "uint8_t",
    Descriptor => "btl_descriptor",
    u16 => "uint16_t",
    u32 => "uint32_t",
    u64 => "uint64_t",
    i32 => "int32_t",
    i64 => "int64_t",
    usize => "size_t",
    c_char => "char",
    c_void => "void",
    Status => "btl_status",
    TableHeader => "btl_table_header",
    ParamValue => "btl_param_value",
    ParamValueBits => "btl_param_bits",
    ParamDecl => "btl_param_decl",
    HostVtable => "btl_host_vtable",
    Attributes => "btl_attributes",
    Component => "btl_component",
    Endpoint => "btl_endpoint",
    Handle => "btl_handle",
    Module => "btl_module",
    ModuleVtable => "btl_module_vtable",
    Stats => "btl_stats",
    IoVec => "struct iovec",
    OverrideOps => "btl_override_ops",
    HmemInfo => "btl_hmem_info",
    ApplyRun => "btl_apply_run",
    ApplyRequest => "btl_apply_request",
    Provider => "btl_provider",
    ComponentVtable => "btl_component_vtable",
}

/// An array decays to a pointer in the comparison; its length shows in the offset of the next
/// field.
impl<T: CType, const N: usize> CType for [T; N] {
    fn spelling() -> String {
        format!("{} *", T::spelling())
    }
}

impl<T: CType> CType for *const T {
    fn spelling() -> String {
        format!("{} const *", T::spelling())
    }
}

impl<T: CType> CType for *mut T {
    fn spelling() -> String {
        format!("{} *", T::spelling())
    }
}

/// A Rust `Option` of a function is a C function pointer that may be NULL.
impl<T: CFunction> CType for Option<T> {
    fn spelling() -> String {
        T::declarator()
    }
}

/// A function type with a C spelling. Apart from [`CType`], because a bare Rust function pointer,
/// which cannot be NULL, does not cross the boundary.
pub(crate) trait CFunction {
    /// The pointer to such a function as an abstract declarator of C.
    fn declarator() -> String;
}

/// The result of a function: a type, or nothing.
pub(crate) trait CReturn {
    fn spelling() -> String;
}

impl CReturn for () {
    fn spelling() -> String {
        "void".into()
    }
}

impl CReturn for Status {
    fn spelling() -> String {
        <Status as CType>::spelling()
    }
}

impl CReturn for *mut Descriptor {
    fn spelling() -> String {
        <*mut Descriptor as CType>::spelling()
    }
}

impl CReturn for i64 {
    fn spelling() -> String {
        <i64 as CType>::spelling()
    }
}

impl CReturn for isize {
    fn spelling() -> String {
        "ssize_t".into()
    }
}

impl CReturn for i32 {
    fn spelling() -> String {
        <i32 as CType>::spelling()
    }
}

macro_rules! functions {
    ($(($($arg:ident)+))+) => {
        $(impl<R: CReturn, $($arg: CType),+> CFunction for unsafe extern "C" fn($($arg),+) -> R {
            fn declarator() -> String {
                let arguments = [$($arg::spelling()),+].join(", ");
                format!("{} (*)({arguments})", R::spelling())
            }
        })+
    };
}

functions! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
    (A B C D E F G H I)
    (A B C D E F G H I J)
    (A B C D E F G H I J K)
    (A B C D E F G H I J K L)
    (A B C D E F G H I J K L M)
    (A B C D E F G H I J K L M N)
    (A B C D E F G H I J K L M N O)
}
