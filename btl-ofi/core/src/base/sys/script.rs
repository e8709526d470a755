//! The scripted fake of the gate: a test determines the results of the next system calls of its thread.
//!
//! ```text
//! let script = Script::new().fails("kill", libc::EPERM).passes("fallocate").fails("fallocate", libc::ENOSPC);
//! ```
//!
//! Answers of one call are given in order. Calls that the script does not name, and calls of other threads, reach the
//! kernel. The end of the script fails the test if an answer is left: the code did not make that call.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

use crate::base::error::CallError;

enum Step {
    /// The kernel answers the call.
    Passes,
    Answers(Box<dyn Any>),
    Fails(i32),
}

thread_local! {
    static STEPS: RefCell<Vec<(String, Step)>> = const { RefCell::new(Vec::new()) };
}

/// Answers to the system calls of this thread, until this value is dropped.
#[must_use = "a script ends when it is dropped"]
pub(crate) struct Script(PhantomData<*mut ()>);

impl Script {
    pub(crate) fn new() -> Script {
        let empty = STEPS.with_borrow(Vec::is_empty);
        assert!(empty, "this thread has a script already");
        Script(PhantomData)
    }

    /// Lets the next call `call` without an answer fail with `errno`. Calls have their names in C; files of `/proc`
    /// have their paths.
    pub(crate) fn fails(self, call: &str, errno: i32) -> Script {
        self.and(call, Step::Fails(errno))
    }

    /// Lets the next call `call` without an answer return `value`. `value` has the return type of the gate's
    /// function.
    pub(crate) fn answers<T: 'static>(self, call: &str, value: T) -> Script {
        self.and(call, Step::Answers(Box::new(value)))
    }

    /// Lets the kernel answer the next call `call` without an answer.
    pub(crate) fn passes(self, call: &str) -> Script {
        self.and(call, Step::Passes)
    }

    fn and(self, call: &str, step: Step) -> Script {
        STEPS.with_borrow_mut(|steps| steps.push((call.to_owned(), step)));
        self
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let left = STEPS.take();
        if !std::thread::panicking() {
            let left: Vec<_> = left.into_iter().map(|(call, _)| call).collect();
            assert!(left.is_empty(), "calls that were not made: {left:?}");
        }
    }
}

/// The answer to a call that is being made; `None` if the kernel must answer.
pub(super) fn answer<T: 'static>(call: &'static str, key: &str) -> Option<Result<T, CallError>> {
    // A thread that is ending no longer has a script.
    let take = |steps: &RefCell<Vec<(String, Step)>>| {
        let mut steps = steps.borrow_mut();
        let next = steps.iter().position(|(name, _)| name == key)?;
        Some(steps.remove(next).1)
    };
    match STEPS.try_with(take).ok()?? {
        Step::Passes => None,
        Step::Fails(code) => Some(Err(CallError { call, code })),
        Step::Answers(value) => match value.downcast() {
            Ok(value) => Some(Ok(*value)),
            Err(_) => panic!("the script answers {key} with another type than the gate's function"),
        },
    }
}
