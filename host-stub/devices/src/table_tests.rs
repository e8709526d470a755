//! The places of memory, by the entries of the table.

use super::*;
use osc_engine::door::encode_location as encode;

const BASE: u64 = 0x10_0000;

/// Two devices; 256 bytes of the first are known, with 64 of the host mapped at their beginning.
/// The same 64 are mapped on the second device, which has no other known memory.
fn table() -> Table {
    let mut table = Table::default();
    for number in 0..2 {
        table.devices.push(Entry {
            device: Device {
                name: String::new(),
                iface: 1,
                number,
                starts: false,
                why: String::new(),
            },
            ways: Ways::default(),
        });
    }
    let known = Known {
        len: 256,
        device: 0,
        registration: OnceLock::new(),
    };
    table.known.insert(BASE, known);
    for (device, address) in [(0, BASE), (1, 0x20_0000)] {
        let mapping = Mapping { len: 64, address };
        table.mapped.insert((device, 0x1000), mapping);
    }
    table
}

fn at(device: i32, address: u64) -> Location {
    Location { device, address }
}

#[test]
fn a_variable_has_a_place_on_each_device() {
    let table = table();
    assert_eq!(table.place_on(0, 0x1008, 8), Ok(at(0, BASE + 8)));
    assert_eq!(table.place_on(1, 0x1008, 8), Ok(at(1, 0x20_0008)));
    assert_eq!(table.place(0x1008, 8), Ok(at(0, BASE + 8)));
}

#[test]
fn a_mapping_has_its_own_end() {
    let table = table();
    for (pointer, len) in [(0x1000, 64), (0x103f, 1), (BASE, 256), (BASE + 255, 1)] {
        assert!(table.place(pointer, len).is_ok(), "{len} at {pointer:#x}");
    }
    // The run is refused although the device's memory continues there.
    for (pointer, len) in [(0x1000, 65), (0x1001, 64), (BASE + 1, 256)] {
        let straddles = DeviceError::Straddles {
            base: pointer,
            len,
            device: 0,
        };
        assert_eq!(table.place(pointer, len), Err(straddles.clone()));
        assert_eq!(table.place_on(0, pointer, len), Err(straddles));
    }
    assert!(table.place_on(1, 0x1000, 65).is_err());
    let second = encode(at(1, 0x20_0000)).unwrap();
    assert!(table.place(second, 64).is_ok());
    assert!(table.place(second, 65).is_err());
}

#[test]
fn host_bytes_that_run_into_mapped_ones_are_refused() {
    let table = table();
    assert_eq!(table.place(0xff8, 8), Ok(at(HOST, 0xff8)));
    assert!(table.place(0xff8, 9).is_err());
    assert!(table.place(BASE - 8, 9).is_err());
    // Accepted if the caller says that the host's bytes are meant.
    let host = encode(at(HOST, 0xff8)).unwrap();
    assert_eq!(table.place(host, 16), Ok(at(HOST, 0xff8)));
    assert_eq!(table.place_itself(0xff8, 128), Ok(at(HOST, 0xff8)));
    let device = encode(at(HOST, BASE)).unwrap();
    assert!(table.place(device, 8).is_err());
}

#[test]
fn a_refusal_names_the_first_device_with_a_mapping_there() {
    let mut table = table();
    for device in 0..2 {
        let error = straddles(0xff8, 9, device);
        assert_eq!(table.place(0xff8, 9), Err(error));
        table.mapped.remove(&(device, 0x1000));
    }
    assert_eq!(table.place(0xff8, 9), Ok(at(HOST, 0xff8)));
    // An empty range, and one that ends beyond all addresses.
    table
        .mapped
        .insert((1, 0x3000), Mapping { len: 8, address: 0 });
    assert_eq!(table.place(0x2ff8, 0), Ok(at(HOST, 0x2ff8)));
    assert_eq!(
        table.place(0x2ff8, usize::MAX),
        Err(straddles(0x2ff8, usize::MAX, 1))
    );
}

/// Processor time of this thread for many lookups of host memory in a table with `count` mappings.
fn time_beside(count: u64) -> std::time::Duration {
    let clock = || {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes to `now`.
        let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
        assert_eq!(code, 0);
        std::time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let mut table = table();
    for n in 0..count {
        let address = 0x30_0000 + 16 * n;
        let mapping = Mapping { len: 8, address };
        table
            .mapped
            .insert((n as i32 % 2, 0x1_0000_0000 + 16 * n), mapping);
    }
    let begin = clock();
    for n in 0..1000u64 {
        let pointer = 0x2_0000_0000 + 8 * n;
        assert_eq!(table.place(pointer, 8), Ok(at(HOST, pointer)));
    }
    clock() - begin
}

#[test]
fn host_memory_costs_the_same_beside_many_mappings() {
    let (few, many) = (time_beside(10), time_beside(100_000));
    // A search through all mappings would take some thousand times as long.
    assert!(many < few * 100, "{many:?} beside many, {few:?} beside few");
}

#[test]
fn encoded_locations_name_devices_that_are_there() {
    let table = table();
    let third = encode(at(2, BASE)).unwrap();
    assert_eq!(table.place(third, 8), Err(DeviceError::NoSuchDevice(2, 2)));
    let first = encode(at(0, BASE)).unwrap();
    assert_eq!(table.place_on(0, first, 8), Ok(at(0, BASE)));
    assert!(table.place_on(1, first, 8).is_err());
}

/// A runtime that mapped 64 host bytes at 0x5000 on device 1, and the second 32 of them on device 0 too.
struct Runtime;

impl Lookup for Runtime {
    fn location(&self, _: u64) -> Option<Location> {
        None
    }

    fn mapped(&self, device: i32, pointer: u64) -> Option<u64> {
        let (host, there) = match device {
            0 => (0x5020..0x5040, BASE + 128),
            _ => (0x5000..0x5040, 0x40_0000),
        };
        host.contains(&pointer)
            .then(|| there + pointer - host.start)
    }
}

#[test]
fn variables_that_a_runtime_mapped_are_found() {
    let mut table = table();
    assert_eq!(table.place(0x5000, 64), Ok(at(HOST, 0x5000)));
    table.lookups.push(Box::new(Runtime));
    assert_eq!(table.place(0x5000, 64), Ok(at(1, 0x40_0000)));
    assert_eq!(table.location(0x5021), at(0, BASE + 129));
    assert_eq!(table.place_on(1, 0x5021, 8), Ok(at(1, 0x40_0021)));
    // Ranges that end beyond the mapping, or begin before it.
    assert_eq!(table.place(0x5000, 65), Err(straddles(0x5000, 65, 1)));
    assert_eq!(table.place(0x4ff8, 16), Err(straddles(0x4ff8, 16, 1)));
    assert_eq!(table.place(0x4ff8, 8), Ok(at(HOST, 0x4ff8)));
    // Declared mappings come first; the host's own bytes are used if the caller means them.
    assert_eq!(table.place(0x1008, 8), Ok(at(0, BASE + 8)));
    assert_eq!(table.place_itself(0x5000, 64), Ok(at(HOST, 0x5000)));
}

/// NULL names no memory, plain or as a location of host memory; an empty range needs none.
#[test]
fn null_names_no_memory() {
    let table = table();
    let location = encode(at(HOST, 0)).unwrap();
    for value in [0, location] {
        assert_eq!(table.place(value, 8), Err(DeviceError::Null));
        assert_eq!(table.place_itself(value, 8), Err(DeviceError::Null));
        assert!(table.place(value, 0).is_ok());
    }
}
