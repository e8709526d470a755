//! Collective steps of the ranks of a finished window: they meet in a barrier, and exchange one number each. Both steps use
//! words of the window.
//!
//! MPI requires an order only of the collective calls on one window. So threads of a rank may be in such calls on different
//! windows, or in a barrier of the job, in another order than the threads of another rank. Exchanges of the job or of a
//! communicator do not name a window, and would match calls on different windows.

use std::sync::atomic::{Ordering, fence};

use super::btl::active;
use super::control::SAID_WORDS;
use super::error::WinResult;
use super::window::Window;

/// Maximum bytes of a refusal's text; a longer text is cut.
const MOST_TEXT: usize = (SAID_WORDS - 1) * 8;

/// Set in the first word of a refusal.
const REFUSED: u64 = 1 << 63;

/// The statement of a rank: a number below 2^63, or the reason of its refusal.
pub(super) type Said = Result<u64, String>;

impl Window {
    /// Returns the statements of all ranks, in the order of the ranks; collective.
    pub(super) fn told_by_all(&self, call: &'static str, mine: &Said) -> WinResult<Vec<Said>> {
        // The number of the barrier below. The next call with the same words begins after another barrier, which each
        // rank enters when it has read them.
        let turn = self.parts.sync.barriers.load(Ordering::Relaxed) + 1;
        let control = &self.parts.control;
        for (index, word) in encode(mine).into_iter().enumerate() {
            let place = control.word(control.plan().said(turn, index));
            place.store(word, Ordering::Relaxed);
        }
        // The words are visible before the signal.
        fence(Ordering::SeqCst);
        active::barrier(self, call)?;
        (0..self.link.size)
            .map(|rank| match rank == self.link.rank {
                true => Ok(mine.clone()),
                false => decode(|index| self.said(call, rank, turn, index)),
            })
            .collect()
    }

    fn said(&self, call: &'static str, rank: usize, turn: u64, index: usize) -> WinResult<u64> {
        let word = self.parts.control.plan().said(turn, index);
        self.read_word(call, self.peer(call, rank)?, word)
    }
}

fn encode(said: &Said) -> Vec<u64> {
    let reason = match said {
        Ok(number) => return vec![*number],
        Err(reason) => reason,
    };
    let mut len = reason.len().min(MOST_TEXT);
    while !reason.is_char_boundary(len) {
        len -= 1;
    }
    let words = reason.as_bytes()[..len].chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    });
    std::iter::once(REFUSED | len as u64).chain(words).collect()
}

/// Decodes a rank's statement; `word` returns each of its words.
fn decode(word: impl Fn(usize) -> WinResult<u64>) -> WinResult<Said> {
    let first = word(0)?;
    if first & REFUSED == 0 {
        return Ok(Ok(first));
    }
    let len = usize::try_from(first & !REFUSED).map_or(MOST_TEXT, |len| len.min(MOST_TEXT));
    let mut text = Vec::with_capacity(len.next_multiple_of(8));
    for index in 0..len.div_ceil(8) {
        text.extend(word(1 + index)?.to_ne_bytes());
    }
    text.truncate(len);
    Ok(Err(String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn travels(said: &Said) -> Said {
        let words = encode(said);
        assert!(words.len() <= SAID_WORDS);
        decode(|index| Ok(words[index])).unwrap()
    }

    #[test]
    fn numbers_and_refusals_travel() {
        for said in [
            Ok(0),
            Ok(REFUSED - 1),
            Err(String::new()),
            Err("no".repeat(9)),
        ] {
            assert_eq!(travels(&said), said);
        }
        let long = "\u{e9}".repeat(MOST_TEXT);
        let cut = travels(&Err(long.clone())).unwrap_err();
        assert_eq!((cut.len(), long.starts_with(&cut)), (MOST_TEXT, true));
        let odd = format!("x{long}");
        let cut = travels(&Err(odd.clone())).unwrap_err();
        assert_eq!((cut.len(), odd.starts_with(&cut)), (MOST_TEXT - 1, true));
    }

    #[test]
    fn stray_words_are_no_more_than_a_text() {
        let said = decode(|_| Ok(u64::MAX)).unwrap();
        assert!(said.is_err());
    }
}
