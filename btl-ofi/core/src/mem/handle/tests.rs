use super::*;

const ALL: Access = Access::all();

#[test]
fn inside_and_outside() {
    let h = Handle::new(0x1000, 0x100, 7, ALL, 1);
    assert_eq!(
        h.target(0x1010, 0x10, true),
        Ok(Target {
            address: 0x1010,
            key: 7
        })
    );
    assert_eq!(
        h.target(0x1010, 0x10, false),
        Ok(Target {
            address: 0x10,
            key: 7
        })
    );
    assert!(
        h.target(0x1100, 0, false).is_ok(),
        "nothing at the end is inside"
    );
    for (address, size) in [
        (0xfff, 1),
        (0x1100, 1),
        (0x10ff, 2),
        (0x1000, u64::MAX),
        (u64::MAX, 2),
        (0, 0),
    ] {
        assert_eq!(
            h.target(address, size, true),
            Err(Status::VALUE_OUT_OF_BOUNDS)
        );
    }
}

#[test]
fn device_memory_is_not_host_memory() {
    let h = Handle::new(0x1000, 0x100, 7, ALL, 3);
    let direct = h.direct();
    let staged = Handle::staged(&h, Access::REMOTE_READ, 9);
    for device in [direct, staged] {
        assert_eq!(device.target(0x1000, 1, true), Err(Status::BAD_PARAM));
    }
    assert!(direct.is_direct() && !direct.is_staged() && staged.is_staged());
    assert_eq!(staged.generation(), 9);
    assert_eq!(
        (direct.access(), staged.access()),
        (h.access(), Access::REMOTE_READ)
    );
    assert_eq!(direct.as_live(), h);
    assert_eq!(staged.as_live(), h, "the mailbox");
}

#[test]
fn rights_travel() {
    for access in (0..16).map(Access::from_bits_truncate) {
        let h = Handle::new(0x1000, 0x100, 7, access, u32::MAX);
        assert_eq!(h.access(), rights::of(access), "{access:?}");
        assert!(h.is_live() && h.target(0x1000, 1, true).is_ok());
        let open = h.open_target(0x1000, 1, true).is_some();
        assert_eq!(open, rights::of(access) == rights::REMOTE, "{access:?}");
        assert_eq!(h.direct().as_live(), h, "{access:?}");
    }
}

#[test]
fn a_region_at_the_top_of_memory() {
    let h = Handle::new(u64::MAX - 7, 8, 1, ALL, 1);
    assert!(h.target(u64::MAX - 7, 8, true).is_ok());
    assert!(h.target(u64::MAX - 7, 9, true).is_err());
}

#[test]
fn stray_bytes_and_retired_handles_are_refused() {
    let mut h = Handle::new(0x1000, 0x100, 7, ALL, 1);
    h.retire();
    assert_eq!(h.target(0x1000, 1, true), Err(Status::BAD_PARAM));
    let zero = Handle {
        base: 0,
        length: u64::MAX,
        key: 0,
        cookie: 0,
        rails: NO_RAILS,
    };
    assert_eq!(zero.target(0, 1, true), Err(Status::BAD_PARAM));
}

#[test]
fn shared_memory_is_host_memory() {
    for access in (0..16).map(Access::from_bits_truncate) {
        let plain = Handle::new(0x1000, 0x100, 7, access, 9);
        let h = plain.shared();
        assert!(h.is_shared() && h.is_live() && !plain.is_shared());
        assert!(!h.is_open(), "fast paths tell it from other memory");
        assert_eq!((h.access(), h.generation()), (rights::of(access), 9));
        assert!(h.target(0x1000, 1, true).is_ok() && h.target(0x1000, 0x101, true).is_err());
        assert!(
            h.open_target(0x1000, 1, true).is_none(),
            "left to slow paths"
        );
        assert!(h.is_named(7, h.cookie()) && !plain.is_named(7, h.cookie()));
        assert_eq!((h.as_host(), h.is_device()), (Ok(h.as_live()), false));
    }
    let mut gone = Handle::new(0x1000, 0x100, 7, ALL, 1).shared();
    gone.retire();
    assert!(!gone.is_shared() && !gone.is_live());
}
