//! The meaning of a seed: a shape of the provider, a script of faults, and ranks with threads.

use integration_tests::random::Random;

/// Registration modes that the transport supports.
pub(crate) const BITS: [&str; 4] = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];

/// Parts of the names of tests: each is a kind of epoch or call, and takes little time.
const SHORT: [&str; 9] = [
    "fence",
    "pscw",
    "lock",
    "flush",
    "order",
    "concurrent",
    "requests",
    "fetch_and_op",
    "dynamic",
];

/// The number of combinations of contexts and threads that [`Script::plain`] uses.
pub(crate) const SHAPES: usize = 6;

/// A run and its settings.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) ranks: usize,
    pub(crate) threads: usize,
    pub(crate) contexts: usize,
    /// `LAB_*`, without the prefix.
    pub(crate) shape: Vec<(&'static str, String)>,
    /// Parameters of the transport.
    pub(crate) params: Vec<(&'static str, String)>,
    /// Whether operations may fail.
    pub(crate) fails: bool,
    /// The tests to run, by a part of their names; empty for all.
    pub(crate) only: &'static str,
}

/// Every supported combination of registration modes.
pub(crate) fn modes() -> Vec<String> {
    let sums = (0..1u32 << BITS.len()).map(|set| {
        let chosen = BITS.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0);
        chosen.map(|(_, bit)| *bit).collect::<Vec<_>>().join(",")
    });
    sums.chain(["BASIC", "SCALABLE"].map(String::from))
        .collect()
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())]
}

impl Script {
    /// One mode in its simplest shape, with contexts and threads by its number. The first modes run the whole check
    /// with each combination; the later modes run one kind of epoch, because `btl-ofi/core/tests/lab_modes.rs` tests
    /// all operations.
    pub(crate) fn plain(number: usize, mode: &str) -> Script {
        let contexts = [1, 2, 8][number % 3];
        Script {
            seed: number as u64 + 1,
            ranks: 2 + number % 2,
            threads: [1, 4][number / 3 % 2],
            contexts,
            shape: vec![
                ("MR_MODE", mode.to_owned()),
                ("TX_CTX", contexts.to_string()),
            ],
            params: Vec::new(),
            fails: false,
            only: match number {
                0..SHAPES => "",
                _ => SHORT[number % SHORT.len()],
            },
        }
    }

    /// Windows that take further memory, over a provider that registers at most `regions` regions
    /// at a time.
    pub(crate) fn with_regions(regions: usize) -> Script {
        Script {
            seed: 1,
            ranks: 2,
            threads: 1,
            contexts: 1,
            shape: vec![("REGIONS", regions.to_string())],
            params: Vec::new(),
            fails: true,
            only: "dynamic/several_regions",
        }
    }

    /// The script of a seed over a few tests only, so that many seeds can be run.
    pub(crate) fn short(seed: u64) -> Script {
        let mut random = Random::from_seed(seed);
        Script {
            only: pick(&mut random, &SHORT),
            ..Script::of(seed)
        }
    }

    /// The script of a seed. In every third script no operation fails: the whole check must then
    /// pass, whatever else the provider does.
    pub(crate) fn of(seed: u64) -> Script {
        let mut random = Random::from_seed(seed);
        let fails = !seed.is_multiple_of(3);
        let contexts = pick(&mut random, &[1, 1, 2, 8]);
        let mode = {
            let modes = modes();
            modes[random.below(modes.len())].clone()
        };
        let provider_keys = mode.contains("PROV_KEY") || mode == "BASIC";
        // Windows use few keys, but keys below two bytes might run out if they are never reused.
        let key_size = pick(&mut random, &["2", "3", "5", "7", "8"]);
        let keys = if provider_keys {
            pick(&mut random, &["low", "high", "random"])
        } else {
            "low"
        };
        let mut faults = vec![format!("seed={seed}")];
        let mut one_of = |name: &str, values: &[u64]| {
            let value = pick(&mut random, values);
            faults.push(format!("{name}={value}"));
        };
        one_of("again", &[0, 10, 200, 600]);
        one_of("burst", &[0, 3, 50]);
        one_of("delay", &[0, 3, 40]);
        one_of("reorder", &[0, 1]);
        one_of("stray", &[0, 0, 100]);
        if fails {
            // The errors are EIO, EINVAL, ENOMEM, EAGAIN, EKEYREJECTED, and errors that mean a lost
            // peer.
            one_of("errno", &[5, 22, 12, 11, 129, 113, 107]);
            one_of("error", &[0, 1, 5, 50]);
            one_of("nth", &[0, 1, 50, 500, 2000, 5000]);
            one_of("nameless", &[0, 0, 300, 1000]);
            one_of("againfrom", &[0, 0, 0, 0, 0, 700]);
            one_of("nomem", &[0, 0, 0, 20]);
            one_of("keyrejected", &[0, 0, 0, 20]);
            // Each of these faults costs the peer timeout.
            one_of("silent", &[0, 0, 0, 0, 0, 40, 1000]);
            one_of("back", &[0, 50, 20_000]);
            one_of("nullok", &[0, 0, 0, 0, 0, 1]);
        }
        let shape = vec![
            ("MR_MODE", mode),
            (
                "MODE",
                pick(&mut random, &["", "CONTEXT", "CONTEXT2"]).to_owned(),
            ),
            ("TX_CTX", contexts.to_string()),
            ("MR_KEY_SIZE", key_size.to_owned()),
            ("KEYS", keys.to_owned()),
            (
                "TX_SIZE",
                pick(&mut random, &["1", "3", "64", "256"]).to_owned(),
            ),
            (
                "MAX_MSG",
                pick(&mut random, &["16000", "20000", "65536", "1048576"]).to_owned(),
            ),
            ("INJECT", pick(&mut random, &["0", "13", "64"]).to_owned()),
            (
                "ATOMIC_BYTES",
                pick(&mut random, &["8", "100", "512"]).to_owned(),
            ),
            // The numbers are libfabric's; the atomics that windows need are not in the list.
            (
                "WITHOUT",
                pick(
                    &mut random,
                    &["", "*:8:*", "*:*:0,*:*:3", "0:1:*,1:9:*,2:5:*"],
                )
                .to_owned(),
            ),
            ("ORDER", pick(&mut random, &["0", "1"]).to_owned()),
            (
                "PROGRESS",
                pick(&mut random, &["manual", "auto"]).to_owned(),
            ),
            ("FAULTS", faults.join(",")),
        ];
        Script {
            seed,
            ranks: pick(&mut random, &[2, 2, 3]),
            threads: pick(&mut random, &[1, 1, 4]),
            contexts,
            shape,
            params: Vec::new(),
            fails,
            only: "",
        }
    }
}
