//! Measured constants, each with the line of the page where it is recorded. A test finds the lines, so a page that is measured
//! anew asks for new constants here.

/// A measured constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) about: &'static str,
    /// The page in `docs`, and what stands there.
    pub(crate) page: &'static str,
    pub(crate) line: &'static str,
}

const PERFORMANCE: &str = "performance.md";
const SCALE: &str = "scale.md";

/// A put of 8 bytes by message and its flush: two system calls to send and two to receive, on two cores over loopback.
pub(crate) const MESSAGE: Figure = Figure {
    value: 8.1,
    unit: "us",
    about: "request and answer by message",
    page: PERFORMANCE,
    line: "| put 8 B and flush, us | 11.0 | 10.1 | 8.1 |",
};

/// A rank sends a message and waits for another's, again and again: what each round of a barrier takes.
pub(crate) const MESSAGE_SIGNAL: Figure = Figure {
    value: 8.1,
    unit: "us",
    about: "message, until the target sees it and sends its own",
    page: PERFORMANCE,
    line: "| put until the target sees it, us | | 10.5 | 8.1 |",
};

/// 64 puts and a flush, of which the flush takes [`MESSAGE`].
pub(crate) const MESSAGE_RATE: Figure = Figure {
    value: 5.4,
    unit: "million/s",
    about: "puts of 8 bytes that share a message, 64 and a flush",
    page: PERFORMANCE,
    line: "| puts of 8 B, 64 and a flush, million/s | 0.18 | 4.7 | 5.4 |",
};

/// Of large transfers by the provider.
pub(crate) const BANDWIDTH: Figure = Figure {
    value: 5.0,
    unit: "GB/s",
    about: "large transfers between nodes",
    page: PERFORMANCE,
    line: "| put 4 MiB, GB/s | 4.5 | 4.9 | 5.0 |",
};

pub(crate) const RING: Figure = Figure {
    value: 0.53,
    unit: "us",
    about: "request and answer by ring",
    page: PERFORMANCE,
    line: "| tcp;ofi_rxm | 0.53 | 0.52 |",
};

/// 20 million a second.
pub(crate) const RING_NEXT: Figure = Figure {
    value: 0.05,
    unit: "us",
    about: "each further request by ring",
    page: PERFORMANCE,
    line: "| put rate | 1.87 Mop/s | 20 Mop/s |",
};

pub(crate) const STORE: Figure = Figure {
    value: 0.0067,
    unit: "us",
    about: "store of 8 bytes into mapped memory, through the window",
    page: PERFORMANCE,
    line: "| put | 6.7 | 15 | 153, 1 |",
};

/// Of two ranks with a core each.
pub(crate) const NODE: Figure = Figure {
    value: 0.19,
    unit: "us",
    about: "allreduce of 8 bytes of two ranks through shared memory",
    page: PERFORMANCE,
    line: "| 2 | 8 | 0.17 | 0.19 |",
};

/// The same with so many bytes.
pub(crate) const NODE_LONG_BYTES: f64 = 1_048_576.0;
pub(crate) const NODE_LONG: Figure = Figure {
    value: 57.0,
    unit: "us",
    about: "allreduce of 1 MiB of two ranks through shared memory",
    page: PERFORMANCE,
    line: "| 2 | 1,048,576 | 117 | 57 |",
};

/// At 100,000 peers.
pub(crate) const CONNECT: Figure = Figure {
    value: 2.9,
    unit: "us",
    about: "to add a peer, tcp;ofi_rxm",
    page: SCALE,
    line: "| connect all, tcp;ofi_rxm | 1.6, 2.9 us · N (`growth`) |",
};

pub(crate) const PEER: Figure = Figure {
    value: 71.1,
    unit: "B",
    about: "a remote peer with what messages need, at 1,000,000",
    page: SCALE,
    line: "| the same, with messages | 77.1, 70.5, 71.1 |",
};

pub(crate) const VECTOR: Figure = Figure {
    value: 264.0,
    unit: "B",
    about: "a peer in the provider's address vector, tcp;ofi_rxm",
    page: SCALE,
    line: "| the provider's address vector, tcp;ofi_rxm | 264 for each peer |",
};

pub(crate) const USED_PEER: Figure = Figure {
    value: 737.0,
    unit: "B",
    about: "a remote peer in use, by messages",
    page: SCALE,
    line: "| remote peer in use, with messages | 737 · A |",
};

/// All of them.
pub(crate) const ALL: [Figure; 13] = [
    MESSAGE,
    MESSAGE_SIGNAL,
    MESSAGE_RATE,
    BANDWIDTH,
    RING,
    RING_NEXT,
    STORE,
    NODE,
    NODE_LONG,
    CONNECT,
    PEER,
    VECTOR,
    USED_PEER,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_have_the_constants() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/");
        for figure in ALL {
            let path = format!("{docs}{}", figure.page);
            let page = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                page.contains(figure.line),
                "{path} has no line `{}`: measure {} anew",
                figure.line,
                figure.about
            );
        }
    }
}
