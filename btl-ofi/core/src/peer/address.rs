//! The address blob: a process publishes it, and its peers decode it.
//!
//! Layout, little-endian: magic (4), version (2), flags (2), node (8), pid (4), start time (4), probe address (8),
//! probe value (8), descriptor of the segment for atomics (4), length of the provider's name (2), address format (4),
//! length of the address (2), then the name and the address; network namespace (8), the key of messages
//! (8) if the flags say that it takes some, number of interfaces (1), then of each interface kind (1), prefix (1),
//! speed (4), length of the address (1), length of the name (1), the address and the name; if the flag says so, a word
//! to read: address (8), key (8); number of further rails (1), then of each rail the length of its blob (2) and the blob. The blob comes from another
//! process, so every field is checked.

use std::net::IpAddr;

use libfabric_sys as ffi;

use crate::base::interfaces::{Interface, Kind, ip_of};
use crate::mem::handle::{MAX_RAILS, Target};
use crate::peer::liveness::ProcessId;
use crate::peer::networks::Networks;
use crate::peer::reach::Probe;

const MAGIC: [u8; 4] = *b"BTLO";
const VERSION: u16 = 9;
/// Maximum length in bytes of a provider name and of an endpoint address; libfabric's are far
/// shorter.
const MAX_NAME: usize = 256;
const MAX_ADDRESS: usize = 1024;
/// Maximum number of interfaces of one process; the preferred ones come first.
pub(crate) const MAX_INTERFACES: usize = 16;
/// Longest name of an interface, in bytes.
pub(crate) const MAX_INTERFACE_NAME: usize = 15;

/// Set if the sender's provider uses virtual addresses.
const FLAG_VIRTUAL_ADDRESSES: u16 = 1;
/// Set if the sender allows its local peers to reach its memory without the provider (`btl_ofi_same_node`).
const FLAG_SAME_NODE: u16 = 2;
/// Set if small transfers and atomics to the sender travel as messages (`fabric::msg`).
const FLAG_MESSAGES: u16 = 4;
/// Set if the sender accepts sends of its peers (`btl_ofi_mode`).
const FLAG_TWO_SIDED: u16 = 8;
/// Set if the sender accepts messages for applies, although its provider executes atomics.
const FLAG_APPLIES: u16 = 32;
/// If one of these is set, the blob contains the key of messages.
const FLAGS_KEY: u16 = FLAG_MESSAGES | FLAG_TWO_SIDED | FLAG_APPLIES;
/// Set if the sender publishes a word to read (`fabric::confirmation`).
const FLAG_WORD: u16 = 16;
/// The value of the descriptor field if the sender has no segment.
const NO_SEGMENT: u32 = u32::MAX;

/// The content of an address blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) virtual_addresses: bool,
    /// Whether the sender allows the paths within one node (`peer::route`).
    pub(crate) same_node: bool,
    /// Whether small transfers and atomics to the sender travel as messages.
    pub(crate) messages: bool,
    /// Whether the sender accepts sends of its peers.
    pub(crate) two_sided: bool,
    /// See [`crate::peer::liveness::node`].
    pub(crate) node: u64,
    pub(crate) process: ProcessId,
    /// An address in the sender's memory that holds `probe_value`. A process that reads this value at this address
    /// can access the sender's memory by CMA.
    pub(crate) probe_address: u64,
    pub(crate) probe_value: u64,
    /// The key that every message to the sender carries; 0 if it accepts no messages.
    pub(crate) key: u64,
    /// The sender's descriptor of its segment for local peers (`sm/segment.rs`), if it has one. The segment contains
    /// the probe value.
    pub(crate) segment: Option<u32>,
    pub(crate) provider: String,
    /// libfabric's `FI_ADDR_*` / `FI_SOCKADDR*` number.
    pub(crate) format: u32,
    pub(crate) address: Vec<u8>,
    pub(crate) networks: Networks,
    /// A registered word of the sender, if puts go by order. The sender's peers read the word to confirm their puts.
    pub(crate) word: Option<Target>,
    /// The blobs of the sender's further rails.
    pub(crate) rails: Vec<Vec<u8>>,
}

impl Blob {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name = &self.provider.as_bytes()[..self.provider.len().min(MAX_NAME)];
        let mut out = Vec::with_capacity(60 + name.len() + self.address.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(self.virtual_addresses, FLAG_VIRTUAL_ADDRESSES)
            | flag(self.same_node, FLAG_SAME_NODE)
            | flag(self.messages, FLAG_MESSAGES)
            | flag(self.two_sided, FLAG_TWO_SIDED)
            | flag(
                self.key != 0 && !self.messages && !self.two_sided,
                FLAG_APPLIES,
            )
            | flag(self.word.is_some(), FLAG_WORD);
        out.extend(flags.to_le_bytes());
        out.extend(self.node.to_le_bytes());
        out.extend(self.process.pid.to_le_bytes());
        out.extend(self.process.started.to_le_bytes());
        out.extend(self.probe_address.to_le_bytes());
        out.extend(self.probe_value.to_le_bytes());
        out.extend(self.segment.unwrap_or(NO_SEGMENT).to_le_bytes());
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(self.format.to_le_bytes());
        out.extend((self.address.len() as u16).to_le_bytes());
        out.extend(name);
        out.extend(&self.address);
        out.extend(self.networks.namespace.to_le_bytes());
        if flags & FLAGS_KEY != 0 {
            out.extend(self.key.to_le_bytes());
        }
        let interfaces = &self.networks.interfaces;
        let interfaces = &interfaces[..interfaces.len().min(MAX_INTERFACES)];
        out.push(interfaces.len() as u8);
        interfaces
            .iter()
            .for_each(|i| encode_interface(&mut out, i));
        if let Some(Target { address, key }) = self.word {
            out.extend(address.to_le_bytes());
            out.extend(key.to_le_bytes());
        }
        out.push(self.rails.len() as u8);
        for rail in &self.rails {
            out.extend((rail.len() as u16).to_le_bytes());
            out.extend(rail);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Blob, String> {
        let mut r = Reader { bytes, at: 0 };
        let flags = r.header()?;
        let node = u64::from_le_bytes(r.array("node")?);
        let pid = u32::from_le_bytes(r.array("process id")?);
        let started = u32::from_le_bytes(r.array("start time")?);
        let probe_address = u64::from_le_bytes(r.array("probe address")?);
        let probe_value = u64::from_le_bytes(r.array("probe value")?);
        let segment = u32::from_le_bytes(r.array("segment")?);
        let name_len = usize::from(u16::from_le_bytes(r.array("name length")?));
        let format = u32::from_le_bytes(r.array("address format")?);
        let address_len = usize::from(u16::from_le_bytes(r.array("address length")?));
        if name_len > MAX_NAME || address_len > MAX_ADDRESS || address_len == 0 {
            return Err(format!(
                "a provider name of {name_len} bytes with an address of {address_len} bytes is not valid"
            ));
        }
        let provider = std::str::from_utf8(r.take("provider name", name_len)?)
            .map_err(|_| String::from("the provider name is not UTF-8"))?
            .to_owned();
        let address = r.take("address", address_len)?.to_vec();
        let namespace = u64::from_le_bytes(r.array("network namespace")?);
        let key = match flags & FLAGS_KEY {
            0 => 0,
            _ => match u64::from_le_bytes(r.array("key of messages")?) {
                0 => return Err(String::from("its key of messages is 0")),
                key => key,
            },
        };
        let [count] = r.array("number of interfaces")?;
        if usize::from(count) > MAX_INTERFACES {
            return Err(format!("{count} interfaces are not valid"));
        }
        let interfaces: Result<Vec<_>, _> = (0..count).map(|_| r.interface()).collect();
        let networks = Networks {
            namespace,
            endpoint: socket_ip(format, &address),
            interfaces: interfaces?,
        };
        let word = match flags & FLAG_WORD {
            0 => None,
            _ => Some(Target {
                address: u64::from_le_bytes(r.array("address of the word")?),
                key: u64::from_le_bytes(r.array("key of the word")?),
            }),
        };
        let [count] = r.array("number of rails")?;
        if usize::from(count) >= MAX_RAILS {
            return Err(format!("{count} further rails are not valid"));
        }
        let rails: Result<Vec<_>, _> = (0..count).map(|_| r.rail()).collect();
        let rails = rails?;
        if r.at != bytes.len() {
            return Err(format!("{} bytes too many", bytes.len() - r.at));
        }
        Ok(Blob {
            virtual_addresses: flags & FLAG_VIRTUAL_ADDRESSES != 0,
            same_node: flags & FLAG_SAME_NODE != 0,
            messages: flags & FLAG_MESSAGES != 0,
            two_sided: flags & FLAG_TWO_SIDED != 0,
            node,
            process: ProcessId { pid, started },
            probe_address,
            probe_value,
            key,
            segment: (segment != NO_SEGMENT).then_some(segment),
            provider,
            format,
            address,
            networks,
            word,
            rails,
        })
    }

    /// The probe that identifies the sender's memory.
    pub(crate) fn probe(&self) -> Probe {
        Probe {
            address: self.probe_address,
            value: self.probe_value,
        }
    }

    /// [`check_form`] of the endpoint's address.
    pub(crate) fn check_form(&self, own: &[u8]) -> Result<(), String> {
        check_form(self.format, &self.address, own)
    }
}

/// Checks that the address of an endpoint has the form of `own`, the address of this process's endpoint in the same
/// format. A provider does not receive the length of an address: it reads as many bytes as the form has. A wrong
/// form may also make its address vector refuse all further addresses (libfabric 1.17, after a socket address of an
/// unknown family).
pub(crate) fn check_form(format: u32, address: &[u8], own: &[u8]) -> Result<(), String> {
    let family = |bytes: &[u8]| bytes.get(..2).map(<[u8]>::to_vec);
    match format {
        // String addresses differ in length and end with NUL.
        ffi::FI_ADDR_STR
            if address.iter().position(|&byte| byte == 0)
                != Some(address.len().wrapping_sub(1)) =>
        {
            Err(String::from(
                "its endpoint name does not end with its only NUL",
            ))
        }
        ffi::FI_ADDR_STR => Ok(()),
        _ if address.len() != own.len() => Err(format!(
            "an endpoint address of {} bytes, this process has {}",
            address.len(),
            own.len()
        )),
        ffi::FI_SOCKADDR | ffi::FI_SOCKADDR_IN | ffi::FI_SOCKADDR_IN6 | ffi::FI_SOCKADDR_IB
            if family(address) != family(own) =>
        {
            Err(String::from("a socket address of another family"))
        }
        _ => Ok(()),
    }
}

/// The IP address of an endpoint, if its address has the form of a socket address.
pub(crate) fn socket_ip(format: u32, address: &[u8]) -> Option<IpAddr> {
    match format {
        ffi::FI_SOCKADDR | ffi::FI_SOCKADDR_IN | ffi::FI_SOCKADDR_IN6 => ip_of(address),
        _ => None,
    }
}

fn encode_interface(out: &mut Vec<u8>, interface: &Interface) {
    out.extend([interface.kind as u8, interface.prefix]);
    out.extend(interface.speed.to_le_bytes());
    let name = interface.name.as_bytes();
    let name = &name[..name.len().min(MAX_INTERFACE_NAME)];
    match interface.address {
        IpAddr::V4(a) => {
            out.extend([4, name.len() as u8]);
            out.extend(a.octets());
        }
        IpAddr::V6(a) => {
            out.extend([16, name.len() as u8]);
            out.extend(a.octets());
        }
    }
    out.extend(name);
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads the beginning of a blob. Returns the flags.
    fn header(&mut self) -> Result<u16, String> {
        let magic: [u8; 4] = self.array("magic")?;
        if magic != MAGIC {
            return Err(format!(
                "not an address of this transport: it starts with \"{}\" instead of \"{}\" \
                 (does the peer run another component?)",
                magic.escape_ascii(),
                MAGIC.escape_ascii()
            ));
        }
        let version = u16::from_le_bytes(self.array("version")?);
        if version != VERSION {
            return Err(format!(
                "address version {version}, this build knows {VERSION}"
            ));
        }
        let flags = u16::from_le_bytes(self.array("flags")?);
        let known = FLAG_VIRTUAL_ADDRESSES | FLAG_SAME_NODE | FLAGS_KEY | FLAG_WORD;
        if flags & !known != 0 {
            return Err(format!("unknown flags {flags:#x}"));
        }
        if flags & FLAG_APPLIES != 0 && flags & FLAGS_KEY != FLAG_APPLIES {
            return Err(format!("flags {flags:#x} contradict each other"));
        }
        Ok(flags)
    }

    fn take(&mut self, what: &str, n: usize) -> Result<&'a [u8], String> {
        let end = self
            .at
            .checked_add(n)
            .filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            return Err(format!(
                "it ends at byte {} inside the {what} (bytes {} to {})",
                self.bytes.len(),
                self.at,
                self.at.saturating_add(n)
            ));
        };
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn interface(&mut self) -> Result<Interface, String> {
        let [kind, prefix] = self.array("kind of an interface")?;
        let kind = Kind::try_from(kind).map_err(|n| format!("interface kind {n} is unknown"))?;
        let speed = u32::from_le_bytes(self.array("speed of an interface")?);
        let [length, name_length] = self.array("lengths of an interface")?;
        let address = match length {
            4 => IpAddr::from(self.array::<4>("address of an interface")?),
            16 => IpAddr::from(self.array::<16>("address of an interface")?),
            n => return Err(format!("an interface address of {n} bytes is not valid")),
        };
        if prefix > 8 * length {
            return Err(format!(
                "a prefix of {prefix} bits is too long for {address}"
            ));
        }
        let name = self.take("name of an interface", usize::from(name_length))?;
        // The name is printed, so its characters are checked.
        if name.is_empty()
            || name.len() > MAX_INTERFACE_NAME
            || !name.iter().all(u8::is_ascii_graphic)
        {
            let name = name.escape_ascii();
            return Err(format!("an interface cannot have the name \"{name}\""));
        }
        Ok(Interface {
            name: String::from_utf8_lossy(name).into_owned(),
            address,
            prefix,
            kind,
            speed,
        })
    }

    fn rail(&mut self) -> Result<Vec<u8>, String> {
        let length = usize::from(u16::from_le_bytes(self.array("length of a rail's blob")?));
        Ok(self.take("blob of a rail", length)?.to_vec())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], String> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(what, N)?);
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
