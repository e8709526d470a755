//! Puts and gets of many bytes.

use std::time::Instant;

use crate::common::Calls as _;
use crate::rank::{Rank, numbers};

impl Rank {
    /// `there PROC OFFSET BYTES`: puts bytes into the window of a peer, and gets them back. The answer has the statuses of
    /// both flushes, and whether the read bytes equal the written bytes.
    pub(crate) fn there_and_back(&mut self, rest: &str) -> String {
        let at: Vec<u64> = numbers(rest).collect();
        let put = self.move_bytes(true, rest);
        let flushed = self.t.flush(None);
        let got = self.move_bytes(false, rest);
        let again = self.t.flush(None);
        assert_eq!((put.len(), got.len()), (at[2] as usize, at[2] as usize));
        format!("{} {} {}", flushed.0, again.0, u8::from(put == got))
    }

    /// `speed PROC BYTES COUNT`: puts, two at a time. Answers the duration in nanoseconds.
    pub(crate) fn speed(&mut self, rest: &str) -> String {
        let at: Vec<u64> = numbers(rest).collect();
        let bytes: &[u8] = vec![1; at[1] as usize].leak();
        self.put_bytes(at[0], bytes);
        self.t.flush(None);
        let begun = Instant::now();
        for _ in 0..at[2] / 2 {
            self.put_bytes(at[0], bytes);
            self.put_bytes(at[0], bytes);
            self.t.flush(None);
        }
        begun.elapsed().as_nanos().to_string()
    }

    /// Posts a put of bytes to the beginning of a peer's window.
    fn put_bytes(&mut self, proc: u64, bytes: &'static [u8]) {
        let (peer, h) = self.peers[&proc];
        let from = bytes.as_ptr().cast_mut().cast();
        loop {
            let status = self.t.put(peer, from, h.base(), &h, bytes.len(), None);
            if status.is_ok() {
                return;
            }
            assert!(status.is_again(), "{status}");
            self.t.progress();
        }
    }

    /// Posts a put of bytes, or a get. The buffer lives to the end of the process.
    fn move_bytes(&mut self, put: bool, rest: &str) -> &'static [u8] {
        let at: Vec<u64> = numbers(rest).collect();
        let (peer, h) = self.peers[&at[0]];
        let (remote, size) = (h.base() + at[1], at[2] as usize);
        let bytes = match put {
            true => pattern(size),
            false => vec![0; size],
        };
        let bytes: *mut [u8] = bytes.leak();
        loop {
            let status = match put {
                true => self.t.put(peer, bytes.cast(), remote, &h, size, None),
                false => self.t.get(peer, bytes.cast(), remote, &h, size, None),
            };
            if status.is_again() {
                self.t.progress();
                continue;
            }
            assert!(status.is_ok(), "{status}");
            // SAFETY: the buffer lives to the end of the process; the test reads it after a flush.
            return unsafe { &*bytes };
        }
    }
}

/// The bytes of a put of `size` bytes.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251 + size) as u8).collect()
}
