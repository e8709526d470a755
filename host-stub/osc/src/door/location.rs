//! The place of memory: a device and an address there, and their encoding in 64 bits.
//!
//! An encoded location has its top bit set, which no address of a program has (on x86-64 and AArch64,
//! Linux reserves this half for the kernel). Seven bits of device number and 56 bits of address follow.
//! Decoding is a test, a shift and a mask. The device [`ANY_HOST`] stands for host memory, even if the
//! pointer is mapped on a device.

use std::sync::atomic::{AtomicBool, Ordering};

/// The device number of host memory.
pub const HOST: i32 = -1;

/// The number of devices that an encoded location can distinguish.
pub const MAX_DEVICES: i32 = 127;

const ENCODED: u64 = 1 << 63;
const SHIFT: u32 = 56;
const ADDRESS: u64 = (1 << SHIFT) - 1;
/// [`HOST`] in an encoded location.
const ANY_HOST: u64 = 0x7f;

/// Whether a buffer may lie elsewhere than at its pointer: the only word that a call on host memory
/// reads for this question. A word of the process, so that a call reads it without a job.
static ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Makes calls look up the places of their buffers from now on: a device is known, a location was
/// encoded, or a layout was marked.
pub fn look_from_now_on() {
    ELSEWHERE.store(true, Ordering::Relaxed);
}

/// Whether calls look up the places of their buffers.
#[inline(always)]
pub fn is_looked_for() -> bool {
    // Relaxed: a caller can have such a pointer or layout only after the store.
    ELSEWHERE.load(Ordering::Relaxed)
}

/// The place of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The device, or [`HOST`].
    pub device: i32,
    /// The address there.
    pub address: u64,
}

/// Encodes a location. `None` for a device or an address that does not fit.
pub fn encode_location(location: Location) -> Option<u64> {
    let device = match location.device {
        HOST => ANY_HOST,
        device if (0..MAX_DEVICES).contains(&device) => device as u64,
        _ => return None,
    };
    if location.address & !ADDRESS != 0 {
        return None;
    }
    look_from_now_on();
    Some(ENCODED | device << SHIFT | location.address)
}

/// Whether a value is an encoded location rather than a pointer.
#[inline(always)]
const fn is_encoded(value: u64) -> bool {
    (value as i64) < 0
}

/// Decodes a location; `None` for a plain pointer.
#[inline(always)]
pub const fn decode_location(value: u64) -> Option<Location> {
    if !is_encoded(value) {
        return None;
    }
    let device = (value >> SHIFT) & 0x7f;
    Some(Location {
        device: if device == ANY_HOST {
            HOST
        } else {
            device as i32
        },
        address: value & ADDRESS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for device in [HOST, 0, 1, 126] {
            for address in [0u64, 8, 0x7fff_ffff_f000, ADDRESS] {
                let location = Location { device, address };
                let value = encode_location(location).unwrap();
                assert_eq!(decode_location(value), Some(location));
            }
        }
    }

    #[test]
    fn what_has_no_place_is_refused() {
        for (device, address) in [(127, 0), (-2, 0), (0, ADDRESS + 1), (HOST, u64::MAX)] {
            assert_eq!(encode_location(Location { device, address }), None);
        }
    }

    #[test]
    fn pointers_are_not_locations() {
        let byte = 0u8;
        assert_eq!(decode_location(&raw const byte as u64), None);
        assert_eq!(decode_location(0), None);
    }
}
