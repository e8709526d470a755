//! The symbols that the plugin's file exports to the dynamic linker.

use std::fs;

use integration_tests::fixtures::{c_plugin, mpi_component, ofi_plugin};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};

/// The names of the dynamic symbols that a shared object defines for others, or imports from others.
fn symbols(path: &std::path::Path, defined: bool) -> Vec<String> {
    let bytes = fs::read(path).unwrap();
    let file: ElfFile64 = ElfFile64::parse(&*bytes).unwrap();
    let mut names: Vec<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() == defined)
        .map(|symbol| symbol.name().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn exports(path: &std::path::Path) -> Vec<String> {
    symbols(path, true)
}

#[test]
fn the_plugin_exports_its_entry_alone() {
    assert_eq!(exports(ofi_plugin()), ["btl_plugin_entry_v1"]);
}

/// Open MPI finds a component by one symbol with the component's name, and programs find the functions of
/// openmpi_ofi_rs.h.
#[test]
fn the_components_export_themselves_alone() {
    match &exports(mpi_component())[..] {
        [] => println!("not looked at: the component is built empty without Open MPI's headers"),
        [btl, osc, level, overrides] => {
            assert!(
                btl.starts_with("mca_btl_") && btl.ends_with("_component"),
                "{btl}"
            );
            assert_eq!(osc, "mca_osc_ofi_rs_component");
            assert_eq!(level, "openmpi_ofi_rs_query_device_level");
            assert_eq!(overrides, "openmpi_ofi_rs_set_overrides");
        }
        more => panic!("{more:?}"),
    }
}

/// `ompi_info` of Open MPI 6.0 loads components without the library of MPI's own functions.
#[test]
fn the_components_name_no_function_of_mpi() {
    let taken = symbols(mpi_component(), false);
    assert!(!taken.is_empty());
    for name in taken {
        let is_of_mpi = name.starts_with("MPI_") || name.starts_with("PMPI_");
        assert!(!is_of_mpi, "{name}");
    }
}

/// The first list would contain a second symbol; the variant without the entry exports none.
#[test]
fn the_c_plugins_export_what_they_say() {
    assert_eq!(exports(&c_plugin("")), ["btl_plugin_entry_v1"]);
    assert_eq!(exports(&c_plugin("NO_SYMBOL")), [""; 0]);
}
