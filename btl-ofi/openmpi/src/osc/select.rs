//! The ranks of a window create it together, or leave it together to another component.
//!
//! Open MPI has no second choice if a component's `select` fails. So each rank states its abilities in the engine's first
//! exchange, and all ranks get the same result ([`meeting`](super::meeting)): a window, another component, or another try.
//!
//! Ranks of one node meet by the transport without a provider ([`Scope::Node`]). A rank proposes this if Open MPI places all
//! ranks on its node. If proposals differ, or memory does not reach a rank, all ranks see this in the exchanges, and create the
//! window again by the transport that reaches all.
//!
//! If some rank cannot create the window, all ranks delegate to the component of the next lower priority. If all ranks report
//! that osc/ucx serves the window better ([`ucx`]), all delegate to osc/ucx.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use osc_engine::door::{HOST, Members};
use osc_engine::win::{Info, WinError, Window};

use crate::bindings as ffi;
use crate::osc::card::{Card, State};
use crate::osc::devices::Known;
use crate::osc::error;
use crate::osc::group::{Comm, Ranks, Words, exchange, is_beside};
use crate::osc::info::Hints;
use crate::osc::meeting::{Contribution, Ended, meet};
use crate::osc::transport::{self, Opened, Scope};
use crate::osc::{component, info, log, meeting, module, progress, progress_thread, ucx};

/// The arguments of `select`.
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
    // SAFETY: the caller guarantees the arguments.
    match unsafe { make(asked) } {
        Ok(()) => ffi::OMPI_SUCCESS,
        Err(Ended::Code(code)) => code,
        // SAFETY: the caller guarantees the arguments.
        Err(Ended::Refused { rank, reason }) => unsafe {
            let (rc, taken) = delegate(asked, None);
            say_once(
                asked,
                &format!("a window goes to {taken}, because rank {rank} cannot serve it: {reason}"),
            );
            rc
        },
        Err(Ended::ServedBetter) => {
            // SAFETY: the caller guarantees the arguments.
            let (rc, _) = unsafe { delegate(asked, Some(ucx::NAME)) };
            log::verbose(1, ucx::reason);
            rc
        }
        Err(Ended::OnDevice { rank, reason }) => {
            let reason =
                format!("a window with memory of devices cannot be made: rank {rank}: {reason}");
            // SAFETY: the caller guarantees the arguments.
            unsafe { say_once(asked, &reason) };
            ffi::OMPI_ERR_WIN
        }
        // The last try has no such end.
        Err(Ended::BeyondNode(_) | Ended::HintsDiffer) => ffi::OMPI_ERROR,
    }
}

/// # Safety
/// As for [`select`].
unsafe fn make(asked: &Asked) -> Result<(), Ended> {
    // SAFETY: Open MPI's communicator lives through the call.
    let comm = unsafe { Comm::of(asked.comm) };
    let hints = info::of(asked.info);
    let on_one_node = (0..comm.size()).all(|rank| is_beside(comm.raw, rank));
    let (mut scope, mut with_hints) = (transport::scope(on_one_node), true);
    loop {
        // SAFETY: the caller guarantees the arguments.
        match unsafe { attempt(&comm, asked, &hints, scope, with_hints) } {
            // All ranks try again together, at most once for each reason: in the next try no rank proposes a node, or
            // has hints.
            Err(Ended::BeyondNode(unreached)) => {
                if let Some((rank, reason)) = unreached {
                    log::verbose(1, || format!("rank {rank} needs a provider: {reason}"));
                    transport::is_hidden();
                }
                scope = Scope::All;
            }
            Err(Ended::HintsDiffer) => with_hints = false,
            other => return other,
        }
    }
}

/// One try, by one transport, with or without the hints.
///
/// # Safety
/// As for [`select`].
unsafe fn attempt(
    comm: &Comm,
    asked: &Asked,
    hints: &Hints,
    scope: Scope,
    with_hints: bool,
) -> Result<(), Ended> {
    let opened = transport::open(scope);
    let mut device = HOST;
    let mut on_device = hints.wants_device();
    let known = opened.and_then(|opened| {
        // Before the exchanges: a rank that is ahead may need this one to make progress.
        progress::start();
        progress_thread::start();
        transport::look_for_devices();
        let Devices { wanted, given } = Devices::of(asked, &hints.info, &opened.devices);
        (device, on_device) = (wanted, wanted != HOST || given != HOST);
        match wanted {
            HOST => Ok(opened),
            wanted => match opened.devices.lacking() {
                Some(why) => Err(format!("device_num is {wanted}: {why}")),
                None => Ok(opened),
            },
        }
    });
    let mut card = Card {
        state: State::Refuses,
        length: 0,
        has_memory: asked.size > 0,
        on_device,
        prefers_ucx: false,
        scope,
        unit: u64::try_from(asked.unit).unwrap_or(1),
        hints: hints.number,
    };
    let opened = match known {
        Ok(opened) => opened,
        Err(reason) => return Err(refuse(comm, card, &reason)),
    };
    card.prefers_ucx = prefers_ucx(asked, scope, on_device, &opened);
    let endpoints = opened.endpoints_of(&comm.processes);
    let text = match endpoints {
        Some(_) => Vec::new(),
        None => opened.address(),
    };
    card.state = match endpoints {
        Some(_) => State::Knows,
        None => State::Meets,
    };
    card.length = text.len() as u32;
    let words = Words {
        card,
        text,
        with_hints,
    };
    let ranks = Arc::new(Ranks::new(&opened, comm, endpoints, words));
    let info = match with_hints {
        true => hints.info.clone(),
        false => Info::new(),
    };
    let info = info.with_device(device);
    // SAFETY: as for this function.
    let window = unsafe { window(asked, Members::new(ranks.clone()), &info) };
    // Before the ranks meet, the engine refuses only arguments that no communicator has.
    let cards = ranks.part().unwrap_or(Err(Ended::Code(ffi::OMPI_ERROR)))?;
    let window = window.map_err(|error| match *error {
        WinError::Creation { rank, reason } => Ended::refused(&cards, rank, reason),
        other => Ended::Code(error::code(&other)),
    })?;
    // SAFETY: as for this function.
    unsafe { serve(asked, window, &cards, &info) };
    Ok(())
}

/// Meets the other ranks to tell them why this one cannot create the window.
fn refuse(comm: &Comm, mut card: Card, reason: &str) -> Ended {
    let text = meeting::shortened(reason);
    card.length = text.len() as u32;
    let told = Contribution {
        card,
        text,
        offer: &[],
    };
    let exchange = |mine: &[u8]| exchange(comm.raw, comm.size(), mine);
    // All ranks refuse, so none is connected.
    let met = meet(comm.size(), &told, false, &exchange, |_| Ok(()));
    met.err().unwrap_or(Ended::Code(ffi::OMPI_ERROR))
}

/// Whether osc/ucx would serve the window better than this transport.
fn prefers_ucx(asked: &Asked, scope: Scope, on_device: bool, opened: &Opened) -> bool {
    if scope == Scope::Node || on_device || !opened.is_by_processors() {
        return false;
    }
    let is_dynamic = asked.flavor as u32 == ffi::MPI_WIN_FLAVOR_DYNAMIC;
    ucx::is_better(is_dynamic, || priority(ucx::NAME, asked))
}

/// Sets the engine's window as the module of Open MPI's window.
///
/// # Safety
/// As for [`select`].
unsafe fn serve(asked: &Asked, window: Window, cards: &[Card], hints: &Info) {
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
}

/// The device on which this rank's memory is to be, and the device of the program's memory.
struct Devices {
    /// As the info says, else the device of the program's memory.
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

/// Makes the engine's window. The displacement unit of this window is one byte; the module has the
/// units of the ranks.
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

/// The priority of another component for the window; below 0 if it does not serve the window.
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

/// Lets another component make the window: the component of this name, or the one of the next lower priority. Returns Open
/// MPI's code and the component's name.
///
/// # Safety
/// As for [`select`].
unsafe fn delegate(asked: &Asked, to: Option<&CStr>) -> (c_int, String) {
    let mut taken = std::ptr::null();
    // SAFETY: the caller guarantees the arguments; `taken` is writable.
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

/// Writes one line for the window, from rank 0, unless the verbosity asks for the lines of all
/// ranks.
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
