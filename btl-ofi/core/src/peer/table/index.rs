//! The index of peers: from the host's process numbers to the places of endpoints.
//!
//! Hosts number their processes from 0 and connect them in this order, so numbers and places follow each other in long
//! *runs*, which take no memory for each peer. A number outside of all runs has a word in a hash table. A run may name
//! a place that another peer uses now, so the caller compares the number stored at the place.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// Maximum number of runs. Numbers in random order make many short runs.
const MOST_RUNS: usize = 1024;

/// Consecutive numbers with consecutive words.
struct Run {
    proc: u64,
    word: u32,
    length: u32,
}

impl Run {
    /// The word of a number in this run.
    fn word(&self, proc: u64) -> Option<u32> {
        let offset = u32::try_from(proc.checked_sub(self.proc)?).ok()?;
        (offset < self.length).then(|| self.word + offset)
    }

    /// Whether this number and this word continue the run.
    fn is_continued_by(&self, proc: u64, word: u32) -> bool {
        let next = self.proc.checked_add(u64::from(self.length));
        next == Some(proc) && self.word.checked_add(self.length) == Some(word)
    }
}

/// The index.
#[derive(Default)]
pub(super) struct Index {
    /// Runs in the order of their numbers. Runs do not overlap.
    runs: Vec<Run>,
    others: HashTable<u32>,
    hasher: RandomState,
    /// Number of entries in the index.
    length: usize,
}

impl Index {
    /// Number of entries in the index.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Number of runs that begin at this process number or before it.
    fn before(&self, proc: u64) -> usize {
        self.runs.partition_point(|run| run.proc <= proc)
    }

    /// The word that a run has for a process number.
    fn in_run(&self, proc: u64) -> Option<u32> {
        let before = self.before(proc);
        self.runs[..before].last()?.word(proc)
    }

    /// The word of a process number. `proc_of` returns the process number of the peer in a place;
    /// `None` for an empty place.
    pub(super) fn find(&self, proc: u64, proc_of: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        let is_its = |word: &u32| proc_of(*word) == Some(proc);
        self.in_run(proc).filter(is_its).or_else(|| {
            let hash = self.hasher.hash_one(proc);
            self.others.find(hash, is_its).copied()
        })
    }

    /// Reserves memory for one more entry; returns `false` if memory is exhausted.
    pub(super) fn reserve(&mut self, proc_of: impl Fn(u32) -> Option<u64>) -> bool {
        let Index {
            runs,
            others,
            hasher,
            ..
        } = self;
        let rehash = |word: &u32| hasher.hash_one(proc_of(*word).unwrap_or_default());
        runs.try_reserve(1).is_ok() && others.try_reserve(1, rehash).is_ok()
    }

    /// Adds a process number that is not in the index. The memory for the number is [reserved](Self::reserve), and the
    /// number's peer is already in its place.
    pub(super) fn insert(&mut self, proc: u64, word: u32, proc_of: impl Fn(u32) -> Option<u64>) {
        self.length += 1;
        let before = self.before(proc);
        let last = before.checked_sub(1).and_then(|at| self.runs.get_mut(at));
        let in_run = last.as_ref().and_then(|run| run.word(proc));
        if in_run == Some(word) {
            return;
        }
        if in_run.is_none() {
            if let Some(run) = last
                && run.is_continued_by(proc, word)
            {
                run.length += 1;
                return;
            }
            if self.runs.len() < MOST_RUNS {
                let run = Run {
                    proc,
                    word,
                    length: 1,
                };
                self.runs.insert(before, run);
                return;
            }
        }
        let hasher = &self.hasher;
        let rehash = |word: &u32| hasher.hash_one(proc_of(*word).unwrap_or_default());
        self.others
            .insert_unique(hasher.hash_one(proc), word, rehash);
    }

    /// Removes a process number and its word. The number's peer is still in its place.
    pub(super) fn remove(&mut self, proc: u64, word: u32) {
        self.length -= 1;
        let hash = self.hasher.hash_one(proc);
        if let Ok(entry) = self.others.find_entry(hash, |other| *other == word) {
            entry.remove();
        }
    }
}
