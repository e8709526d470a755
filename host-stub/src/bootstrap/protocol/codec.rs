//! Converts fields to frames and back; every length is checked before it is used.

use super::{MAX_TEXT, ProtocolError};

/// A frame that is being written.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new() -> Self {
        Writer(vec![0; 4])
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.0.extend_from_slice(value);
    }

    /// Writes a text, cut to the length that the other side accepts.
    pub(super) fn text(&mut self, value: &str) {
        let mut end = value.len().min(MAX_TEXT);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&value.as_bytes()[..end]);
    }

    pub(super) fn frame(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The unread part of a body.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], ProtocolError> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(ProtocolError::Truncated {
                what,
                wanted: count,
                found: self.0.len(),
            })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ProtocolError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, ProtocolError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, ProtocolError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, ProtocolError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, ProtocolError> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub(super) fn bytes(
        &mut self,
        what: &'static str,
        limit: usize,
    ) -> Result<&'a [u8], ProtocolError> {
        let length = self.u32(what)? as usize;
        if length > limit {
            return Err(ProtocolError::TooLong {
                what,
                limit,
                found: length,
            });
        }
        self.take(what, length)
    }

    pub(super) fn text(&mut self, what: &'static str) -> Result<String, ProtocolError> {
        let text = std::str::from_utf8(self.bytes(what, MAX_TEXT)?);
        text.map(str::to_owned)
            .map_err(|_| ProtocolError::Text { what })
    }

    pub(super) fn end(&self, message: &'static str) -> Result<(), ProtocolError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(ProtocolError::Trailing {
            message,
            bytes: self.0.len(),
        })
    }
}
