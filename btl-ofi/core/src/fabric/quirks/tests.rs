use mca_params::Value;

use super::*;

fn options(include: &'static str) -> Options {
    Options::resolve(|d| {
        Ok::<_, std::convert::Infallible>(match d.name.as_ref() {
            "btl_ofi_provider_include" => Value::str(include),
            _ => d.default.clone(),
        })
    })
    .unwrap()
}

fn names(provider: &str) -> Vec<Trait> {
    Quirks::of(provider).traits().copied().collect()
}

#[test]
fn a_provider_has_the_traits_of_its_layers() {
    let polls = Trait::PollsKernel;
    let by_processor = Trait::ProcessorAtomics;
    assert_eq!(names("tcp"), [polls]);
    assert_eq!(names("tcp;ofi_rxm"), [polls, by_processor]);
    assert_eq!(
        names("verbs;ofi_rxm"),
        [by_processor, Trait::ConfirmsSending]
    );
    assert_eq!(names("sockets;ofi_rxm"), [polls, by_processor]);
    assert_eq!(names("udp;ofi_rxd")[..2], [polls, by_processor]);
    assert_eq!(names("verbs;ofi_rxd"), names("udp;ofi_rxd")[1..]);
    assert!(names("efa-direct").contains(&by_processor));
    for none in ["verbs", "psm3", "cxi", "shm2", "ofi_rxm;lab", "", "TCP"] {
        assert_eq!(names(none), [], "{none}");
    }
}

/// A row that matches nothing, or a trait that no row has, is dead.
#[test]
fn every_row_describes_a_provider() {
    let known = [
        "shm",
        "sockets",
        "tcp;ofi_rxm",
        "udp;ofi_rxd",
        "net",
        "efa",
        "verbs;ofi_rxm",
    ];
    let found = known.map(|name| Quirks::of(name).rows);
    let all = found.into_iter().fold(0, |all, rows| all | rows);
    assert_eq!(all.count_ones() as usize, QUIRKS.len());
}

#[test]
fn the_users_lists_narrow_what_is_prepared() {
    let files = |include| admits(&options(include), Trait::KeepsFiles);
    assert!(files("shm") && files("tcp,SHM"));
    assert!(!files("tcp") && !files(""), "excluded by default");
    let variables = |include| {
        let options = options(include);
        needs(&options).map(|s| s.variable).collect::<Vec<_>>()
    };
    assert_eq!(variables("sockets"), ["FI_SOCKETS_PE_WAITTIME"]);
    assert_eq!(variables("tcp"), [""; 0]);
    assert_eq!(variables(""), [""; 0], "excluded by default");
    assert_eq!(Quirks::of("sockets").needs().count(), 1);
    assert_eq!(Quirks::of("sockets;ofi_rxm").needs().count(), 0);
}
