//! Messages that a process could build from the transport's source (`core/src/fabric/msg/wire.rs`).

/// Kinds of messages, and codes of commands.
pub(crate) const BATCH: u32 = 1;
pub(crate) const FAREWELL: u32 = 4;
pub(crate) const ALIVE: u32 = 5;
pub(crate) const UNANSWERED: u32 = 6;
pub(crate) const PUT: u64 = 3 << 16;
pub(crate) const GET: u64 = 4 << 16;
/// The words of a header, and the client number of a message whose sender does not know its number.
const HEADER: usize = 6;
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// A line to a target, from the origin's side.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// The target's key, or a forged key.
    pub(crate) key: u64,
    pub(crate) cookie: u64,
    pub(crate) number: u32,
    pub(crate) client: u32,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A message with the given words behind its header, and with the numbers of entries and of result
/// words.
pub(crate) fn message(
    line: Line,
    (kind, sequence): (u32, u32),
    (entries, results): (u32, u32),
    body: &[u64],
) -> Vec<u64> {
    let mut words = vec![
        line.key,
        pair(u32::from_le_bytes(*b"BTM\x0a"), kind),
        line.cookie,
        pair(line.number, line.client),
        pair(sequence, entries),
        pair((HEADER + body.len()) as u32, results),
    ];
    words.extend(body);
    words
}

/// The introduction message of an earlier version without keys.
pub(crate) fn without_keys(introduction: &[u64]) -> Vec<u64> {
    let mut words = introduction[1..].to_vec();
    words.remove(HEADER - 1);
    words[0] = words[0] >> 32 << 32 | u64::from(u32::from_le_bytes(*b"BTM\x05"));
    words[4] -= 2;
    words
}

/// An origin's introduction: its key and its address.
pub(crate) fn introduction(key: u64, address: &[u8]) -> Vec<u64> {
    let mut words = vec![key, address.len() as u64];
    for chunk in address.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        words.push(u64::from_ne_bytes(word));
    }
    words
}

/// A command of `bytes` bytes, without operands.
pub(crate) fn command(code: u64, bytes: u32, address: u64, region: (u64, u64)) -> Vec<u64> {
    vec![code | u64::from(bytes) << 32, address, region.0, region.1]
}
