//! Memory of devices: whether windows look for it, and what a transport knows of it.
//!
//! By default the CUDA driver is looked for with each window that is made and all memory that is attached, and only among the
//! libraries that the process has loaded: a program without CUDA starts no driver, and its calls look up no buffer.

use std::borrow::Cow;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use osc_devices::{Devices, OfWindows, is_cuda_loaded};
use osc_engine::door::HOST;
use osc_engine::transport::Transport;

use crate::osc::log;

/// `osc_ofi_rs_cuda`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cuda {
    Off,
    /// The devices of the driver that the process has loaded.
    Auto,
    /// Those of the machine: the driver is loaded with the first window.
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
        Known {
            devices: Arc::new(Devices::new(transport, refused)),
            asked: OnceLock::new(),
        }
    }

    /// As the engine sees them.
    pub(crate) fn of_windows(&self) -> OfWindows {
        OfWindows(Arc::clone(&self.devices))
    }

    /// Adds the driver's devices, if it is there and was not asked yet. From then on calls look up their buffers.
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

    /// Why no device is known, for a window that wants one.
    pub(crate) fn lacking(&self) -> Option<&'static str> {
        if !self.devices.all().is_empty() {
            return None;
        }
        Some(match wanted() {
            Cuda::Off => "osc_ofi_rs_cuda is off",
            Cuda::Auto if self.asked.get().is_none() => {
                "the process has not loaded the CUDA driver (osc_ofi_rs_cuda is auto)"
            }
            _ => "the CUDA driver has no device",
        })
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
