//! The processes that this process is connected to, by their names.
//!
//! A rank that knows all others of a window gives no address when they meet. So this process says that it knows another one
//! only after the other one was connected to it, too. A connection of this process alone is not enough: threads make windows over
//! several communicators at the same time. One thread of the other process may have received the address and not yet connected,
//! while another thread needs this process for its own window.

use std::collections::HashMap;

/// A process.
struct Reached<E> {
    endpoint: E,
    /// Whether this process knows that the other one is connected to it.
    reaches_back: bool,
}

/// The connected processes, with an endpoint of each.
pub(crate) struct Directory<E>(HashMap<u64, Reached<E>>);

impl<E> Default for Directory<E> {
    fn default() -> Self {
        Directory(HashMap::new())
    }
}

impl<E: Copy> Directory<E> {
    /// The endpoint of a process, if this process is connected to it.
    pub(crate) fn endpoint(&self, process: u64) -> Option<E> {
        self.0.get(&process).map(|reached| reached.endpoint)
    }

    /// Adds a process to which this one is connected now.
    pub(crate) fn add(&mut self, process: u64, endpoint: E) {
        let reaches_back = false;
        let reached = Reached {
            endpoint,
            reaches_back,
        };
        self.0.insert(process, reached);
    }

    /// Notes that these processes are connected to this one.
    pub(crate) fn confirm(&mut self, processes: &[u64]) {
        for process in processes {
            if let Some(reached) = self.0.get_mut(process) {
                reached.reaches_back = true;
            }
        }
    }

    /// The endpoints of these processes, if all are connected to this one, and this one to all.
    pub(crate) fn known(&self, processes: &[u64]) -> Option<Box<[E]>> {
        let known = |process| {
            let reached: &Reached<E> = self.0.get(process)?;
            reached.reaches_back.then_some(reached.endpoint)
        };
        processes.iter().map(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_once_both_are_connected() {
        let mut directory = Directory::default();
        directory.add(5, 'e');
        directory.add(6, 'f');
        assert_eq!(directory.endpoint(5), Some('e'));
        assert_eq!(directory.known(&[5]), None, "5 has not answered yet");
        directory.confirm(&[5, 7]);
        assert_eq!(directory.known(&[5]), Some(Box::from(['e'])));
        assert_eq!(directory.known(&[5, 6]), None);
        assert_eq!(directory.endpoint(7), None);
        directory.confirm(&[5, 6]);
        assert_eq!(directory.known(&[6, 5]), Some(Box::from(['f', 'e'])));
    }
}
