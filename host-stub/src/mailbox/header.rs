//! The first word of a message.

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The message carries the payload.
    Eager,
    /// The message carries the location of a payload that the receiver fetches.
    Offer,
    /// The message confirms that an offered payload was fetched.
    Fetched,
    /// The message replaces a payload that the sender does not have.
    Failed,
}

/// The destination and the length of a message, encoded in 56 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Payload bytes, at most [`Header::MAX_LEN`].
    pub(crate) len: usize,
    /// The context of the collective.
    pub(crate) context: u16,
    /// The number of the collective in the context, modulo 2^24.
    pub(crate) sequence: u32,
}

impl Header {
    /// The longest payload that the length field can express; slots are shorter.
    pub(super) const MAX_LEN: usize = (1 << 12) - 1;
    /// Sequence numbers are counted modulo this.
    pub(crate) const SEQUENCES: u32 = 1 << 24;

    pub(super) const fn bits(self) -> u64 {
        let kind = match self.kind {
            Kind::Eager => 1,
            Kind::Offer => 2,
            Kind::Fetched => 3,
            Kind::Failed => 4,
        };
        kind | (self.len as u64 & 0xfff) << 4
            | (self.context as u64) << 16
            | (self.sequence as u64 & 0xff_ffff) << 32
    }

    /// `None` for bits that no rank sends.
    pub(super) const fn from_bits(bits: u64) -> Option<Header> {
        let kind = match bits & 0xf {
            1 => Kind::Eager,
            2 => Kind::Offer,
            3 => Kind::Fetched,
            4 => Kind::Failed,
            _ => return None,
        };
        Some(Header {
            kind,
            len: (bits >> 4 & 0xfff) as usize,
            context: (bits >> 16) as u16,
            sequence: (bits >> 32 & 0xff_ffff) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_travel() {
        for kind in [Kind::Eager, Kind::Offer, Kind::Fetched, Kind::Failed] {
            let header = Header {
                kind,
                len: Header::MAX_LEN,
                context: 0xfeed,
                sequence: Header::SEQUENCES - 1,
            };
            assert!(header.bits() < 1 << 56);
            assert_eq!(Header::from_bits(header.bits()), Some(header));
        }
        assert_eq!(Header::from_bits(0), None);
        assert_eq!(Header::from_bits(15), None);
    }
}
