//! Sizes, offsets and types of every field, as assertions of C.

use std::fmt::Write;
use std::mem::offset_of;

use plugin_api::{
    ApplyFn, ApplyRequest, ApplyRun, Attributes, CompletionFn, ComponentVtable, Descriptor,
    EntryFn, ErrorFn, HmemInfo, HostVtable, IoVec, Module, ModuleVtable, OverrideOps, ParamDecl,
    ParamValue, ParamValueBits, Provider, ReceiveFn, Stats, SurveyFn, TableHeader,
};

use crate::ctype::{CFunction, CType};

/// The spelling of a field's type, inferred from a function that never runs.
fn field_type<S, T: CType>(_: fn(&S) -> &T) -> String {
    T::spelling()
}

/// Writes the assertions for one structure. A pattern without `..` makes the compiler refuse a list
/// that lacks a field.
macro_rules! structure {
    ($out:ident, $rust:ident as $c:literal { $($field:ident $(as $c_field:ident)?),+ $(,)? }) => {{
        let _: fn(&$rust) = |$rust { $($field: _),+ }| ();
        writeln!($out, "CHECK(sizeof({}) == {}, \"size of {}\");", $c, size_of::<$rust>(), $c).unwrap();
        writeln!($out, "CHECK(ALIGNOF({}) == {}, \"alignment of {}\");", $c, align_of::<$rust>(), $c).unwrap();
        $(
            let name = [$(stringify!($c_field),)? stringify!($field)][0];
            writeln!(
                $out,
                "CHECK(offsetof({c}, {name}) == {offset}, \"offset of {c}.{name}\");\n\
                 CHECK(SAME_TYPE((({c} *)0)->{name}, {kind}), \"type of {c}.{name}\");",
                c = $c,
                offset = offset_of!($rust, $field),
                kind = field_type::<$rust, _>(|s| &s.$field),
            )
            .unwrap();
        )+
    }};
}

/// Writes the assertion that an expression is a pointer to the Rust function type.
fn function<F: CFunction>(out: &mut String, expression: &str) {
    writeln!(
        out,
        "CHECK(SAME_TYPE({expression}, {}), \"type of {expression}\");",
        F::declarator()
    )
    .unwrap();
}

/// Assertions for everything that has a layout.
pub(crate) fn assertions() -> String {
    let mut out = String::new();
    structure!(out, TableHeader as "btl_table_header" { magic, abi_major, abi_minor, size });
    structure!(out, ParamValue as "btl_param_value" { kind, reserved, bits });
    structure!(out, ParamDecl as "btl_param_decl" {
        name, help, synonyms, allowed, default as default_value, min, max, level, reserved,
    });
    structure!(out, HostVtable as "btl_host_vtable" {
        header, context, param_register, modex_put, modex_get, log,
    });
    structure!(out, Attributes as "btl_attributes" {
        header, flags, atomic_flags, put_limit, get_limit, put_alignment, get_alignment,
        put_local_registration_threshold, get_local_registration_threshold, handle_size,
        latency, bandwidth, exclusivity, contexts, provider, domain, completion,
    });
    structure!(out, Module as "btl_module" { vtable, attributes });
    structure!(out, Stats as "btl_stats" {
        header, posted, completed, failed, again, registrations, endpoints, operations, bytes, revoked, messages, waits,
        waited, polls,
    });
    structure!(out, IoVec as "struct iovec" { base as iov_base, len as iov_len });
    structure!(out, OverrideOps as "btl_override_ops" {
        header, copy_from_hmem_iov, copy_to_hmem_iov, copy_from_hmem_strided, copy_to_hmem_strided,
        copy_from_hmem_async, copy_to_hmem_async, query_event, stream,
    });
    structure!(out, HmemInfo as "btl_hmem_info" {
        header, provider, overrides, devices, answer, direct, staged,
    });
    structure!(out, ApplyRun as "btl_apply_run" { offset, length, stride, count });
    structure!(out, ApplyRequest as "btl_apply_request" {
        runs, run_count, operands, results, size, datatype, op, code,
    });
    structure!(out, ModuleVtable as "btl_module_vtable" {
        header, add_procs, del_procs, register_mem, deregister_mem, put, get, atomic_op,
        atomic_fop, atomic_cswap, flush, register_error, atomic_query, atomic_opv, atomic_fopv,
        atomic_cswapv, stats, finalize, set_overrides, register_hmem, copy_from_hmem_iov,
        copy_to_hmem_iov, query_hmem, alloc, free, prepare_src, send, sendi, register_receive,
        put_notify, copy_from_hmem_strided, copy_to_hmem_strided, register_shared,
        apply, register_apply,
    });
    structure!(out, Descriptor as "btl_descriptor" { data, size, source, source_size });
    structure!(out, Provider as "btl_provider" { name, domain, refusal, chosen, reserved });
    structure!(out, ComponentVtable as "btl_component_vtable" {
        header, name, version, register_params, open, survey, init, progress, close,
    });
    function::<CompletionFn>(&mut out, "(btl_completion_fn)0");
    function::<ErrorFn>(&mut out, "(btl_error_fn)0");
    function::<ReceiveFn>(&mut out, "(btl_receive_fn)0");
    function::<ApplyFn>(&mut out, "(btl_apply_fn)0");
    function::<SurveyFn>(&mut out, "(btl_survey_fn)0");
    function::<EntryFn>(&mut out, "(btl_entry_fn)0");
    function::<EntryFn>(&mut out, "&btl_plugin_entry_v1");
    out + &union_assertions()
}

/// The fields of the union all start at its beginning.
fn union_assertions() -> String {
    let mut out = format!(
        "CHECK(sizeof(btl_param_bits) == {}, \"size of btl_param_bits\");\n",
        size_of::<ParamValueBits>()
    );
    for (field, offset, kind) in [
        ("i", offset_of!(ParamValueBits, i), i64::spelling()),
        ("u", offset_of!(ParamValueBits, u), u64::spelling()),
        (
            "s",
            offset_of!(ParamValueBits, s),
            <*const std::ffi::c_char>::spelling(),
        ),
    ] {
        writeln!(
            out,
            "CHECK(offsetof(btl_param_bits, {field}) == {offset}, \"offset of btl_param_bits.{field}\");\n\
             CHECK(SAME_TYPE(((btl_param_bits *)0)->{field}, {kind}), \"type of btl_param_bits.{field}\");"
        )
        .unwrap();
    }
    out
}
