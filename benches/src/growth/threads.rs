//! Threads that put at the same time, on one context or on one each.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use benches::statistics::{Figure, median};
use benches::target::Bound;
use plugin_api::ThreadLevel;

use crate::report::Report;
use crate::setup::{Local, open};

const COUNTS: [usize; 4] = [1, 2, 4, 8];
/// Puts between two flushes.
const BURST: usize = 32;

/// A way in which threads put.
struct Way {
    name: &'static str,
    provider: &'static str,
    /// Whether the lab provider only copies. With its checks, the provider takes most of the time, and threads contend in
    /// the kernel.
    bare: bool,
    /// Whether each thread has its own peer; otherwise all threads put to one peer.
    own_peers: bool,
}

const WAYS: [Way; 4] = [
    Way {
        name: "lab",
        provider: "lab",
        bare: false,
        own_peers: false,
    },
    Way {
        name: "bare lab, a peer for each thread",
        provider: "lab",
        bare: true,
        own_peers: true,
    },
    Way {
        name: "bare lab, one peer",
        provider: "lab",
        bare: true,
        own_peers: false,
    },
    Way {
        name: "sockets",
        provider: "sockets",
        bare: false,
        own_peers: false,
    },
];

impl Way {
    /// The ratio that more threads than cores must reach, compared with one thread per core. Over the lab provider, which
    /// has no thread of its own, one context for each thread costs nothing.
    fn least(&self, contexts: usize, threads: usize) -> f64 {
        match self.provider {
            "lab" if contexts == threads => PERFECT,
            _ => 0.95,
        }
    }
}

/// The part of the rate of one thread per core that more threads with a context each must reach.
const PERFECT: f64 = 0.99;
/// The part of N times one thread's rate that N threads with a context and a core each must reach: 1.9 of one for two.
const SCALED: f64 = 0.95;

/// Operations per second of `count` threads together.
fn rate(local: &Local, own_peers: bool, count: usize, time: Duration) -> Result<f64, String> {
    let address = local.transport.address();
    let peers = (0..count as u64).map(|thread| {
        // The peer with any number is this process.
        let number = if own_peers { thread } else { 0 };
        let peer = local.transport.connect(address, number);
        peer.map(|peer| peer.as_ptr().expose_provenance())
    });
    let peers = peers.collect::<Result<Vec<_>, _>>();
    let peers = peers.map_err(|e| e.to_string())?;
    let together = Barrier::new(count);
    let run = |thread: usize| -> Result<f64, String> {
        let peer = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(peers[thread]))
            .ok_or("no endpoint")?;
        together.wait();
        let (start, mut done) = (Instant::now(), 0);
        while start.elapsed() < time {
            for _ in 0..BURST {
                local.put(peer, thread * 8, false)?;
            }
            local.flush(Some(peer))?;
            done += BURST;
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    };
    let rates: Vec<_> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..count).map(|t| scope.spawn(move || run(t))).collect();
        threads.into_iter().map(|t| t.join()).collect()
    });
    let mut total = 0.0;
    for one in rates {
        total += one.map_err(|_| String::from("a thread ended by a panic"))??;
    }
    Ok(total)
}

/// Measures every number of threads on every number of contexts, in turn.
pub(crate) fn measure(report: &mut Report, short: bool) -> Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (rounds, time) = match short {
        true => (5, Duration::from_millis(60)),
        false => (15, Duration::from_millis(100)),
    };
    for way in &WAYS {
        let name = way.name;
        // SAFETY: no transport is open, and this program has no other thread.
        unsafe { std::env::set_var("LAB_BARE", u8::from(way.bare).to_string()) };
        let mut locals = Vec::new();
        for contexts in COUNTS {
            let settings = [("btl_ofi_num_contexts_per_module", contexts as i32)];
            locals.push(open(way.provider, ThreadLevel::Multiple, &settings)?);
        }
        let mut rates = [const { [const { Vec::<f64>::new() }; COUNTS.len()] }; COUNTS.len()];
        for round in 0..=rounds {
            for (local, of_contexts) in locals.iter().zip(&mut rates) {
                for (count, of_threads) in COUNTS.into_iter().zip(of_contexts) {
                    let rate = rate(local, way.own_peers, count, time)?;
                    if round > 0 {
                        of_threads.push(rate);
                    }
                }
            }
        }
        for (contexts, of_contexts) in COUNTS.into_iter().zip(&rates) {
            let of = |at: usize| median(of_contexts[at].clone()) / 1e6;
            report.row(format!(
                "{name}: {contexts} contexts: {:.3}, {:.3}, {:.3}, {:.3} million puts a second of \
                 1, 2, 4, 8 threads",
                of(0),
                of(1),
                of(2),
                of(3)
            ));
        }
        // Compares one context per thread with one thread and context per core; and more threads on some contexts
        // with one thread per core on the same contexts.
        let fit = COUNTS.iter().rposition(|&n| n <= cores).unwrap_or(0);
        for threads in fit + 1..COUNTS.len() {
            for contexts in 0..=threads {
                let (of_contexts, of_threads) = match contexts == threads {
                    true => (fit, fit),
                    false => (contexts, fit),
                };
                let ratios = rates[contexts][threads].iter();
                let ratios = ratios.zip(&rates[of_contexts][of_threads]);
                let ratio = Figure::of(ratios.map(|(more, fit)| more / fit).collect());
                report.target(
                    format!(
                        "{name}: rate of {} threads on {} contexts over that of {} on {}, {cores} cores",
                        COUNTS[threads], COUNTS[contexts], COUNTS[of_threads], COUNTS[of_contexts]
                    ),
                    ratio.median,
                    Bound::Least,
                    way.least(COUNTS[contexts], COUNTS[threads]),
                    "times",
                    Some(ratio.spread()),
                );
            }
        }
        if way.bare {
            perfection(report, name, &rates, cores);
        }
        for local in locals {
            local.close()?;
        }
    }
    Ok(())
}

/// Compares threads with a context and a core each with the rate of one thread.
fn perfection(
    report: &mut Report,
    name: &str,
    rates: &[[Vec<f64>; COUNTS.len()]; COUNTS.len()],
    cores: usize,
) {
    for (at, &threads) in COUNTS.iter().enumerate().skip(1) {
        if threads > cores {
            break;
        }
        let ratios = rates[at][at].iter().zip(&rates[0][0]);
        let ratio = Figure::of(
            ratios
                .map(|(all, one)| all / (threads as f64 * one))
                .collect(),
        );
        report.target(
            format!("{name}: rate of {threads} threads on {threads} contexts over {threads} times that of one"),
            ratio.median,
            Bound::Least,
            SCALED,
            "times",
            Some(ratio.spread()),
        );
    }
}
