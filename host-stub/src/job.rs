//! A process's part in a job: its rank, its transport, and its peers.

mod devices;
mod error;
mod options;
mod slots;
mod windows;

pub use devices::{device_support, devices};
pub use error::JobError;
pub use options::JobOptions;
pub(crate) use slots::{Kept, LeaveError};
pub use windows::{HUGE_PAGES, TABLE};

use std::path::Path;
use std::sync::Arc;

use mca_params::{Allowed, Declaration, Kind, Level as ParamLevel, Value};
use osc_engine::door::Context;
use osc_engine::transport::Failures;
use plugin_api::ThreadLevel;

use crate::base::params::Params;
use crate::bootstrap::Bootstrap;
use crate::crt::{self, Runtime, Waits, Watches};
use crate::device::{Devices, OfWindows, Support};
use crate::loader::{
    self, Component, EndpointRef, Failure, HostServices, Plugin, Published, Transport,
};
use slots::Slots;

/// The number of ranks that share a node; a test on one machine can thereby simulate several nodes.
pub static RANKS_PER_NODE: Declaration = Declaration::new(
    "host_ranks_per_node",
    Kind::Int,
    Value::Int(0),
)
.help(
    "Pretends that each node has this many ranks, in their order; 0 takes the nodes that there are",
)
.level(ParamLevel::DEV_ALL)
.allowed(Allowed::Range {
    min: 0,
    max: i32::MAX as i64,
});

/// The file to which the host writes its trace ([`trace`](crate::trace)).
pub static TRACE: Declaration = Declaration::new("host_trace", Kind::String, Value::str(""))
    .help(
        "File to which each rank writes a trace: calls, operations, completions, progress. The host, the process id and, if \
         needed, a number are appended to its name. Empty for none. host-stub trace reads the files",
    )
    .level(ParamLevel::USER_DETAIL);

/// This process as a rank of a job, connected to every rank. The job is shared as an `Arc`; any
/// thread may call, within the thread level of its [`JobOptions`].
pub struct Job {
    // The runtime is dropped first, because its thread uses the transport.
    runtime: Runtime,
    // `slots`, `windows` and `devices` are dropped before the transport, because layers may have
    // registered memory with the transport.
    slots: Slots,
    // The memory of windows that could not be freed.
    windows: Arc<Context>,
    // The transport is dropped before the bootstrap, because the drop may log with this rank's
    // number.
    transport: Transport,
    endpoints: Vec<EndpointRef>,
    // The devices hold registrations of the transport.
    devices: Arc<Devices>,
    failure: Arc<Failures>,
    params: Arc<Params>,
    /// The number of ranks of a simulated node; 0 if no nodes are simulated.
    ranks_per_node: u32,
    thread_level: ThreadLevel,
    bootstrap: Arc<dyn Bootstrap>,
}

impl Job {
    /// Joins a job by its bootstrap: plugin, modules, exchange of addresses, connections to all ranks, and a fence.
    pub(crate) fn with(
        options: JobOptions,
        params: Arc<Params>,
        bootstrap: Arc<dyn Bootstrap>,
    ) -> Result<Arc<Job>, JobError> {
        let ranks_per_node = params
            .declare(&RANKS_PER_NODE)?
            .as_int()
            .and_then(|ranks| u32::try_from(ranks).ok())
            .unwrap_or(0);
        let path = options.plugin.unwrap_or_else(loader::default_path);
        let published = Arc::<Published>::default();
        let services = HostServices {
            params: Arc::clone(&params),
            published: Arc::clone(&published),
        };
        // SAFETY: a caller that named the file in the options guarantees that the file is safe to load. Otherwise
        // the user's environment names the file, or the file is installed beside this program; both are trusted as
        // this program is.
        let plugin = unsafe { Plugin::open(&path, services) }?;
        let component = Component::open(plugin)?;
        let plan = crt::Plan::make(&params, options.level)?;
        let thread_level = plan.transport_level(options.level);
        // SAFETY: the level Multiple requires nothing of the caller. The caller of `assume_threads` promised a
        // weaker level, and the level here is at least that.
        let mut transports = unsafe { component.init(thread_level) }?;
        let mut transport = transports.swap_remove(best(&transports));
        let mut recorder = None;
        let trace = params.declare(&TRACE)?;
        if let Some(name) = trace.as_str().filter(|name| !name.is_empty()) {
            (transport, recorder) =
                loader::recorded(transport, Path::new(name), bootstrap.rank().into());
        }
        let failure = Failures::of(&transport)?;
        let known = Arc::clone(&failure);
        bootstrap.give_up_when(Box::new(move || known.lost().map(Failure::to_string)));

        // The addresses that `init` published.
        published.exchange(bootstrap.as_ref(), &mut || {
            transport.progress();
        })?;
        let endpoints = connect(&transport, bootstrap.size())?;
        // No rank sends before all ranks can receive.
        bootstrap.fence(&mut || {
            transport.progress();
        })?;
        let oversubscribed = is_oversubscribed(bootstrap.as_ref());
        let devices = devices(&transport, &params)?;
        let runtime = Runtime::start(plan, &transport, recorder, oversubscribed)?;
        let waiter = Box::new(Waits(Arc::clone(runtime.engine())));
        let mut windows = Context::new(
            transport.clone(),
            Arc::clone(&failure),
            thread_level,
            waiter,
        )
        .with_defaults(windows::defaults(&params)?)
        .with_devices(Box::new(OfWindows(Arc::clone(&devices))));
        if let Some(combine) = options.arithmetic {
            windows = windows.with_arithmetic(combine);
        }
        if let Some(checker) = runtime.checker() {
            windows = windows.watched(Box::new(Watches(Arc::clone(checker))));
        }
        Ok(Arc::new(Job {
            slots: Slots::default(),
            devices,
            windows: Arc::new(windows),
            runtime,
            transport,
            endpoints,
            failure,
            params,
            ranks_per_node,
            thread_level,
            bootstrap,
        }))
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.bootstrap.rank()
    }

    /// The number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.bootstrap.size()
    }

    /// The number of the node that a rank runs on. Ranks of the same node can share memory, unless
    /// a container separates them. The launcher reports the nodes; [`RANKS_PER_NODE`] replaces its
    /// report.
    pub fn node(&self, rank: u32) -> u32 {
        match self.ranks_per_node {
            0 => self.bootstrap.node(rank),
            ranks => rank / ranks,
        }
    }

    /// The thread level that was promised to the transport.
    pub fn thread_level(&self) -> ThreadLevel {
        self.thread_level
    }

    /// The object of type `T` that a layer keeps with the job; the first call makes the object.
    /// This call is too slow for hot paths.
    pub(crate) fn slot<T: Kept + Default>(&self) -> &T {
        self.slots.get()
    }

    /// The devices of this process.
    #[inline]
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// The level of device support of this job, and the reason why the level is not higher. The attribute for device
    /// support has the same value.
    pub fn device_support(&self) -> Support {
        device_support(&self.transport, &self.devices, &self.params)
    }

    /// The transport that windows use: the plugin's module with the highest exclusivity; among
    /// equals, the module with the lowest latency.
    #[inline]
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The endpoint of a rank, which may be this rank.
    #[inline]
    pub fn endpoint(&self, rank: u32) -> Result<EndpointRef, JobError> {
        self.endpoints
            .get(rank as usize)
            .copied()
            .ok_or(JobError::NoSuchRank {
                rank,
                size: self.size(),
            })
    }

    /// The runtime: the mode, the thread level provided, and the threads that make progress.
    #[inline]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The bootstrap, which reaches the other processes out of band.
    pub fn bootstrap(&self) -> &Arc<dyn Bootstrap> {
        &self.bootstrap
    }

    /// The parameters of this process.
    pub fn params(&self) -> &Arc<Params> {
        &self.params
    }

    /// Distributes the data of every rank to all ranks, in the order of the ranks; collective. The
    /// call progresses the transport while it waits.
    pub fn allgather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        Ok(self.bootstrap.allgather(data, &mut || {
            self.runtime.engine().visit();
        })?)
    }

    /// Waits until every rank has called `barrier`; collective. The call progresses the transport
    /// while it waits. A barrier completes no outstanding operations: flush first.
    pub fn barrier(&self) -> Result<(), JobError> {
        Ok(self.bootstrap.fence(&mut || {
            self.runtime.engine().visit();
        })?)
    }

    /// The first failure that the transport reported outside of a completion, such as the failure
    /// of a peer. The call is cheap enough for a waiting loop.
    #[inline]
    pub fn failed(&self) -> Option<&Failure> {
        self.failure.any()
    }

    /// The first failure that makes a rank unusable: the rank is dead, or the transport gave up its
    /// connection.
    #[inline]
    pub fn lost(&self) -> Option<&Failure> {
        self.failure.lost()
    }

    /// The first failure of the module, or of a rank of the job for which `concerns` returns true. Without a
    /// failure, the call is as cheap as [`failed`](Self::failed).
    #[inline]
    pub(crate) fn failed_among(&self, concerns: impl Fn(u64) -> bool) -> Option<Failure> {
        self.failure.any_among(concerns)
    }

    /// Ends the whole job with an exit code. A process that cannot go on calls this, then exits with the same code.
    pub fn abort(&self, code: u8, message: &str) {
        self.bootstrap.abort(code, message);
    }

    /// Ends the layers (the world is freed), completes the operations of the calling thread, waits for all ranks, and
    /// leaves the job; collective. Other threads flush before the call, and no thread sends afterwards. The drop of the
    /// last reference to the transport ends the transport.
    pub fn finalize(&self) -> Result<(), JobError> {
        let left = self.slots.leave();
        let flushed = self.transport.flush(None);
        // The barrier runs even after a failure here, so that the other ranks do not wait forever.
        self.barrier()?;
        self.slots.every_rank_left();
        self.bootstrap.finalize()?;
        flushed.ok().map(drop).map_err(|status| JobError::Flush {
            rank: self.rank(),
            status,
            failure: self.failed().cloned(),
        })?;
        left.map_err(JobError::Layer)
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Job(rank {} of {}, {:?})",
            self.rank(),
            self.size(),
            self.transport
        )
    }
}

/// The index of the transport that windows use: the highest exclusivity; among equals, the lowest latency; then the
/// first.
fn best(transports: &[Transport]) -> usize {
    transports
        .iter()
        .enumerate()
        .max_by_key(|(index, transport)| {
            let attributes = transport.attributes();
            let cost = std::cmp::Reverse((attributes.latency, *index));
            (attributes.exclusivity, cost)
        })
        .map_or(0, |(index, _)| index)
}

/// Whether the node of this rank has more ranks than processors.
fn is_oversubscribed(bootstrap: &dyn Bootstrap) -> bool {
    let here = bootstrap.node(bootstrap.rank());
    let ranks = (0..bootstrap.size())
        .filter(|rank| bootstrap.node(*rank) == here)
        .count();
    std::thread::available_parallelism().is_ok_and(|processors| ranks > processors.get())
}

/// Connects to every rank; on an error, disconnects all ranks again.
fn connect(transport: &Transport, size: u32) -> Result<Vec<EndpointRef>, JobError> {
    let procs: Vec<u64> = (0..u64::from(size)).collect();
    let found = transport.connect(&procs)?;
    if let Some(rank) = found.iter().position(Option::is_none) {
        let reached: Vec<EndpointRef> = found.into_iter().flatten().collect();
        // SAFETY: the endpoints were connected above, and no other code has used them.
        if let Err(error) = unsafe { transport.disconnect(&reached) } {
            tracing::warn!("{error}");
        }
        return Err(JobError::Unreachable {
            rank: rank as u32,
            transport: transport.clone(),
        });
    }
    Ok(found.into_iter().flatten().collect())
}
