//! The limit on open descriptors. Providers over TCP take a few for each connection, at both sides. A process that has none left
//! makes no connection, and its provider waits without an error.

use crate::base::sys;

/// Maximum descriptors that this process asks for. With this number, a program that checks every possible descriptor before
/// it starts another program needs milliseconds.
const MOST: u64 = 1 << 20;
/// The most descriptors of one connection of tcp;ofi_rxm.
const FEW: u64 = 4;
const OWN: &str = "/proc/self/fd";
/// Number of descriptors that are searched for the provider's listening socket.
const LOOKED_AT: i32 = 4096;

/// Raises the soft limit to the hard one.
pub(crate) fn raise_limit() {
    let raised = sys::descriptor_limits().and_then(|(soft, hard)| {
        let wanted = hard.min(MOST);
        match soft < wanted {
            true => sys::set_descriptor_limits((wanted, hard)),
            false => Ok(()),
        }
    });
    if let Err(e) = raised {
        tracing::info!("the limit on open descriptors stays: {e}");
    }
}

/// Returns a warning if this process has hardly any descriptors left.
pub(crate) fn shortage() -> Option<String> {
    let (limit, _) = sys::descriptor_limits().ok()?;
    let left = match sys::names(OWN) {
        // One of the open descriptors belongs to the folder itself.
        Ok(open) => limit.saturating_sub(open.len().saturating_sub(1) as u64),
        Err(e) if e.code == libc::EMFILE => 0,
        Err(_) => return None,
    };
    (left < FEW).then(|| {
        format!(
            "this process has {left} of {limit} descriptors left, and a connection takes some: raise the hard limit \
             (ulimit -Hn) where the job starts"
        )
    })
}

/// Whether a peer's connection to the listening socket with this address waits because this process has no descriptor for
/// it. The provider does not report this, so this process looks silent to the peer.
pub(crate) fn keep_a_peer_waiting(address: &[u8]) -> bool {
    let is_short =
        sys::is_descriptor_left().is_err_and(|e| [libc::EMFILE, libc::ENFILE].contains(&e.code));
    // The provider opened the socket early, so its number is low.
    is_short && (0..LOOKED_AT).any(|descriptor| sys::connection_waits(descriptor, address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sys::script::Script;

    const LIMITS: &str = "descriptors";

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        for (limits, raised) in [
            ((1024u64, 4096u64), true),
            ((4096, 4096), false),
            ((1024, u64::MAX), true),
            ((MOST, u64::MAX), false),
        ] {
            let script = Script::new().answers(LIMITS, limits);
            // A script fails the test if one of its calls is not made.
            let _script = match raised {
                true => script.answers("setrlimit", ()),
                false => script,
            };
            raise_limit();
        }
        let _script = Script::new()
            .answers(LIMITS, (1u64, 2u64))
            .fails("setrlimit", libc::EPERM);
        raise_limit();
    }

    #[test]
    fn few_descriptors_are_told_of() {
        let names = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        for (open, told) in [
            (18, Some("0 of 18")),
            (15, Some("3 of 18")),
            (14, None),
            (3, None),
        ] {
            let _script = Script::new()
                .answers(LIMITS, (18u64, 18u64))
                .answers(OWN, names(open + 1));
            let said = shortage();
            assert_eq!(said.is_some(), told.is_some(), "{open} are open: {said:?}");
            assert!(said.unwrap_or_default().contains(told.unwrap_or_default()));
        }
        let _script = Script::new()
            .answers(LIMITS, (18u64, 18u64))
            .fails(OWN, libc::EMFILE);
        assert!(shortage().unwrap().contains("0 of 18"));
    }
}
