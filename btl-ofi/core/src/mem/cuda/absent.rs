//! Without CUDA: no device is there.

use std::ffi::c_void;

use super::Direction;

pub(crate) fn has_driver() -> bool {
    false
}

pub(crate) fn devices() -> u32 {
    0
}

pub(crate) fn device_of(_address: u64) -> Option<u64> {
    None
}

pub(crate) fn meet(_address: u64) -> bool {
    false
}

#[derive(Default)]
pub(crate) struct Copies;

impl Copies {
    pub(crate) unsafe fn add(
        &mut self,
        _device: *mut c_void,
        _to: *mut c_void,
        _from: *mut c_void,
        _n: usize,
    ) -> isize {
        crate::mem::copy::UNKNOWN_KIND
    }

    pub(crate) fn finish(&mut self) -> isize {
        0
    }
}

pub(crate) fn pin(_base: *mut u8, _len: usize) -> bool {
    false
}

pub(crate) fn unpin(_base: *mut u8) -> bool {
    true
}

/// Without CUDA, no copy is in progress.
pub(crate) enum UnderWay {}

impl UnderWay {
    pub(crate) unsafe fn start(
        _direction: Direction,
        _device: u64,
        _host: *mut u8,
        _n: usize,
    ) -> Option<UnderWay> {
        None
    }

    pub(crate) fn stand(&self) -> Option<isize> {
        match *self {}
    }
}
