//! The first word of a message.

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The payload itself.
    Eager,
    /// Where the payload can be fetched.
    Offer,
    /// That an offered payload was fetched.
    Fetched,
    /// In the place of a payload that the sender does not have.
    Failed,
}

/// Who a message is for, and how long it is: 56 bits on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Payload bytes, at most [`Header::MAX_LEN`].
    pub(crate) len: usize,
    /// The context that it belongs to.
    pub(crate) context: u16,
    /// The collective in that context, modulo 2^24.
    pub(crate) sequence: u32,
}

impl Header {
    /// Longest payload that the length field holds; slots are shorter.
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

    /// `None` for what no rank sends.
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
