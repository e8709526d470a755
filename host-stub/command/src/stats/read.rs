//! Reading the counters of a process.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use plugin_api::counters::{
    CARRIERS, Carried, Carrier, Front, MAGIC, NAME, NO_PEER, PeerCounters, SHARES, SLOTS, Share,
    Unreadable, VERSION, start_of,
};
use serde::Serialize;

/// A process, with the counters of each of its transports.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// Its rank, from its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// The counters of each open transport.
    pub transports: Vec<Transport>,
}

/// The counters of a transport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transport {
    /// Device and inode of the file.
    #[serde(skip)]
    pub(super) file: (u64, u64),
    /// The provider and its interface.
    pub title: String,
    /// Calls that made progress.
    pub polls: u64,
    /// The peers with counts.
    pub peers: Vec<Peer>,
}

/// The counters of a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Peer {
    /// The peer in its host's numbering; `None` for the sum of all peers without their own counters and of released
    /// peers.
    pub peer: Option<u64>,
    /// By carrier, in the order of [`Carrier::ALL`].
    pub carried: Vec<CarriedBy>,
    /// Operations refused for lack of room.
    pub again: u64,
    /// Ring transfers that the target did not begin in time.
    pub revoked: u64,
    /// Sent messages, without answers.
    pub messages: u64,
    /// Flushes that waited.
    pub waits: u64,
    /// The total time of their waits, in nanoseconds.
    pub waited_ns: u64,
}

/// The operations and bytes of one carrier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarriedBy {
    /// The name of the carrier.
    pub carrier: &'static str,
    /// Puts, gets and atomics.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Peer {
    /// Whether any count is not zero.
    fn is_used(&self) -> bool {
        self.operations() + self.again + self.waits + self.messages > 0
    }

    /// Adds the counts of another slot.
    pub(super) fn add(&mut self, other: &Peer) {
        if self.carried.is_empty() {
            self.carried.clone_from(&other.carried);
        } else {
            for (to, from) in self.carried.iter_mut().zip(&other.carried) {
                to.operations += from.operations;
                to.bytes += from.bytes;
            }
        }
        self.again += other.again;
        self.revoked += other.revoked;
        self.messages += other.messages;
        self.waits += other.waits;
        self.waited_ns += other.waited_ns;
    }

    /// Operations by all carriers.
    pub fn operations(&self) -> u64 {
        self.carried.iter().map(|c| c.operations).sum()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.carried.iter().map(|c| c.bytes).sum()
    }
}

/// All processes with counters that this user may read, in the order of their ranks.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<_> = pids.filter_map(|pid| Process::read(pid).ok()).collect();
    found.sort_by_key(|process| (process.rank, process.pid));
    found
}

impl Process {
    /// Reads the counters of a process.
    ///
    /// # Errors
    /// The reason why there are none, and what to do.
    pub fn read(pid: u32) -> Result<Process, String> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let descriptors = fs::read_dir(folder.join("fd")).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => format!("there is no process {pid}"),
            io::ErrorKind::PermissionDenied => format!(
                "process {pid} cannot be read ({e}): it belongs to another user, or its container is apart from this one; \
                 run this command as its user, in its container"
            ),
            _ => format!("/proc/{pid}/fd: {e}"),
        })?;
        let own = own_id(&folder);
        let mut transports: Vec<Transport> = Vec::new();
        for entry in descriptors.flatten() {
            if !is_counters(&entry.path()) {
                continue;
            }
            let file = File::open(entry.path())
                .map_err(|e| format!("the counters of process {pid} cannot be opened: {e}"))?;
            let transport = Transport::read(&file, own)
                .map_err(|e| format!("the counters of process {pid}: {e}"))?;
            let is_new = |found: &Transport| transports.iter().all(|t| t.file != found.file);
            transports.extend(transport.filter(is_new));
        }
        if transports.is_empty() {
            return Err(format!(
                "process {pid} has no counters: it has not opened the transport, or has closed it"
            ));
        }
        let program = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        Ok(Process {
            pid,
            program: program.trim_end().to_owned(),
            rank: rank(&folder),
            transports,
        })
    }
}

/// Whether a descriptor in `/proc` belongs to a file of counters.
fn is_counters(descriptor: &Path) -> bool {
    let wanted = format!("/memfd:{} (deleted)", NAME.to_string_lossy());
    fs::read_link(descriptor).is_ok_and(|target| target == Path::new(&wanted))
}

/// The id of a process in its own namespace; `None` on kernels before 4.1.
fn own_id(folder: &Path) -> Option<u32> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The rank that a launcher gave a process.
fn rank(folder: &Path) -> Option<u64> {
    let environment = fs::read(folder.join("environ")).ok()?;
    let names = [
        "HOST_STUB_RANK",
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "SLURM_PROCID",
    ];
    names.iter().find_map(|name| {
        let mut settings = environment.split(|byte| *byte == 0);
        settings.find_map(|setting| {
            let value = setting.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok()?.parse().ok()
        })
    })
}

/// Reads by file offsets, not by a mapping: a file that shrinks then ends the reading and not this
/// process.
struct Bytes<'a>(&'a File);

impl Bytes<'_> {
    fn at(&self, offset: usize, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, offset as u64)?;
        Ok(bytes)
    }
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(offset..offset + 8) {
        word.copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

fn half(bytes: &[u8], offset: usize) -> u32 {
    (word(bytes, offset & !7) >> (8 * (offset & 7))) as u32
}

impl Transport {
    /// Reads a file that the process `own` has open; `None` if the transport belongs to another process.
    fn read(file: &File, own: Option<u32>) -> Result<Option<Transport>, String> {
        let bytes = Bytes(file);
        let unreadable = |e: io::Error| format!("they cannot be read: {e}");
        let front = bytes.at(0, size_of::<Front>()).map_err(unreadable)?;
        if word(&front, offset_of!(Front, magic)) != MAGIC {
            return Err(Unreadable::NoCounters.to_string());
        }
        let version = half(&front, offset_of!(Front, version));
        if version != VERSION {
            return Err(Unreadable::Version(version).to_string());
        }
        let owner = half(&front, offset_of!(Front, owner));
        if owner != 0 && own.is_some_and(|own| own != owner) {
            return Ok(None);
        }
        let used = (half(&front, offset_of!(Front, used)) as usize).min(SLOTS);
        let shares = (half(&front, offset_of!(Front, shares)) as usize).min(SHARES);
        let (mut polls, mut slots) = (0, vec![Peer::default(); used]);
        let (head, size) = (offset_of!(Share, peers), size_of::<PeerCounters>());
        for number in 0..shares {
            let at = start_of(number);
            let share = bytes.at(at, head + used * size).map_err(unreadable)?;
            polls = u64::wrapping_add(polls, word(&share, offset_of!(Share, polls)));
            for (slot, counted) in slots.iter_mut().zip(share[head..].chunks_exact(size)) {
                match number {
                    0 => *slot = peer(counted),
                    _ => slot.add(&peer(counted)),
                }
            }
        }
        let title = &front[offset_of!(Front, title)..offset_of!(Front, owner)];
        let title = title.split(|byte| *byte == 0).next().unwrap_or_default();
        let metadata = file.metadata().map_err(unreadable)?;
        Ok(Some(Transport {
            file: (metadata.dev(), metadata.ino()),
            title: String::from_utf8_lossy(title).into_owned(),
            polls,
            peers: peers(slots.into_iter()),
        }))
    }
}

/// The used peers. A peer that was released and connected again may have several slots.
fn peers(slots: impl Iterator<Item = Peer>) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    let mut places = HashMap::new();
    for slot in slots.filter(Peer::is_used) {
        let place = *places.entry(slot.peer).or_insert(peers.len());
        match peers.get_mut(place) {
            Some(peer) => peer.add(&slot),
            None => peers.push(slot),
        }
    }
    peers
}

fn peer(slot: &[u8]) -> Peer {
    let proc = word(slot, offset_of!(PeerCounters, proc));
    let carried = Carrier::ALL.iter().zip(0..CARRIERS).map(|(carrier, i)| {
        let at = offset_of!(PeerCounters, carried) + i * size_of::<Carried>();
        CarriedBy {
            carrier: carrier.name(),
            operations: word(slot, at + offset_of!(Carried, operations)),
            bytes: word(slot, at + offset_of!(Carried, bytes)),
        }
    });
    Peer {
        peer: (proc != NO_PEER).then_some(proc),
        carried: carried.collect(),
        again: word(slot, offset_of!(PeerCounters, again)),
        revoked: word(slot, offset_of!(PeerCounters, revoked)),
        messages: word(slot, offset_of!(PeerCounters, messages)),
        waits: word(slot, offset_of!(PeerCounters, waits)),
        waited_ns: word(slot, offset_of!(PeerCounters, waited)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transport that keeps the slots of released peers gives a returning peer another slot.
    #[test]
    fn a_peer_of_several_slots_is_one_peer() {
        let slot = |peer, operations| Peer {
            peer,
            carried: vec![CarriedBy {
                carrier: "x",
                operations,
                bytes: 8 * operations,
            }],
            waits: operations,
            ..Peer::default()
        };
        let slots = [
            slot(None, 1),
            slot(Some(3), 10),
            slot(None, 0),
            slot(Some(4), 20),
            slot(Some(3), 30),
        ];
        let wanted = [slot(None, 1), slot(Some(3), 40), slot(Some(4), 20)];
        assert_eq!(peers(slots.into_iter()), wanted);
    }
}
