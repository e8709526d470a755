//! The value of every constant, by the name it has in the header.

use plugin_api::counters::{CARRIERS, Carrier};
use plugin_api::{
    ABI_MAJOR, ABI_MINOR, APPLY_BYTES, APPLY_HEAD, APPLY_OTHER, APPLY_RUN, Access, AtomicFlags,
    AtomicKind, AtomicOp, Attributes, BtlAtomicOp, ComponentVtable, Datatype, ErrorFlags, HmemInfo,
    HostVtable, LogLevel, MOST_APPLIED, MOST_ELEMENT, ModuleFlags, ModuleVtable, OpFlags,
    ParamKind, SOLE_ATOMICS, Stats, Status, ThreadLevel, TransferFlags, hmem_iface, magic,
};

/// Appends the constants of an enum whose values are all in `ALL`.
macro_rules! coded {
    ($out:ident, $enum:ident, $prefix:literal) => {
        for value in $enum::ALL {
            $out.push((
                format!("{}_{}", $prefix, screaming(&format!("{value:?}"))),
                *value as i128,
            ));
        }
    };
}

/// Appends the constants of an enum that comes in by `TryFrom<u32>`: every code it accepts.
macro_rules! accepted {
    ($out:ident, $enum:ident, $prefix:literal) => {
        for value in (0u32..64).filter_map(|code| $enum::try_from(code).ok()) {
            $out.push((
                format!("{}_{}", $prefix, screaming(&format!("{value:?}"))),
                value as i128,
            ));
        }
    };
}

/// Appends the bits of a set.
macro_rules! bits {
    ($out:ident, $flags:ident, $prefix:literal) => {
        for (name, value) in $flags::all().iter_names() {
            $out.push((format!("{}_{}", $prefix, name), value.bits() as i128));
        }
    };
}

/// Every constant of the ABI: its name in C and its value.
pub(crate) fn all() -> Vec<(String, i128)> {
    let mut out = vec![
        ("BTL_ABI_MAJOR".into(), ABI_MAJOR as i128),
        ("BTL_ABI_MINOR".into(), ABI_MINOR as i128),
        ("BTL_MOST_APPLIED".into(), MOST_APPLIED as i128),
        ("BTL_APPLY_HEAD".into(), APPLY_HEAD as i128),
        ("BTL_APPLY_RUN".into(), APPLY_RUN as i128),
        ("BTL_MOST_ELEMENT".into(), MOST_ELEMENT as i128),
        ("BTL_APPLY_OTHER".into(), APPLY_OTHER as i128),
        ("BTL_APPLY_BYTES".into(), APPLY_BYTES as i128),
        ("BTL_ACCESS_SOLE_ATOMICS".into(), SOLE_ATOMICS as i128),
        ("BTL_MAGIC_HOST".into(), magic::HOST as i128),
        ("BTL_MAGIC_COMPONENT".into(), magic::COMPONENT as i128),
        ("BTL_MAGIC_MODULE".into(), magic::MODULE as i128),
        ("BTL_MAGIC_ATTRIBUTES".into(), magic::ATTRIBUTES as i128),
        ("BTL_MAGIC_STATS".into(), magic::STATS as i128),
        ("BTL_MAGIC_OVERRIDES".into(), magic::OVERRIDES as i128),
        ("BTL_MAGIC_HMEM_INFO".into(), magic::HMEM_INFO as i128),
        ("BTL_HMEM_SYSTEM".into(), hmem_iface::SYSTEM as i128),
        ("BTL_HMEM_CUDA".into(), hmem_iface::CUDA as i128),
        ("BTL_HMEM_ROCR".into(), hmem_iface::ROCR as i128),
        ("BTL_HMEM_ZE".into(), hmem_iface::ZE as i128),
        ("BTL_OVERRIDES_NONE".into(), HmemInfo::NONE as i128),
        (
            "BTL_OVERRIDES_TRANSPORT".into(),
            HmemInfo::TRANSPORT as i128,
        ),
        ("BTL_OVERRIDES_PROVIDER".into(), HmemInfo::PROVIDER as i128),
        ("BTL_OVERRIDES_NONE_SET".into(), HmemInfo::NONE_SET as i128),
        (
            "BTL_HOST_VTABLE_MIN_SIZE".into(),
            HostVtable::MIN_SIZE as i128,
        ),
        (
            "BTL_ATTRIBUTES_MIN_SIZE".into(),
            Attributes::MIN_SIZE as i128,
        ),
        (
            "BTL_MODULE_VTABLE_MIN_SIZE".into(),
            ModuleVtable::MIN_SIZE as i128,
        ),
        (
            "BTL_COMPONENT_VTABLE_MIN_SIZE".into(),
            ComponentVtable::MIN_SIZE as i128,
        ),
        ("BTL_STATS_MIN_SIZE".into(), Stats::MIN_SIZE as i128),
        ("BTL_CARRIERS".into(), CARRIERS as i128),
        // The Rust types document this constant with `order`.
        ("BTL_NO_ORDER".into(), 255),
    ];
    for code in i8::MIN..=i8::MAX {
        if let Some(name) = Status(code.into()).name() {
            out.push((format!("BTL_{name}"), code.into()));
        }
    }
    for level in [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
    ] {
        out.push((
            format!("BTL_LOG_{}", screaming(&format!("{level:?}"))),
            level as i128,
        ));
    }
    for carrier in Carrier::ALL {
        let name = screaming(&format!("{carrier:?}"));
        out.push((format!("BTL_CARRIER_{name}"), carrier as i128));
    }
    accepted!(out, ThreadLevel, "BTL_THREAD");
    accepted!(out, ParamKind, "BTL_PARAM");
    coded!(out, BtlAtomicOp, "BTL_OP");
    coded!(out, AtomicOp, "BTL_ATOMIC_OP");
    coded!(out, Datatype, "BTL_DATATYPE");
    coded!(out, AtomicKind, "BTL_ATOMIC_KIND");
    bits!(out, ModuleFlags, "BTL_FLAG");
    bits!(out, AtomicFlags, "BTL_ATOMIC");
    bits!(out, ErrorFlags, "BTL_ERROR_FLAG");
    bits!(out, Access, "BTL_ACCESS");
    bits!(out, OpFlags, "BTL_OP_FLAG");
    bits!(out, TransferFlags, "BTL_TRANSFER_FLAG");
    out
}

/// `UnsignedInt` as `UNSIGNED_INT`.
fn screaming(camel: &str) -> String {
    let mut out = String::new();
    for (index, letter) in camel.char_indices() {
        if index > 0 && letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
    }
    out
}
