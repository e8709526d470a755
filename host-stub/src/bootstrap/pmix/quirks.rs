//! Measured differences among versions of libpmix and among launchers' servers.

/// The variable with a server's version, which every server sets.
const SERVER_VERSION_ENV: &str = "PMIX_VERSION";
/// A variable that Slurm's server sets.
const SLURM_ENV: &str = "SLURM_PMIX_MAPPING_SERV";

/// The differences that this library and this server need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quirks {
    pub(super) keys: Keys,
    /// Whether fences collect published values. Under Slurm 22.05 with PMIx 4.2.2, a fence that does not
    /// collect returns before processes of other nodes have called. Elsewhere a fence need not move data
    /// that only few ranks read.
    pub(super) collect: bool,
}

impl Quirks {
    /// Determines the quirks of the library by its version text, and the quirks of the server by the
    /// environment.
    pub(super) fn find(library: &str) -> Self {
        let server = std::env::var(SERVER_VERSION_ENV).unwrap_or_default();
        Quirks {
            keys: Keys::of(library, &server),
            collect: std::env::var_os(SLURM_ENV).is_some(),
        }
    }
}

/// The keys by which changed values reach other ranks, as measured with 4.2.2 and 5.0.7:
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Until 4: a commit sends every value that the process has ever put, so keys should be few. A key may
    /// be put again, and a refreshing get returns its new value.
    Again,
    /// From 5 on (library or server): a get always returns the first value of a key, and a refreshing get
    /// finds nothing, so every value needs its own key.
    Once,
}

impl Keys {
    /// Reads the library's version text, `OpenPMIx 5.0.7a1 (PMIx Standard: ...`, and the server's version,
    /// `5.0.8a1`, which is empty before 4.
    fn of(library: &str, server: &str) -> Self {
        let old = |version: &str| {
            let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
            matches!(
                digits.split('.').next().map(str::parse::<u32>),
                Some(Ok(..5))
            )
        };
        if old(library) && (server.is_empty() || old(server)) {
            Keys::Again
        } else {
            Keys::Once
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_reused_where_that_works() {
        for (library, server, keys) in [
            (
                "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, ...)",
                "4.2.2rc2",
                Keys::Again,
            ),
            (
                "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, ...)",
                "5.0.8a1",
                Keys::Once,
            ),
            ("PMIx 3.2.3", "", Keys::Again),
            (
                "OpenPMIx 5.0.7a1 (PMIx Standard: 5.1, ...)",
                "4.2.2rc2",
                Keys::Once,
            ),
            ("OpenPMIx 10.1", "10.1", Keys::Once),
            ("of another kind", "", Keys::Once),
        ] {
            assert_eq!(Keys::of(library, server), keys, "{library}, {server}");
        }
    }
}
