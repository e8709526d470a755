//! The destinations of the results of outstanding operations in this process; if several operations share a
//! destination, their user does not read it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Users {
    now: usize,
    /// Whether several operations used the destination at the same time.
    shared: bool,
}

static LIST: Mutex<Option<HashMap<u64, Users>>> = Mutex::new(None);

fn list() -> MutexGuard<'static, Option<HashMap<u64, Users>>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The destination of one outstanding operation. The destination is listed until it is dropped.
pub(crate) struct Destination(u64);

impl Destination {
    pub(crate) fn list(address: u64) -> Destination {
        let mut list = list();
        let users = list.get_or_insert_default().entry(address).or_default();
        users.now += 1;
        users.shared |= users.now > 1;
        Destination(address)
    }

    pub(crate) fn is_shared(&self) -> bool {
        let list = list();
        let users = list.as_ref().and_then(|l| l.get(&self.0));
        users.is_some_and(|users| users.shared)
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        let mut list = list();
        let Some(users) = list.as_mut().and_then(|l| l.get_mut(&self.0)) else {
            return;
        };
        users.now -= 1;
        if users.now == 0
            && let Some(list) = list.as_mut()
        {
            list.remove(&self.0);
        }
    }
}
