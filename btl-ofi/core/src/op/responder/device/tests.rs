use std::sync::Arc;

use plugin_api::{AtomicKind, AtomicOp, Datatype, hmem_iface};

use super::*;
use crate::mem::handle::Handle;
use crate::op::responder::{GET, PUT, what};

/// A table with one staged region, and the region's handle. Host memory takes the place of device
/// memory.
fn staged(memory: &mut [u64], access: Access) -> (Arc<DeviceRegions>, Handle) {
    let mailbox = Handle::new(0x1000, 0x1000, 5, Access::all(), 1);
    let handle = Handle::staged(&mailbox, access, 9);
    let regions = Arc::<DeviceRegions>::default();
    regions.insert(DeviceRegion {
        handle,
        base: memory.as_mut_ptr().expose_provenance() as u64,
        length: size_of_val(memory) as u64,
        iface: hmem_iface::SYSTEM,
        access,
        descriptor: None,
    });
    (regions, handle)
}

fn command(handle: &Handle, what: u32, address: u64, count: u32) -> Command {
    Command {
        what,
        count,
        address,
        key: handle.key(),
        cookie: handle.cookie(),
        compare: 0,
    }
}

/// Executes a command on the memory `place`.
fn run(regions: &DeviceRegions, c: &Command, place: &mut [u64]) -> Result<(), Status> {
    let room = size_of_val(place);
    let here = |size| (size <= room).then_some(place.as_mut_ptr().cast());
    // SAFETY: the place is a live array whose size is checked, and lies outside the region.
    unsafe { Responder::default().execute_on_device(regions, c, here) }
}

const ADD: u32 = (AtomicOp::Sum as u32) | (Datatype::Uint64 as u32) << 8;

#[test]
fn transfers_and_atomics_reach_the_memory() {
    let mut memory = [1u64, 2, 3, 4];
    let at = memory.as_ptr() as u64;
    let (regions, handle) = staged(&mut memory, Access::all());
    let mut place = [10u64, 20];
    assert_eq!(
        run(&regions, &command(&handle, PUT, at, 16), &mut place),
        Ok(())
    );
    let update = ADD | (AtomicKind::Update as u32) << 16;
    assert_eq!(
        run(&regions, &command(&handle, update, at, 2), &mut place),
        Ok(())
    );
    assert_eq!(place, [10, 20], "an update returns nothing");
    let fetch = ADD | (AtomicKind::Fetch as u32) << 16;
    assert_eq!(
        run(&regions, &command(&handle, fetch, at + 8, 2), &mut place),
        Ok(())
    );
    assert_eq!(place, [40, 3], "the old values");
    assert_eq!(
        run(&regions, &command(&handle, GET, at, 16), &mut place),
        Ok(())
    );
    assert_eq!((place, memory), ([20, 50], [20, 50, 23, 4]));
}

#[test]
fn a_command_that_is_not_allowed_has_no_effect() {
    let mut memory = [1u64, 2];
    let at = memory.as_ptr() as u64;
    let (regions, handle) = staged(&mut memory, Access::REMOTE_READ);
    let read = what(
        AtomicKind::Fetch,
        Datatype::Uint64 as u32,
        AtomicOp::Read as u32,
    );
    let fetch = ADD | (AtomicKind::Fetch as u32) << 16;
    let good = command(&handle, GET, at, 16);
    for (c, expected) in [
        (good, Ok(())),
        (command(&handle, read, at, 2), Ok(())),
        (command(&handle, PUT, at, 8), Err(Status::PERM)),
        (command(&handle, fetch, at, 1), Err(Status::PERM)),
        (
            command(&handle, GET, at, 17),
            Err(Status::VALUE_OUT_OF_BOUNDS),
        ),
        (
            command(&handle, GET, at - 1, 1),
            Err(Status::VALUE_OUT_OF_BOUNDS),
        ),
        (command(&handle, read, at + 4, 1), Err(Status::BAD_PARAM)),
        (command(&handle, 9 << 16, at, 1), Err(Status::BAD_PARAM)),
        (Command { key: 6, ..good }, Err(Status::PERM)),
        // Another registration with the same key, and other rights.
        (
            Command {
                cookie: good.cookie + 1,
                ..good
            },
            Err(Status::PERM),
        ),
        (
            Command {
                cookie: good.cookie | 1 << 32 | 1 << 33,
                ..good
            },
            Err(Status::PERM),
        ),
    ] {
        assert_eq!(run(&regions, &c, &mut [0; 2]), expected, "{c:?}");
    }
    assert_eq!(
        run(&regions, &good, &mut [0; 1]),
        Err(Status::BAD_PARAM),
        "no place for so many bytes"
    );
    regions.remove(9);
    assert_eq!(run(&regions, &good, &mut [0; 2]), Err(Status::PERM));
    assert_eq!(memory, [1, 2]);
}
