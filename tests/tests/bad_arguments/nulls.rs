//! Calling a function with each of its pointers NULL in turn.

use std::ptr::null_mut;

use integration_tests::session::{Session, count_calls};
use plugin_api::{CompletionFn, Status};

/// Whether a function accepts NULL in some place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Null {
    /// The function must refuse NULL.
    Refused,
    /// NULL is permitted, or does no harm.
    Allowed,
}

/// A pointer argument that is NULL in one of the calls.
pub(crate) struct Place(Option<usize>);

impl Place {
    pub(crate) fn of<T>(&self, place: usize, pointer: *mut T) -> *mut T {
        if self.0 == Some(place) {
            null_mut()
        } else {
            pointer
        }
    }

    pub(crate) fn constant<T>(&self, place: usize, pointer: *const T) -> *const T {
        self.of(place, pointer.cast_mut())
    }

    pub(crate) fn callback(&self, place: usize) -> Option<CompletionFn> {
        (self.0 != Some(place)).then_some(count_calls)
    }
}

/// Calls a function once with valid arguments, which must succeed, and once with each pointer NULL.
pub(crate) fn nulls(
    session: &Session,
    name: &str,
    places: &[Null],
    call: impl Fn(Place) -> Status,
) {
    let status = retried(session, || call(Place(None)));
    assert!(status.is_ok(), "{name} as it should be: {status}");
    for (place, null) in places.iter().enumerate() {
        let status = retried(session, || call(Place(Some(place))));
        if *null == Null::Refused {
            assert!(
                !status.is_ok(),
                "{name} with argument {place} NULL: {status}"
            );
        }
        assert!(session.flush().is_ok(), "flush after {name}, {place} NULL");
    }
}

/// Repeats a call while the plugin asks for progress first.
pub(crate) fn retried(session: &Session, call: impl Fn() -> Status) -> Status {
    loop {
        let status = call();
        if status != Status::TEMP_OUT_OF_RESOURCE {
            return status;
        }
        session.progress();
    }
}
