//! How often the ranks of a window exchange something out of band to make it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use osc_engine::door::Context as Door;
use osc_engine::transport::EndpointRef;

use super::super::case::{Case, Context, Outcome, ensure};
use host_stub::win::{Group, Info, Members, TableChoice, WinResult, Window};

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new("creation/rounds", rounds)]
}

/// A group that counts its exchanges.
struct Counted {
    members: Members,
    rounds: AtomicUsize,
}

impl Group for Counted {
    fn context(&self) -> &Arc<Door> {
        self.members.context()
    }

    fn rank(&self) -> usize {
        self.members.rank()
    }

    fn size(&self) -> usize {
        self.members.size()
    }

    fn process(&self, rank: usize) -> u64 {
        self.members.process(rank)
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        self.members.endpoint(rank)
    }

    fn node(&self, rank: usize) -> u32 {
        self.members.node(rank)
    }

    fn memory_node(&self, rank: usize) -> u32 {
        self.members.memory_node(rank)
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.members.allgather(mine)
    }
}

/// One where ranks share no memory in the window, three with segments, and none once it is made.
fn rounds(context: &Context<'_>) -> Outcome {
    let mut memory = [0u64; 8];
    let base = memory.as_mut_ptr().cast::<u8>();
    let by_transport = Info::new().with_table(TableChoice::Btl);
    let apart = Info::new()
        .with_table(TableChoice::Auto)
        .with_ranks_per_node(1);
    let node = context.size as u32;
    let segment = Info::new()
        .with_table(TableChoice::Auto)
        .with_ranks_per_node(node);
    let mixed = Info::new()
        .with_table(TableChoice::Mixed)
        .with_ranks_per_node(node);
    let none = Info::new();
    // A rank alone in its window has a segment.
    let apart_rounds = if context.size == 1 { 3 } else { 1 };
    type Make<'a> = &'a dyn Fn(Members) -> WinResult<Window>;
    let makes: [(&str, Make<'_>, usize); 6] = [
        (
            "create",
            &|m| {
                // SAFETY: the memory lives until the window was freed, and only the window uses it meanwhile.
                unsafe { Window::create_with(m, base, 64, 8, &none) }
            },
            1,
        ),
        ("dynamic", &|m| Window::dynamic_with(m, &none), 1),
        (
            "allocate by the transport",
            &|m| Window::allocate_with(m, 64, 8, &by_transport),
            1,
        ),
        (
            "allocate, one rank a node",
            &|m| Window::allocate_with(m, 64, 8, &apart),
            apart_rounds,
        ),
        (
            "allocate in a segment",
            &|m| Window::allocate_with(m, 64, 8, &segment),
            3,
        ),
        (
            "allocate a segment and register it",
            &|m| Window::allocate_with(m, 64, 8, &mixed),
            3,
        ),
    ];
    for (name, make, expected) in makes {
        let group = Arc::new(Counted {
            members: context.job.into(),
            rounds: AtomicUsize::new(0),
        });
        let window = make(Members::new(Arc::clone(&group) as Arc<dyn Group>))?;
        let made = group.rounds.load(Ordering::Relaxed);
        window.free()?;
        let all = group.rounds.load(Ordering::Relaxed);
        ensure((made, all) == (expected, expected), || {
            format!("{name}: {made} exchanges until it was made, {all} in all")
        })?;
    }
    Ok(())
}
