use mca_params::Value;

use super::*;
use crate::base::sys::tests::sources;

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
    let (by_processor, in_parts) = (Trait::ProcessorAtomics, Trait::SendsInParts);
    let (hides, messages) = (Trait::HidesRefusals, Trait::PrefersMessages);
    let few_receives = Trait::Needs(Setting {
        variable: "FI_OFI_RXM_MSG_RX_SIZE",
        value: "128",
    });
    assert_eq!(names("tcp"), [polls, hides, messages]);
    assert_eq!(
        names("tcp;ofi_rxm"),
        [polls, hides, messages, by_processor, in_parts, few_receives]
    );
    assert_eq!(names("net"), names("tcp"));
    assert_eq!(
        names("verbs;ofi_rxm"),
        [
            by_processor,
            in_parts,
            few_receives,
            Trait::ConfirmsSending {
                unless_several: "FI_OFI_RXM_NUM_MSG_EPS"
            },
            Trait::LosesRegions,
        ]
    );
    assert_eq!(
        names("sockets;ofi_rxm"),
        [polls, by_processor, in_parts, few_receives]
    );
    assert!(names("efa-direct").contains(&by_processor));
    for none in ["verbs", "psm3", "cxi", "shm2", "ofi_rxm;lab", "", "TCP"] {
        assert_eq!(names(none), [], "{none}");
    }
}

/// A row that matches no known provider, or a trait that is in no row, is dead.
#[test]
fn every_row_describes_a_provider() {
    let known = [
        "shm",
        "memory",
        "sockets",
        "tcp;ofi_rxm",
        "udp;ofi_rxd",
        "net",
        "efa",
        "verbs;ofi_rxm",
        "opx",
    ];
    let found = known.map(|name| Quirks::of(name).rows);
    let all = found.into_iter().fold(0, |all, rows| all | rows);
    assert_eq!(all.count_ones() as usize, QUIRKS.len());
}

#[test]
fn the_users_lists_narrow_what_is_prepared() {
    let variables = |include| {
        let options = options(include);
        needs(&options).map(|s| s.variable).collect::<Vec<_>>()
    };
    // The lists name the lower layer first, so they do not decide about rxm.
    let (sockets, rxm) = ("FI_SOCKETS_PE_WAITTIME", "FI_OFI_RXM_MSG_RX_SIZE");
    assert_eq!(variables("tcp,SOCKETS"), [sockets, rxm]);
    assert_eq!(variables("sockets"), [sockets, rxm]);
    assert_eq!(variables("tcp"), [rxm]);
    assert_eq!(variables(""), [rxm], "sockets is excluded by default");
}

/// Whether a literal names a provider of the table.
fn names_a_provider(literal: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_;".contains(&b);
    literal.bytes().all(plain) && Quirks::of(literal).rows != 0
}

#[test]
fn providers_are_named_in_the_table_alone() {
    let mut found = Vec::new();
    for (name, code) in sources() {
        // The provider of this crate names itself.
        if !["fabric/quirks.rs", "fabric/memory.rs"].contains(&name.as_str()) {
            let lines = code.lines().filter(|l| !l.trim_start().starts_with("//"));
            let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
            let names = literals.filter(|l| names_a_provider(l));
            found.extend(names.map(|l| format!("{name}: {l:?}")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(names_a_provider("tcp;ofi_rxm") && !names_a_provider("tcp is slow"));
}
