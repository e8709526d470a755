#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(missing_docs, unreachable_pub, clippy::all)]
#![allow(clippy::undocumented_unsafe_blocks, clippy::allow_attributes_without_reason)]
include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
