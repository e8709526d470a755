//! Failures that no completion callback reports.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use plugin_api::{Endpoint, ErrorFlags, Module, Status};

use super::{Subject, Transport, TransportError, text};

/// A peer, an operation without callback, or the whole module failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The process concerned; `None` for the whole module.
    pub proc: Option<u64>,
    /// Whether the module can no longer be used.
    pub fatal: bool,
    /// The status of the failure.
    pub status: Status,
    /// The transport's own words; may be empty.
    pub info: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.proc {
            Some(proc) => write!(f, "process {proc}: {}", self.status)?,
            None => write!(f, "transport: {}", self.status)?,
        }
        if !self.info.is_empty() {
            write!(f, ": {}", self.info)?;
        }
        Ok(())
    }
}

/// The reported failures. The check for any failure costs one load, so waiting loops may make it.
#[derive(Default)]
pub struct Failures {
    /// The first.
    any: OnceLock<Failure>,
    /// The first failure after which some rank will never answer.
    lost: OnceLock<Failure>,
    /// The first failure of the module and of each process, and the first failure of each that is a
    /// loss.
    each: Mutex<Vec<Failure>>,
}

/// Whether some rank will never answer after this failure.
fn is_loss(failure: &Failure) -> bool {
    failure.fatal || failure.status == Status::UNREACH
}

impl Failures {
    /// Records the failures that a transport reports from now on.
    pub fn of(transport: &Transport) -> Result<Arc<Failures>, TransportError> {
        let failures = Arc::new(Failures::default());
        let recorded = Arc::clone(&failures);
        let listening = transport.on_error(move |failure| {
            tracing::error!("{failure}");
            recorded.record(failure);
        });
        listening.ok().map_err(|status| TransportError {
            operation: "register_error",
            subject: Subject::Module,
            status,
        })?;
        Ok(failures)
    }

    /// Records a failure.
    #[cold]
    pub fn record(&self, failure: Failure) {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = |failure: &Failure| (failure.proc, is_loss(failure));
        if !each.iter().any(|known| kind(known) == kind(&failure)) {
            each.push(failure.clone());
        }
        drop(each);
        // The flag is set after the list, so that a thread that sees one of these failures finds it
        // in the list.
        if is_loss(&failure) {
            let _ = self.lost.set(failure.clone());
        }
        let _ = self.any.set(failure);
    }

    /// The first failure, among those for which `counts` is true, of the module or of a process for which
    /// `concerns` is true.
    #[cold]
    fn among(
        &self,
        concerns: impl Fn(u64) -> bool,
        counts: impl Fn(&Failure) -> bool,
    ) -> Option<Failure> {
        let each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        each.iter()
            .filter(|failure| counts(failure))
            .find(|failure| failure.proc.is_none_or(&concerns))
            .cloned()
    }

    /// The first failure that was reported.
    #[inline]
    pub fn any(&self) -> Option<&Failure> {
        self.any.get()
    }

    /// The first failure after which a process will never answer again: the process is gone, or was
    /// given up.
    #[inline]
    pub fn lost(&self) -> Option<&Failure> {
        self.lost.get()
    }

    /// The first failure of the module, or of a process for which `concerns` is true. As cheap as
    /// [`any`](Self::any) while there is none.
    #[inline]
    pub fn any_among(&self, concerns: impl Fn(u64) -> bool) -> Option<Failure> {
        self.any()?;
        self.among(concerns, |_| true)
    }

    /// As [`any_among`](Self::any_among), for losses as in [`lost`](Self::lost).
    #[inline]
    pub fn lost_among(&self, concerns: impl Fn(u64) -> bool) -> Option<Failure> {
        self.lost()?;
        self.among(concerns, is_loss)
    }

    /// Records that a message which another process waits for was lost. Calls that wait fail from now on, since no
    /// other call gets the failure. A message to a process that is gone is not recorded here, because the
    /// transport reports its loss.
    #[cold]
    pub fn strand(&self, status: Status) {
        self.record(Failure {
            proc: None,
            fatal: true,
            status,
            info: "a notification to another rank was lost, which would wait for ever".to_owned(),
        });
    }
}

/// The target of the context pointer of `register_error`.
pub(super) struct Listener(pub(super) Box<dyn Fn(Failure) + Send + Sync>);

/// The function handed to `register_error`.
pub(super) unsafe extern "C" fn report(
    _module: *mut Module,
    flags: u32,
    endpoint: *mut Endpoint,
    proc: u64,
    status: i32,
    info: *const c_char,
    context: *mut c_void,
) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the context is the Listener given to register_error; the transport keeps it
        // until the module is finalised.
        let listener = unsafe { &*context.cast::<Listener>() };
        let failure = Failure {
            proc: (!endpoint.is_null()).then_some(proc),
            fatal: ErrorFlags::from_bits_truncate(flags).contains(ErrorFlags::FATAL),
            status: Status(status),
            // SAFETY: the contract makes `info` NULL or NUL-terminated and borrowed for this call.
            info: unsafe { text(info) },
        };
        (listener.0)(failure);
    }));
    if outcome.is_err() {
        tracing::error!("the host's error callback panicked");
    }
}
