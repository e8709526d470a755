//! Registration keys that this transport assigns, where the provider does not (no `FI_MR_PROV_KEY`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use crate::base::error::Error;

/// Keys: small and dense. A key is reused only after its region is closed.
pub(super) struct Keys {
    last: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    returned: BinaryHeap<Reverse<u64>>,
    next: u64,
}

impl Keys {
    /// Keys from 0 to `last`.
    pub(super) fn up_to(last: u64) -> Keys {
        Keys {
            last,
            state: Mutex::default(),
        }
    }

    pub(super) fn take(&self) -> Result<u64, Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Reverse(key)) = state.returned.pop() {
            return Ok(key);
        }
        if state.next > self.last {
            return Err(Error::OutOfMemory(
                "another registration key of the provider's size",
            ));
        }
        state.next += 1;
        Ok(state.next - 1)
    }

    pub(super) fn give_back(&self, key: Option<u64>) {
        if let Some(key) = key {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.returned.push(Reverse(key));
        }
    }
}
