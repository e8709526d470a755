use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use plugin_api::counters::Carrier;

use super::super::{Transport, scripted};
use super::*;
use crate::base::trace::{HEAD, Head, RECORD};

unsafe extern "C" fn tell(
    _: *mut Module,
    _: *mut Endpoint,
    _: *mut c_void,
    _: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    assert_eq!(data.addr(), 5, "the caller's own argument");
    // SAFETY: `put` passes a pointer to an `AtomicI32`.
    unsafe { &*context.cast::<AtomicI32>() }.store(status, Ordering::Relaxed);
}

/// A put of 8 bytes to process 41.
fn put(transport: &Transport, told: &AtomicI32) -> Status {
    let endpoint = transport.connect(&[41]).unwrap()[0].unwrap();
    let (from, to) = (Box::leak(Box::new(7u64)), Box::leak(Box::new(0u64)));
    let context = ptr::from_ref(told).cast_mut().cast();
    // SAFETY: the memory stays; the transport does not use the handles.
    unsafe {
        transport.put(
            endpoint,
            (ptr::from_ref(from).cast(), ptr::null_mut()),
            (ptr::from_mut(to).addr() as u64, ptr::null()),
            8,
            (Some(tell), context, ptr::without_provenance_mut(5)),
        )
    }
}

fn read(file: &Path) -> (Head, Vec<Record>) {
    let bytes = fs::read(file).unwrap();
    let (records, rest) = bytes[HEAD..].as_chunks::<RECORD>();
    assert!(rest.is_empty());
    let records = records.iter().map(|r| Record::from_bytes(r).unwrap());
    (Head::from_bytes(&bytes).unwrap(), records.collect())
}

fn folder(test: &str) -> PathBuf {
    let folder = format!("host-stub-{test}-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    fs::create_dir(&folder).unwrap();
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The trace contains operations with their peer, carrier and end, rows of refused posts, progress, times without
/// progress, and calls of the host.
#[test]
fn what_passes_is_recorded_in_order() {
    let folder = folder("recorded");
    let (transport, recorder) = recorded(scripted::transport(), &folder.join("t"), 0);
    let told = AtomicI32::new(1);
    assert_eq!(put(&transport, &told), Status::SUCCESS);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(transport.progress(), 1);
    assert_eq!(transport.progress(), 0);
    assert_eq!(told.load(Ordering::Relaxed), 0, "the caller's callback ran");
    scripted::script(&transport).put = Status::OUT_OF_RESOURCE;
    for _ in 0..3 {
        assert_eq!(put(&transport, &told), Status::OUT_OF_RESOURCE);
    }
    scripted::script(&transport).put = Status::SUCCESS;
    assert_eq!(put(&transport, &told), Status::SUCCESS);
    scripted::script(&transport).served = 2;
    assert_eq!(transport.progress(), 3);
    let recorder = recorder.unwrap();
    recorder.call_begins("lock", 3, 10);
    recorder.call_ended("lock", 3, (10, 25));
    recorder.call_begins("test", 3, 30);
    recorder.call_forgotten("test", 3, 30);
    drop((transport, recorder));

    let file = files(&folder).remove(0);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (head, records) = read(&file);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(head.process, std::process::id());
    let seen: Vec<_> = records
        .iter()
        .map(|r| (r.kind, r.name(), r.peer, r.bytes, r.id))
        .collect();
    let of = |kind, name: &str, peer, bytes, id| (kind, name.to_owned(), peer, bytes, id);
    assert_eq!(
        seen,
        [
            of(Kind::Post, "put", 41, 8, 0),
            of(Kind::Quiet, "", NO_RANK, 0, 0),
            of(Kind::Done, "put", 41, 8, 0),
            of(Kind::Progress, "", NO_RANK, 0, 1),
            of(Kind::Refused, "provider", 41, 8, 3),
            of(Kind::Post, "put", 41, 8, 4),
            of(Kind::Done, "put", 41, 8, 4),
            of(Kind::Progress, "", NO_RANK, 2, 3),
            of(Kind::Call, "lock", 3, 0, 0),
            of(Kind::End, "", NO_RANK, 0, 0),
        ]
    );
    assert_eq!(records[0].carrier, Carrier::Provider as u8);
    assert_eq!(records[2].begin, records[0].begin);
    assert!(records[1].duration >= 5_000_000, "{records:?}");
    assert_eq!((records[8].begin, records[8].end()), (10, 25));
}

/// The trace opens no existing name, neither a file nor a link. Without a file the transport works, and is not recorded.
#[test]
fn other_files_stay_as_they_are() {
    let folder = folder("names");
    let record = || drop(recorded(scripted::transport(), &folder.join("t"), 0));
    record();
    let first = files(&folder).remove(0);
    let other = folder.join("other");
    fs::write(&other, "precious").unwrap();
    fs::remove_file(&first).unwrap();
    std::os::unix::fs::symlink(&other, &first).unwrap();
    record();
    record();
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    for number in [1, 2] {
        let (_, records) = read(Path::new(&format!("{}.{number}", first.display())));
        assert_eq!(records.last().unwrap().kind, Kind::End);
    }
    fs::remove_dir_all(&folder).unwrap();
    let (transport, recorder) = recorded(scripted::transport(), &folder.join("t"), 0);
    assert!(recorder.is_none());
    assert_eq!(put(&transport, &AtomicI32::new(1)), Status::SUCCESS);
}
