//! Memory of devices: whether windows look for such memory, how a transport handles it, and the program's copy functions.
//!
//! By default each new window and each attached memory looks for the CUDA driver, and only among the libraries that the
//! process has loaded. So a program without CUDA starts no driver, and its calls look up no buffer.

use std::borrow::Cow;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use osc_devices::{Devices, OfWindows, cuda_devices, is_cuda_loaded};
use osc_engine::door::HOST;
use osc_engine::transport::Transport;
use plugin_api::{OverrideOps, Status};

use crate::osc::log;

/// `osc_ofi_rs_cuda`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cuda {
    Off,
    /// The devices of the driver that the process has loaded.
    Auto,
    /// The devices of the machine: the driver is loaded with the first window.
    On,
}

/// A [`Cuda`]. Relaxed accesses suffice: Open MPI registers parameters before it makes windows.
static WANTED: AtomicU8 = AtomicU8::new(Cuda::Off as u8);

/// The words for a [`Cuda`].
pub(crate) static WORDS: [Cow<'static, str>; 3] = [
    Cow::Borrowed("off"),
    Cow::Borrowed("auto"),
    Cow::Borrowed("on"),
];

impl Cuda {
    const ALL: [Cuda; 3] = [Cuda::Off, Cuda::Auto, Cuda::On];

    /// The choice of a word.
    pub(crate) fn parse(word: &str) -> Option<Cuda> {
        let mut choices = Self::ALL.into_iter();
        choices.find(|choice| WORDS[*choice as usize] == word)
    }
}

/// Whether the level of device support is 1. Relaxed accesses suffice, as for [`WANTED`].
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Takes the user's choice, and the level of device support.
pub(crate) fn set(wanted: Cuda, level: i32) {
    WANTED.store(wanted as u8, Ordering::Relaxed);
    REFUSED.store(level < 2, Ordering::Relaxed);
}

fn wanted() -> Cuda {
    let number = usize::from(WANTED.load(Ordering::Relaxed));
    Cuda::ALL.get(number).copied().unwrap_or(Cuda::Off)
}

/// The number of devices on which windows of this process may lie, or the reason why there are
/// none. May start the driver.
pub(crate) fn supported() -> Result<usize, String> {
    if REFUSED.load(Ordering::Relaxed) {
        return Err("osc_ofi_rs_device_level is 1".into());
    }
    match wanted() {
        Cuda::Off => Err("osc_ofi_rs_cuda is off".into()),
        Cuda::Auto if !is_cuda_loaded() => {
            Err("the process has not loaded the CUDA driver (osc_ofi_rs_cuda is auto)".into())
        }
        Cuda::Auto | Cuda::On => cuda_devices(),
    }
}

/// Copy functions of the program.
pub(crate) struct Overrides(pub(crate) OverrideOps);

// SAFETY: any thread may call the functions, with the stream that the program gave for them.
unsafe impl Send for Overrides {}

/// The functions that were set last, for transports that are opened later. Locked after the
/// transports.
pub(crate) fn overrides() -> MutexGuard<'static, Option<Overrides>> {
    static OVERRIDES: Mutex<Option<Overrides>> = Mutex::new(None);
    OVERRIDES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The devices that one transport knows.
pub(crate) struct Known {
    devices: Arc<Devices>,
    /// Set once the driver's devices were added.
    asked: OnceLock<()>,
}

impl Known {
    pub(crate) fn new(transport: &Transport) -> Known {
        let refused = REFUSED.load(Ordering::Relaxed);
        let refused = refused.then_some("osc_ofi_rs_device_level");
        let known = Known {
            devices: Arc::new(Devices::new(transport, refused)),
            asked: OnceLock::new(),
        };
        let overrides = overrides();
        if overrides.is_some() {
            known.set_overrides(overrides.as_ref());
        }
        known
    }

    /// Sets the functions by which the transport copies; `None` stands for its own.
    pub(crate) fn set_overrides(&self, overrides: Option<&Overrides>) -> Status {
        // SAFETY: the program vouches for the functions until MPI has ended, which closes the transport.
        unsafe { self.devices.set_overrides(overrides.map(|given| &given.0)) }
    }

    /// The devices for the engine.
    pub(crate) fn of_windows(&self) -> OfWindows {
        OfWindows(Arc::clone(&self.devices))
    }

    /// Adds the driver's devices, if the driver is loaded and its devices were not added yet. From then on calls
    /// look up their buffers.
    pub(crate) fn look(&self) {
        let is_there = match wanted() {
            Cuda::Off => false,
            Cuda::Auto => self.asked.get().is_none() && is_cuda_loaded(),
            Cuda::On => true,
        };
        if is_there {
            self.asked.get_or_init(|| match self.devices.add_cuda() {
                Ok(count) => log::verbose(1, || format!("windows know {count} CUDA device(s)")),
                Err(error) => log::line(&error.to_string()),
            });
        }
    }

    /// The device where a program's memory begins, or [`HOST`].
    pub(crate) fn of_memory(&self, base: *mut c_void) -> i32 {
        let located = self.devices.locate_itself(base as u64, 1);
        located.map_or(HOST, |location| location.device)
    }

    /// The reason why no device is known, for a window that wants one.
    pub(crate) fn lacking(&self) -> Option<String> {
        match self.devices.all().is_empty() {
            true => supported().err(),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_a_choice() {
        for word in &WORDS {
            let choice = Cuda::parse(word).expect("a choice");
            set(choice, 2);
            assert_eq!(wanted(), choice);
        }
        assert_eq!(Cuda::parse("yes"), None);
        set(Cuda::Off, 2);
    }
}
