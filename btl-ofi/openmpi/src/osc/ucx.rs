//! Whether osc/ucx serves a window better than this component. osc/ucx serves the window better if processors would make
//! this component's puts, over TCP, and UCX reaches a network card that makes puts itself. In this case libfabric has no
//! provider for the card, or was built without it.
//!
//! Each rank decides for itself. Only if all ranks agree does the window go to osc/ucx, because a
//! window has one component.

use std::ffi::{CStr, c_int};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::OnceLock;

use crate::osc::params;

/// The name of the component.
pub(crate) const NAME: &CStr = c"ucx";

/// The facts about osc/ucx that a rank knows.
#[derive(Clone, Copy)]
struct Facts<'a> {
    /// The priority of osc/ucx for the window; below 0 if osc/ucx is not loaded, or does not serve
    /// the window.
    priority: c_int,
    /// The network card that osc/ucx reaches.
    card: Option<&'a str>,
    /// Whether the user named providers of libfabric, and so wants this component.
    names_providers: bool,
    /// Whether memory is attached to the window later: osc/ucx takes 32 or 48 regions of a rank and refuses further ones.
    is_dynamic: bool,
}

impl Facts<'_> {
    fn are_better(self) -> bool {
        self.priority >= 0 && self.card.is_some() && !self.names_providers && !self.is_dynamic
    }
}

/// Whether osc/ucx would serve a window better, as far as this rank knows, if processors execute this component's puts.
/// `priority` is called only if needed. `is_dynamic`: memory is attached to the window later.
pub(crate) fn is_better(is_dynamic: bool, priority: impl FnOnce() -> c_int) -> bool {
    let Some(card) = card() else {
        return false;
    };
    let facts = Facts {
        priority: priority(),
        card: Some(card),
        names_providers: params::names_providers(),
        is_dynamic,
    };
    facts.are_better()
}

/// The reason why windows go to osc/ucx.
pub(crate) fn reason() -> String {
    format!(
        "a window goes to ucx, which has the network card {}, where this component has tcp",
        card().unwrap_or("of others")
    )
}

/// The first network card that this process may use.
fn card() -> Option<&'static str> {
    static CARD: OnceLock<Option<String>> = OnceLock::new();
    let card = CARD.get_or_init(|| first_card(Path::new("/sys"), Path::new("/dev")));
    card.as_deref()
}

/// The first card of InfiniBand or RoCE with an active port and a device file that may be opened. The kernel's own imitations of such
/// cards (rxe, siw) have no device behind them.
fn first_card(sys: &Path, dev: &Path) -> Option<String> {
    let mut files: Vec<_> = fs::read_dir(sys.join("class/infiniband_verbs"))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    files.into_iter().find_map(|file| {
        let name = fs::read_to_string(file.join("ibdev")).ok()?;
        let card = sys.join("class/infiniband").join(name.trim());
        let is_active = || {
            let ports = fs::read_dir(card.join("ports")).ok()?;
            let states =
                ports.filter_map(|port| fs::read_to_string(port.ok()?.path().join("state")).ok());
            Some(states.into_iter().any(|state| state.contains("ACTIVE")))
        };
        let node = dev.join("infiniband").join(file.file_name()?);
        let is_usable = card.join("device").exists()
            && is_active() == Some(true)
            && OpenOptions::new().read(true).write(true).open(node).is_ok();
        is_usable.then(|| name.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_must_hold() {
        let better = Facts {
            priority: 60,
            card: Some("mlx5_0"),
            names_providers: false,
            is_dynamic: false,
        };
        assert!(better.are_better());
        for other in [
            Facts {
                priority: -1,
                ..better
            },
            Facts {
                card: None,
                ..better
            },
            Facts {
                names_providers: true,
                ..better
            },
            Facts {
                is_dynamic: true,
                ..better
            },
        ] {
            assert!(!other.are_better());
        }
    }

    #[test]
    fn a_card_is_hardware_active_and_may_be_opened() {
        let root = std::env::temp_dir().join(format!("cards-{}", std::process::id()));
        let (sys, dev) = (root.join("sys"), root.join("dev"));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let found = || first_card(&sys, &dev);
        assert_eq!(found(), None, "nothing is there");
        // rxe: active and open, and no device.
        write("sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
        write("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
        write("dev/infiniband/uverbs0", "");
        assert_eq!(found(), None, "an imitation");
        write("sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_0\n");
        write("sys/class/infiniband/mlx5_0/device/vendor", "");
        write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
        write("dev/infiniband/uverbs1", "");
        assert_eq!(found(), None, "no port is active");
        write("sys/class/infiniband/mlx5_0/ports/2/state", "4: ACTIVE\n");
        assert_eq!(found().as_deref(), Some("mlx5_0"));
        fs::remove_file(dev.join("infiniband/uverbs1")).expect("the file");
        assert_eq!(found(), None, "no device file");
        fs::remove_dir_all(&root).expect("the folder");
    }
}
