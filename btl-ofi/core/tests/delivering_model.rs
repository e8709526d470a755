//! The mark for running callbacks, under the model checker: every interleaving of two threads that run callbacks.

#[path = "../src/core/delivering.rs"]
mod delivering;

/// The module paths that the source file expects.
mod base {
    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    }
}

use delivering::Delivering;
use loom::sync::Arc;
use loom::thread;

/// A mark that stayed would prevent all later posts from polling.
#[test]
fn nothing_is_marked_when_no_callback_runs() {
    loom::model(|| {
        let delivering = Arc::new(Delivering::default());
        let threads = [(), ()].map(|()| {
            let delivering = Arc::clone(&delivering);
            // The thread posts once, because loom loses the order of a thread's stores when another thread reads them
            // after its own stores.
            thread::spawn(move || {
                let nested = delivering.begin();
                delivering.end(nested);
            })
        });
        for thread in threads {
            assert!(thread.join().is_ok());
        }
        assert!(!delivering.is_set());
    });
}
