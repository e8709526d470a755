//! The owner's side: a thread that makes pages shared, which peers ask for by a socket.

use std::collections::HashSet;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Error, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use crate::PAGE;

/// Bytes of the file: every address of the process.
const ADDRESSES: i64 = 1 << 47;

/// The offers of this process.
static OFFERS: Mutex<Offers> = Mutex::new(Offers {
    last: 0,
    live: Vec::new(),
});

struct Offers {
    last: i64,
    live: Vec<i64>,
}

/// The process of an offer is in the lower half of its number, as with the module.
pub(crate) fn process_of(segment: i64) -> u32 {
    segment as u32
}

/// The address of a process's thread.
pub(crate) fn address(process: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("fake-xpmem-{process}"))
}

pub(crate) fn offer() -> io::Result<i64> {
    static STARTED: OnceLock<bool> = OnceLock::new();
    let start = || {
        let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
        let pages = Pages::new()?;
        thread::Builder::new().spawn(move || serve(&listener, pages))?;
        Ok::<_, Error>(())
    };
    if !*STARTED.get_or_init(|| start().is_ok()) {
        return Err(Error::from_raw_os_error(libc::EIO));
    }
    let mut offers = OFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    offers.last += 1;
    let segment = offers.last << 32 | i64::from(std::process::id());
    offers.live.push(segment);
    Ok(segment)
}

pub(crate) fn withdraw(segment: i64) -> bool {
    let mut offers = OFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    let before = offers.live.len();
    offers.live.retain(|live| *live != segment);
    offers.live.len() < before
}

fn serve(listener: &UnixListener, mut pages: Pages) {
    for peer in listener.incoming() {
        // A peer that asks badly gets no answer, which is an error at its side.
        let _ = peer.and_then(|peer| answer(&peer, &mut pages));
    }
}

/// Answers "SEGMENT ADDRESS SIZE" with the descriptor of the file, or with -1.
fn answer(mut peer: &UnixStream, pages: &mut Pages) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(peer).read_line(&mut line)?;
    let asked: Vec<u64> = line.split(' ').flat_map(|n| n.trim().parse()).collect();
    let is_live = |segment| {
        let offers = OFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        offers.live.contains(&segment)
    };
    let file = match asked[..] {
        [segment, address, size] if is_live(segment as i64) => {
            pages.share(address, size)?;
            pages.file.as_raw_fd()
        }
        [_, _, _] => -1,
        _ => return Err(Error::from_raw_os_error(libc::EINVAL)),
    };
    writeln!(peer, "{file}")
}

/// The pages that are shared: a byte of the file for each address.
struct Pages {
    file: File,
    shared: HashSet<u64>,
}

impl Pages {
    fn new() -> io::Result<Pages> {
        // SAFETY: the name is a C string; the descriptor is new.
        let file = unsafe {
            let file = libc::memfd_create(c"fake-xpmem".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return Err(Error::last_os_error());
            }
            File::from_raw_fd(file)
        };
        // SAFETY: an open file.
        if unsafe { libc::ftruncate(file.as_raw_fd(), ADDRESSES) } != 0 {
            return Err(Error::last_os_error());
        }
        Ok(Pages {
            file,
            shared: HashSet::new(),
        })
    }

    /// Makes pages of this process shared that are not yet.
    fn share(&mut self, address: u64, size: u64) -> io::Result<()> {
        for page in (address..address + size).step_by(PAGE as usize) {
            if self.shared.contains(&page) {
                continue;
            }
            let at: *mut c_void = ptr::with_exposed_provenance_mut(page as usize);
            let mut bytes = vec![0u8; PAGE as usize];
            let own = File::open("/proc/self/mem")?;
            own.read_exact_at(&mut bytes, page)?;
            self.file.write_all_at(&bytes, page)?;
            let (rights, kind) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
            );
            let file = self.file.as_raw_fd();
            // SAFETY: the page is mapped, as its bytes were read, and the file holds the same bytes.
            let new = unsafe { libc::mmap(at, PAGE as usize, rights, kind, file, page as i64) };
            if new != at {
                return Err(Error::last_os_error());
            }
            self.shared.insert(page);
        }
        Ok(())
    }
}
