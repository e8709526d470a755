//! Counts since opening.

use crate::engine::transport::Transport;
use plugin_api::Stats;
use plugin_api::counters::CARRIERS;
use std::sync::atomic::Ordering;

impl Transport {
    /// Counts since opening.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::new();
        for context in &self.contexts {
            let state = context.state.lock();
            let direct = context.direct.load(Ordering::Relaxed);
            stats.posted += state.counts.others;
            stats.completed += state.counts.completed + direct;
            stats.failed += state.counts.failed;
            stats.again += state.counts.again;
        }
        self.counters.add_to(&mut stats);
        stats.posted += stats.operations.iter().sum::<u64>();
        self.add_rails(&mut stats);
        let own = u64::from(self.node.word.is_some());
        stats.registrations = self.registrar.live() - own;
        stats.endpoints = self.lock_peers().known.len() as u64;
        stats
    }

    /// Adds the counts of the rails.
    fn add_rails(&self, stats: &mut Stats) {
        for rail in self.rails.iter() {
            let own = rail.stats();
            stats.posted += own.posted;
            stats.completed += own.completed;
            stats.failed += own.failed;
            stats.again += own.again;
            for i in 0..CARRIERS {
                stats.operations[i] += own.operations[i];
                stats.bytes[i] += own.bytes[i];
            }
            stats.messages += own.messages;
        }
    }
}
