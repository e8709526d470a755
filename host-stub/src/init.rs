//! Starts a job.

use std::sync::Arc;

use crate::base::log;
use crate::base::params::Params;
use crate::bootstrap;
use crate::declarations::{DECLARATIONS, PREFIX, REMOVED};
use crate::job::{Job, JobError, JobOptions};

impl Job {
    /// Joins the job that this process was started in, or makes a job of one process: bootstrap,
    /// plugin, modules, exchange of addresses, connections to all ranks, and a fence.
    pub fn init(options: JobOptions) -> Result<Arc<Job>, JobError> {
        let params = Arc::new(Params::from_system(&options.settings)?);
        params.read(|registry| registry.refuse(&REMOVED))?;
        let bootstrap = bootstrap::from_environment()?;
        let named = (bootstrap.size() > 1).then(|| bootstrap.rank());
        log::init(&params, named)?;
        let job = Job::with(options, Arc::clone(&params), bootstrap)?;
        // Every rank has the same settings, so only rank 0 warns.
        if job.rank() == 0 {
            warn_of_settings(&params);
        }
        Ok(job)
    }
}

/// Warns of settings that have no meaning.
fn warn_of_settings(params: &Params) {
    // An invalid value is an error of the call that uses the parameter.
    let misfits: Vec<_> = DECLARATIONS
        .into_iter()
        .filter(|declaration| params.declare(declaration).is_err())
        .collect();
    params.read(|registry| {
        for warning in registry.warnings() {
            tracing::warn!("{warning}");
        }
        let unknown = registry.unknown(PREFIX);
        let unknown = unknown
            .into_iter()
            .filter(|unknown| misfits.iter().all(|known| known.name != unknown.name));
        for unknown in registry.unknown("btl_ofi_").into_iter().chain(unknown) {
            tracing::warn!("{unknown}");
        }
    });
}
