//! The layout of every type that crosses the boundary, asserted at compile time.
//!
//! Only assertions live here. The numbers are those of ABI 1.0 on platforms with 64-bit pointers. Within a major a
//! table may get new fields at its end; existing numbers never change. `tests/header.rs` compares them with the C
//! header.

use std::mem::offset_of;

use crate::{
    ApplyRequest, ApplyRun, Attributes, ComponentVtable, Descriptor, HmemInfo, HostVtable, IoVec,
    Module, ModuleVtable, OverrideOps, ParamDecl, ParamValue, ParamValueBits, Provider, Stats,
    Status, TableHeader,
};

/// Asserts the offset of each field and the size and alignment of the type. The closure destructures the type without
/// `..`, so that a field missing from the list does not compile.
macro_rules! layout {
    ($type:ident: $size:literal bytes { $($field:ident at $offset:literal,)+ }) => {
        const _: () = {
            $(assert!(
                offset_of!($type, $field) == $offset,
                concat!(stringify!($type), "::", stringify!($field), " has moved")
            );)+
            assert!(
                size_of::<$type>() == $size,
                concat!(stringify!($type), " has another size")
            );
            assert!(align_of::<$type>() == 8);
        };
        const _: fn(&$type) = |$type { $($field: _),+ }| ();
    };
}

/// Asserts that the minimal size of each table is its size in ABI 1.0.
macro_rules! first_release {
    ($($type:ident: $size:literal),+ $(,)?) => {
        const _: () = {
            $(assert!(
                $type::MIN_SIZE == $size,
                concat!(stringify!($type), "::MIN_SIZE must stay the size of ABI 1.0")
            );)+
        };
    };
}

const _: () = assert!(size_of::<Status>() == 4 && align_of::<Status>() == 4);
const _: () = assert!(size_of::<ParamValueBits>() == 8 && align_of::<ParamValueBits>() == 8);
const _: () = assert!(
    size_of::<usize>() == 8,
    "the ABI is defined for 64-bit pointers"
);

layout!(TableHeader: 16 bytes {
    magic at 0,
    abi_major at 8,
    abi_minor at 10,
    size at 12,
});

layout!(ParamValue: 16 bytes {
    kind at 0,
    reserved at 4,
    bits at 8,
});

layout!(ParamDecl: 72 bytes {
    name at 0,
    help at 8,
    synonyms at 16,
    allowed at 24,
    default at 32,
    min at 48,
    max at 56,
    level at 64,
    reserved at 68,
});

layout!(HostVtable: 56 bytes {
    header at 0,
    context at 16,
    param_register at 24,
    modex_put at 32,
    modex_get at 40,
    log at 48,
});

layout!(Attributes: 120 bytes {
    header at 0,
    flags at 16,
    atomic_flags at 20,
    put_limit at 24,
    get_limit at 32,
    put_alignment at 40,
    get_alignment at 48,
    put_local_registration_threshold at 56,
    get_local_registration_threshold at 64,
    handle_size at 72,
    latency at 80,
    bandwidth at 84,
    exclusivity at 88,
    contexts at 92,
    provider at 96,
    domain at 104,
    completion at 112,
});

layout!(Module: 16 bytes {
    vtable at 0,
    attributes at 8,
});

layout!(Stats: 184 bytes {
    header at 0,
    posted at 16,
    completed at 24,
    failed at 32,
    again at 40,
    registrations at 48,
    endpoints at 56,
    operations at 64,
    bytes at 104,
    revoked at 144,
    messages at 152,
    waits at 160,
    waited at 168,
    polls at 176,
});

layout!(IoVec: 16 bytes {
    base at 0,
    len at 8,
});

layout!(OverrideOps: 80 bytes {
    header at 0,
    copy_from_hmem_iov at 16,
    copy_to_hmem_iov at 24,
    copy_from_hmem_strided at 32,
    copy_to_hmem_strided at 40,
    copy_from_hmem_async at 48,
    copy_to_hmem_async at 56,
    query_event at 64,
    stream at 72,
});

layout!(HmemInfo: 48 bytes {
    header at 0,
    provider at 16,
    overrides at 20,
    devices at 24,
    answer at 28,
    direct at 32,
    staged at 40,
});

layout!(ApplyRun: 32 bytes {
    offset at 0,
    length at 8,
    stride at 16,
    count at 24,
});

layout!(ApplyRequest: 48 bytes {
    runs at 0,
    run_count at 8,
    operands at 16,
    results at 24,
    size at 32,
    datatype at 36,
    op at 40,
    code at 44,
});

layout!(ModuleVtable: 288 bytes {
    header at 0,
    add_procs at 16,
    del_procs at 24,
    register_mem at 32,
    deregister_mem at 40,
    put at 48,
    get at 56,
    atomic_op at 64,
    atomic_fop at 72,
    atomic_cswap at 80,
    flush at 88,
    register_error at 96,
    atomic_query at 104,
    atomic_opv at 112,
    atomic_fopv at 120,
    atomic_cswapv at 128,
    stats at 136,
    finalize at 144,
    set_overrides at 152,
    register_hmem at 160,
    copy_from_hmem_iov at 168,
    copy_to_hmem_iov at 176,
    query_hmem at 184,
    alloc at 192,
    free at 200,
    prepare_src at 208,
    send at 216,
    sendi at 224,
    register_receive at 232,
    put_notify at 240,
    copy_from_hmem_strided at 248,
    copy_to_hmem_strided at 256,
    register_shared at 264,
    apply at 272,
    register_apply at 280,
});

layout!(Descriptor: 32 bytes {
    data at 0,
    size at 8,
    source at 16,
    source_size at 24,
});

layout!(Provider: 32 bytes {
    name at 0,
    domain at 8,
    refusal at 16,
    chosen at 24,
    reserved at 28,
});

layout!(ComponentVtable: 80 bytes {
    header at 0,
    name at 16,
    version at 24,
    register_params at 32,
    open at 40,
    survey at 48,
    init at 56,
    progress at 64,
    close at 72,
});

first_release! {
    HostVtable: 56,
    Attributes: 120,
    ModuleVtable: 152,
    ComponentVtable: 80,
    Stats: 64,
    OverrideOps: 32,
}
