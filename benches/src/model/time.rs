//! The time of a script, from measured constants.
//!
//! A round takes the latency of what it waits for, and for each further message the processor time of both of its ends. On
//! loopback all of a message's round trip is processor time of two cores, half of it at each end.

use crate::measured::{
    BANDWIDTH, MESSAGE, MESSAGE_RATE, MESSAGE_SIGNAL, NODE, NODE_LONG, NODE_LONG_BYTES, RING,
    RING_NEXT, STORE,
};
use crate::traffic::{Job, Near, Place, Round, Script, Traffic, Wait};

/// Puts of the measured rate, with one flush.
const RATED: f64 = 64.0;

/// What the model is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumed {
    /// Microseconds that the network takes for a message, one way, beyond loopback.
    pub(crate) network: f64,
    /// `btl_ofi_message_limit`.
    pub(crate) limit: u64,
}

/// Whether a rank also serves as many requests as it sends, as in collective calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// One rank works, its targets only answer.
    Alone,
    /// All ranks do the same.
    Everybody,
}

/// Microseconds of a script.
pub(crate) fn of(script: &Script, job: Job, load: Load, assumed: Assumed) -> f64 {
    let rounds: f64 = script
        .rounds
        .iter()
        .map(|round| of_round(round, load, assumed))
        .sum();
    // Each rank of a node reads the counters of all others, and all share its memory, as the two that were measured do.
    let pairs = job.per_node.min(job.ranks) as f64 / 2.0;
    let counters = script.node_stages as f64 * NODE.value;
    let copies = script.node_bytes as f64 * NODE_LONG.value / NODE_LONG_BYTES;
    rounds + (counters + copies) * pairs + script.mapped as f64 * STORE.value
}

fn of_round(round: &Round, load: Load, assumed: Assumed) -> f64 {
    let script = Script::of(vec![round.clone()]);
    let traffic = Traffic::of(&script, Near::Ring, assumed.limit);
    let is_far = round.steps.iter().any(|step| step.place == Place::Far);
    let waits = round.waits as f64;
    let latency = match (round.wait, is_far) {
        (Wait::Nothing, _) => 0.0,
        (Wait::Answers, true) => MESSAGE.value + 2.0 * assumed.network,
        (Wait::Answers, false) => RING.value,
        (Wait::Signal, false) if !round.steps.is_empty() => RING.value,
        (Wait::Signal, _) => MESSAGE_SIGNAL.value + assumed.network,
    };
    let ends = match load {
        Load::Alone => 1.0,
        Load::Everybody => 2.0,
    };
    let further = |count: u64| {
        let waited = if round.wait == Wait::Nothing {
            0.0
        } else {
            waits
        };
        (count as f64 - waited).max(0.0)
    };
    let shared = (RATED / MESSAGE_RATE.value - MESSAGE.value) / (RATED - 1.0);
    let messages = traffic.far.messages + traffic.far.provider;
    let in_messages = (traffic.far.operations - messages) as f64 * shared;
    let bytes = (traffic.far.wire + traffic.far.provider_bytes) as f64 / (BANDWIDTH.value * 1e3);
    let near_bytes = traffic.near.bytes as f64 * NODE_LONG.value / NODE_LONG_BYTES;
    latency * waits
        + further(messages) * ends * MESSAGE.value / 2.0
        + in_messages
        + further(traffic.near.operations) * ends * RING_NEXT.value
        + bytes
        + near_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epochs;
    use btl_ofi::sizes::Request;

    const LOOPBACK: Assumed = Assumed {
        network: 0.0,
        limit: 4096,
    };
    const TWO: Job = Job {
        ranks: 2,
        per_node: 1,
    };

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.05
    }

    #[test]
    fn what_was_measured_comes_out_again() {
        let put = of(
            &epochs::operation(Request::Put(8)),
            TWO,
            Load::Alone,
            LOOPBACK,
        );
        assert!(near(put, MESSAGE.value), "{put}");
        let many = of(&epochs::puts(64), TWO, Load::Alone, LOOPBACK);
        assert!(near(64.0 / many, MESSAGE_RATE.value), "{many}");
    }

    #[test]
    fn the_network_counts_once_for_a_signal_and_twice_for_an_answer() {
        let slow = Assumed {
            network: 100.0,
            ..LOOPBACK
        };
        let more = |script: &Script| {
            of(script, TWO, Load::Alone, slow) - of(script, TWO, Load::Alone, LOOPBACK)
        };
        assert!(near(more(&epochs::fence(TWO, 0)), 100.0));
        assert!(near(more(&epochs::operation(Request::Get(8))), 200.0));
    }
}
