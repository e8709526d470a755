//! How the ranks of a window create it together, or leave it together to another component.
//!
//! Open MPI has no second choice if a component's `select` fails. So the ranks first agree on what every rank can do: in one
//! exchange among processes that know each other, in three exchanges if some meet for the first time (the cards; addresses;
//! whether all were reached).
//!
//! Ranks of one node meet by the transport without a provider ([`Scope::Node`]). A rank proposes this if Open MPI places all
//! ranks on its node. If proposals differ, or memory does not reach a rank, all ranks see this in the exchanges, and meet again
//! by the transport that reaches all.
//!
//! Then the engine creates the window, with exchanges of its own, and fails on all ranks alike. If some rank cannot create the
//! window, all ranks delegate to the component of the next lower priority. If all ranks report in the first exchange that
//! osc/ucx serves the window better ([`ucx`]), all delegate to osc/ucx.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use osc_engine::door::{HOST, Members};
use osc_engine::win::{Info, WinError, Window};

use crate::bindings as ffi;
use crate::osc::card::{Card, State};
use crate::osc::devices::Known;
use crate::osc::error;
use crate::osc::group::{Member, Ranks, exchange};
use crate::osc::info::Hints;
use crate::osc::transport::{self, Opened, Scope};
use crate::osc::{component, info, log, module, progress, progress_thread, ucx};

/// What Open MPI passes to `select`.
pub(crate) struct Asked {
    pub(crate) win: *mut ffi::ompi_win_t,
    pub(crate) base: *mut *mut c_void,
    pub(crate) size: usize,
    pub(crate) unit: isize,
    pub(crate) comm: *mut ffi::ompi_communicator_t,
    pub(crate) info: *mut ffi::opal_info_t,
    pub(crate) flavor: c_int,
    pub(crate) model: *mut c_int,
}

/// Makes the window, or delegates. Returns Open MPI's code.
///
/// # Safety
/// The arguments are those of Open MPI, valid through the call.
pub(crate) unsafe fn select(asked: &Asked) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { make(asked) } {
        Ok(()) => ffi::OMPI_SUCCESS,
        Err(Failed::Code(code)) => code,
        // SAFETY: the caller's contract.
        Err(Failed::Refused { rank, reason }) => unsafe {
            let (rc, taken) = delegate(asked, None);
            say_once(
                asked,
                &format!("a window goes to {taken}, because rank {rank} cannot serve it: {reason}"),
            );
            rc
        },
        Err(Failed::ServedBetter) => {
            // SAFETY: the caller's contract.
            let (rc, _) = unsafe { delegate(asked, Some(ucx::NAME)) };
            log::verbose(1, ucx::reason);
            rc
        }
        Err(Failed::OnDevice { rank, reason }) => {
            let reason =
                format!("a window with memory of devices cannot be made: rank {rank}: {reason}");
            // SAFETY: the caller's contract.
            unsafe { say_once(asked, &reason) };
            ffi::OMPI_ERR_WIN
        }
    }
}

/// Why there is no window.
enum Failed {
    /// An exchange failed: nothing can be agreed on.
    Code(c_int),
    /// A rank cannot, and all know.
    Refused { rank: usize, reason: String },
    /// The same for a window with device memory on some rank: other components would mistake this memory for host
    /// memory.
    OnDevice { rank: usize, reason: String },
    /// All ranks prefer that osc/ucx make it.
    ServedBetter,
}

impl Failed {
    /// The refusal of a rank that answered with these.
    fn refused(cards: &[Card], rank: usize, reason: String) -> Failed {
        match cards.iter().any(|card| card.on_device) {
            true => Failed::OnDevice { rank, reason },
            false => Failed::Refused { rank, reason },
        }
    }
}

impl From<c_int> for Failed {
    fn from(code: c_int) -> Failed {
        Failed::Code(code)
    }
}

/// The communicator's ranks and their processes.
struct Comm {
    raw: *mut ffi::ompi_communicator_t,
    rank: usize,
    processes: Vec<u64>,
    /// The lowest rank on this node.
    node: u32,
    /// Whether Open MPI places all ranks on this node.
    on_one_node: bool,
}

impl Comm {
    /// # Safety
    /// The communicator lives.
    unsafe fn of(raw: *mut ffi::ompi_communicator_t) -> Comm {
        // SAFETY: the caller's contract, and these are its ranks.
        unsafe {
            let size = ffi::mca_osc_ofi_host_size(raw);
            let rank = ffi::mca_osc_ofi_host_rank(raw);
            let is_here =
                |other: &c_int| *other == rank || ffi::mca_osc_ofi_host_is_beside(raw, *other);
            let node = (0..size).find(is_here);
            Comm {
                raw,
                rank: rank as usize,
                processes: (0..size)
                    .map(|rank| ffi::mca_osc_ofi_host_process(raw, rank))
                    .collect(),
                node: node.unwrap_or(rank) as u32,
                on_one_node: (0..size).all(|other| is_here(&other)),
            }
        }
    }

    fn size(&self) -> usize {
        self.processes.len()
    }

    /// Gives every rank a text; at most `most` bytes of it travel.
    fn texts(&self, mine: &[u8], most: usize) -> Result<Vec<Vec<u8>>, c_int> {
        let mut padded = mine.to_vec();
        padded.resize(most, 0);
        let all = exchange(self.raw, self.size(), &padded)?;
        Ok(all.chunks(most).map(<[u8]>::to_vec).collect())
    }
}

/// # Safety
/// As for [`select`].
unsafe fn make(asked: &Asked) -> Result<(), Failed> {
    // SAFETY: Open MPI's communicator lives through the call.
    let comm = unsafe { Comm::of(asked.comm) };
    let hints = info::of(asked.info);
    let (cards, opened) = match transport::scope(comm.on_one_node) {
        Scope::Node => match meet(&comm, asked, &hints, Scope::Node)? {
            Met::All(cards, opened) => (cards, opened),
            Met::BeyondNode => meet_by_provider(&comm, asked, &hints)?,
        },
        Scope::All => meet_by_provider(&comm, asked, &hints)?,
    };
    let members: Result<Vec<Member>, String> = comm
        .processes
        .iter()
        .zip(&cards)
        .map(|(process, card)| {
            Ok(Member {
                process: *process,
                node: card.node,
                endpoint: opened.endpoint(*process).ok_or("a rank is not connected")?,
            })
        })
        .collect();
    let members = members.map_err(|reason| {
        log::line(&reason);
        ffi::OMPI_ERROR
    })?;
    let ranks = Arc::new(Ranks::new(&opened, comm.rank, members.into(), asked.comm));
    let devices = Devices::of(asked, &hints.info, &opened.devices);
    // Hints that differ between ranks have no effect, except the device.
    let hints = match cards.iter().all(|card| card.hints == hints.number) {
        true => hints.info,
        false => Info::new(),
    };
    let hints = hints.with_device(devices.wanted);
    // SAFETY: as for this function.
    let window = unsafe { window(asked, Members::new(ranks.clone()), &hints) };
    ranks.forget();
    let window = window.map_err(|error| match *error {
        WinError::Creation { rank, reason } => Failed::refused(&cards, rank, reason),
        other => Failed::Code(error::code(&other)),
    })?;
    let units = module::Units::new(cards.iter().map(|card| card.unit));
    let first = cards.iter().position(|card| card.has_memory).unwrap_or(0);
    if asked.flavor as u32 == ffi::MPI_WIN_FLAVOR_ALLOCATE {
        // SAFETY: Open MPI passes a writable pointer.
        unsafe { asked.base.write(window.base().cast()) };
    }
    log::verbose(1, || {
        format!(
            "serves a window of {} ranks by functions `{}`",
            window.size(),
            window.table_name()
        )
    });
    let has_locks = hints.get("no_locks").as_deref() != Some("true");
    // SAFETY: the window is Open MPI's, which holds no other module yet.
    unsafe {
        asked.model.write(ffi::MPI_WIN_UNIFIED as c_int);
        if !has_locks {
            ffi::mca_osc_ofi_host_set_flags(asked.win, ffi::OMPI_WIN_NO_LOCKS as u16);
        }
        ffi::mca_osc_ofi_host_set_name(asked.win, c"ofi_rs window".as_ptr());
        ffi::mca_osc_ofi_host_set_module(asked.win, module::leak(window, units, first, asked));
    }
    Ok(())
}

/// Where this rank's memory is to be, and where the program's is.
struct Devices {
    /// As the info says, else that of the program's memory.
    wanted: i32,
    given: i32,
}

impl Devices {
    fn of(asked: &Asked, hints: &Info, known: &Known) -> Devices {
        let is_given = asked.flavor as u32 == ffi::MPI_WIN_FLAVOR_CREATE && asked.size > 0;
        let given = match is_given {
            // SAFETY: Open MPI passes a readable pointer to the program's memory.
            true => known.of_memory(unsafe { asked.base.read() }),
            false => HOST,
        };
        let said = hints.get(info::DEVICE).and_then(|said| said.parse().ok());
        Devices {
            wanted: said.unwrap_or(given),
            given,
        }
    }
}

/// The engine's window. Its unit is one byte; the module has those of the ranks.
///
/// # Safety
/// As for [`select`].
unsafe fn window(asked: &Asked, members: Members, hints: &Info) -> Result<Window, Box<WinError>> {
    match asked.flavor as u32 {
        ffi::MPI_WIN_FLAVOR_CREATE => {
            // SAFETY: Open MPI passes a readable pointer to the program's memory, which MPI binds until the window is freed.
            unsafe {
                let base = asked.base.read().cast::<u8>();
                Window::create_with(members, base, asked.size, 1, hints)
            }
        }
        ffi::MPI_WIN_FLAVOR_ALLOCATE => Window::allocate_with(members, asked.size, 1, hints),
        _ => Window::dynamic_with(members, hints),
    }
}

/// How a meeting of the ranks ended.
enum Met {
    /// All are connected, and said this.
    All(Vec<Card>, Arc<Opened>),
    /// Some met by the transport of a node, and others did not or were not reached. All ranks see this alike.
    BeyondNode,
}

/// Meets by the transport that reaches all, again where some ranks proposed that of their node.
fn meet_by_provider(
    comm: &Comm,
    asked: &Asked,
    hints: &Hints,
) -> Result<(Vec<Card>, Arc<Opened>), Failed> {
    loop {
        if let Met::All(cards, opened) = meet(comm, asked, hints, Scope::All)? {
            return Ok((cards, opened));
        }
    }
}

/// Exchanges what the ranks are, and connects those that meet for the first time.
fn meet(comm: &Comm, asked: &Asked, hints: &Hints, scope: Scope) -> Result<Met, Failed> {
    let opened = transport::open(scope);
    let mut on_device = hints.wants_device();
    let mut lacking = None;
    if let Ok(opened) = &opened {
        // Before the exchanges: a rank that is ahead may need this one to make progress.
        progress::start();
        progress_thread::start();
        transport::look_for_devices();
        let Devices { wanted, given } = Devices::of(asked, &hints.info, &opened.devices);
        on_device = wanted != HOST || given != HOST;
        if wanted != HOST {
            let why = opened.devices.lacking();
            lacking = why.map(|why| format!("device_num is {wanted}: {why}"));
        }
    }
    let (state, said) = match (&opened, lacking) {
        (Err(reason), _) => (State::Refuses, reason.clone().into_bytes()),
        (_, Some(reason)) => (State::Refuses, reason.into_bytes()),
        (Ok(opened), _) if opened.knows(&comm.processes) => (State::Knows, opened.address()),
        (Ok(opened), _) => (State::Meets, opened.address()),
    };
    let prefers_ucx = match &opened {
        Ok(opened) if scope == Scope::All && !on_device && opened.is_by_processors() => {
            let is_dynamic = asked.flavor as u32 == ffi::MPI_WIN_FLAVOR_DYNAMIC;
            ucx::is_better(is_dynamic, || priority(ucx::NAME, asked))
        }
        _ => false,
    };
    let mine = Card {
        state,
        length: said.len() as u32,
        has_memory: asked.size > 0,
        on_device,
        prefers_ucx,
        scope,
        node: comm.node,
        unit: u64::try_from(asked.unit).unwrap_or(1),
        hints: hints.number,
    };
    let cards: Vec<Card> = exchange(comm.raw, comm.size(), &mine.encode())?
        .chunks(Card::SIZE)
        .map(Card::decode)
        .collect();
    if cards.iter().any(|card| card.scope != scope) {
        return Ok(Met::BeyondNode);
    }
    if cards.iter().all(|card| card.prefers_ucx) {
        return Err(Failed::ServedBetter);
    }
    let refused = cards.iter().position(|card| card.state == State::Refuses);
    if refused.is_none() && cards.iter().all(|card| card.state == State::Knows) {
        let opened = opened.map_err(|_| ffi::OMPI_ERROR)?;
        return Ok(Met::All(cards, opened));
    }
    let most = cards.iter().map(|card| card.length as usize).max();
    let said = comm.texts(&said, most.unwrap_or(0).max(1))?;
    let text = |rank: usize| {
        let length = cards.get(rank).map_or(0, |card| card.length as usize);
        said.get(rank)
            .and_then(|said| said.get(..length))
            .unwrap_or_default()
            .to_vec()
    };
    let as_reason = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if let Some(rank) = refused {
        let reason = as_reason(text(rank));
        return Err(Failed::refused(&cards, rank, reason));
    }
    let opened = opened.map_err(|_| ffi::OMPI_ERROR)?;
    let connected = comm
        .processes
        .iter()
        .enumerate()
        .try_for_each(|(rank, process)| {
            let connected = opened.connect(*process, text(rank));
            connected.map_err(|reason| format!("rank {rank} is not reached: {reason}"))
        });
    // What a third exchange carries of each rank: nothing, or the beginning of a reason.
    const MOST: usize = 200;
    let mine = connected.err().unwrap_or_default().into_bytes();
    let outcomes = comm.texts(&mine[..mine.len().min(MOST)], MOST)?;
    match outcomes
        .iter()
        .position(|outcome| outcome.first() != Some(&0))
    {
        None => Ok(Met::All(cards, opened)),
        Some(rank) => {
            let reason = outcomes[rank].iter().copied().take_while(|byte| *byte != 0);
            let reason = as_reason(reason.collect());
            if scope == Scope::Node {
                log::verbose(1, || format!("rank {rank} needs a provider: {reason}"));
                transport::is_hidden();
                return Ok(Met::BeyondNode);
            }
            Err(Failed::refused(&cards, rank, reason))
        }
    }
}

/// The priority of another component for the window; below 0 where it does not serve it.
fn priority(name: &CStr, asked: &Asked) -> c_int {
    // SAFETY: the arguments are those of Open MPI, valid through its call of `select`.
    unsafe {
        ffi::mca_osc_ofi_host_priority(
            name.as_ptr(),
            asked.win,
            asked.base,
            asked.size,
            asked.unit,
            asked.comm,
            asked.info,
            asked.flavor,
        )
    }
}

/// Has another component make the window: the one of this name, or the next. Returns Open MPI's code and the component's name.
///
/// # Safety
/// As for [`select`].
unsafe fn delegate(asked: &Asked, to: Option<&CStr>) -> (c_int, String) {
    let mut taken = std::ptr::null();
    // SAFETY: the caller's contract; `taken` is writable.
    let rc = unsafe {
        ffi::mca_osc_ofi_host_delegate(
            component::of_framework(),
            to.map_or(std::ptr::null(), CStr::as_ptr),
            asked.win,
            asked.base,
            asked.size,
            asked.unit,
            asked.comm,
            asked.info,
            asked.flavor,
            asked.model,
            &mut taken,
        )
    };
    // SAFETY: NULL, or the name of a component, which ends with NUL.
    let taken = (!taken.is_null()).then(|| unsafe { CStr::from_ptr(taken) });
    let taken = taken.map_or_else(|| "no component".into(), CStr::to_string_lossy);
    (rc, taken.into_owned())
}

/// One line for the window, unless all are wanted.
///
/// # Safety
/// As for [`select`].
unsafe fn say_once(asked: &Asked, line: &str) {
    // SAFETY: Open MPI's communicator lives through the call.
    let own = unsafe { ffi::mca_osc_ofi_host_rank(asked.comm) };
    if own == 0 || log::verbosity() > 0 {
        log::line(line);
    }
}
