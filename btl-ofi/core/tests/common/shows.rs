//! "Complete" means visible at the target: operations of every kind. The target checks the effect
//! of each, without further progress, once the operation is complete at the origin.

use super::Calls as _;
use std::ffi::c_void;

use btl_ofi::Transport;
use plugin_api::{BtlAtomicOp, Status};

use super::insist;
use super::pair::Target;

const ROUNDS: u64 = 200;

/// Makes puts to a target whose window begins at `base`, and optionally atomics.
pub(crate) fn shows(
    t: &Transport,
    target: &mut Target<'_>,
    base: u64,
    atomics: bool,
    provider: &str,
) {
    let (peer, h) = (target.peer, target.handle);
    let mut data = vec![0u64; (8 * 1024).min(t.capabilities().put_limit / 8)];
    for round in 1..=ROUNDS {
        let words = if round % 20 == 0 { data.len() } else { 1 };
        data[0] = round;
        data[words - 1] = round;
        let source = data.as_mut_ptr().cast::<c_void>();
        insist(t, || t.put(peer, source, base, &h, words * 8, None));
        assert_eq!(t.flush(None), Status::SUCCESS);
        let seen = target.sees(0, words - 1);
        assert_eq!(seen, (round, round), "{provider}: a put of {words} words");
        if atomics {
            let counter = base + 8 * 10_000;
            insist(t, || {
                t.atomic_op(peer, counter, &h, BtlAtomicOp::Add, 3, None)
            });
            assert_eq!(t.flush(None), Status::SUCCESS);
            assert_eq!(
                target.sees(10_000, 10_000).0,
                3 * round,
                "{provider}: an update"
            );
        }
    }
    if atomics {
        // Many operations of every kind at the same time.
        let burst = base + 8 * 10_001;
        let mut old = [0u64; 256];
        let source = data.as_mut_ptr().cast::<c_void>();
        for result in &mut old {
            let out = (&raw mut *result).cast::<c_void>();
            let (add, high) = (BtlAtomicOp::Add, 1 << 32);
            insist(t, || t.atomic_fop(peer, out, burst, &h, add, 1, None));
            insist(t, || t.atomic_op(peer, burst, &h, add, high, None));
            insist(t, || t.put(peer, source, base, &h, 8, None));
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
        let mut seen: Vec<u32> = old.iter().map(|&v| v as u32).collect();
        seen.sort_unstable();
        let each = (0..256).collect::<Vec<u32>>();
        assert_eq!(seen, each, "{provider}: each fetch saw its own value");
        assert_eq!(target.sees(10_001, 10_001).0, 256 << 32 | 256);
    }
}
