//! Registration keys that this transport assigns if the provider does not (no `FI_MR_PROV_KEY`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use crate::base::error::{Doing, Error};
use crate::base::sys;
use crate::mem::handle::NO_KEY;

/// Bytes of a random key.
const LONG: usize = size_of::<u64>();

/// Random keys that are made together.
const AT_ONCE: usize = 32;

/// The keys of one provider.
pub(super) enum Keys {
    /// Random numbers of 64 bits, because a provider over TCP lets any process that guesses a key use it. The next ones are
    /// here: the kernel gives many in the time of one.
    Random(Mutex<Vec<u64>>),
    /// Small and dense numbers. Shorter keys can be guessed anyway, and some providers handle small keys better (cxi,
    /// fi_cxi(7)).
    Dense(Dense),
}

/// Keys from 0 to `last`. A key is reused only after its region is closed.
pub(super) struct Dense {
    last: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    returned: BinaryHeap<Reverse<u64>>,
    next: u64,
}

impl Keys {
    /// The kind of keys for a provider with keys of `bytes` bytes; 0 if the provider does not
    /// report the size.
    pub(super) fn of(bytes: usize) -> Keys {
        if bytes >= LONG {
            return Keys::Random(Mutex::default());
        }
        let last = match bytes {
            0 => NO_KEY - 1,
            bytes => (1 << (bytes * 8)) - 1,
        };
        Keys::Dense(Dense {
            last,
            state: Mutex::default(),
        })
    }

    pub(super) fn take(&self) -> Result<u64, Error> {
        let keys = match self {
            Keys::Random(next) => {
                return random(&mut next.lock().unwrap_or_else(PoisonError::into_inner));
            }
            Keys::Dense(keys) => keys,
        };
        let mut state = keys.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Reverse(key)) = state.returned.pop() {
            return Ok(key);
        }
        if state.next > keys.last {
            return Err(Error::OutOfMemory(
                "another registration key of the provider's size",
            ));
        }
        state.next += 1;
        Ok(state.next - 1)
    }

    pub(super) fn give_back(&self, key: Option<u64>) {
        if let (Some(key), Keys::Dense(keys)) = (key, self) {
            let mut state = keys.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.returned.push(Reverse(key));
        }
    }
}

fn random(next: &mut Vec<u64>) -> Result<u64, Error> {
    loop {
        match next.pop() {
            Some(NO_KEY) => {}
            Some(key) => return Ok(key),
            None => {
                let more = sys::random::<AT_ONCE>();
                next.extend(more.doing(|| String::from("making registration keys"))?);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_random_and_others_dense() {
        let take = |keys: &Keys| keys.take().unwrap();
        let random = Keys::of(8);
        let mut taken: Vec<u64> = (0..1000).map(|_| take(&random)).collect();
        random.give_back(Some(taken[0]));
        assert!(taken.iter().any(|key| *key > 1 << 60));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 1000);
        for keys in [Keys::of(4), Keys::of(0)] {
            assert_eq!([(); 3].map(|()| take(&keys)), [0, 1, 2]);
            keys.give_back(Some(1));
            assert_eq!([(); 2].map(|()| take(&keys)), [1, 3]);
        }
    }

    #[test]
    fn short_keys_run_out() {
        let keys = Keys::of(1);
        for key in 0..256 {
            assert_eq!(keys.take().unwrap(), key);
        }
        assert!(keys.take().is_err());
        keys.give_back(Some(7));
        assert_eq!(keys.take().unwrap(), 7);
    }
}
