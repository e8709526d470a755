//! A window's data about each rank, and how ranks exchange it at creation.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};

use plugin_api::Handle;

use super::busy::Listed;
use super::control::Word;
use super::dynamic::region_cache::RegionCache;
use super::error::WinError;
use super::peers::Card;
use super::pending::Pending;
use crate::base::Turns;
use crate::transport::{EndpointRef, HandleCopy};

/// The data of a rank for a new window; travels as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Address of its memory.
    pub(super) base: u64,
    /// Address of its control block.
    pub(super) control_base: u64,
    /// Handle of the peer's memory; empty if the peer has no memory.
    pub(super) handle: Vec<u8>,
    /// Handle of its control block.
    pub(super) control_handle: Vec<u8>,
    /// The data that other processes of its node need to open its memory, if that is a device's; empty if
    /// they cannot.
    pub(super) exported: Vec<u8>,
}

const MAGIC: u64 = u64::from_le_bytes(*b"WINOFFR4");
const REFUSED: u64 = 0;
/// Bytes before the handles: the magic number, the lengths of what follows, and the two addresses.
pub(super) const HEADER: usize = 4 * 8;

/// The lengths of both handles and of the rest, in one word. The rest is a few handles long at most.
fn lengths(handle: usize, control: usize, exported: usize) -> u64 {
    handle as u64 | (control as u64) << 16 | (exported as u64) << 32
}

/// The bytes that a rank sends when a window is made: its offer, or the reason why it has none.
pub(super) fn encode(offer: &Result<Offer, String>) -> Vec<u8> {
    let (words, tail): (&[u64], [&[u8]; 3]) = match offer {
        Ok(offer) => {
            let tail = [&offer.handle[..], &offer.control_handle, &offer.exported];
            let [handle, control, exported] = tail.map(<[u8]>::len);
            let lengths = lengths(handle, control, exported);
            (&[MAGIC, lengths, offer.base, offer.control_base], tail)
        }
        Err(reason) => (&[MAGIC, REFUSED], [reason.as_bytes(), &[], &[]]),
    };
    let words = words.iter().flat_map(|word| word.to_ne_bytes());
    words.chain(tail.concat()).collect()
}

/// Reads the bytes that `rank` sent.
pub(super) fn decode(
    rank: usize,
    handle_size: usize,
    bytes: &[u8],
) -> Result<Offer, Box<WinError>> {
    let refuse = |reason: String| Box::new(WinError::Creation { rank, reason });
    let word = |index: usize| {
        bytes
            .get(index * 8..index * 8 + 8)
            .and_then(|word| word.try_into().ok())
            .map(u64::from_ne_bytes)
            .ok_or_else(|| refuse(format!("its offer of {} B is cut short", bytes.len())))
    };
    if word(0)? != MAGIC {
        return Err(refuse(
            "it sent something that is no window offer".to_owned(),
        ));
    }
    let lengths = word(1)?;
    if lengths == REFUSED {
        let reason = bytes.get(16..).unwrap_or_default();
        return Err(refuse(String::from_utf8_lossy(reason).into_owned()));
    }
    let handle = lengths as usize & 0xffff;
    let control = (lengths >> 16) as usize & 0xffff;
    let exported = (lengths >> 32) as usize;
    if (handle != 0 && handle != handle_size) || control != handle_size {
        return Err(refuse(format!(
            "its handles have {handle} and {control} B where this transport's have {handle_size}"
        )));
    }
    if bytes.len() != HEADER + handle + control + exported {
        return Err(refuse(format!("its offer has {} B", bytes.len())));
    }
    let (handle, rest) = bytes[HEADER..].split_at(handle);
    let (control, exported) = rest.split_at(control);
    Ok(Offer {
        base: word(2)?,
        control_base: word(3)?,
        handle: handle.to_vec(),
        control_handle: control.to_vec(),
        exported: exported.to_vec(),
    })
}

/// The path of this process to a rank's memory for puts and gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// By the transport alone.
    Transport,
    /// The memory is mapped here, this many bytes (wrapping) after its address in the rank's
    /// process.
    Mapped(u64),
}

/// One rank of a window, seen from this rank.
pub(super) struct Peer {
    pub(super) rank: usize,
    pub(super) endpoint: EndpointRef,
    /// Address of its memory.
    pub(super) base: u64,
    /// Bytes of its memory.
    pub(super) limit: u64,
    /// Bytes of its displacement unit.
    pub(super) unit: u32,
    /// Whether the rank has refused commands with puts and gets of several runs. Relaxed accesses suffice: a thread that
    /// sees the flag late has one more command refused.
    pub(super) takes_no_runs: AtomicBool,
    /// The path of puts and gets to its memory.
    pub(super) reach: Reach,
    /// Address in this process of the peer's mapped memory, even if no transfer uses the mapping.
    pub(super) mapped: Option<u64>,
    pub(super) handle: HandleCopy,
    control_base: u64,
    pub(super) control_handle: HandleCopy,
    /// Puts and gets under way.
    pub(super) transfers: Pending,
    /// Accumulates under way.
    pub(super) accumulates: Pending,
    /// Whether a flush of all ranks visits this rank.
    pub(super) listed: Listed,
    /// Posts of that rank that were matched by a start here.
    pub(super) posts_matched: AtomicU64,
    /// The regions that the rank has attached, as last read. Boxed, because most windows are not
    /// dynamic.
    regions: OnceLock<Box<Turns<RegionCache>>>,
}

impl Peer {
    /// Whether no operation to this rank is under way, and none failed since the last check.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        // A single branch tests all counts and failures.
        self.transfers.unsettled() | self.accumulates.unsettled() == 0
    }

    /// `alone` as in [`Pending::new`].
    pub(super) fn new(rank: usize, endpoint: EndpointRef, card: &Card, alone: bool) -> Peer {
        let offer = &card.offer;
        Peer {
            rank,
            endpoint,
            base: offer.base,
            limit: card.limit,
            unit: card.unit,
            takes_no_runs: AtomicBool::new(false),
            reach: card.reach,
            mapped: card.mapped,
            handle: HandleCopy::new(&offer.handle),
            control_base: offer.control_base,
            control_handle: HandleCopy::new(&offer.control_handle),
            transfers: Pending::new(alone),
            accumulates: Pending::new(alone),
            listed: Listed::default(),
            posts_matched: AtomicU64::new(0),
            regions: OnceLock::new(),
        }
    }

    /// The regions that the rank has attached, as last read.
    pub(super) fn regions(&self) -> &Turns<RegionCache> {
        self.regions.get_or_init(Box::default)
    }

    /// The address of a displacement in the rank's units; `None` if `extent` bytes from there reach beyond
    /// the rank's memory.
    #[inline(always)]
    pub(super) fn address_of(&self, displacement: u64, extent: usize) -> Option<u64> {
        let offset = displacement.checked_mul(u64::from(self.unit))?;
        let is_inside = offset.checked_add(extent as u64)? <= self.limit;
        is_inside.then(|| self.base.wrapping_add(offset))
    }

    /// A word of that rank's control block: its address, and the handle that covers it.
    #[inline]
    pub(super) fn control(&self, word: Word) -> (u64, *const Handle) {
        let address = self.control_base + (word.0 * size_of::<u64>()) as u64;
        (address, self.control_handle.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        Offer {
            base: 0x1000,
            control_base: 0x2000,
            handle: vec![7; 16],
            control_handle: vec![9; 16],
            exported: vec![3; 5],
        }
    }

    #[test]
    fn an_offer_travels() {
        let bytes = encode(&Ok(offer()));
        assert_eq!(decode(0, 16, &bytes).unwrap(), offer());
        let empty = Offer {
            handle: Vec::new(),
            ..offer()
        };
        let bytes = encode(&Ok(empty.clone()));
        assert_eq!(decode(0, 16, &bytes).unwrap(), empty);
    }

    #[test]
    fn a_refusal_travels_with_its_reason() {
        let bytes = encode(&Err("no room".to_owned()));
        let error = decode(3, 16, &bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "window creation failed on rank 3: no room"
        );
    }

    #[test]
    fn malformed_offers_are_errors() {
        let bytes = encode(&Ok(offer()));
        for len in 0..bytes.len() {
            assert!(decode(0, 16, &bytes[..len]).is_err());
        }
        assert!(decode(0, 24, &bytes).is_err());
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(decode(0, 16, &longer).is_err());
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let mut broken = bytes.clone();
            let at = (state >> 33) as usize % broken.len();
            broken[at] ^= (state >> 25) as u8 | 1;
            let _ = decode(0, 16, &broken);
        }
    }
}
