//! The cards: numbers by which the ranks of a window describe themselves to each other.

use crate::osc::transport::Scope;

/// The first part of a rank's contribution to the exchange in which the ranks meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    pub(crate) state: State,
    /// Bytes of the text behind the card: the address of a rank that meets others, the reason of a refusal.
    pub(crate) length: u32,
    /// Whether the rank's part of the window has bytes.
    pub(crate) has_memory: bool,
    /// Whether the rank wants memory of a device.
    pub(crate) on_device: bool,
    /// Whether osc/ucx would serve the window better ([`ucx`](crate::osc::ucx)).
    pub(crate) prefers_ucx: bool,
    /// The transport by which the rank meets the others.
    pub(crate) scope: Scope,
    /// Displacement unit, bytes.
    pub(crate) unit: u64,
    /// A number that stands for the hints.
    pub(crate) hints: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The rank cannot take part.
    Refuses,
    /// The rank is not connected to all others yet, or does not know whether they are connected to it.
    Meets,
    /// The rank and all others are connected to each other.
    Knows,
}

impl Card {
    pub(crate) const SIZE: usize = 20;

    pub(crate) fn encode(self) -> [u8; Card::SIZE] {
        let mut bytes = [0; Card::SIZE];
        let state = match self.state {
            State::Refuses => 0u32,
            State::Meets => 1,
            State::Knows => 2,
        };
        let scope = u32::from(self.scope == Scope::All);
        let flags = u32::from(self.has_memory) << 29
            | scope << 28
            | u32::from(self.on_device) << 27
            | u32::from(self.prefers_ucx) << 26;
        // The lengths are below 2^26.
        let first = state << 30 | flags | self.length;
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..12].copy_from_slice(&self.unit.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.hints.to_ne_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Card::SIZE]) -> Card {
        let long = |at: usize| {
            let mut long = [0; 8];
            long.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(long)
        };
        let first = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Card {
            state: match first >> 30 {
                1 => State::Meets,
                2 => State::Knows,
                _ => State::Refuses,
            },
            length: first & ((1 << 26) - 1),
            has_memory: first >> 29 & 1 == 1,
            on_device: first >> 27 & 1 == 1,
            prefers_ucx: first >> 26 & 1 == 1,
            scope: match first >> 28 & 1 {
                0 => Scope::Node,
                _ => Scope::All,
            },
            unit: long(4),
            hints: long(12),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_comes_back() {
        for state in [State::Refuses, State::Meets, State::Knows] {
            let card = Card {
                state,
                length: 517,
                has_memory: state == State::Meets,
                on_device: state == State::Refuses,
                prefers_ucx: state == State::Knows,
                scope: match state {
                    State::Refuses => Scope::Node,
                    _ => Scope::All,
                },
                unit: u64::MAX,
                hints: 0x0123_4567_89ab_cdef,
            };
            assert_eq!(Card::decode(&card.encode()), card);
        }
    }
}
