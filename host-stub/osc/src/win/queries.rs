//! Calls that query a window or change its hints: shared_query, set_info and get_info.

use super::agreement::Said;
use super::btl::passive;
use super::error::{WinError, WinResult};
use super::hints::InForce;
use super::info::Info;
use super::kind::WindowKind;
use super::parts::Memory;
use super::table::SharedPart;
use super::window::Window;

impl Window {
    /// Returns the address of a rank's memory in this process, for direct reads and writes under MPI's rules for
    /// the epoch. `None` asks for the first rank that has any memory (MPI_PROC_NULL). [`WinError::BadArgument`]:
    /// the memory is not mapped here.
    pub fn shared_query(&self, rank: Option<usize>) -> WinResult<SharedPart> {
        (self.table.shared_query)(self, rank)
    }

    /// Changes hints of the window. Collective; every rank gives the same hints. Completes this rank's
    /// operations first, so that only later ones are affected. Of the keys that [`Info`] describes,
    /// `no_locks`, `accumulate_ordering`, `accumulate_ops`, `same_size`, `same_disp_unit` and
    /// `mpi_accumulate_granularity` can change.
    ///
    /// [`WinError::BadArgument`], on every rank alike, and nothing changes: another key with a value that is not
    /// in force, ranks that gave different hints, sizes or units that differ, or `no_locks` while a lock is
    /// held.
    pub fn set_info(&self, info: &Info) -> WinResult<()> {
        let _entered = self.link.enter("set_info")?;
        (self.table.set_info)(self, info)
    }

    /// The hints in force for the window: every key that [`Info`] describes and that concerns this window.
    /// Local.
    pub fn get_info(&self) -> WinResult<Info> {
        (self.table.get_info)(self)
    }
}

pub(super) fn shared_query(window: &Window, rank: Option<usize>) -> WinResult<SharedPart> {
    let call = "shared_query";
    let first = || {
        let mut sizes = window.parts.peers.sizes();
        sizes.position(|(len, _)| len > 0).unwrap_or(0)
    };
    let peer = window.peer(call, rank.unwrap_or_else(first))?;
    match peer.mapped {
        Some(base) if window.kind != WindowKind::Dynamic => Ok(SharedPart {
            base: base as *mut u8,
            len: peer.limit as usize,
            unit: peer.unit,
        }),
        _ => Err(Box::new(WinError::BadArgument {
            call,
            reason: format!(
                "the memory of rank {} is not mapped here (a window of kind {:?}, table {})",
                peer.rank, window.kind, window.info.table
            ),
        })),
    }
}

pub(super) fn get_info(window: &Window) -> WinResult<Info> {
    let parts = &window.parts;
    let segment = match (&parts.shared, &parts.exposed.memory) {
        (Some(shared), _) => Some(&shared.segment),
        (None, Memory::Segment(segment)) => Some(segment),
        (None, _) => None,
    };
    let asked = &window.info;
    let mut info = Info::of(window.rules.now().hints())
        .with_table(asked.table)
        .with_device(parts.peers.device(window.link.rank).unwrap_or(asked.device));
    if let Some(segment) = segment {
        info.set("host_win_huge_pages", &segment.is_huge().to_string())?;
    }
    if window.kind == WindowKind::AllocateShared {
        info.set("alloc_shared_noncontig", &asked.noncontiguous.to_string())?;
    }
    Ok(match asked.ranks_per_node {
        Some(ranks) => info.with_ranks_per_node(ranks),
        None => info,
    })
}

pub(super) fn set_info(window: &Window, info: &Info) -> WinResult<()> {
    let call = "set_info";
    // This call does not go through the table, because layers see only the calls of the program. Windows
    // in one segment have no operation under way.
    let flushed = passive::flush_all(window, call);
    // A rank that failed here still takes part in the exchange, because the others wait for its entry.
    let mine = wanted(window, info).and_then(|wanted| match &flushed {
        Ok(()) => Ok(wanted),
        Err(error) => Err(error.to_string()),
    });
    let answers = window.told_by_all(call, &mine)?;
    flushed?;
    let refuse = |rank: usize, reason: &str| {
        Err(Box::new(WinError::BadArgument {
            call,
            reason: format!("rank {rank}: {reason}"),
        }))
    };
    let mut first = None;
    for (rank, answer) in answers.into_iter().enumerate() {
        let code = match answer {
            Ok(code) => code,
            Err(reason) => return refuse(rank, &reason),
        };
        if *first.get_or_insert(code) != code {
            return refuse(rank, "its hints differ from those of rank 0");
        }
    }
    let rules = InForce::of(first.unwrap_or_default());
    if let Some((rank, reason)) = rules.refusal(window.parts.peers.sizes()) {
        return refuse(rank, &reason);
    }
    window.rules.change(rules);
    Ok(())
}

/// The rules that a rank requests, or the reason why it cannot have them.
fn wanted(window: &Window, info: &Info) -> Said {
    let now = get_info(window).map_err(|error| error.to_string())?;
    for key in info.keys().filter(|key| !InForce::is_key(key)) {
        if now.get(key) != info.get(key) {
            let (is, wanted) = (now.get(key), info.get(key).unwrap_or_default());
            let is = is.as_deref().unwrap_or("not in force");
            return Err(format!(
                "key {key} is fixed when a window is made; it is {is}, asked for is {wanted}"
            ));
        }
    }
    let rules = info.rules_over(window.rules.now());
    if rules.no_locks && window.epochs.has_locks() {
        return Err("key no_locks: this rank holds a lock of the window".to_owned());
    }
    Ok(rules.code())
}
