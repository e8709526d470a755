//! A job as the set of ranks that windows are made over.

use std::borrow::Cow;
use std::sync::Arc;

use mca_params::{Allowed, Declaration, Kind, Level, Value};
use osc_engine::door::{Context, Defaults, Group, Grouped};
use osc_engine::win::{HookId, TableChoice, WindowHook};

use super::Job;
use crate::base::params::Params;
use crate::loader::EndpointRef;

/// The table of functions of new windows, unless their info overrides it.
pub static TABLE: Declaration = Declaration::new(
    "host_win_table",
    Kind::String,
    Value::str("auto"),
)
.help(
    "Which functions windows get: auto, shm (all ranks in one segment of memory), mixed (ranks \
         on this node by memory, others by the transport), btl (the transport alone). Info key \
         host_win_table",
)
.level(Level::TUNER_DETAIL)
.allowed(Allowed::OneOf(Cow::Borrowed(&WORDS)));

const WORDS: [Cow<'static, str>; TableChoice::ALL.len()] = [
    Cow::Borrowed(TableChoice::Auto.name()),
    Cow::Borrowed(TableChoice::Shm.name()),
    Cow::Borrowed(TableChoice::Mixed.name()),
    Cow::Borrowed(TableChoice::Btl.name()),
];

/// Whether segments of new windows use huge pages, unless their info overrides this.
pub static HUGE_PAGES: Declaration =
    Declaration::new("host_win_huge_pages", Kind::Bool, Value::Bool(false))
        .help(
            "Makes the shared segments of windows of huge pages, where the system has any to give. \
             Info key host_win_huge_pages",
        )
        .level(Level::TUNER_DETAIL);

/// The settings of new windows, from the parameters.
pub(super) fn defaults(params: &Params) -> Result<Defaults, mca_params::Error> {
    let table = params.declare(&TABLE)?;
    let huge_pages = params.declare(&HUGE_PAGES)?;
    Ok(Defaults {
        table: table
            .as_str()
            .and_then(TableChoice::parse)
            .unwrap_or_default(),
        huge_pages: huge_pages.as_bool().unwrap_or(false),
    })
}

impl Job {
    /// The data that the windows of the job share.
    pub(crate) fn windows(&self) -> &Arc<Context> {
        &self.windows
    }

    /// Registers a hook for the windows that are made later. Every rank registers the same hooks in
    /// the same order, while no window is being made.
    pub fn add_window_hook<P: Send + Sync + 'static>(
        &self,
        hook: WindowHook<P>,
        parameter: P,
    ) -> HookId {
        self.windows.hooks().add(hook, parameter)
    }

    /// Removes a hook. Existing windows keep the data that the hook attached, and notify the hook
    /// when they end. A second removal does nothing.
    pub fn remove_window_hook(&self, id: HookId) {
        self.windows.hooks().remove(id);
    }

    /// Sets the number of inner hooks that a hook calls; the default is 1. A window is not made if
    /// the number differs among ranks. A hook with the number 0 may not be called.
    pub fn weigh_window_hook(&self, id: HookId, stands_for: usize) {
        self.windows.hooks().weigh(id, stands_for);
    }
}

/// All ranks of a job.
struct World(Arc<Job>);

impl Grouped for Job {
    fn group(this: &Arc<Job>) -> Arc<dyn Group> {
        Arc::new(World(Arc::clone(this)))
    }
}

impl Group for World {
    fn context(&self) -> &Arc<Context> {
        &self.0.windows
    }

    fn rank(&self) -> usize {
        self.0.rank() as usize
    }

    fn size(&self) -> usize {
        self.0.size() as usize
    }

    fn process(&self, rank: usize) -> u64 {
        rank as u64
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        let endpoint = self.0.endpoint(rank as u32);
        endpoint.map_err(|error| error.to_string())
    }

    fn is_beside(&self, rank: usize) -> bool {
        let bootstrap = self.0.bootstrap();
        bootstrap.node(rank as u32) == bootstrap.node(self.0.rank())
    }

    fn may_share(&self, rank: usize) -> bool {
        self.0.node(rank as u32) == self.0.node(self.0.rank())
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let all = self.0.allgather(mine);
        all.map_err(|error| error.to_string())
    }
}
